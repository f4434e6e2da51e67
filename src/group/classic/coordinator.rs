use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use crate::group::classic::ask::{Ask, Described, Listed, Reply, Waiter};
use crate::group::classic::live::{GroupState, Live};
use crate::group::command;
use crate::protocol::ErrorCode;
use crate::shard::Slot;
use crate::shard::group::{Change, Classic, Group};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long an empty group waits for more members after the first (Kafka: `group.initial.rebalance.delay.ms`).
    pub initial_rebalance_delay: Duration,
    /// Members of a group, and ids given out that have not come back (Kafka: `group.max.size`).
    pub members_max: usize,
    /// Metadata of one group's members.
    pub metadata_bytes_max: usize,
    /// Groups with members in one shard.
    pub groups_max: usize,
    /// Committed offsets are forgotten so long after nobody needs them (Kafka: `offsets.retention.minutes`).
    pub offsets_retention: Duration,
}

/// A new member that waits to be let in is taken for gone after this (Kafka: `NewMemberJoinTimeoutMs`).
pub(super) const NEW_MEMBER_JOIN_TIMEOUT: Duration = Duration::from_secs(300);

/// What Kafka calls groups of this kind.
const CLASSIC: &str = "classic";

/// Looks at groups that are gone or need an earlier one, kept until there are so many.
const DUE_SLACK: usize = 1024;

pub type Command = command::Command<Reply, Then>;

/// What becomes of a group when the log has decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Then {
    /// Somebody waits for just that.
    Answer(Waiter, Reply),
    /// The members of this generation get the assignments that were saved.
    Assign { generation: i32, saved: Box<Classic> },
    /// A static member has taken the place of its former self.
    Replaced(Box<super::join::Replaced>),
    /// The group is empty, in the log too.
    Emptied,
    /// Nobody waits: what was too old is gone.
    Swept,
}

/// What members can be told, and the group as the log has it, if it is of this kind and nobody else's by now.
pub type Failed<'a> = (ErrorCode, Option<(Slot, &'a Classic)>);

/// The classic groups of one shard, in one term of its leader.
#[derive(Debug)]
pub struct Coordinator {
    pub(super) settings: Settings,
    groups: HashMap<String, Live>,
    due: BinaryHeap<Reverse<(Instant, String)>>,
    commands: Vec<Command>,
}

/// One group's turn: what its transitions need besides the group itself.
pub(super) struct Turn<'a> {
    pub now: Instant,
    pub settings: &'a Settings,
    pub id: &'a str,
    pub commands: &'a mut Vec<Command>,
}

impl Turn<'_> {
    pub fn answer(&mut self, waiter: Waiter, reply: Reply) {
        self.commands.push(Command::Answer(waiter, reply));
    }

    pub fn fail(&mut self, waiter: Waiter, error: ErrorCode) {
        self.answer(waiter, Reply::Failed(error));
    }

    /// Of a change that the group itself depends on.
    pub fn propose(&mut self, group: &mut Live, change: Change, then: Then) {
        group.saving += 1;
        self.commands.push(Command::Propose { slot: group.slot, group: self.id.to_owned(), change, then });
    }
}

impl Coordinator {
    pub fn new(settings: Settings) -> Coordinator {
        Coordinator { settings, groups: HashMap::new(), due: BinaryHeap::new(), commands: Vec::new() }
    }

    /// A group with members, as the log has it, when leadership comes.
    pub fn load(&mut self, now: Instant, slot: Slot, id: &str, classic: &Classic) {
        self.groups.insert(id.to_owned(), Live::load(slot, classic, now));
        self.settle(id);
    }

    /// `applied` is the group as the log has it now, if it does.
    pub fn ask(&mut self, now: Instant, slot: Slot, id: &str, applied: Option<&Group>, ask: Ask, waiter: Waiter) {
        // Members that the log has and this coordinator has not: their leaving did not get there.
        if let Some(classic) = applied.and_then(Group::classic).filter(|classic| !classic.members.is_empty())
            && !self.groups.contains_key(id)
        {
            self.load(now, slot, id, classic);
        }
        match ask {
            Ask::Describe => {
                let described = Reply::Described(self.describe(id, applied));
                self.commands.push(Command::Answer(waiter, described));
            }
            Ask::DeleteGroup => self.delete_group(slot, id, applied, waiter),
            Ask::DeleteOffsets(offsets) => self.delete_offsets(slot, id, applied, &offsets, waiter),
            Ask::Commit(commit) => self.commit(now, slot, id, applied, commit, waiter),
            Ask::Join(join) => {
                if !self.groups.contains_key(id) {
                    if let Err(error) = self.admit(&join.member) {
                        let reply = Reply::JoinFailed { error, member: join.member };
                        return self.commands.push(Command::Answer(waiter, reply));
                    }
                    let live = applied.and_then(Group::classic).map(|classic| Live::load(slot, classic, now));
                    self.groups.insert(id.to_owned(), live.unwrap_or_else(|| Live::new(slot)));
                }
                self.turn(now, id, |turn, group| turn.join(group, join, waiter));
            }
            Ask::Sync(_) | Ask::Heartbeat(_) if !self.groups.contains_key(id) => {
                self.commands.push(Command::Answer(waiter, Reply::Failed(ErrorCode::UnknownMemberId)));
            }
            Ask::Leave(leavers) if !self.groups.contains_key(id) => {
                let each = Reply::Each(vec![ErrorCode::UnknownMemberId; leavers.len()]);
                self.commands.push(Command::Answer(waiter, each));
            }
            Ask::Sync(sync) => self.turn(now, id, |turn, group| turn.sync(group, sync, waiter)),
            Ask::Heartbeat(caller) => self.turn(now, id, |turn, group| turn.heartbeat(group, &caller, waiter)),
            Ask::Leave(leavers) => self.turn(now, id, |turn, group| turn.leave(group, &leavers, waiter)),
        }
    }

    /// The end of what was proposed.
    pub fn decided(&mut self, now: Instant, id: &str, then: Then, decided: Result<(), Failed>) {
        let told = decided.map_err(|(error, _)| error);
        match then {
            Then::Answer(waiter, reply) => {
                let reply = told.map_or_else(Reply::Failed, |()| reply);
                self.commands.push(Command::Answer(waiter, reply));
            }
            Then::Swept => {}
            then => self.turn(now, id, |turn, group| {
                group.saving = group.saving.saturating_sub(1);
                match then {
                    Then::Assign { generation, saved } => turn.assign(group, generation, &saved, told),
                    Then::Replaced(replaced) => turn.replaced(group, *replaced, told),
                    Then::Emptied | Then::Swept | Then::Answer(..) => {}
                }
            }),
        }
        if let Err((_, Some((slot, classic)))) = decided {
            self.take_back(now, slot, id, classic);
        }
    }

    /// A group that nobody is left in, and the log was not told: it has the log's members for one more session, at whose
    /// end the log is told again. Else it would have had no members since whenever the log was last told of it.
    fn take_back(&mut self, now: Instant, slot: Slot, id: &str, classic: &Classic) {
        let is_over = self.live(id).is_none_or(|group| group.saving == 0) && self.is_free(id);
        if is_over && !classic.members.is_empty() {
            let pending = self.groups.remove(id).map(|group| group.pending).unwrap_or_default();
            self.groups.insert(id.to_owned(), Live { pending, ..Live::load(slot, classic, now) });
            self.settle(id);
        }
    }

    /// Does what is late by now.
    pub fn tick(&mut self, now: Instant) {
        while self.deadline().is_some_and(|at| at <= now) {
            let Some(Reverse((at, id))) = self.due.pop() else { return };
            let Some(group) = self.groups.get_mut(&id).filter(|group| group.queued == Some(at)) else { continue };
            group.queued = None;
            self.turn(now, &id, |turn, group| turn.expire(group));
        }
    }

    /// When [`Coordinator::tick`] has something to look at.
    pub fn deadline(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    pub fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// As the log has it, unless this coordinator knows more.
    pub fn list<'a>(&'a self, applied: impl Iterator<Item = (&'a String, &'a Group)>) -> Vec<Listed> {
        let from_log = applied.filter(|(id, _)| !self.groups.contains_key(*id)).map(|(id, group)| Listed {
            id: id.clone(),
            state: GroupState::Empty.name(),
            protocol_type: group.classic().map(|classic| classic.protocol_type.clone()).unwrap_or_default(),
            group_type: CLASSIC,
        });
        let live = self.groups.iter().map(|(id, group)| Listed {
            id: id.clone(),
            state: group.state.name(),
            protocol_type: group.protocol_type.clone().unwrap_or_default(),
            group_type: CLASSIC,
        });
        live.chain(from_log).collect()
    }

    pub fn has(&self, id: &str) -> bool {
        self.groups.contains_key(id)
    }

    /// Nobody is a member, whoever may want to become one.
    pub fn is_free(&self, id: &str) -> bool {
        self.groups.get(id).is_none_or(|group| group.state == GroupState::Empty && group.members.is_empty())
    }

    /// Changes of it are on their way to the log.
    pub fn is_saving(&self, id: &str) -> bool {
        self.groups.get(id).is_some_and(|group| group.saving > 0)
    }

    pub(super) fn insert(&mut self, id: &str, group: Live) {
        self.groups.insert(id.to_owned(), group);
    }

    pub(super) fn live(&self, id: &str) -> Option<&Live> {
        self.groups.get(id)
    }

    /// Nothing of it is in memory any more.
    pub fn forget(&mut self, id: &str) {
        self.groups.remove(id);
    }

    /// Nothing of a group without members is in memory any more, when all that is on its way to the log is there: until
    /// then the log has members that have left, and they would be taken for ones.
    pub(super) fn let_go(&mut self, id: &str) {
        self.groups.get_mut(id).into_iter().for_each(|group| group.pending.clear());
        self.settle(id);
    }

    #[cfg(test)]
    pub(super) fn timers(&self) -> usize {
        self.due.len()
    }

    /// Not a change of the group that its own next steps depend on.
    pub(super) fn propose(&mut self, slot: Slot, group: &str, change: Change, then: Then) {
        self.commands.push(Command::Propose { slot, group: group.to_owned(), change, then });
    }

    pub(super) fn answer(&mut self, waiter: Waiter, reply: Reply) {
        self.commands.push(Command::Answer(waiter, reply));
    }

    /// A group begins with somebody who has no id yet.
    fn admit(&self, member: &str) -> Result<(), ErrorCode> {
        match member {
            "" if self.groups.len() >= self.settings.groups_max => Err(ErrorCode::CoordinatorNotAvailable),
            "" => Ok(()),
            _ => Err(ErrorCode::UnknownMemberId),
        }
    }

    fn describe(&self, id: &str, applied: Option<&Group>) -> Option<Described> {
        let from_log = |group: &Group| Described {
            state: GroupState::Empty.name(),
            protocol_type: group.classic().map(|classic| classic.protocol_type.clone()).unwrap_or_default(),
            protocol_name: String::new(),
            members: Vec::new(),
        };
        self.live(id).map(Live::described).or_else(|| applied.map(from_log))
    }

    /// One event of one group, then what follows for its timers.
    pub(super) fn turn(&mut self, now: Instant, id: &str, act: impl FnOnce(&mut Turn, &mut Live)) {
        let Some(group) = self.groups.get_mut(id) else { return };
        let mut turn = Turn { now, settings: &self.settings, id, commands: &mut self.commands };
        act(&mut turn, group);
        self.settle(id);
    }

    fn settle(&mut self, id: &str) {
        let Some(group) = self.groups.get_mut(id) else { return };
        if group.is_idle() {
            self.groups.remove(id);
            return;
        }
        // Deadlines mostly move away: the earlier look is kept, and finds the later one then.
        if let Some(next) = group.next_deadline()
            && group.queued.is_none_or(|queued| next < queued)
        {
            group.queued = Some(next);
            self.due.push(Reverse((next, id.to_owned())));
        }
        if self.due.len() > DUE_SLACK + 2 * self.groups.len() {
            let groups = &self.groups;
            self.due.retain(|Reverse((at, id))| groups.get(id).is_some_and(|group| group.queued == Some(*at)));
        }
    }
}
