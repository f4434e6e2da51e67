use std::time::Duration;

use tokio::time::Instant;

/// A token bucket of PUT requests. Time is handed in.
#[derive(Debug)]
pub struct Budget {
    per_second: f64,
    burst: f64,
    tokens: f64,
    at: Instant,
}

impl Budget {
    /// Starts full.
    pub fn new(per_second: f64, burst: f64, now: Instant) -> Self {
        Budget { per_second, burst, tokens: burst, at: now }
    }

    /// Takes a token if there is one.
    pub fn take(&mut self, now: Instant) -> bool {
        self.refill(now);
        let there = self.tokens >= 1.0;
        if there {
            self.tokens -= 1.0;
        }
        there
    }

    /// How long until there is a token; zero only if [`Budget::take`] gives one now. What is missing of a token may be
    /// less than a duration can say.
    pub fn wait(&mut self, now: Instant) -> Duration {
        self.refill(now);
        if self.tokens >= 1.0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64((1.0 - self.tokens) / self.per_second).max(Duration::from_nanos(1))
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + elapsed * self.per_second).min(self.burst);
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by the simulation, where the clock stands still meanwhile: ingest slept for nothing, for ever.
    #[test]
    fn never_says_to_wait_for_nothing_without_a_token() {
        let start = Instant::now();
        for per_second in [0.3, 3.0, 7.0, 10.0] {
            let mut budget = Budget::new(per_second, 1.0, start);
            for step in 1..20_000 {
                let now = start + Duration::from_millis(step);
                assert!(budget.take(now) || !budget.wait(now).is_zero(), "{budget:?}");
            }
        }
    }

    #[test]
    fn gives_the_burst_then_the_rate() {
        let start = Instant::now();
        let mut budget = Budget::new(10.0, 3.0, start);
        assert_eq!((0..5).filter(|_| budget.take(start)).count(), 3);
        assert_eq!(budget.wait(start), Duration::from_millis(100));
        let later = start + Duration::from_millis(100);
        assert!(budget.take(later));
        assert!(!budget.take(later));
        assert_eq!((0..50).filter(|_| budget.take(start + Duration::from_secs(60))).count(), 3);
    }
}
