use std::time::Duration;

use tokio::time::Instant;

use crate::quota::rate::{WINDOW, WINDOWS};

/// What is left of so much a second (Kafka: `TokenBucket`): eleven seconds' worth at most, and less than nothing if more was
/// taken at once than was left.
#[derive(Debug)]
pub(super) struct Bucket {
    left: f64,
    limit: f64,
    at: Instant,
}

impl Bucket {
    pub fn full(limit: f64, now: Instant) -> Bucket {
        Bucket { left: burst(limit), limit, at: now }
    }

    pub fn take(&mut self, amount: f64) {
        self.left -= amount;
    }

    /// How long nothing may be taken, so that nothing is owed.
    pub fn debt(&mut self, limit: f64, now: Instant) -> Duration {
        self.left = self.left_at(limit, now);
        (self.limit, self.at) = (limit, now);
        match self.left >= 0.0 {
            true => Duration::ZERO,
            false => Duration::try_from_secs_f64(-self.left / limit).unwrap_or(Duration::MAX),
        }
    }

    /// A new one is like it.
    pub fn is_idle(&self, now: Instant) -> bool {
        self.left_at(self.limit, now) >= burst(self.limit)
    }

    fn left_at(&self, limit: f64, now: Instant) -> f64 {
        let come = now.saturating_duration_since(self.at).as_secs_f64() * limit;
        (self.left + come).min(burst(limit))
    }
}

fn burst(limit: f64) -> f64 {
    limit * f64::from(WINDOWS) * WINDOW.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_owed_is_paid_by_waiting() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut bucket = Bucket::full(2.0, start);
        bucket.take(22.0);
        assert_eq!(bucket.debt(2.0, start), Duration::ZERO, "nothing is left, and nothing owed");
        bucket.take(10.0);
        assert_eq!(bucket.debt(2.0, start), Duration::from_secs(5));
        assert_eq!(bucket.debt(2.0, at(2)), Duration::from_secs(3));
        assert_eq!(bucket.debt(4.0, at(2)), Duration::from_millis(1500), "the limit was raised");
        assert!(!bucket.is_idle(at(10)) && bucket.is_idle(at(15)));
        assert_eq!(bucket.debt(4.0, at(1000)), Duration::ZERO);
        bucket.take(44.0);
        assert_eq!(bucket.debt(4.0, at(1000)), Duration::ZERO, "no more than eleven seconds' worth is saved");
        bucket.take(1.0);
        assert_eq!(bucket.debt(0.0, at(1000)), Duration::MAX);
    }
}
