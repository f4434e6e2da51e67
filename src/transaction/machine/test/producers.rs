//! InitProducerId.

use super::*;

#[test]
fn a_new_id_gets_a_new_producer() {
    let mut bench = Bench::new();
    assert_eq!(bench.ask(init(None)), goes_on(FIRST_ID, 0));
    assert_eq!(bench.phase(), Some(Phase::Empty));
    // Whatever it claims to be: the broker does not know better (it was forgotten).
    assert_eq!(Bench::new().ask(init(Some(producer(7, 7)))), goes_on(FIRST_ID, 0));
}

#[test]
fn the_next_producer_of_an_id_fences_the_one_before() {
    let mut bench = Bench::new();
    bench.ask(init(None));
    assert_eq!(bench.ask(init(None)), goes_on(FIRST_ID, 1));
    let zombie = producer(FIRST_ID, 0);
    assert_eq!(bench.ask(add(zombie, [0])), failed(ErrorCode::ProducerFenced));
    assert_eq!(bench.ask(verify(zombie, [0])), failed(ErrorCode::ProducerFenced));
    assert_eq!(bench.ask(end(zombie, true)), failed(ErrorCode::ProducerFenced));
    assert_eq!(bench.ask(end_and_bump(zombie, true)), failed(ErrorCode::ProducerFenced));
    assert_eq!(bench.ask(init(Some(zombie))), failed(ErrorCode::ProducerFenced));
}

#[test]
fn a_producer_that_goes_on_is_answered_the_same_when_it_repeats_its_question() {
    let mut bench = Bench::at_epoch(4);
    let mine = Some(producer(FIRST_ID, 4));
    assert_eq!(bench.ask(init(mine)), goes_on(FIRST_ID, 5));
    assert_eq!(bench.ask(init(mine)), goes_on(FIRST_ID, 5));
    assert_eq!(bench.ask(init(Some(producer(FIRST_ID, 5)))), goes_on(FIRST_ID, 6));
    assert_eq!(bench.ask(init(mine)), failed(ErrorCode::ProducerFenced));
    // Another one takes the id: from here on no repetition is known.
    assert_eq!(bench.ask(init(None)), goes_on(FIRST_ID, 7));
    assert_eq!(bench.ask(init(Some(producer(FIRST_ID, 6)))), failed(ErrorCode::ProducerFenced));
    assert_eq!(bench.ask(init(Some(producer(FIRST_ID + 5, 7)))), failed(ErrorCode::ProducerFenced));
}

#[test]
fn a_producer_whose_epochs_are_used_up_gets_another_id() {
    for expected in [None, Some(producer(FIRST_ID, i16::MAX - 1))] {
        let mut bench = Bench::at_epoch(i16::MAX - 1);
        assert_eq!(bench.ask(init(expected)), goes_on(FIRST_ID + 1, 0));
        assert_eq!(bench.ask(end(producer(FIRST_ID, i16::MAX - 1), true)), failed(ErrorCode::InvalidProducerIdMapping));
    }
    let mut bench = Bench::at_epoch(i16::MAX - 1);
    let mine = Some(producer(FIRST_ID, i16::MAX - 1));
    assert_eq!(bench.ask(init(mine)), goes_on(FIRST_ID + 1, 0));
    assert_eq!(bench.ask(init(mine)), goes_on(FIRST_ID + 1, 0), "the answer was lost");
    assert_eq!(bench.ask(init(Some(producer(FIRST_ID, 3)))), failed(ErrorCode::ProducerFenced));
}

#[test]
fn an_ongoing_transaction_is_aborted_before_its_id_has_another_producer() {
    let mut bench = Bench::at_epoch(0);
    bench.ask(add(producer(FIRST_ID, 0), [0]));
    let waiter = bench.send(init(None));
    bench.write_all();
    assert_eq!(bench.phase(), Some(Phase::PrepareAbort));
    let (_, ending) = bench.endings[0].clone();
    assert_eq!(ending, Ending { producer: producer(FIRST_ID, 1), txn_no: 1, commit: false, partitions: vec![at(0)] });
    assert_eq!(bench.replies.get(&waiter), None);
    assert_eq!(bench.ask(end_and_bump(producer(FIRST_ID, 0), true)), failed(ErrorCode::InvalidTxnState));
    bench.mark_all();
    assert_eq!(bench.replies.remove(&waiter), goes_on(FIRST_ID, 2));
    for zombie in [end(producer(FIRST_ID, 0), false), end_and_bump(producer(FIRST_ID, 0), false)] {
        assert_eq!(bench.ask(zombie), failed(ErrorCode::ProducerFenced));
    }
}

#[test]
fn fencing_the_last_epoch_does_not_overflow() {
    for epoch in [i16::MAX - 2, i16::MAX - 1] {
        let mut bench = Bench::at_epoch(epoch);
        bench.ask(add(producer(FIRST_ID, epoch), [0]));
        let waiter = bench.send(init(None));
        bench.write_all();
        assert_eq!(bench.endings[0].1.producer.epoch, epoch + 1);
        bench.mark_all();
        assert_eq!(bench.replies.remove(&waiter), Some(Reply::NeedsProducerId));
        if epoch == i16::MAX - 1 {
            let mine = producer(FIRST_ID, epoch);
            assert_eq!(bench.ask(end_and_bump(mine, false)), failed(ErrorCode::ProducerFenced), "not the epoch after");
            assert_eq!(bench.ask(init(Some(mine))), goes_on(FIRST_ID + 1, 0));
            continue;
        }
        assert_eq!(bench.ask(init(None)), goes_on(FIRST_ID + 1, 0));
    }
}

#[test]
fn an_id_that_nobody_uses_is_forgotten_and_one_with_a_transaction_is_not() {
    let mut bench = Bench::at_epoch(0);
    bench.pass(EXPIRATION - Duration::from_millis(1));
    bench.sweep();
    assert_eq!(bench.phase(), Some(Phase::Empty));
    bench.pass(Duration::from_millis(1));
    bench.sweep();
    assert_eq!(bench.phase(), None);
    assert_eq!(bench.ask(add(producer(FIRST_ID, 0), [0])), failed(ErrorCode::InvalidProducerIdMapping));
    let mut bench = Bench::at_epoch(0);
    bench.ask(add(producer(FIRST_ID, 0), [0]));
    bench.ask(end(producer(FIRST_ID, 0), true));
    bench.pass(EXPIRATION * 2);
    bench.sweep();
    assert_eq!(bench.phase(), Some(Phase::PrepareCommit));
}
