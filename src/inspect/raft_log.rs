use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use milepost_raft::GroupId;
use milepost_raft::inspect::{EntryKind, InspectedEntry, entries};
use serde_json::{Value, json};

use crate::cluster::{Identity, RootEntry, raft_dir};
use crate::object::Paths;
use crate::shard::group::Change;
use crate::shard::share::ShareUpdate;
use crate::shard::transaction::{self, TransactionEntry};
use crate::shard::{Append, BatchPointer, Entry, State, Verdict};
use crate::types::ROOT_SHARD;

/// Prints every entry of a data directory's Raft log as one JSON line.
pub(super) fn print(data_dir: &Path) -> anyhow::Result<()> {
    let identity = Identity::load(data_dir)?.context("there is no node in this directory")?;
    let mut printer =
        Printer { paths: Paths::new(&identity.cluster_id, identity.incarnation)?, states: HashMap::new() };
    let mut out = BufWriter::new(io::stdout().lock());
    for entry in entries(&raft_dir(data_dir))? {
        let entry = entry?;
        match writeln!(out, "{}", printer.line(&entry)) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
    }
    out.flush().map_err(Into::into)
}

/// Follows each shard's log from its first entry, since a pointer's offsets are decided by applying it.
struct Printer {
    paths: Paths,
    states: HashMap<GroupId, Followed>,
}

/// A shard's state as far as the log on disk tells it.
#[derive(Default)]
struct Followed {
    state: State,
    applied: u64,
}

impl Printer {
    fn line(&mut self, entry: &InspectedEntry) -> Value {
        let mut line = json!({
            "shard": entry.group,
            "index": entry.index,
            "term": entry.term,
            "bytes_on_disk": entry.bytes_on_disk,
        });
        let (kind, body) = match entry.kind {
            EntryKind::Blank => ("blank", Value::Null),
            EntryKind::Membership => ("membership", Value::Null),
            EntryKind::Normal if entry.group == ROOT_SHARD => ("root", root(&entry.payload)),
            EntryKind::Normal => self.shard(entry),
        };
        line["kind"] = kind.into();
        if !body.is_null() {
            line["entry"] = body;
        }
        line
    }

    fn shard(&mut self, entry: &InspectedEntry) -> (&'static str, Value) {
        let followed = self.states.entry(entry.group).or_default();
        // Entries are decided by what came before them: after a gap (the log was cut at a snapshot) nothing is known.
        let whole = entry.index > followed.applied && (followed.applied > 0 || entry.index <= FIRST_INDEX_MAX);
        let decided = match whole {
            true => {
                followed.applied = entry.index;
                followed.state.apply(entry.term, &entry.payload).is_ok()
            }
            false => false,
        };
        match Entry::decode(&entry.payload) {
            Ok(Entry::Append { append_time, append }) => {
                let pointers = self.pointers(entry.group, &append, decided);
                let (id, previous) = (append.object, append.previous);
                let packed = append.encode().len();
                let object = Append { parts: Vec::new(), ..append }.encode().len();
                let body = json!({
                    "append_time": append_time,
                    "object": self.paths.key(id).as_str(),
                    "previous": previous,
                    "packed_bytes": packed,
                    "pointer_bytes": packed - object,
                    "pointers": pointers,
                });
                ("append", body)
            }
            Ok(Entry::Create(create)) => (
                "create",
                json!({
                    "topic": create.topic.to_string(),
                    "partitions": create.partitions,
                    "epoch_base": create.epoch_base,
                }),
            ),
            Ok(Entry::Stamping { topic, stamped, change }) => {
                ("stamping", json!({ "topic": topic.to_string(), "stamped": stamped, "change": change }))
            }
            Ok(Entry::Delete { topic }) => ("delete", json!({ "topic": topic.to_string() })),
            Ok(Entry::Release(release)) => (
                "release",
                json!({
                    "slot": release.slot,
                    "producer_id": release.producer_id,
                    "settled": release.settled,
                }),
            ),
            Ok(Entry::Fence(fence)) => (
                "fence",
                json!({
                    "broker": fence.broker,
                    "epoch": fence.epoch,
                    "sequence": fence.sequence,
                }),
            ),
            Ok(Entry::ExpireProducers { before }) => ("expire_producers", json!({ "before": before })),
            Ok(Entry::Trim { starts }) => ("trim", json!({ "starts": starts })),
            Ok(Entry::Markers(markers)) => (
                if markers.commit { "commit_transaction" } else { "abort_transaction" },
                json!({
                    "append_time": markers.append_time,
                    "producer_id": markers.producer.id,
                    "producer_epoch": markers.producer.epoch,
                    "txn_no": markers.txn_no,
                    "coordinator_epoch": markers.coordinator_epoch,
                    "slots": markers.targets.iter().map(|target| target.slot).collect::<Vec<_>>(),
                }),
            ),
            Ok(Entry::Group(entry)) => {
                let what = match &entry.change {
                    Change::Commit { .. } => "commit_offsets",
                    Change::TransactionalCommit { .. } => "commit_offsets_in_transaction",
                    Change::Save(_) => "save_group",
                    Change::Consumer(_) => "change_consumer_group",
                    Change::Share(_) => "change_share_group",
                    Change::Delete => "delete_group",
                    Change::DeleteOffsets { .. } => "delete_offsets",
                    Change::DeleteIfUnused => "delete_unused_group",
                };
                (what, json!({ "slot": entry.slot, "term": entry.term, "group": entry.group }))
            }
            Ok(Entry::GroupCommits(entry)) => {
                let groups: Vec<&str> = entry.commits.iter().map(|commit| commit.group.as_str()).collect();
                ("commit_offsets", json!({ "term": entry.term, "groups": groups }))
            }
            Ok(Entry::Transaction(entry)) => transaction(&entry),
            Ok(Entry::Share(entry)) => {
                let of = |update: &ShareUpdate| json!({ "slot": update.slot, "group": update.group });
                ("deliver", json!({ "term": entry.term, "of": entry.updates.iter().map(of).collect::<Vec<_>>() }))
            }
            Ok(Entry::GroupClock { term, clock_ms }) => ("group_clock", json!({ "term": term, "clock_ms": clock_ms })),
            Err(e) => ("unreadable", json!({ "error": e.to_string() })),
        }
    }

    /// One record per partition of the object; offsets and epoch where the log on disk reaches back far enough.
    fn pointers(&self, shard: GroupId, append: &Append, decided: bool) -> Vec<Value> {
        let state = self.states.get(&shard).map(|followed| &followed.state);
        let verdicts = state.filter(|_| decided).map(|state| state.verdicts(append)).unwrap_or_default();
        let mut verdicts = verdicts.into_iter();
        append
            .parts
            .iter()
            .map(|part| {
                let len: u64 = part.batches.iter().map(|b| u64::from(b.len)).sum();
                let partition = state.and_then(|state| state.slot(part.slot));
                let decided: Vec<Verdict> = verdicts.by_ref().take(part.batches.len()).collect();
                let appended = |p: &&BatchPointer| {
                    p.object == append.object && p.start >= part.start && p.start < part.start + len
                };
                let spans = partition.map(|p| {
                    p.pointers
                        .iter()
                        .rev()
                        .take(part.batches.len())
                        .filter(appended)
                        .map(|p| {
                            json!({
                                "offsets": [p.base, p.last],
                                "leader_epoch": p.leader_epoch,
                            })
                        })
                        .collect::<Vec<_>>()
                });
                json!({
                    "slot": part.slot,
                    "partition": partition.map(|p| format!("{:?}", p.id)),
                    "bytes": [part.start, part.start + len],
                    "batches": part.batches.len(),
                    "spans": spans,
                    "refused": decided.iter().filter(|v| matches!(v, Verdict::Refused(_))).count(),
                })
            })
            .collect()
    }
}

fn transaction(entry: &TransactionEntry) -> (&'static str, Value) {
    let mut body = json!({ "slot": entry.slot, "term": entry.term, "id": entry.id, "revision": entry.revision });
    let what = match &entry.change {
        transaction::Change::Init { producer, .. } => {
            body["producer"] = json!([producer.id, producer.epoch]);
            "init_producer"
        }
        transaction::Change::Add { partitions, .. } => {
            body["partitions"] = partitions.iter().map(|(partition, _)| format!("{partition:?}")).collect();
            "add_partitions"
        }
        transaction::Change::Prepare { commit: true, .. } => "prepare_commit",
        transaction::Change::Prepare { commit: false, .. } => "prepare_abort",
        transaction::Change::Complete => "complete_transaction",
        transaction::Change::Remove => "remove_transactional_id",
    };
    (what, body)
}

/// A group's first application entry follows its membership and the first leader's blank entry.
const FIRST_INDEX_MAX: u64 = 16;

fn root(payload: &[u8]) -> Value {
    match RootEntry::decode(payload) {
        Ok(entry) => json!(format!("{entry:?}")),
        Err(e) => json!({ "error": e.to_string() }),
    }
}
