//! The state machine, event by event, on a clock of its own, over the shard's own state.

mod coordination;
mod joining;
mod migrating;
mod offsets;
mod reconciling;
mod statics;
mod topics;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::*;
use crate::group::classic::{self, Caller, Commit, Waiter};
use crate::group::kinds::{Command, Kinds, Then};
use crate::group::{Ask as AnyAsk, METADATA_BYTES_MAX, Reply as AnyReply, Settings as AllSettings, View, share};
use crate::protocol::ErrorCode;
use crate::shard::group::{Assignment, Change, Committed, Consumer, GroupEntry, MemberState};
use crate::shard::{Create, Entry, State};
use crate::types::{Partition, TopicId};

pub(in crate::group) const SESSION: Duration = Duration::from_secs(45);
const REBALANCE_MS: i32 = 60_000;
const TERM: u64 = 1;

/// Topics by name.
pub(in crate::group) struct Known {
    version: u64,
    topics: BTreeMap<String, (TopicId, i32)>,
    /// What groups have set for themselves.
    pub times: BTreeMap<&'static str, Duration>,
}

impl View for Known {
    fn version(&self) -> u64 {
        self.version
    }

    fn topic(&self, name: &str) -> Option<(TopicId, i32)> {
        self.topics.get(name).copied()
    }

    fn each_topic(&self, see: &mut dyn FnMut(&str)) {
        self.topics.keys().for_each(|name| see(name));
    }

    fn own_time(&self, _group: &str, setting: &str) -> Option<Duration> {
        self.times.get(setting).copied()
    }
}

/// One group `g`, with a log that takes everything unless it is told not to.
pub(in crate::group) struct Site {
    pub groups: Kinds,
    pub view: Known,
    pub now: Instant,
    waiter: Waiter,
    pub replies: BTreeMap<Waiter, AnyReply>,
    pub state: State,
    pub log: Vec<Change>,
    /// Proposals stay on their way while this is set.
    pub holds: bool,
    pub held: Vec<(Change, Then)>,
}

fn settings() -> AllSettings {
    AllSettings {
        session_timeout_min: Duration::ZERO,
        session_timeout_max: Duration::MAX,
        classic: classic::Settings {
            initial_rebalance_delay: Duration::ZERO,
            members_max: 100,
            metadata_bytes_max: METADATA_BYTES_MAX,
            groups_max: 10,
            offsets_retention: Duration::from_secs(1000),
        },
        consumer: Settings {
            session_timeout: SESSION,
            heartbeat_interval: Duration::from_secs(5),
            members_max: 100,
            groups_max: 10,
            assignors: Assignor::ALL.to_vec(),
            upgrades: true,
            downgrades: true,
            classic_members_max: 100,
            metadata_bytes_max: 1 << 20,
            offsets_retention: Duration::from_secs(1000),
        },
        share: share::Settings {
            session_timeout: SESSION,
            heartbeat_interval: Duration::from_secs(5),
            members_max: 100,
            groups_max: 10,
        },
    }
}

impl Site {
    /// With a topic `t` of so many partitions.
    pub fn new(partitions: i32) -> Site {
        Site::with(partitions, |_| {})
    }

    pub fn with(partitions: i32, change: impl FnOnce(&mut AllSettings)) -> Site {
        let mut settings = settings();
        change(&mut settings);
        let mut state = State::default();
        let create =
            Create { topic: TopicId::ZERO, partitions: vec![0], epoch_base: 0, append_time: false, fences: Vec::new() };
        state.apply(TERM, &Entry::Create(create).encode()).unwrap();
        let mut site = Site {
            groups: Kinds::new(&settings),
            view: Known { version: 1, topics: BTreeMap::new(), times: BTreeMap::new() },
            now: Instant::now(),
            waiter: 0,
            replies: BTreeMap::new(),
            state,
            log: Vec::new(),
            holds: false,
            held: Vec::new(),
        };
        site.topic("t", partitions);
        site
    }

    /// There is such a topic now; 0: not any more.
    pub fn topic(&mut self, name: &str, partitions: i32) {
        self.view.version += 1;
        match partitions {
            0 => drop(self.view.topics.remove(name)),
            _ => drop(self.view.topics.insert(name.into(), (topic(name), partitions))),
        }
    }

    pub fn ask(&mut self, ask: impl Into<AnyAsk>) -> Waiter {
        self.waiter += 1;
        let applied = self.state.groups().get(0, "g").cloned();
        self.groups.ask(self.now, &self.view, (0, "g"), applied.as_deref(), ask.into(), self.waiter);
        self.obey();
        self.waiter
    }

    /// The reply, when there is one at once.
    pub fn told(&mut self, ask: impl Into<AnyAsk>) -> AnyReply {
        let waiter = self.ask(ask);
        self.replies.remove(&waiter).expect("answered at once")
    }

    fn obey(&mut self) {
        loop {
            let commands = self.groups.take_commands();
            if commands.is_empty() {
                return;
            }
            for command in commands {
                match command {
                    Command::Answer(waiter, reply) => {
                        assert!(self.replies.insert(waiter, reply).is_none(), "{waiter} is answered twice");
                    }
                    Command::Propose { change, then, .. } => {
                        self.held.push((change, then));
                        if !self.holds {
                            self.decide(Ok(()));
                        }
                    }
                }
            }
        }
    }

    /// The oldest proposal on its way has this end.
    pub fn decide(&mut self, decided: Result<(), ErrorCode>) {
        let (change, then) = self.held.remove(0);
        let decided = decided.and_then(|()| self.apply(change).then_some(()).ok_or(ErrorCode::NotCoordinator));
        let applied = self.state.groups().get(0, "g").cloned();
        let applied = applied.as_deref().map(|group| (0, group));
        self.groups.decided(self.now, &self.view, "g", (then, applied), decided);
        self.obey();
    }

    pub fn apply(&mut self, change: Change) -> bool {
        self.log.push(change.clone());
        let entry = Entry::Group(GroupEntry { slot: 0, term: TERM, clock_ms: 0, group: "g".into(), change });
        self.state.apply(TERM, &entry.encode()).unwrap().outcome.is_none()
    }

    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.groups.deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.groups.tick(self.now, &self.view);
            self.obey();
        }
        self.now = until;
    }

    /// Another coordinator goes on from what the log has.
    pub fn succeed(&mut self) {
        let mut groups = Kinds::new(&settings());
        if let Some(group) = self.state.groups().get(0, "g").filter(|group| group.has_members()) {
            groups.load(self.now, &self.view, (0, &"g".to_owned(), group));
        }
        self.groups = groups;
        self.held.clear();
    }

    pub fn beat(&mut self, beat: Beat) -> Result<Beaten, ErrorCode> {
        let waiter = self.ask(beating(beat));
        self.beaten(waiter).expect("answered at once")
    }

    pub fn beaten(&mut self, waiter: Waiter) -> Option<Result<Beaten, ErrorCode>> {
        Some(match self.replies.remove(&waiter)?.into_consumer() {
            Reply::Beaten(beaten) => Ok(beaten),
            Reply::Failed { error, .. } => Err(error),
            other => panic!("{other:?}"),
        })
    }

    pub fn join(&mut self, member: &str) -> Beaten {
        self.beat(joins(member)).unwrap()
    }

    /// What the member has then.
    fn owns(&mut self, member: &str, epoch: i32, owned: &[i32]) -> Result<Beaten, ErrorCode> {
        self.beat(Beat { owned: Some(of_t(owned)), ..beats(member, epoch) })
    }

    fn described(&mut self) -> Described {
        match self.told(Ask::Describe).into_consumer() {
            Reply::Described(described) => *described,
            other => panic!("{other:?}"),
        }
    }

    fn state(&mut self) -> &'static str {
        self.described().state
    }

    fn member(&mut self, id: &str) -> MemberDescribed {
        self.described().members.into_iter().find(|member| member.id == id).expect("a member")
    }

    fn logged(&self) -> &Consumer {
        self.state.groups().get(0, "g").and_then(|group| group.consumer()).expect("in the log")
    }

    pub fn commit(&mut self, member: &str, epoch: i32) -> ErrorCode {
        let caller = Caller { member: member.into(), instance: None, generation: epoch };
        let offsets = vec![(Partition { topic: topic("t"), index: 0 }, Committed::default())];
        let commit = Commit { caller, retention_ms: None, offsets, knows_group_id_not_found: true, transaction: None };
        code(self.told(classic::Ask::Commit(commit)))
    }
}

pub(in crate::group) fn code(reply: AnyReply) -> ErrorCode {
    match reply.into_classic() {
        classic::Reply::Failed(error) | classic::Reply::JoinFailed { error, .. } => error,
        classic::Reply::Each(each) => each.into_iter().find(|e| *e != ErrorCode::None).unwrap_or(ErrorCode::None),
        _ => ErrorCode::None,
    }
}

pub(in crate::group) fn topic(name: &str) -> TopicId {
    let mut id = [0; 16];
    id[..name.len()].copy_from_slice(name.as_bytes());
    TopicId::from_bytes(id)
}

pub(in crate::group) fn of_t(partitions: &[i32]) -> Assignment {
    let all: BTreeSet<i32> = partitions.iter().copied().collect();
    if all.is_empty() { Assignment::new() } else { Assignment::from([(topic("t"), all)]) }
}

fn names(names: &[&str]) -> Option<BTreeSet<String>> {
    Some(names.iter().map(|name| name.to_string()).collect())
}

pub(in crate::group) fn beating(beat: Beat) -> Ask {
    Ask::Beat(Box::new(beat))
}

/// Nothing new.
fn beats(member: &str, epoch: i32) -> Beat {
    Beat { member: member.into(), epoch, client_id: "c".into(), client_host: "/h".into(), ..Beat::default() }
}

pub(in crate::group) fn joins(member: &str) -> Beat {
    let owned = Some(Assignment::new());
    Beat { topics: names(&["t"]), rebalance_timeout_ms: Some(REBALANCE_MS), owned, ..beats(member, 0) }
}

fn joins_as(instance: &str, member: &str) -> Beat {
    Beat { instance: Some(instance.into()), ..joins(member) }
}

fn leaves(member: &str) -> Beat {
    beats(member, LEAVES)
}

pub(in crate::group) fn join_classic(member: &str) -> classic::Ask {
    classic::Ask::Join(classic::Join {
        member: member.into(),
        instance: None,
        client_id: "c".into(),
        client_host: "/h".into(),
        session_timeout: SESSION,
        rebalance_timeout: Duration::from_secs(60),
        protocol_type: "consumer".into(),
        protocols: vec![("range".into(), Bytes::new())],
        unique: "u".into(),
        id_required: false,
        can_skip_assignment: true,
    })
}
