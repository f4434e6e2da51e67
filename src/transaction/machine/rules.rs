//! Kafka's rules, as functions of what the log has of an id.

use crate::protocol::ErrorCode;
use crate::shard::transaction::{Change, Phase, Transaction};
use crate::transaction::machine::ask::{Add, Ask, End, Init, Reply};
use crate::transaction::machine::coordinator::Moment;
use crate::types::{Partition, Producer};

/// What an ask comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    Answer(Reply),
    /// Not while this transaction ends (Kafka: CONCURRENT_TRANSACTIONS).
    Later,
    /// The reply counts when the log has the change.
    Propose(Change, Reply),
    /// The ongoing transaction ends first; then this is to be asked anew.
    First(Change),
}

use Decision::{Answer, First, Later, Propose};

fn fail(error: ErrorCode) -> Decision {
    Answer(Reply::Failed(error))
}

/// The last epoch is never given to a client: a producer at it could not be fenced.
fn is_exhausted(epoch: i16) -> bool {
    epoch >= i16::MAX - 1
}

pub(super) fn decide(now: Moment, applied: Option<&Transaction>, ask: &Ask) -> Decision {
    match (applied, ask) {
        (None, Ask::Init(init)) => begin(init),
        (None, _) => fail(ErrorCode::InvalidProducerIdMapping),
        (Some(one), ask) if one.phase.is_prepared() && next_asker(ask) == Some(goes_on(one)) => Later,
        (Some(one), Ask::Init(init)) => go_on(now, one, init),
        (Some(one), Ask::Add(add)) => join(now, one, add),
        (Some(one), Ask::Verify { producer, partitions }) => verify(one, *producer, partitions),
        (Some(one), Ask::End(end)) if end.bumps => end_and_bump(now, one, end),
        (Some(one), Ask::End(end)) => end_and_keep(now, one, end),
    }
}

/// Whoever ended a transaction was answered when the end was decided, and may ask for the next while the markers of this
/// one are still written. (Kafka fences it there: a producer that aborts an empty transaction soon after a commit, and
/// one whose epochs were used up.)
fn goes_on(one: &Transaction) -> Producer {
    one.next_id.map_or(one.producer(), |id| Producer { id, epoch: 0 })
}

/// Who asks, if that is told apart from the end before. A producer of version 1 has one epoch for both.
fn next_asker(ask: &Ask) -> Option<Producer> {
    match ask {
        Ask::Init(init) => init.expected,
        Ask::Add(add) => Some(add.producer),
        Ask::Verify { producer, .. } => Some(*producer),
        Ask::End(end) => end.bumps.then_some(end.producer),
    }
}

fn begin(init: &Init) -> Decision {
    let Some(id) = init.fresh_id else { return Answer(Reply::NeedsProducerId) };
    initialize(Producer { id, epoch: 0 }, -1, init)
}

fn initialize(producer: Producer, last_epoch: i16, init: &Init) -> Decision {
    Propose(Change::Init { producer, last_epoch, timeout_ms: init.timeout_ms }, Reply::Producer(producer))
}

/// `TransactionCoordinator.prepareInitProducerIdTransit`.
fn go_on(now: Moment, one: &Transaction, init: &Init) -> Decision {
    let known = |expected: Producer| {
        expected.id == one.producer_id || (expected.id == one.previous_id && is_exhausted(expected.epoch))
    };
    if !init.expected.is_none_or(known) {
        return fail(ErrorCode::ProducerFenced);
    }
    match one.phase {
        Phase::PrepareCommit | Phase::PrepareAbort => Later,
        Phase::Ongoing => First(fence(now, one)),
        Phase::Empty | Phase::CompleteCommit | Phase::CompleteAbort => {
            let expected = init.expected.map(|expected| expected.epoch);
            match expected {
                // The epochs of this id are used up.
                None if is_exhausted(one.epoch) => rotate(-1, init),
                Some(epoch) if is_exhausted(one.epoch) && epoch == one.epoch => rotate(epoch, init),
                None => initialize(Producer { id: one.producer_id, epoch: one.epoch + 1 }, -1, init),
                Some(epoch) if epoch == one.epoch => {
                    initialize(Producer { id: one.producer_id, epoch: epoch + 1 }, epoch, init)
                }
                // Fenced at the last epoch that clients may have.
                Some(epoch) if epoch == one.last_epoch && one.epoch == i16::MAX => rotate(epoch, init),
                // It has asked before and was answered, or its transaction was aborted for it. Had another producer come since, there would be no last epoch.
                Some(epoch) if epoch == one.last_epoch => initialize(one.producer(), epoch, init),
                Some(_) => fail(ErrorCode::ProducerFenced),
            }
        }
    }
}

fn rotate(last_epoch: i16, init: &Init) -> Decision {
    match init.fresh_id {
        Some(id) => initialize(Producer { id, epoch: 0 }, last_epoch, init),
        None => Answer(Reply::NeedsProducerId),
    }
}

/// Aborts an ongoing transaction against its producer's will. The epoch is raised once (KAFKA-19367): the producer's own
/// EndTxn of version 2 repeats an abort, and it goes on; a commit of it is refused.
pub(super) fn fence(now: Moment, one: &Transaction) -> Change {
    let epoch = one.epoch.saturating_add(1);
    Change::Prepare { commit: false, epoch, last_epoch: one.epoch, next_id: None, at: now.wall_ms }
}

/// `handleAddPartitionsToTransaction`.
fn join(now: Moment, one: &Transaction, add: &Add) -> Decision {
    if let Err(error) = is_current(one, add.producer) {
        return fail(error);
    }
    if one.phase.is_prepared() {
        return Later;
    }
    let reply = Reply::Added { txn_no: one.txn_no_to_add_to() };
    let missing = add.partitions.iter().filter(|(partition, _)| !one.partitions.contains_key(partition));
    let missing: Vec<_> = missing.copied().collect();
    match one.phase == Phase::Ongoing && missing.is_empty() {
        true => Answer(reply),
        false => Propose(Change::Add { partitions: missing, started_at: now.wall_ms }, reply),
    }
}

/// `handleVerifyPartitionsInTransaction`.
fn verify(one: &Transaction, producer: Producer, partitions: &[Partition]) -> Decision {
    if let Err(error) = is_current(one, producer) {
        return fail(error);
    }
    if one.phase.is_prepared() {
        return Later;
    }
    let each = partitions.iter().map(|partition| match one.partitions.contains_key(partition) {
        true => Ok(one.txn_no),
        false => Err(ErrorCode::TransactionAbortable),
    });
    Answer(Reply::Verified(each.collect()))
}

fn is_current(one: &Transaction, producer: Producer) -> Result<(), ErrorCode> {
    if producer.id != one.producer_id {
        return Err(ErrorCode::InvalidProducerIdMapping);
    }
    if producer.epoch == one.epoch { Ok(()) } else { Err(ErrorCode::ProducerFenced) }
}

/// `endTransactionWithTV1`.
fn end_and_keep(now: Moment, one: &Transaction, end: &End) -> Decision {
    if let Err(error) = is_current(one, end.producer) {
        return fail(error);
    }
    match (one.phase, end.commit) {
        (Phase::Ongoing, commit) => {
            let (epoch, last_epoch) = (one.epoch, one.last_epoch);
            let change = Change::Prepare { commit, epoch, last_epoch, next_id: None, at: now.wall_ms };
            Propose(change, Reply::Producer(one.producer()))
        }
        // Asked again.
        (Phase::PrepareCommit, true) | (Phase::PrepareAbort, false) => Later,
        (Phase::CompleteCommit, true) | (Phase::CompleteAbort, false) => Answer(Reply::Producer(one.producer())),
        _ => fail(ErrorCode::InvalidTxnState),
    }
}

/// `endTransaction` for version 2: an end that repeats one carries the epoch before it.
fn end_and_bump(now: Moment, one: &Transaction, end: &End) -> Decision {
    let Producer { id, epoch } = end.producer;
    let overflowed = one.previous_id == id && epoch == i16::MAX - 1 && one.epoch == 0;
    // A producer whose epochs were used up by a fence asks for another id.
    let goes_on = one.epoch < i16::MAX || one.next_id.is_some();
    let repeats = overflowed || (goes_on && one.epoch.checked_sub(1) == Some(epoch));
    let current = epoch == one.epoch;
    if one.producer_id != id && !overflowed {
        return fail(ErrorCode::InvalidProducerIdMapping);
    }
    let is_valid = match one.phase {
        Phase::Ongoing | Phase::Empty => current,
        Phase::PrepareCommit | Phase::PrepareAbort => repeats,
        Phase::CompleteCommit | Phase::CompleteAbort => repeats || current,
    };
    if !is_valid {
        return fail(ErrorCode::ProducerFenced);
    }
    match (one.phase, end.commit, repeats) {
        (Phase::Ongoing, ..) => raise(now, one, end),
        (Phase::PrepareCommit, true, _) | (Phase::PrepareAbort, false, _) => Later,
        (Phase::CompleteCommit, true, true) | (Phase::CompleteAbort, false, true) => {
            Answer(Reply::Producer(one.producer()))
        }
        // A producer may abort before anything was added: batches that it sent may have reached nobody.
        (Phase::Empty, false, _) | (Phase::CompleteCommit | Phase::CompleteAbort, false, false) => raise(now, one, end),
        _ => fail(ErrorCode::InvalidTxnState),
    }
}

/// `TransactionMetadata.prepareAbortOrCommit`, `prepareComplete`: the client goes on with the next epoch, or with epoch 0
/// of the next id; the markers have this id's next epoch in any case.
fn raise(now: Moment, one: &Transaction, end: &End) -> Decision {
    let exhausted = is_exhausted(one.epoch);
    if exhausted && end.fresh_id.is_none() {
        return Answer(Reply::NeedsProducerId);
    }
    let next_id = end.fresh_id.filter(|_| exhausted);
    let epoch = one.epoch.saturating_add(1);
    let change = Change::Prepare { commit: end.commit, epoch, last_epoch: one.epoch, next_id, at: now.wall_ms };
    let goes_on = match next_id {
        Some(id) => Producer { id, epoch: 0 },
        None => Producer { id: one.producer_id, epoch },
    };
    Propose(change, Reply::Producer(goes_on))
}
