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

    /// How long until there is a token.
    pub fn wait(&mut self, now: Instant) -> Duration {
        self.refill(now);
        Duration::from_secs_f64(((1.0 - self.tokens) / self.per_second).max(0.0))
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
