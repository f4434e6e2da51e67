//! Who waits for what.

use super::*;

const MINE: Producer = Producer { id: FIRST_ID, epoch: 0 };

#[test]
fn the_next_transaction_begins_when_the_markers_of_the_last_are_written() {
    let mut bench = Bench::at_epoch(0);
    bench.ask(add(MINE, [0]));
    bench.ask(end(MINE, true));
    let waiter = bench.send(add(MINE, [0]));
    let verifying = bench.send(verify(MINE, [0]));
    assert_eq!((bench.replies.get(&waiter), bench.replies.get(&verifying)), (None, None));
    bench.mark_all();
    assert_eq!(bench.replies.remove(&waiter), Some(Reply::Added { txn_no: 2 }));
    assert!(bench.replies.contains_key(&verifying));
}

#[test]
fn who_has_waited_long_enough_is_told_to_come_again() {
    let mut bench = Bench::at_epoch(0);
    bench.ask(add(MINE, [0]));
    bench.ask(end(MINE, true));
    let early = bench.send(add(MINE, [0]));
    bench.pass(WAIT / 2);
    let late = bench.send(init(None));
    bench.pass(WAIT / 2);
    assert_eq!(bench.replies.remove(&early), failed(ErrorCode::ConcurrentTransactions));
    assert_eq!(bench.replies.get(&late), None);
    bench.pass(WAIT / 2);
    assert_eq!(bench.replies.remove(&late), failed(ErrorCode::ConcurrentTransactions));
    assert_eq!(bench.machine.deadline(), None);
    bench.mark_all();
    assert_eq!(bench.ask(init(None)), goes_on(FIRST_ID, 1));
}

#[test]
fn partitions_added_while_a_change_is_on_its_way_are_added_by_one_entry() {
    let mut bench = Bench::at_epoch(0);
    let all: Vec<Waiter> = (0..4).map(|index| bench.send(add(MINE, [index, 9]))).collect();
    assert_eq!(bench.proposals.len(), 1);
    bench.write_all();
    for waiter in all {
        assert_eq!(bench.replies.remove(&waiter), Some(Reply::Added { txn_no: 1 }));
    }
    let one = bench.shard.get(0, ID).unwrap();
    assert_eq!((one.revision, one.partitions.len()), (3, 5));
}

#[test]
fn an_end_waits_for_the_partitions_before_it() {
    let mut bench = Bench::at_epoch(0);
    let adding = bench.send(add(MINE, [0]));
    let ending = bench.send(end(MINE, true));
    let behind = bench.send(add(MINE, [1]));
    bench.write_all();
    assert_eq!(bench.replies.remove(&adding), Some(Reply::Added { txn_no: 1 }));
    assert_eq!(bench.replies.remove(&ending), goes_on(FIRST_ID, 0));
    assert_eq!(bench.endings[0].1.partitions, [at(0)]);
    assert_eq!(bench.replies.get(&behind), None);
    bench.mark_all();
    assert_eq!(bench.replies.remove(&behind), Some(Reply::Added { txn_no: 2 }));
}

#[test]
fn a_queue_that_is_full_takes_nobody_else() {
    let mut bench = Bench::at_epoch(0);
    bench.ask(add(MINE, [0]));
    bench.ask(end(MINE, true));
    let all: Vec<Waiter> = (0..9).map(|_| bench.send(add(MINE, [0]))).collect();
    let refused = all.iter().filter(|waiter| bench.replies.contains_key(waiter)).count();
    assert_eq!(refused, 1);
    assert_eq!(bench.replies.remove(&all[8]), failed(ErrorCode::ConcurrentTransactions));
}

#[test]
fn what_the_log_refused_is_told_to_everybody_and_looked_at_again_later() {
    let mut bench = Bench::at_epoch(0);
    let first = bench.send(add(MINE, [0]));
    let behind = bench.send(end(MINE, true));
    let (id, ..) = bench.proposals.pop_front().unwrap();
    bench.machine.decided(bench.now, &id, Err(ErrorCode::CoordinatorNotAvailable), &bench.shard);
    bench.collect();
    for waiter in [first, behind] {
        assert_eq!(bench.replies.remove(&waiter), failed(ErrorCode::CoordinatorNotAvailable));
    }
    assert_eq!(bench.phase(), Some(Phase::Empty));
    assert_eq!(bench.ask(add(MINE, [0])), Some(Reply::Added { txn_no: 1 }));
}

#[test]
fn a_decision_of_unknown_outcome_spoils_no_later_one() {
    let mut bench = Bench::at_epoch(0);
    bench.send(add(MINE, [0]));
    let (id, revision, change) = bench.proposals.pop_front().unwrap();
    bench.machine.decided(bench.now, &id, Err(ErrorCode::CoordinatorNotAvailable), &bench.shard);
    bench.collect();
    let again = bench.send(add(MINE, [0, 1]));
    assert_eq!(bench.write(&id, revision, change), Ok(()), "it was in the log after all");
    bench.write_all();
    assert_eq!(bench.replies.remove(&again), failed(ErrorCode::NotCoordinator), "it was decided on what is past");
    assert_eq!(bench.ask(add(MINE, [0, 1])), Some(Reply::Added { txn_no: 1 }));
}

#[test]
fn so_many_are_marked_at_a_time_and_the_rest_in_turn() {
    let mut bench = Bench::new();
    let ids = ["a", "b", "c", "d"];
    for (n, id) in (0..).zip(ids) {
        let mine = producer(n, 0);
        bench.write(id, 0, Change::Init { producer: mine, last_epoch: -1, timeout_ms: TIMEOUT_MS }).unwrap();
        bench.send_to(id, add(mine, [0]));
        bench.write_all();
        bench.send_to(id, end(mine, true));
        bench.write_all();
    }
    assert_eq!(bench.endings.len(), 2);
    bench.mark_all();
    assert!(ids.iter().all(|id| bench.shard.get(0, id).unwrap().phase == Phase::CompleteCommit));
}

#[test]
fn markers_that_are_held_up_keep_no_other_transaction_from_ending() {
    let mut bench = Bench::new();
    let ids = ["a", "b", "c", "d", "e"];
    for (n, id) in (0..).zip(ids) {
        let mine = producer(n, 0);
        bench.write(id, 0, Change::Init { producer: mine, last_epoch: -1, timeout_ms: TIMEOUT_MS }).unwrap();
        bench.send_to(id, add(mine, [0]));
        bench.write_all();
        bench.send_to(id, end(mine, true));
        bench.write_all();
    }
    let phase = |bench: &Bench, id: &str| bench.shard.get(0, id).unwrap().phase;
    let held_up: Vec<_> = bench.endings.drain(..).collect();
    assert_eq!(held_up.len(), 2);
    for (id, _) in &held_up {
        bench.machine.held_up(id, &bench.shard);
        bench.collect();
    }
    assert_eq!(bench.endings.len(), 2, "others have their places");
    // Said twice, it gives no place back that another has.
    bench.machine.held_up(&held_up[0].0, &bench.shard);
    bench.collect();
    assert_eq!(bench.endings.len(), 2);
    bench.mark_all();
    assert!(ids[2..].iter().all(|id| phase(&bench, id) == Phase::CompleteCommit));
    assert!(ids[..2].iter().all(|id| phase(&bench, id) == Phase::PrepareCommit));
    bench.endings.extend(held_up);
    bench.mark_all();
    assert!(ids.iter().all(|id| phase(&bench, id) == Phase::CompleteCommit));
}
