//! Hazards: a leader's lease lapses between two pipelined proposals and comes back in the same term, so the first is
//! refused and the second applied; a proposal queued in one term meets the next; object 5 is refused and 6 sent.
//!
//! Why it holds: each object names the one before it, and apply compares that with applied state. What follows a hole is
//! *out of turn* on every replica, takes no offset, and is sent again behind what filled the hole.

use crate::hazards::log::{Lane, Log, append, appended, claimed, object, plain, taken};
use crate::shard::{Batch, Outcome, Verdict};

const OBJECTS: u32 = 5;

fn lane_of_five(batch: impl Fn(i32) -> Batch) -> Lane {
    let mut lane = Lane::new(0);
    (0..OBJECTS as i32).for_each(|i| lane.submit(batch(i)));
    lane
}

#[test]
fn a_proposal_behind_a_refused_one_of_the_same_term_takes_no_offset() {
    let mut log = Log::new();
    let (first, second) = (append(object(0, 1, 1), 0, vec![plain()]), append(object(0, 1, 2), 1, vec![plain()]));
    // The first fell out of the pipeline.
    assert_eq!(log.append(&second), Outcome::OutOfTurn { last: 0 });
    assert_eq!(log.partition().high_watermark, 0);
    assert_eq!(log.append(&first), taken(&[appended(0)]));
    assert_eq!(log.append(&second), taken(&[appended(1)]));
}

#[test]
fn any_holes_in_a_pipeline_leave_everything_in_order_and_once() {
    for lost in 0..1u32 << OBJECTS {
        // Without sequence numbers, only the chain of objects keeps order.
        let mut log = Log::new();
        let mut lane = lane_of_five(|_| plain());
        let sent = lane.requests().into_iter().enumerate();
        let outcomes = sent.map(|(i, request)| (lost >> i & 1 == 0).then(|| log.append(&request)));
        lane.answered(outcomes.collect());
        lane.finish(&mut log);
        assert_eq!(lane.verdicts, (0..5).map(appended).collect::<Vec<_>>(), "lost {lost:05b}");
        assert_eq!(log.partition().high_watermark, 5, "lost {lost:05b}");
    }
}

#[test]
fn answers_lost_after_the_effect_are_found_again() {
    for unheard in 0..1u32 << OBJECTS {
        let mut log = Log::new();
        let mut lane = lane_of_five(|_| plain());
        let outcomes: Vec<Outcome> = lane.requests().iter().map(|request| log.append(request)).collect();
        lane.answered(outcomes.into_iter().enumerate().map(|(i, o)| (unheard >> i & 1 == 0).then_some(o)).collect());
        lane.finish(&mut log);
        assert_eq!(lane.verdicts, (0..5).map(appended).collect::<Vec<_>>(), "unheard {unheard:05b}");
        assert_eq!(log.partition().high_watermark, 5, "unheard {unheard:05b}");
    }
}

/// The new leader has a prefix of the old one's log; the rest was discarded, or is queued and refused, since a proposal
/// names its term. Either way the broker asks the new leader for all that it has no answer to.
#[test]
fn a_pipeline_cut_by_a_re_election_goes_on_in_the_new_term() {
    for survived in 0..=OBJECTS as usize {
        let mut log = Log::new();
        let mut lane = lane_of_five(|i| claimed(7, i));
        for request in lane.requests().iter().take(survived) {
            log.append(request);
        }
        lane.answered(vec![None]);
        log.term += 1;
        lane.finish(&mut log);
        assert_eq!(lane.verdicts, (0..5).map(appended).collect::<Vec<_>>(), "survived {survived}");
        let epochs: Vec<i64> = log.partition().epochs.iter().map(|(_, start)| *start).collect();
        let expected = match survived {
            0 | 5 => vec![0],
            at => vec![0, at as i64],
        };
        assert_eq!(epochs, expected, "the new epoch begins where the old log ended");
    }
}

#[test]
fn object_six_waits_for_object_five() {
    let mut log = Log::new();
    for sequence in 1..=4 {
        log.append(&append(object(0, 1, sequence), sequence - 1, vec![plain()]));
    }
    let six = append(object(0, 1, 6), 5, vec![plain()]);
    assert_eq!(log.append(&six), Outcome::OutOfTurn { last: 4 });
    assert_eq!(log.append(&append(object(0, 1, 5), 4, vec![plain()])), taken(&[appended(4)]));
    assert_eq!(log.append(&six), taken(&[appended(5)]));
}

#[test]
fn object_six_goes_on_without_a_five_that_was_given_up_and_five_never_comes_back() {
    let mut log = Log::new();
    for sequence in 1..=4 {
        log.append(&append(object(0, 1, sequence), sequence - 1, vec![claimed(7, sequence as i32 - 1)]));
    }
    let five = append(object(0, 1, 5), 4, vec![claimed(7, 4)]);
    // The producer has sent it again, and it went into six.
    assert_eq!(log.append(&append(object(0, 1, 6), 4, vec![claimed(7, 4)])), taken(&[appended(4)]));
    // Its asker, if there is one, hears where the batch is; nothing is appended.
    let Verdict::Duplicate { base: 4, .. } = verdict(log.append(&five)) else { panic!("appended twice") };
    assert_eq!(log.partition().high_watermark, 5);
}

fn verdict(outcome: Outcome) -> Verdict {
    let Outcome::Taken(verdicts) = outcome else { panic!("{outcome:?}") };
    verdicts[0]
}
