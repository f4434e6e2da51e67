use std::time::{Duration, Instant};

/// Failures in a row from which on a bucket is asked last.
const FAILURES_MAX: u32 = 3;

/// A bucket that does not answer is tried so often.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Whether a bucket is worth asking first. Time is handed in.
#[derive(Debug, Default)]
pub struct Health {
    /// In a row.
    failures: u32,
    tried: Option<Instant>,
}

impl Health {
    /// True for a bucket that is well, and now and then for one that is not, to find out.
    pub fn is_asked_first(&mut self, now: Instant) -> bool {
        let due = self.tried.is_none_or(|tried| now.saturating_duration_since(tried) >= TRY_AGAIN);
        let first = self.failures < FAILURES_MAX || due;
        if first {
            self.tried = Some(now);
        }
        first
    }

    /// True when it was away until now.
    pub fn succeeded(&mut self) -> bool {
        std::mem::take(&mut self.failures) >= FAILURES_MAX
    }

    /// True when it is away from now on.
    pub fn failed(&mut self) -> bool {
        self.failures = self.failures.saturating_add(1);
        self.failures == FAILURES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_that_fails_is_tried_once_a_second() {
        let (mut health, start) = (Health::default(), Instant::now());
        assert!(health.is_asked_first(start));
        assert_eq!([health.failed(), health.failed(), health.failed(), health.failed()], [false, false, true, false]);
        assert!(!health.is_asked_first(start));
        assert!(health.is_asked_first(start + TRY_AGAIN));
        assert!(!health.is_asked_first(start + TRY_AGAIN));
        assert!(health.succeeded());
        assert!(!health.succeeded());
        assert!(health.is_asked_first(start));
    }
}
