use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::time::Instant;

use crate::shard::share::{Progress, Run as Decided};
use crate::share::wire::{Ack, AckKind, Range};
use crate::types::Offset;

/// Delivery of one partition to one share group, as its leader knows it (Kafka: `SharePartition`). Pure.
///
/// ```text
///        start ───────── runs, without a gap ───────── end
///   over   │  held │ available │ deciding │ held │ ...  │  never delivered
/// ```
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// See [`Progress::epoch`].
    pub epoch: u64,
    start: Offset,
    end: Offset,
    runs: BTreeMap<Offset, Run>,
    /// What was decided and is not in the log yet.
    deciding: HashMap<u64, Vec<(Offset, Offset)>>,
    decision_next: u64,
}

#[derive(Debug, Clone)]
struct Run {
    last: Offset,
    /// How often they were delivered, this time included.
    count: u16,
    /// Of what was handed out at first, of which this may be a part.
    size: u64,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Available,
    Held(Hold),
    /// Acknowledged by its holder; not to be relied on before the log has it.
    Deciding {
        hold: Hold,
        decision: u64,
        done: bool,
    },
    Done,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Hold {
    member: Arc<str>,
    until: Instant,
}

/// Of an acknowledgement: what the log is to say. `None` when there is nothing that it need know.
pub(super) type Decision = Option<(u64, Vec<Decided>)>;

/// Some of the acknowledged records are not held by the member (Kafka: INVALID_RECORD_STATE).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotHeld;

impl Delivery {
    /// From what is applied: whatever was held by somebody is available again.
    pub fn load(progress: &Progress) -> Delivery {
        let mut runs = BTreeMap::new();
        let mut end = progress.start;
        for run in &progress.runs {
            if run.first > end {
                runs.insert(
                    end,
                    Run { last: run.first - 1, count: 0, size: size(end, run.first - 1), state: State::Available },
                );
            }
            let state = if run.done { State::Done } else { State::Available };
            let size = size(run.first, run.last);
            runs.insert(run.first, Run { last: run.last, count: run.count, size, state });
            end = run.last + 1;
        }
        Delivery { epoch: progress.epoch, start: progress.start, end, runs, ..Delivery::default() }
    }

    pub fn start(&self) -> Offset {
        self.start
    }

    /// What may be delivered now, oldest first: records below `limit`, at most so many, and none that is `window_max`
    /// records or more behind the start, so that a record that nobody takes does not let the list of the others grow.
    ///
    /// Records that have been delivered half as often as they may be come by themselves, in ever smaller parts, the last time
    /// one by one: one that brings its readers down takes few others along (Kafka: `shouldThrottleRecordsDelivery`).
    pub fn offer(&self, limit: Offset, records_max: u64, window_max: u64, count_max: u16) -> Vec<(Offset, Offset)> {
        let suspect = count_max.div_ceil(2).max(2);
        let mut is_wary = false;
        let mut left = records_max;
        let mut offered: Vec<(Offset, Offset)> = Vec::new();
        let fresh_end = limit.min(self.start.saturating_add(window_max as Offset));
        let known = self.runs.iter().filter(|(_, run)| run.state == State::Available);
        let known = known.map(|(first, run)| (*first, run.last.min(limit - 1), run.count, run.size));
        for (first, last, count, size) in known.chain([(self.end, fresh_end - 1, 0, 0)]) {
            if left == 0 {
                break;
            }
            if first > last {
                continue;
            }
            let (is_suspect, is_last) = (count >= suspect, count.saturating_add(1) >= count_max);
            if let Some((_, before)) = offered.last() {
                let goes_along = if is_wary { is_suspect && !is_last && before + 1 == first } else { !is_suspect };
                if !goes_along {
                    break;
                }
            } else if is_suspect {
                is_wary = true;
                let part = size.checked_shr(u32::from(count - suspect) + 1).unwrap_or(0).max(1);
                left = left.min(if is_last { 1 } else { part });
            }
            let last = last.min(first.saturating_add(left.min(Offset::MAX as u64) as Offset - 1));
            left -= (last - first + 1) as u64;
            match offered.last_mut().filter(|before| before.1 + 1 == first) {
                Some(before) => before.1 = last,
                None => offered.push((first, last)),
            }
        }
        offered
    }

    /// Hands out what was offered, or less from its end on: with how often each has been delivered by now.
    pub fn acquire(&mut self, member: &Arc<str>, until: Instant, ranges: &[(Offset, Offset)]) -> Vec<Range> {
        let mut acquired: Vec<Range> = Vec::new();
        for (first, last) in ranges.iter().copied() {
            if last >= self.end {
                let fresh = Run { last, count: 0, size: size(self.end, last), state: State::Available };
                self.runs.insert(self.end, fresh);
                self.end = last + 1;
            }
            for (first, run) in self.within(first, last).filter(|(_, run)| run.state == State::Available) {
                run.count = run.count.saturating_add(1);
                run.state = State::Held(Hold { member: member.clone(), until });
                match acquired.last_mut().filter(|before| before.last + 1 == first && before.count == run.count) {
                    Some(before) => before.last = run.last,
                    None => acquired.push(Range { first, last: run.last, count: run.count }),
                }
            }
        }
        acquired
    }

    /// All or nothing, as in Kafka. What is below the start is over and passed over. A record that is released after
    /// `count_max` deliveries is given up; one that is renewed is held until `until`.
    ///
    /// # Errors
    /// The member does not hold all of them.
    pub fn acknowledge(
        &mut self,
        member: &str,
        acks: &[Ack],
        count_max: u16,
        until: Instant,
    ) -> Result<Decision, NotHeld> {
        if !acks.iter().all(|ack| self.is_held(member, ack.first.max(self.start), ack.last)) {
            return Err(NotHeld);
        }
        let decision = self.decision_next;
        let mut decided: Vec<Decided> = Vec::new();
        for (first, last, kind) in acks.iter().flat_map(Ack::parts) {
            for (first, run) in self.within(first, last) {
                let State::Held(hold) = &mut run.state else { continue };
                let done = match kind {
                    AckKind::Renew => {
                        hold.until = until;
                        continue;
                    }
                    AckKind::GiveBack => {
                        run.count = run.count.saturating_sub(1);
                        run.state = State::Available;
                        continue;
                    }
                    AckKind::Release => run.count >= count_max,
                    AckKind::Accept | AckKind::Reject | AckKind::Gap => true,
                };
                run.state = State::Deciding { hold: hold.clone(), decision, done };
                push(&mut decided, Decided { first, last: run.last, count: run.count, done });
            }
        }
        if decided.is_empty() {
            return Ok(None);
        }
        self.decision_next += 1;
        self.deciding.insert(decision, decided.iter().map(|run| (run.first, run.last)).collect());
        Ok(Some((decision, decided)))
    }

    /// The log has the decision, or not: then its records are held as before.
    pub fn decided(&mut self, decision: u64, taken: bool) {
        for (first, last) in self.deciding.remove(&decision).unwrap_or_default() {
            for (_, run) in self.within(first, last) {
                let State::Deciding { hold, decision: of, done } = &run.state else { continue };
                if *of == decision {
                    run.state = match (taken, done) {
                        (true, true) => State::Done,
                        (true, false) => State::Available,
                        (false, _) => State::Held(hold.clone()),
                    };
                }
            }
        }
        self.advance();
    }

    /// Locks that have run out. The records are available at once, whatever becomes of the decision in the log (Kafka:
    /// `releaseAcquisitionLockOnTimeout`).
    pub fn expire(&mut self, now: Instant, count_max: u16) -> Vec<Decided> {
        self.let_go(count_max, |hold| hold.until <= now)
    }

    /// The member has gone.
    pub fn release(&mut self, member: &str, count_max: u16) -> Vec<Decided> {
        self.let_go(count_max, |hold| &*hold.member == member)
    }

    fn let_go(&mut self, count_max: u16, goes: impl Fn(&Hold) -> bool) -> Vec<Decided> {
        let mut gone = Vec::new();
        for (first, run) in &mut self.runs {
            if let State::Held(hold) = &run.state
                && goes(hold)
            {
                let done = run.count >= count_max;
                run.state = if done { State::Done } else { State::Available };
                push(&mut gone, Decided { first: *first, last: run.last, count: run.count, done });
            }
        }
        self.advance();
        gone
    }

    /// When the first lock runs out.
    pub fn deadline(&self) -> Option<Instant> {
        let held = self.runs.values().filter_map(|run| match &run.state {
            State::Held(hold) => Some(hold.until),
            State::Available | State::Deciding { .. } | State::Done => None,
        });
        held.min()
    }

    /// Nothing is known but what is applied.
    pub fn is_idle(&self) -> bool {
        self.deciding.is_empty() && self.deadline().is_none()
    }

    /// The log begins here now: what is below is over, whoever holds it.
    pub fn follow(&mut self, log_start: Offset) {
        if log_start <= self.start {
            return;
        }
        self.cut(log_start);
        self.runs = self.runs.split_off(&log_start);
        self.start = log_start;
        self.end = self.end.max(log_start);
        self.advance();
    }

    fn advance(&mut self) {
        while let Some(first) = self.runs.first_entry().filter(|first| first.get().state == State::Done) {
            self.start = first.remove().last + 1;
        }
    }

    fn is_held(&self, member: &str, first: Offset, last: Offset) -> bool {
        if first > last {
            return true;
        }
        let from = self.runs.range(..=first).next_back().map_or(first, |(from, _)| *from);
        let held = |run: &Run| matches!(&run.state, State::Held(hold) if &*hold.member == member);
        last < self.end && first >= self.start && self.runs.range(from..=last).all(|(_, run)| held(run))
    }

    /// The runs of these records, cut at both ends.
    fn within(&mut self, first: Offset, last: Offset) -> impl Iterator<Item = (Offset, &mut Run)> {
        self.cut(first);
        self.cut(last + 1);
        let last = last.max(first);
        self.runs.range_mut(first..=last).map(|(first, run)| (*first, run))
    }

    /// A run begins at this offset, if there is any here.
    fn cut(&mut self, at: Offset) {
        if let Some((_, run)) = self.runs.range_mut(..at).next_back().filter(|(_, run)| run.last >= at) {
            let rest = run.clone();
            run.last = at - 1;
            self.runs.insert(at, rest);
        }
    }
}

fn size(first: Offset, last: Offset) -> u64 {
    (last - first + 1).try_into().unwrap_or(0)
}

fn push(all: &mut Vec<Decided>, run: Decided) {
    let same =
        |before: &&mut Decided| before.last + 1 == run.first && before.done == run.done && before.count == run.count;
    match all.last_mut().filter(same) {
        Some(before) => before.last = run.last,
        None => all.push(run),
    }
}
