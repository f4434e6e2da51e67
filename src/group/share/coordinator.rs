use std::time::Duration;

use tokio::time::Instant;

use crate::group::classic::{Listed, Waiter};
use crate::group::keeper::Keeper;
use crate::group::share::live::{EMPTY, Live};
use crate::group::share::{Ask, Reply};
use crate::group::{self, View, command};
use crate::protocol::ErrorCode;
use crate::shard::Slot;
use crate::shard::group::{Change, Share, ShareChange, ShareMemberChange};

/// Kafka's name of such groups, and of what their members speak.
const SHARE: &str = "share";

// What a group may have of its own instead of the brokers'.
const SESSION_TIMEOUT: &str = "share.session.timeout.ms";
const HEARTBEAT_INTERVAL: &str = "share.heartbeat.interval.ms";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// A member that is silent for longer is out (Kafka: `group.share.session.timeout.ms`).
    pub session_timeout: Duration,
    /// Told to members (Kafka: `group.share.heartbeat.interval.ms`).
    pub heartbeat_interval: Duration,
    /// Members of a group (Kafka: `group.share.max.size`).
    pub members_max: usize,
    /// Groups with members in one shard.
    pub groups_max: usize,
}

pub type Command = command::Command<group::Reply, Then>;

/// What becomes of a group when the log has decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Then {
    /// The group goes on from there.
    Saved,
    /// Somebody waits for just that.
    Answer(Waiter, group::Reply),
}

/// What members can be told, and the group as the log has it, if it is of this kind.
pub type Failed<'a> = (ErrorCode, Option<(Slot, &'a Share)>);

/// The share groups of one shard, in one term of its leader.
#[derive(Debug)]
pub struct Coordinator {
    settings: Settings,
    groups: Keeper<Live>,
    pub(super) commands: Vec<Command>,
}

/// One group's turn: what its transitions need besides the group itself.
pub(super) struct Turn<'a> {
    pub now: Instant,
    pub settings: &'a Settings,
    pub view: &'a dyn View,
    pub id: &'a str,
    commands: &'a mut Vec<Command>,
}

impl Settings {
    fn session_timeout_of(&self, group: &str, view: &dyn View) -> Duration {
        view.own_time(group, SESSION_TIMEOUT).unwrap_or(self.session_timeout)
    }
}

impl Turn<'_> {
    pub fn answer(&mut self, waiter: Waiter, reply: Reply) {
        self.commands.push(Command::Answer(waiter, group::Reply::Share(reply)));
    }

    /// Told when the log has all that it may depend on: at once, if nothing is new.
    pub fn answer_when_saved(&mut self, group: &mut Live, waiter: Waiter, reply: Reply) {
        if let Some((waiter, reply)) = group.saving.wait(waiter, group::Reply::Share(reply)) {
            self.commands.push(Command::Answer(waiter, reply));
        }
    }

    pub fn session_timeout(&self) -> Duration {
        self.settings.session_timeout_of(self.id, self.view)
    }

    /// Told to members.
    pub fn heartbeat_interval(&self) -> Duration {
        self.view.own_time(self.id, HEARTBEAT_INTERVAL).unwrap_or(self.settings.heartbeat_interval)
    }

    /// All that is new since the last entry makes the next.
    fn save(&mut self, group: &mut Live) {
        let Some(members) = group.saving.depart() else { return };
        group.revision += 1;
        let members = members.into_iter().map(|(id, parts)| {
            let change = group.members.get(&id).map(|member| ShareMemberChange {
                who: parts.who.then(|| member.saved.who.clone()),
                epochs: parts.epochs.then_some(member.saved.epochs),
                assigned: parts.assigned.then(|| member.saved.assigned.clone()),
            });
            (id, change)
        });
        let change = ShareChange {
            revision: group.revision,
            epoch: group.epoch,
            assignment_epoch: group.assignment_epoch,
            topics_digest: group.topics_digest,
            members: members.collect(),
        };
        let (slot, change) = (group.slot, Change::Share(Box::new(change)));
        self.commands.push(Command::Propose { slot, group: self.id.to_owned(), change, then: Then::Saved });
    }
}

impl Coordinator {
    pub fn new(settings: Settings) -> Coordinator {
        Coordinator { settings, groups: Keeper::new(), commands: Vec::new() }
    }

    /// A group as the log has it: when leadership comes, or when a change of it has failed.
    pub fn load(&mut self, now: Instant, view: &dyn View, (slot, id): (Slot, &str), share: &Share) {
        if share.members.is_empty() {
            self.groups.remove(id);
            return;
        }
        let group = Live::load(slot, share, self.settings.session_timeout_of(id, view), now);
        self.groups.insert(id, group);
        self.groups.settle(id);
    }

    pub fn has(&self, id: &str) -> bool {
        self.groups.has(id)
    }

    /// `logged` is the group as the log has it now, if it does. There is none of another kind.
    pub fn ask(
        &mut self,
        now: Instant,
        view: &dyn View,
        (slot, id): (Slot, &str),
        logged: Option<&Share>,
        ask: Ask,
        waiter: Waiter,
    ) {
        if let Some(share) = logged.filter(|share| !share.members.is_empty() && !self.has(id)) {
            self.load(now, view, (slot, id), share);
        }
        match ask {
            Ask::Beat(beat) => {
                if !self.has(id) {
                    if let Err((error, why)) =
                        self.groups.admit(id, logged.is_some(), beat.epoch, self.settings.groups_max)
                    {
                        let is_unknown = error == ErrorCode::GroupIdNotFound;
                        let why = if is_unknown { format!("Share group {id} not found.") } else { why };
                        return self.answer(waiter, Reply::failed(error, why));
                    }
                    let (timeout, new) = (self.settings.session_timeout_of(id, view), || Live::new(slot));
                    let group = logged.map_or_else(new, |share| Live::load(slot, share, timeout, now));
                    self.groups.insert(id, group);
                }
                self.turn(now, view, id, |turn, group| turn.beat(group, &beat, waiter));
            }
            // Nothing is told that the log may not get.
            Ask::Describe | Ask::Look | Ask::Create if self.has(id) => self.turn(now, view, id, |turn, group| {
                turn.answer_when_saved(group, waiter, Reply::Described(Box::new(group.described())));
            }),
            Ask::Create if logged.is_none() && !self.has(id) => {
                let reply = group::Reply::Share(Reply::Described(Box::new(Live::new(slot).described())));
                let change = Change::Share(Box::new(ShareChange { revision: 1, ..ShareChange::default() }));
                let then = Then::Answer(waiter, reply);
                self.commands.push(Command::Propose { slot, group: id.to_owned(), change, then });
            }
            Ask::Describe | Ask::Look | Ask::Create => {
                let reply = match logged {
                    Some(share) => Reply::Described(Box::new(Live::load(slot, share, Duration::ZERO, now).described())),
                    None if ask == Ask::Look => Reply::Described(Box::new(Live::new(slot).described())),
                    None => Reply::failed(ErrorCode::GroupIdNotFound, format!("Group {id} not found.")),
                };
                self.answer(waiter, reply);
            }
        }
    }

    /// The end of what was proposed.
    pub fn decided(&mut self, now: Instant, view: &dyn View, id: &str, then: Then, decided: Result<(), Failed>) {
        match (then, decided) {
            (Then::Answer(waiter, reply), Ok(())) => self.commands.push(Command::Answer(waiter, reply)),
            (Then::Answer(waiter, _), Err((error, _))) => self.fail(waiter, error),
            (Then::Saved, Ok(())) => self.turn(now, view, id, |turn, group| {
                turn.commands.extend(group.saving.arrive().into_iter().map(|(to, reply)| Command::Answer(to, reply)));
            }),
            (Then::Saved, Err((error, logged))) => {
                let given_up = self.groups.remove(id);
                given_up
                    .into_iter()
                    .flat_map(|group| group.saving.give_up())
                    .for_each(|waiter| self.fail(waiter, error));
                logged.into_iter().for_each(|(slot, share)| self.load(now, view, (slot, id), share));
            }
        }
    }

    /// Does what is late by now.
    pub fn tick(&mut self, now: Instant, view: &dyn View) {
        while let Some((id, member)) = self.groups.late(now) {
            self.turn(now, view, &id, |turn, group| turn.expire(group, &member));
        }
    }

    /// When [`Coordinator::tick`] has something to look at.
    pub fn deadline(&self) -> Option<Instant> {
        self.groups.deadline()
    }

    pub fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// As the log has them, unless this coordinator knows more.
    pub fn list<'a>(&'a self, logged: impl Iterator<Item = &'a String>) -> Vec<Listed> {
        let told =
            |id: &String, state| Listed { id: id.clone(), state, protocol_type: SHARE.into(), group_type: SHARE };
        let from_log = logged.filter(|id| !self.has(id)).map(|id| told(id, EMPTY));
        self.groups.iter().map(|(id, group)| told(id, group.state())).chain(from_log).collect()
    }

    pub fn answer(&mut self, waiter: Waiter, reply: Reply) {
        self.commands.push(Command::Answer(waiter, group::Reply::Share(reply)));
    }

    fn fail(&mut self, waiter: Waiter, error: ErrorCode) {
        self.answer(waiter, Reply::failed(error, String::new()));
    }

    /// One event of one group, then what follows for the log and its timers.
    fn turn(&mut self, now: Instant, view: &dyn View, id: &str, act: impl FnOnce(&mut Turn, &mut Live)) {
        let Some(group) = self.groups.get_mut(id) else { return };
        let mut turn = Turn { now, settings: &self.settings, view, id, commands: &mut self.commands };
        act(&mut turn, group);
        turn.save(group);
        self.groups.settle(id);
    }
}
