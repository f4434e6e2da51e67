//! AddPartitionsToTxn, EndTxn, and what follows.

use super::*;

const MINE: Producer = Producer { id: FIRST_ID, epoch: 0 };

fn added(txn_no: u64) -> Option<Reply> {
    Some(Reply::Added { txn_no })
}

#[test]
fn partitions_are_added_once_and_verified_with_the_number_of_the_transaction() {
    let mut bench = Bench::at_epoch(0);
    let nowhere = Some(Reply::Verified(vec![Err(ErrorCode::TransactionAbortable)]));
    assert_eq!(bench.ask(verify(MINE, [0])), nowhere);
    assert_eq!(bench.ask(add(MINE, [0, 1])), added(1));
    let waiter = bench.send(add(MINE, [1]));
    assert_eq!(bench.replies.remove(&waiter), added(1), "nothing is written for it");
    assert_eq!(bench.ask(add(MINE, [1, 2])), added(1));
    let found = Some(Reply::Verified(vec![Ok(1), Ok(1), Err(ErrorCode::TransactionAbortable)]));
    assert_eq!(bench.ask(verify(MINE, [0, 2, 3])), found);
    bench.ask_through(end(MINE, true));
    assert_eq!(bench.ask(verify(MINE, [0])), nowhere);
    assert_eq!(bench.ask(add(MINE, [0])), added(2));
    assert_eq!(bench.ask(verify(producer(1, 0), [0])), failed(ErrorCode::InvalidProducerIdMapping));
}

#[test]
fn an_id_that_is_not_known_has_no_transaction() {
    for ask in [add(MINE, [0]), verify(MINE, [0]), end(MINE, true), end_and_bump(MINE, false)] {
        assert_eq!(Bench::new().ask(ask), failed(ErrorCode::InvalidProducerIdMapping));
    }
}

#[test]
fn the_end_is_answered_when_it_is_decided_and_complete_when_all_have_their_markers() {
    let mut bench = Bench::at_epoch(0);
    bench.ask(add(MINE, [0, 1]));
    assert_eq!(bench.ask(end(MINE, true)), goes_on(FIRST_ID, 0));
    assert_eq!(bench.phase(), Some(Phase::PrepareCommit));
    let ending = Ending { producer: MINE, txn_no: 1, commit: true, partitions: vec![at(0), at(1)] };
    assert_eq!(bench.endings, [(ID.to_owned(), ending)]);
    bench.mark_all();
    assert_eq!(bench.phase(), Some(Phase::CompleteCommit));
}

#[test]
fn version_2_raises_the_epoch_with_every_end() {
    let mut bench = Bench::at_epoch(0);
    bench.ask(add(MINE, [0]));
    assert_eq!(bench.ask(end_and_bump(MINE, true)), goes_on(FIRST_ID, 1));
    assert_eq!(bench.endings[0].1.producer, producer(FIRST_ID, 1));
    bench.mark_all();
    let next = producer(FIRST_ID, 1);
    assert_eq!(bench.ask(add(next, [0])), added(2));
    assert_eq!(bench.ask(end_and_bump(MINE, true)), failed(ErrorCode::ProducerFenced), "a late repetition");
    assert_eq!(bench.ask_through(end_and_bump(next, false)), goes_on(FIRST_ID, 2));
    // After a lost answer a producer may also ask for its next epoch: it has it.
    assert_eq!(bench.ask(init(Some(next))), goes_on(FIRST_ID, 2));
}

#[test]
fn version_2_goes_on_with_another_id_when_epochs_are_used_up() {
    let mut bench = Bench::at_epoch(i16::MAX - 1);
    let last = producer(FIRST_ID, i16::MAX - 1);
    bench.ask(add(last, [0]));
    assert_eq!(bench.ask(end_and_bump(last, true)), goes_on(FIRST_ID + 1, 0));
    assert_eq!(bench.endings[0].1.producer, producer(FIRST_ID, i16::MAX));
    bench.mark_all();
    assert_eq!(bench.ask(end_and_bump(last, true)), goes_on(FIRST_ID + 1, 0), "its answer was lost");
    assert_eq!(bench.ask(end_and_bump(last, false)), failed(ErrorCode::InvalidTxnState));
    assert_eq!(bench.ask(add(producer(FIRST_ID + 1, 0), [0])), added(2));
    assert_eq!(bench.ask(end_and_bump(last, true)), failed(ErrorCode::InvalidProducerIdMapping));
}

/// Brings an id of epoch 0 into a phase; with version 2 its epoch is 1 then, unless it is Empty or Ongoing.
fn in_phase(phase: Phase, bumps: bool) -> Bench {
    let mut bench = Bench::at_epoch(0);
    let end = |commit| Ask::End(End { producer: MINE, commit, bumps, fresh_id: None });
    if phase != Phase::Empty {
        bench.ask(add(MINE, [0]));
    }
    match phase {
        Phase::Empty | Phase::Ongoing => {}
        Phase::PrepareCommit => drop(bench.ask(end(true))),
        Phase::PrepareAbort => drop(bench.ask(end(false))),
        Phase::CompleteCommit => drop(bench.ask_through(end(true))),
        Phase::CompleteAbort => drop(bench.ask_through(end(false))),
    }
    assert_eq!(bench.phase(), Some(phase));
    bench
}

const WRONG: ErrorCode = ErrorCode::InvalidTxnState;
const FENCED: ErrorCode = ErrorCode::ProducerFenced;

#[test]
fn version_1_ends_as_kafka_does() {
    // Phase, commit, the answer: `None` waits for the markers.
    let table = [
        (Phase::Empty, true, Some(Err(WRONG))),
        (Phase::Empty, false, Some(Err(WRONG))),
        (Phase::Ongoing, true, Some(Ok(0))),
        (Phase::Ongoing, false, Some(Ok(0))),
        (Phase::PrepareCommit, true, None),
        (Phase::PrepareCommit, false, Some(Err(WRONG))),
        (Phase::PrepareAbort, true, Some(Err(WRONG))),
        (Phase::PrepareAbort, false, None),
        (Phase::CompleteCommit, true, Some(Ok(0))),
        (Phase::CompleteCommit, false, Some(Err(WRONG))),
        (Phase::CompleteAbort, true, Some(Err(WRONG))),
        (Phase::CompleteAbort, false, Some(Ok(0))),
    ];
    for (phase, commit, expected) in table {
        let expected: Option<Result<i16, ErrorCode>> = expected;
        let expected =
            expected.map(|one| one.map_or_else(Reply::Failed, |epoch| Reply::Producer(producer(FIRST_ID, epoch))));
        assert_eq!(in_phase(phase, false).ask(end(MINE, commit)), expected, "{phase:?} {commit}");
        for other in [producer(FIRST_ID, 1), producer(FIRST_ID, -1)] {
            assert_eq!(in_phase(phase, false).ask(end(other, commit)), failed(FENCED), "{phase:?} {commit}");
        }
    }
}

/// Found by librdkafka's 0098: but for the ends that wait in the prepared phases, which Kafka fences.
#[test]
fn version_2_ends_as_kafka_does() {
    // Phase, commit, the answer to an end with the epoch before the present one, and to one with the present one.
    let table = [
        (Phase::Empty, true, Some(Err(FENCED)), Some(Err(WRONG))),
        (Phase::Empty, false, Some(Err(FENCED)), Some(Ok(1))),
        (Phase::Ongoing, true, Some(Err(FENCED)), Some(Ok(1))),
        (Phase::Ongoing, false, Some(Err(FENCED)), Some(Ok(1))),
        (Phase::PrepareCommit, true, None, None),
        (Phase::PrepareCommit, false, Some(Err(WRONG)), None),
        (Phase::PrepareAbort, true, Some(Err(WRONG)), None),
        (Phase::PrepareAbort, false, None, None),
        (Phase::CompleteCommit, true, Some(Ok(1)), Some(Err(WRONG))),
        (Phase::CompleteCommit, false, Some(Err(WRONG)), Some(Ok(2))),
        (Phase::CompleteAbort, true, Some(Err(WRONG)), Some(Err(WRONG))),
        (Phase::CompleteAbort, false, Some(Ok(1)), Some(Ok(2))),
    ];
    for (phase, commit, before, present) in table {
        let epoch = in_phase(phase, true).shard.get(0, ID).unwrap().epoch;
        for (epoch, expected) in [(epoch - 1, before), (epoch, present)] {
            let expected: Option<Result<i16, ErrorCode>> = expected;
            let expected =
                expected.map(|one| one.map_or_else(Reply::Failed, |epoch| Reply::Producer(producer(FIRST_ID, epoch))));
            let answer = in_phase(phase, true).ask(end_and_bump(producer(FIRST_ID, epoch), commit));
            assert_eq!(answer, expected, "{phase:?} {commit} {epoch}");
        }
    }
}

#[test]
fn an_end_that_waited_for_the_markers_is_answered_with_them() {
    for (bumps, epoch) in [(false, 0), (true, 1)] {
        let mut bench = in_phase(Phase::PrepareCommit, bumps);
        let waiter = bench.send(Ask::End(End { producer: MINE, commit: true, bumps, fresh_id: None }));
        assert_eq!(bench.replies.get(&waiter), None);
        bench.mark_all();
        assert_eq!(bench.replies.remove(&waiter), goes_on(FIRST_ID, epoch));
    }
}

#[test]
fn an_empty_transaction_is_aborted_as_soon_as_the_one_before_has_its_markers() {
    let mut bench = in_phase(Phase::PrepareCommit, true);
    let next = producer(FIRST_ID, bench.shard.get(0, ID).unwrap().epoch);
    let waiter = bench.send(Ask::End(End { producer: next, commit: false, bumps: true, fresh_id: None }));
    assert_eq!(bench.replies.get(&waiter), None);
    bench.mark_all();
    assert_eq!(bench.replies.remove(&waiter), goes_on(FIRST_ID, next.epoch + 1));
}

#[test]
fn a_producer_that_goes_on_with_another_id_waits_for_the_markers_of_the_last() {
    let next = producer(FIRST_ID + 1, 0);
    for ask in [add(next, [0]), end_and_bump(next, false), init(Some(next))] {
        let mut bench = Bench::at_epoch(i16::MAX - 1);
        let last = producer(FIRST_ID, i16::MAX - 1);
        bench.ask(add(last, [0]));
        assert_eq!(bench.ask(end_and_bump(last, true)), goes_on(FIRST_ID + 1, 0));
        let waiter = bench.send(ask);
        assert_eq!(bench.replies.get(&waiter), None);
        bench.mark_all();
        assert!(!matches!(bench.replies.remove(&waiter), None | Some(Reply::Failed(_))));
    }
}

#[test]
fn an_abort_without_partitions_is_complete_without_markers_to_write() {
    let mut bench = Bench::at_epoch(0);
    assert_eq!(bench.ask(end_and_bump(MINE, false)), goes_on(FIRST_ID, 1));
    assert!(bench.endings[0].1.partitions.is_empty());
    bench.mark_all();
    assert_eq!(bench.phase(), Some(Phase::CompleteAbort));
}

#[test]
fn a_transaction_that_takes_too_long_is_aborted_and_its_producer_goes_on_if_it_aborts_too() {
    let mut bench = Bench::at_epoch(0);
    bench.ask(add(MINE, [0]));
    bench.pass(Duration::from_millis(u64::from(TIMEOUT_MS) - 1));
    bench.sweep();
    assert_eq!(bench.phase(), Some(Phase::Ongoing));
    bench.pass(Duration::from_millis(1));
    bench.sweep();
    assert_eq!(bench.phase(), Some(Phase::PrepareAbort));
    assert_eq!(bench.endings[0].1.producer, producer(FIRST_ID, 1));
    bench.mark_all();
    for late in [end(MINE, true), end(MINE, false), add(MINE, [0])] {
        assert_eq!(bench.ask(late), failed(FENCED));
    }
    assert_eq!(bench.ask(end_and_bump(MINE, true)), failed(ErrorCode::InvalidTxnState));
    for late in [end_and_bump(MINE, false), init(Some(MINE)), init(Some(MINE))] {
        assert_eq!(bench.ask(late), goes_on(FIRST_ID, 1));
    }
    assert_eq!(bench.ask(init(None)), goes_on(FIRST_ID, 2));
    assert_eq!(bench.ask(end_and_bump(MINE, false)), failed(FENCED), "another has come");
}

#[test]
fn a_new_coordinator_finishes_what_was_prepared() {
    let mut bench = in_phase(Phase::PrepareCommit, true);
    let before = bench.endings.clone();
    bench.change_coordinator();
    bench.sweep();
    assert_eq!(bench.endings, before);
    bench.sweep();
    assert_eq!(bench.endings.len(), 1, "once");
    bench.mark_all();
    assert_eq!(bench.phase(), Some(Phase::CompleteCommit));
}
