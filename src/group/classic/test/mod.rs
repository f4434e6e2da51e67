//! The state machine, event by event, on a clock of its own.

mod coordination;
mod joining;
mod offsets;
mod statics;
mod syncing;

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use bytes::Bytes;

use super::subscription::subscription;
use super::*;
use crate::protocol::ErrorCode;
use crate::shard::group::{Change, Classic, Group, Kind};

const SESSION: Duration = Duration::from_secs(10);
const REBALANCE: Duration = Duration::from_secs(60);
const DELAY: Duration = Duration::from_secs(3);

/// One group `g`, with a log that takes everything unless it is told not to.
struct Site {
    groups: Coordinator,
    now: Instant,
    waiter: Waiter,
    replies: BTreeMap<Waiter, Reply>,
    log: Vec<Change>,
    applied: Option<Group>,
    /// Proposals stay on their way while this is set.
    holds: bool,
    held: Vec<(Change, Then)>,
}

impl Site {
    fn new() -> Site {
        Site::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Settings)) -> Site {
        let mut settings = Settings {
            initial_rebalance_delay: DELAY,
            members_max: 100,
            metadata_bytes_max: 1 << 20,
            groups_max: 10,
            offsets_retention: Duration::from_secs(1000),
        };
        change(&mut settings);
        Site {
            groups: Coordinator::new(settings),
            now: Instant::now(),
            waiter: 0,
            replies: BTreeMap::new(),
            log: Vec::new(),
            applied: None,
            holds: false,
            held: Vec::new(),
        }
    }

    fn ask(&mut self, ask: Ask) -> Waiter {
        self.waiter += 1;
        self.groups.ask(self.now, 0, "g", self.applied.as_ref(), ask, self.waiter);
        self.obey();
        self.waiter
    }

    /// The reply, when there is one at once.
    fn told(&mut self, ask: Ask) -> Reply {
        let waiter = self.ask(ask);
        self.reply(waiter).expect("answered at once")
    }

    fn reply(&mut self, waiter: Waiter) -> Option<Reply> {
        self.replies.remove(&waiter)
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
                    Command::Propose { change, then, .. } if self.holds => self.held.push((change, then)),
                    Command::Propose { group, change, then, .. } => {
                        self.apply(&change);
                        self.log.push(change);
                        self.groups.decided(self.now, &group, then, Ok(()));
                    }
                }
            }
        }
    }

    /// As the shard's state does.
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Commit { offsets, .. } => {
                self.applied.get_or_insert_default().offsets.extend(offsets.iter().cloned());
            }
            Change::Save(classic) => {
                self.applied.get_or_insert_default().kind = Kind::Classic(Box::new(classic.clone()));
            }
            Change::Delete => self.applied = None,
            Change::TransactionalCommit { .. } | Change::DeleteOffsets { .. } | Change::DeleteIfUnused => {}
            Change::Consumer(_) | Change::Share(_) => panic!("of another kind of group"),
        }
    }

    /// The oldest proposal on its way has this end.
    fn decide(&mut self, decided: Result<(), ErrorCode>) {
        let (change, then) = self.held.remove(0);
        if decided.is_ok() {
            self.apply(&change);
        }
        let classic = self.applied.as_ref().and_then(Group::classic).map(|classic| (0, classic));
        self.groups.decided(self.now, "g", then, decided.map_err(|error| (error, classic)));
        self.obey();
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.groups.deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.groups.tick(self.now);
            self.obey();
        }
        self.now = until;
    }

    fn state(&mut self) -> &'static str {
        match self.told(Ask::Describe) {
            Reply::Described(Some(described)) => described.state,
            other => panic!("{other:?}"),
        }
    }

    fn joined(&mut self, waiter: Waiter) -> JoinAnswer {
        match self.reply(waiter) {
            Some(Reply::Joined(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }

    /// The id that a new member gets.
    fn id(&mut self, client: &str) -> String {
        match self.told(join(client, "")) {
            Reply::JoinFailed { error: ErrorCode::MemberIdRequired, member } => member,
            other => panic!("{other:?}"),
        }
    }

    fn heartbeat(&mut self, member: &str, generation: i32) -> ErrorCode {
        code(self.told(Ask::Heartbeat(caller(member, generation))))
    }

    /// A stable group of these clients in generation 1; the first is its leader. Returns their ids.
    fn stable(&mut self, clients: &[&str]) -> Vec<String> {
        let ids: Vec<String> = clients.iter().map(|client| self.id(client)).collect();
        let joins: Vec<Waiter> = ids.iter().map(|id| self.ask(join("", id))).collect();
        self.pass(DELAY);
        self.pass(DELAY);
        joins.into_iter().for_each(|waiter| drop(self.joined(waiter)));
        self.sync_all(&ids, 1);
        ids
    }

    /// Everybody syncs, the leader last: each gets its own id as its assignment.
    fn sync_all(&mut self, ids: &[String], generation: i32) {
        let followers: Vec<Waiter> = ids[1..].iter().map(|id| self.ask(sync(id, generation, &[]))).collect();
        let leader = self.ask(sync(&ids[0], generation, ids));
        for (waiter, id) in std::iter::once(leader).chain(followers).zip(ids) {
            match self.reply(waiter) {
                Some(Reply::Synced { assignment, .. }) => assert_eq!(assignment, id.as_bytes()),
                other => panic!("{other:?}"),
            }
        }
    }
}

fn code(reply: Reply) -> ErrorCode {
    match reply {
        Reply::Failed(error) | Reply::JoinFailed { error, .. } => error,
        Reply::Each(each) => each.into_iter().find(|code| *code != ErrorCode::None).unwrap_or(ErrorCode::None),
        _ => ErrorCode::None,
    }
}

fn caller(member: &str, generation: i32) -> Caller {
    Caller { member: member.to_owned(), instance: None, generation }
}

fn joins(client: &str, member: &str) -> Join {
    Join {
        member: member.to_owned(),
        instance: None,
        client_id: client.to_owned(),
        client_host: "/10.0.0.1".to_owned(),
        session_timeout: SESSION,
        rebalance_timeout: REBALANCE,
        protocol_type: "consumer".to_owned(),
        protocols: vec![("range".to_owned(), subscription(&["t"]))],
        unique: "u".to_owned(),
        id_required: true,
        can_skip_assignment: true,
    }
}

fn join(client: &str, member: &str) -> Ask {
    Ask::Join(joins(client, member))
}

fn join_static(instance: &str, member: &str) -> Join {
    Join { instance: Some(instance.to_owned()), ..joins("", member) }
}

/// With an assignment for each of these: their own names.
fn sync(member: &str, generation: i32, to: &[String]) -> Ask {
    let assignments = to.iter().map(|id| (id.clone(), Bytes::from(id.clone()))).collect();
    Ask::Sync(Sync { caller: caller(member, generation), protocol_type: None, protocol_name: None, assignments })
}

fn leave(member: &str) -> Ask {
    Ask::Leave(vec![Leaver { member: member.to_owned(), instance: None }])
}

fn saved(change: &Change) -> &Classic {
    match change {
        Change::Save(classic) => classic,
        other => panic!("{other:?}"),
    }
}
