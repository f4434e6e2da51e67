use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::shard::Slot;
use crate::shard::transaction::{Change, TransactionEntry};
use crate::types::{Partition, Producer, ShardId, Timestamp, arc_map};

/// All transactional ids of a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transactions {
    #[serde(with = "arc_map")]
    slots: BTreeMap<Slot, Arc<SlotTransactions>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct SlotTransactions {
    #[serde(with = "arc_map")]
    by_id: BTreeMap<String, Arc<Transaction>>,
}

/// A transactional id: its producer and its newest transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// Counts what was decided about the id.
    pub revision: u64,
    pub producer_id: i64,
    pub epoch: i16,
    /// The epoch that this producer had before, when it asked for the present one itself; -1 when another had it (KIP-360).
    pub last_epoch: i16,
    /// The producer id before the last change: that of a retry which does not know of the new one yet.
    pub previous_id: i64,
    /// The id that the producer goes on with when this transaction is complete: its epochs are used up (KIP-890).
    pub next_id: Option<i64>,
    pub timeout_ms: u32,
    pub phase: Phase,
    /// Counts the transactions of the id. Batches and markers carry it, so that what comes late hits no later one.
    pub txn_no: u64,
    /// Of the transaction, with the shard of each: a partition never leaves its shard, and to know it takes no view of the
    /// cluster. Those of `__consumer_offsets` stand for groups.
    pub partitions: BTreeMap<Partition, ShardId>,
    /// On the shard's clock.
    pub started_ms: u64,
    /// For people; -1 before the first transaction.
    pub started_at: Timestamp,
    /// On the shard's clock.
    pub changed_ms: u64,
}

/// Kafka's `TransactionState`. Its Dead and PrepareEpochFence are never in a log: an id is removed by one entry, and
/// fencing an ongoing transaction is one with preparing its abort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    #[serde(rename = "e")]
    Empty,
    #[serde(rename = "o")]
    Ongoing,
    #[serde(rename = "pc")]
    PrepareCommit,
    #[serde(rename = "pa")]
    PrepareAbort,
    #[serde(rename = "cc")]
    CompleteCommit,
    #[serde(rename = "ca")]
    CompleteAbort,
}

impl Phase {
    /// Kafka's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Empty => "Empty",
            Phase::Ongoing => "Ongoing",
            Phase::PrepareCommit => "PrepareCommit",
            Phase::PrepareAbort => "PrepareAbort",
            Phase::CompleteCommit => "CompleteCommit",
            Phase::CompleteAbort => "CompleteAbort",
        }
    }

    /// The end is decided, and not every partition knows.
    pub fn is_prepared(self) -> bool {
        matches!(self, Phase::PrepareCommit | Phase::PrepareAbort)
    }

    fn prepared(commit: bool) -> Phase {
        if commit { Phase::PrepareCommit } else { Phase::PrepareAbort }
    }
}

impl Transaction {
    pub fn producer(&self) -> Producer {
        Producer { id: self.producer_id, epoch: self.epoch }
    }

    /// The number of the transaction that a partition added now belongs to.
    pub fn txn_no_to_add_to(&self) -> u64 {
        if self.phase == Phase::Ongoing { self.txn_no } else { self.txn_no + 1 }
    }

    fn new(producer: Producer) -> Transaction {
        Transaction {
            revision: 0,
            producer_id: producer.id,
            epoch: producer.epoch,
            last_epoch: -1,
            previous_id: -1,
            next_id: None,
            timeout_ms: 0,
            phase: Phase::Empty,
            txn_no: 0,
            partitions: BTreeMap::new(),
            started_ms: 0,
            started_at: -1,
            changed_ms: 0,
        }
    }

    fn change(&mut self, change: Change, now_ms: u64) {
        self.revision += 1;
        self.changed_ms = now_ms;
        let id_before = self.producer_id;
        match change {
            Change::Init { producer, last_epoch, timeout_ms } => {
                (self.producer_id, self.epoch, self.last_epoch) = (producer.id, producer.epoch, last_epoch);
                self.timeout_ms = timeout_ms;
                self.phase = Phase::Empty;
                (self.next_id, self.started_at) = (None, -1);
                self.partitions.clear();
            }
            Change::Add { partitions, started_at } => {
                if self.phase != Phase::Ongoing {
                    self.txn_no += 1;
                    (self.started_ms, self.started_at) = (now_ms, started_at);
                }
                self.phase = Phase::Ongoing;
                self.partitions.extend(partitions);
            }
            Change::Prepare { commit, epoch, last_epoch, next_id, at } => {
                if self.phase != Phase::Ongoing {
                    self.txn_no += 1;
                    (self.started_ms, self.started_at) = (now_ms, at);
                }
                self.phase = Phase::prepared(commit);
                (self.epoch, self.last_epoch, self.next_id) = (epoch, last_epoch, next_id);
            }
            Change::Complete => {
                self.phase = match self.phase {
                    Phase::PrepareCommit => Phase::CompleteCommit,
                    _ => Phase::CompleteAbort,
                };
                if let Some(next) = self.next_id.take() {
                    (self.producer_id, self.epoch) = (next, 0);
                }
                self.partitions.clear();
            }
            Change::Remove => {}
        }
        self.previous_id = id_before;
    }
}

impl Transactions {
    pub fn get(&self, slot: Slot, id: &str) -> Option<&Arc<Transaction>> {
        self.slots.get(&slot)?.by_id.get(id)
    }

    pub fn all(&self) -> impl Iterator<Item = (Slot, &String, &Arc<Transaction>)> {
        self.slots.iter().flat_map(|(slot, ids)| ids.by_id.iter().map(|(id, one)| (*slot, id, one)))
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// False when the entry was decided on another revision: then it changes nothing.
    #[must_use]
    pub(in crate::shard) fn apply(&mut self, entry: TransactionEntry, now_ms: u64) -> bool {
        let known = self.get(entry.slot, &entry.id).map_or(0, |one| one.revision);
        let begins = matches!(entry.change, Change::Init { .. });
        if known != entry.revision || (known == 0 && !begins) {
            return false;
        }
        let ids = &mut Arc::make_mut(self.slots.entry(entry.slot).or_default()).by_id;
        match entry.change {
            Change::Init { producer, .. } if known == 0 => {
                let mut one = Transaction::new(producer);
                one.change(entry.change, now_ms);
                one.previous_id = -1;
                ids.insert(entry.id, Arc::new(one));
            }
            Change::Remove => drop(ids.remove(&entry.id)),
            change => {
                if let Some(one) = ids.get_mut(&entry.id) {
                    Arc::make_mut(one).change(change, now_ms);
                }
            }
        }
        if ids.is_empty() {
            self.slots.remove(&entry.slot);
        }
        true
    }

    pub(in crate::shard) fn forget_slot(&mut self, slot: Slot) {
        self.slots.remove(&slot);
    }
}
