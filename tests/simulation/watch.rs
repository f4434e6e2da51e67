//! Looks into every replica, between two steps of the simulation: the numbered invariants of ARCHITECTURE.md.

use std::collections::BTreeMap;

use milepost::cluster::RootMachine;
use milepost::index::OpenShard;
use milepost::object::crc32c;
use milepost::shard::{State, invariants};
use milepost::types::{ROOT_SHARD, ShardId};
use milepost_raft::{Leadership, StateMachine};

use crate::cluster::Run;

#[derive(Default)]
pub struct Watch {
    /// Who led a shard in a term.
    leaders: BTreeMap<(ShardId, u64), u64>,
    /// The digest of a shard's state at an applied index, and the broker that had it first.
    digests: BTreeMap<(ShardId, u64), (u32, i32)>,
    /// The newest state seen of a node's replica, for as long as the node lives.
    before: BTreeMap<(ShardId, u64, i32), (u64, State)>,
}

impl Watch {
    /// One leader per term.
    pub fn leaders(&mut self, run: &Run) {
        for handles in run.brokers.borrow().values() {
            let node = handles.cluster.node_id();
            let root = *handles.cluster.root().leadership().borrow();
            self.leader(run, ROOT_SHARD, node, root);
            for shard in handles.shards.all() {
                let now = *shard.group.leadership().borrow();
                self.leader(run, shard.id, node, now);
            }
        }
    }

    fn leader(&mut self, run: &Run, shard: ShardId, node: u64, now: Leadership) {
        if now.leader != Some(node) {
            return;
        }
        let first = *self.leaders.entry((shard, now.term)).or_insert(node);
        if first != node {
            let what = format!("shard {shard} has two leaders in term {}: nodes {first} and {node}", now.term);
            run.ledger.violation(what);
        }
    }

    pub fn terms(&self) -> usize {
        self.leaders.len()
    }

    /// Invariants 2, 3, 6 and 7 of every replica, 8 among all.
    pub fn states(&mut self, run: &Run) {
        let brokers = run.brokers.borrow();
        for (broker, handles) in brokers.iter() {
            let root = handles.cluster.root();
            let index = root.applied().borrow().index;
            let digest = crc32c(&RootMachine::snapshot(root.machine())());
            self.digest(run, ROOT_SHARD, *broker, index, digest);
            for shard in handles.shards.all() {
                self.state(run, *broker, handles.cluster.epoch(), &shard);
            }
        }
    }

    fn state(&mut self, run: &Run, broker: i32, epoch: u64, shard: &OpenShard) {
        let (index, state) = shard.replica().applied();
        let key = (shard.id, epoch, broker);
        if self.before.get(&key).is_some_and(|(then, _)| *then == index) {
            return;
        }
        self.digest(run, shard.id, broker, index, state.digest());
        if !invariants::hold(&state) {
            run.ledger.violation(format!("shard {} at broker {broker}: an invariant of its state fails", shard.id));
        }
        let grown = self.before.get(&key).is_none_or(|(_, before)| {
            before
                .partitions()
                .all(|old| state.partition(&old.id).is_none_or(|new| invariants::watermarks_only_grow(old, new)))
        });
        if !grown {
            run.ledger.violation(format!("shard {} at broker {broker}: a watermark stepped back", shard.id));
        }
        self.before.insert(key, (index, state));
    }

    fn digest(&mut self, run: &Run, shard: ShardId, broker: i32, index: u64, digest: u32) {
        let (first, at) = *self.digests.entry((shard, index)).or_insert((digest, broker));
        if first != digest {
            run.ledger.violation(format!("shard {shard} at {index}: brokers {at} and {broker} differ"));
        }
    }
}
