//! Hazards: a batch of a transaction that comes after its end was decided, also ahead of its predecessors; a marker that
//! is repeated, and delayed past the begin of the next transaction, and past its end. Every order in which they can
//! reach the log, for clients of both transaction versions.
//!
//! Why it holds: the coordinator numbers the transactions of a producer id. A partition remembers the last one that has
//! ended, takes nothing of it any more, and ends it only once.

use crate::hazards::log::{Log, append, object};
use crate::shard::*;
use crate::types::Producer;

/// What is on its way to the log. The first transaction of the producer is aborted, the second one committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// Acknowledged to the client before it ends its transaction.
    First,
    /// Given up by the client, and read late, through another broker: the batch behind `First`, and the one behind that.
    Late,
    Later,
    Abort,
    /// The next transaction begins when a coordinator has heard that this partition has the marker.
    Next,
    Commit,
}

/// Abort and Commit are sent twice each.
const EVENTS: [Event; 8] =
    [Event::First, Event::Late, Event::Later, Event::Abort, Event::Abort, Event::Next, Event::Commit, Event::Commit];

/// What must have happened before.
fn may_come(event: Event, before: &[Event]) -> bool {
    match event {
        Event::First | Event::Late | Event::Later => true,
        Event::Abort => before.contains(&Event::First),
        Event::Next => before.contains(&Event::Abort),
        Event::Commit => before.contains(&Event::Next),
    }
}

/// Every order that is possible.
fn orders(before: &mut Vec<Event>, left: &[Event], found: &mut Vec<Vec<Event>>) {
    if left.is_empty() {
        found.push(before.clone());
    }
    for (i, event) in left.iter().enumerate() {
        if left[..i].contains(event) || !may_come(*event, before) {
            continue;
        }
        let rest = [&left[..i], &left[i + 1..]].concat();
        before.push(*event);
        orders(before, &rest, found);
        before.pop();
    }
}

/// A batch of one record.
fn batch(epoch: i16, base: i32, txn_no: u64) -> Batch {
    let sequence = Some(Sequence { producer: Producer { id: 7, epoch }, base, transaction: Some(txn_no) });
    Batch { len: 100, span: 1, max_timestamp: 5, sequence }
}

/// What the test itself is tested with: a log in which one of the numbers says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    /// Markers end whichever transaction is open, as Kafka's do for clients of version 1.
    Markers,
    /// Late batches are taken for part of the transaction that comes next.
    Batches,
}

/// `bumps`: the coordinator writes the markers in the next epoch already (version 2); with version 1 it is the client
/// that asks for another epoch, after an abort.
fn run(order: &[Event], bumps: bool, mutant: Mutant) -> Log {
    let mut log = Log::new();
    // The three brokers that the batches come through.
    let mut sequences = [0; 3];
    let late = if mutant == Mutant::Batches { 2 } else { 1 };
    for event in order {
        let mut send = |broker: usize, batch: Batch| {
            sequences[broker] += 1;
            let sequence = sequences[broker];
            drop(log.append(&append(object(broker as i32, 1, sequence), sequence - 1, vec![batch])));
        };
        let marker = |epoch, txn_no, commit| {
            let producer = Producer { id: 7, epoch };
            let txn_no = if mutant == Mutant::Markers { ANY_TRANSACTION } else { txn_no };
            let targets = vec![Target { slot: 0, groups: false }];
            Entry::Markers(Markers { append_time: 9, producer, txn_no, commit, coordinator_epoch: 1, targets })
        };
        match event {
            Event::First => send(0, batch(0, 0, 1)),
            Event::Late => send(1, batch(0, 1, late)),
            Event::Later => send(2, batch(0, 2, late)),
            Event::Next => send(0, batch(1, 0, 2)),
            Event::Abort => drop(log.commit(&marker(i16::from(bumps), 1, false))),
            Event::Commit => drop(log.commit(&marker(1 + i16::from(bumps), 2, true))),
        }
    }
    log
}

/// Before the first marker lies what was aborted, between it and the second the one record of the second transaction.
fn look(log: &Log) -> Result<(), &'static str> {
    let partition = log.partition();
    let right = |so: bool, otherwise| if so { Ok(()) } else { Err(otherwise) };
    right(partition.last_stable_offset() == partition.high_watermark, "a transaction hangs")?;
    right(partition.producers().all(|(_, producer)| producer.held.is_empty()), "a batch waits for ever")?;
    let ends = partition.pointers.iter().filter_map(|p| Some((p.base, p.control?.commit)));
    let ends: Vec<(i64, bool)> = ends.collect();
    let &[(abort, false), (commit, true)] = &ends[..] else { return Err("other markers than these two") };
    right(commit - abort == 2, "another record in the second transaction, or none")?;
    let aborted = partition.transactions.aborted_between(0, i64::MAX);
    right(aborted.len() == 1 && (aborted[0].first, aborted[0].last) == (0, abort), "another transaction was aborted")
}

fn all_orders() -> Vec<Vec<Event>> {
    let mut all = Vec::new();
    orders(&mut Vec::new(), &EVENTS, &mut all);
    assert_eq!(all.len(), 224);
    all
}

#[test]
fn late_batches_and_repeated_markers_never_touch_the_next_transaction() {
    for order in all_orders() {
        for bumps in [false, true] {
            assert_eq!(look(&run(&order, bumps, Mutant::None)), Ok(()), "bumps {bumps}: {order:?}");
        }
    }
}

#[test]
fn without_either_number_they_do() {
    for mutant in [Mutant::Markers, Mutant::Batches] {
        let harmed = all_orders().iter().filter(|order| look(&run(order, false, mutant)).is_err()).count();
        assert!(harmed > 0, "{mutant:?} is not noticed");
    }
}

/// Without the number a late batch would open a transaction of its own, which nobody ends (KIP-890).
#[test]
fn a_late_batch_leaves_no_hanging_transaction() {
    let log = run(&[Event::First, Event::Abort, Event::Late, Event::Abort], false, Mutant::None);
    assert_eq!((log.partition().last_stable_offset(), log.partition().high_watermark), (2, 2));
}
