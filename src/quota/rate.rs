use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Kafka's `quota.window.size.seconds` and `quota.window.num`.
pub(super) const WINDOW: Duration = Duration::from_secs(1);
pub(super) const WINDOWS: u32 = 11;

/// An amount per second over the last eleven seconds (Kafka: `Rate` over a `SampledStat`): a client that has just come
/// counts as if it had been here, and idle, for ten.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// (beginning, amount), oldest first.
    windows: VecDeque<(Instant, f64)>,
}

impl Rate {
    pub fn add(&mut self, amount: f64, now: Instant) {
        self.forget(now);
        match self.windows.back_mut() {
            Some((begun, sum)) if now.saturating_duration_since(*begun) < WINDOW => *sum += amount,
            _ => self.windows.push_back((now, amount)),
        }
        if self.windows.len() > WINDOWS as usize {
            self.windows.pop_front();
        }
    }

    /// How long nothing may be added for the rate to be `limit` again: for a rate of R over a time of W, (R - L) / L · W.
    pub fn excess(&mut self, limit: f64, now: Instant) -> Duration {
        self.forget(now);
        let over = self.span(now).as_secs_f64();
        let rate = self.windows.iter().map(|(_, sum)| sum).sum::<f64>() / over;
        if rate <= limit {
            return Duration::ZERO;
        }
        // Nothing is allowed at all, or next to nothing.
        Duration::try_from_secs_f64((rate - limit) / limit.max(0.0) * over).unwrap_or(Duration::MAX)
    }

    pub fn is_idle(&self, now: Instant) -> bool {
        self.windows.back().is_none_or(|(begun, _)| now.saturating_duration_since(*begun) >= WINDOW * WINDOWS)
    }

    fn forget(&mut self, now: Instant) {
        while self.windows.front().is_some_and(|(begun, _)| now.saturating_duration_since(*begun) >= WINDOW * WINDOWS) {
            self.windows.pop_front();
        }
    }

    /// The time that the rate is taken over.
    fn span(&self, now: Instant) -> Duration {
        let elapsed = self.windows.front().map_or(Duration::ZERO, |(begun, _)| now.saturating_duration_since(*begun));
        let whole = (elapsed.as_millis() / WINDOW.as_millis()) as u32;
        elapsed + WINDOW * (WINDOWS - 1).saturating_sub(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn a_newcomer_may_take_ten_seconds_worth() {
        let start = Instant::now();
        let mut rate = Rate::default();
        rate.add(10_000.0, start);
        assert_eq!(rate.excess(1_000.0, start), Duration::ZERO);
        rate.add(5_000.0, at(start, 10));
        // 15,000 are allowed after 15 seconds; 10.01 have gone by.
        let excess = rate.excess(1_000.0, at(start, 10));
        assert!((4_900..=5_000).contains(&excess.as_millis()), "{excess:?}");
    }

    #[test]
    fn what_is_long_ago_is_forgotten() {
        let start = Instant::now();
        let mut rate = Rate::default();
        rate.add(1e9, start);
        assert!(rate.excess(1.0, at(start, 10_999)) > Duration::ZERO);
        assert_eq!(rate.excess(1.0, at(start, 11_000)), Duration::ZERO);
        assert!(rate.is_idle(at(start, 11_000)));
    }

    #[test]
    fn who_waits_as_told_keeps_to_the_limit() {
        let start = Instant::now();
        let (mut rate, mut now, mut sum) = (Rate::default(), start, 0.0);
        while now < at(start, 60_000) {
            rate.add(700.0, now);
            sum += 700.0;
            now += rate.excess(1_000.0, now) + Duration::from_millis(5);
        }
        let seconds = now.duration_since(start).as_secs_f64();
        // The first ten seconds' worth came at once.
        assert!((1_000.0..1_300.0).contains(&(sum / seconds)), "{}", sum / seconds);
    }

    #[test]
    fn a_limit_of_nothing_is_no_division_by_zero() {
        let now = Instant::now();
        let mut rate = Rate::default();
        rate.add(1.0, now);
        assert_eq!(rate.excess(0.0, now), Duration::MAX);
    }
}
