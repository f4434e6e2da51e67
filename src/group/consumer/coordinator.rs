use std::time::Duration;

use tokio::time::Instant;

use crate::group::classic::{Listed, Waiter};
use crate::group::consumer::ask::{Ask, Reply};
use crate::group::consumer::assignor::Assignor;
use crate::group::consumer::live::{EMPTY, Live};
use crate::group::keeper::Keeper;
use crate::group::{self, View, classic, command};
use crate::protocol::ErrorCode;
use crate::shard::Slot;
use crate::shard::group::{Change, Consumer, Group};

/// What members of such groups call their protocol type.
const CONSUMER: &str = "consumer";

// What a group may have of its own instead of the brokers'.
const SESSION_TIMEOUT: &str = "consumer.session.timeout.ms";
const HEARTBEAT_INTERVAL: &str = "consumer.heartbeat.interval.ms";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// A member that is silent for longer is out (Kafka: `group.consumer.session.timeout.ms`).
    pub session_timeout: Duration,
    /// Told to members (Kafka: `group.consumer.heartbeat.interval.ms`).
    pub heartbeat_interval: Duration,
    /// Members of a group (Kafka: `group.consumer.max.size`).
    pub members_max: usize,
    /// Groups with members in one shard.
    pub groups_max: usize,
    /// Those that members may ask for; the first where none does (Kafka: `group.consumer.assignors`).
    pub assignors: Vec<Assignor>,
    /// Classic groups with members become ones of this protocol when somebody joins who speaks it, and classic again when
    /// the last such has gone (Kafka: `group.consumer.migration.policy`).
    pub upgrades: bool,
    pub downgrades: bool,
    /// Members of a classic group.
    pub classic_members_max: usize,
    /// Metadata of one group's members that speak the classic protocol.
    pub metadata_bytes_max: usize,
    /// Committed offsets are forgotten so long after nobody needs them (Kafka: `offsets.retention.minutes`).
    pub offsets_retention: Duration,
}

pub type Command = command::Command<group::Reply, Then>;

/// What becomes of a group when the log has decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Then {
    /// The group goes on from there.
    Saved,
    /// Somebody waits for just that.
    Answer(Waiter, group::Reply),
    /// Nobody waits: what was too old is gone.
    Swept,
}

/// What members can be told, and the group as the log has it, if it is of this kind.
pub type Failed<'a> = (ErrorCode, Option<(Slot, &'a Consumer)>);

/// The groups of the consumer protocol of one shard, in one term of its leader.
#[derive(Debug)]
pub struct Coordinator {
    pub(super) settings: Settings,
    groups: Keeper<Live>,
    commands: Vec<Command>,
    /// Groups that nobody who speaks this protocol is left in.
    pub(super) leaving: Vec<String>,
}

/// One group's turn: what its transitions need besides the group itself.
pub(super) struct Turn<'a> {
    pub now: Instant,
    pub settings: &'a Settings,
    pub view: &'a dyn View,
    pub id: &'a str,
    pub commands: &'a mut Vec<Command>,
}

impl Turn<'_> {
    pub fn answer(&mut self, waiter: Waiter, reply: group::Reply) {
        self.commands.push(Command::Answer(waiter, reply));
    }

    pub fn refuse(&mut self, waiter: Waiter, error: ErrorCode, why: String) {
        self.answer(waiter, group::Reply::Consumer(Reply::failed(error, why)));
    }

    pub fn session_timeout(&self) -> Duration {
        self.settings.session_timeout_of(self.id, self.view)
    }

    /// Told to members.
    pub fn heartbeat_interval(&self) -> Duration {
        self.view.own_time(self.id, HEARTBEAT_INTERVAL).unwrap_or(self.settings.heartbeat_interval)
    }

    pub fn propose(&mut self, slot: Slot, change: Change) {
        self.commands.push(Command::Propose { slot, group: self.id.to_owned(), change, then: Then::Saved });
    }
}

impl Settings {
    fn session_timeout_of(&self, group: &str, view: &dyn View) -> Duration {
        view.own_time(group, SESSION_TIMEOUT).unwrap_or(self.session_timeout)
    }

    pub fn assignor_default(&self) -> Assignor {
        self.assignors.first().copied().unwrap_or(Assignor::Uniform)
    }
}

impl Coordinator {
    pub fn new(settings: Settings) -> Coordinator {
        Coordinator { settings, groups: Keeper::new(), commands: Vec::new(), leaving: Vec::new() }
    }

    /// A group as the log has it: when leadership comes, or when a change of it has failed.
    pub fn load(&mut self, now: Instant, view: &dyn View, (slot, id): (Slot, &str), consumer: &Consumer) {
        if consumer.members.is_empty() {
            self.groups.remove(id);
            return;
        }
        let group = Live::load(slot, consumer, self.settings.session_timeout_of(id, view), now);
        self.groups.insert(id, group);
        self.settle(id);
    }

    pub fn has(&self, id: &str) -> bool {
        self.groups.has(id)
    }

    /// `applied` is the group as the log has it now: one of this kind, or one without members if there is any.
    pub fn ask(
        &mut self,
        now: Instant,
        view: &dyn View,
        (slot, id): (Slot, &str),
        applied: Option<&Group>,
        ask: Ask,
        waiter: Waiter,
    ) {
        let consumer = applied.and_then(Group::consumer);
        match ask {
            Ask::Beat(beat) => {
                if !self.has(id) {
                    if let Err((error, why)) =
                        self.groups.admit(id, consumer.is_some(), beat.epoch, self.settings.groups_max)
                    {
                        return self.answer(waiter, group::Reply::Consumer(Reply::failed(error, why)));
                    }
                    let (timeout, new) = (self.settings.session_timeout_of(id, view), || Live::new(slot));
                    let group = consumer.map_or_else(new, |consumer| Live::load(slot, consumer, timeout, now));
                    self.insert(id, group);
                }
                self.turn(now, view, id, |turn, group| turn.beat(group, *beat, waiter));
            }
            Ask::Describe => self.describe(now, view, id, consumer, waiter),
            Ask::MayFetch { member, epoch } => {
                let allowed = match (self.live(id), consumer) {
                    (Some(group), _) => group.validate_epoch(&member, epoch),
                    (None, Some(_)) => Err(ErrorCode::UnknownMemberId),
                    // Another kind of group does not ask who it is.
                    (None, None) => Ok(()),
                };
                let failed = |error| Reply::failed(error, String::new());
                let reply = allowed.map_or_else(failed, |()| Reply::Done);
                self.answer(waiter, group::Reply::Consumer(reply));
            }
        }
    }

    /// The end of what was proposed.
    pub fn decided(&mut self, now: Instant, view: &dyn View, id: &str, then: Then, decided: Result<(), Failed>) {
        match (then, decided) {
            (Then::Swept, _) => {}
            (Then::Answer(waiter, reply), Ok(())) => self.answer(waiter, reply),
            (Then::Answer(waiter, _), Err((error, _))) => self.fail(waiter, error),
            (Then::Saved, Ok(())) => self.turn(now, view, id, |turn, group| turn.saved(group)),
            (Then::Saved, Err((error, applied))) => {
                let given_up = self.groups.remove(id);
                given_up
                    .into_iter()
                    .flat_map(|group| group.saving.give_up())
                    .for_each(|waiter| self.fail(waiter, error));
                applied.into_iter().for_each(|(slot, consumer)| self.load(now, view, (slot, id), consumer));
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
    pub fn list<'a>(&'a self, applied: impl Iterator<Item = &'a String>) -> Vec<Listed> {
        let told =
            |id: &String, state| Listed { id: id.clone(), state, protocol_type: CONSUMER.into(), group_type: CONSUMER };
        let from_log = applied.filter(|id| !self.has(id)).map(|id| told(id, EMPTY));
        self.groups.iter().map(|(id, group)| told(id, group.state())).chain(from_log).collect()
    }

    pub(super) fn insert(&mut self, id: &str, group: Live) {
        self.groups.insert(id, group);
    }

    pub(super) fn take(&mut self, id: &str) -> Option<Live> {
        self.groups.remove(id)
    }

    pub(super) fn live(&self, id: &str) -> Option<&Live> {
        self.groups.get(id)
    }

    pub fn answer(&mut self, waiter: Waiter, reply: group::Reply) {
        self.commands.push(Command::Answer(waiter, reply));
    }

    pub(super) fn fail(&mut self, waiter: Waiter, error: ErrorCode) {
        self.answer(waiter, group::Reply::Classic(classic::Reply::Failed(error)));
    }

    pub(super) fn propose(&mut self, slot: Slot, group: &str, change: Change, then: Then) {
        self.commands.push(Command::Propose { slot, group: group.to_owned(), change, then });
    }

    fn describe(&mut self, now: Instant, view: &dyn View, id: &str, consumer: Option<&Consumer>, waiter: Waiter) {
        let default = self.settings.assignor_default();
        let told = |group: &Live| group::Reply::Consumer(Reply::Described(Box::new(group.described(default))));
        if self.has(id) {
            // Nothing is told that the log may not get.
            return self.turn(now, view, id, |turn, group| turn.answer_when_saved(group, waiter, told(group)));
        }
        let reply = match consumer {
            Some(consumer) => told(&Live::load(0, consumer, Duration::ZERO, now)),
            None => {
                let why = format!("Group {id} not found.");
                group::Reply::Consumer(Reply::failed(ErrorCode::GroupIdNotFound, why))
            }
        };
        self.answer(waiter, reply);
    }

    /// One event of one group, then what follows for the log and its timers.
    pub(super) fn turn(&mut self, now: Instant, view: &dyn View, id: &str, act: impl FnOnce(&mut Turn, &mut Live)) {
        let Some(group) = self.groups.get_mut(id) else { return };
        let mut turn = Turn { now, settings: &self.settings, view, id, commands: &mut self.commands };
        act(&mut turn, group);
        turn.save(group);
        self.settle(id);
    }

    fn settle(&mut self, id: &str) {
        self.groups.settle(id);
        let is_ready = |group: &Live| group.saving.is_idle() && group.is_classic_but(None, &self.settings);
        if self.live(id).is_some_and(is_ready) {
            self.leaving.push(id.to_owned());
        }
    }
}
