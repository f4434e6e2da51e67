//! # Decisions
//! **A hedge waits for the p95 of the last 128 of its kind**, at least 50 ms (a store that answers in 5 ms has a p95
//! of noise), 1 s while fewer than 20 are known, and costs at most `hedge_percent` (5 %) of requests with a burst of
//! 4: a named share beside `puts_per_second`. What a hedge that won had waited counts as the time, so a store slow as
//! a whole is soon normal. A second PUT is another attempt (`<sequence>.2`), not the same key: there a late first PUT
//! would race with it for one name.

use std::collections::VecDeque;
use std::time::Duration;

/// Requests whose times are remembered: a store that has become slower is known as such after a dozen seconds.
const WINDOW: usize = 128;

/// Fewer times say nothing about the slowest twentieth.
const SAMPLES_MIN: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How many of all requests may be sent a second time.
    pub fraction: f64,
    /// Second requests saved up while none is needed.
    pub burst: f64,
    /// No request is repeated earlier: what a fast store needs longer now and then is noise.
    pub delay_min: Duration,
    /// While too little is known.
    pub delay_first: Duration,
    /// None waits longer, however slow the store has been.
    pub delay_max: Duration,
}

impl Settings {
    /// With a budget in percent of all requests; 0 repeats none.
    pub fn percent(percent: f64) -> Settings {
        Settings {
            fraction: percent / 100.0,
            burst: if percent > 0.0 { 4.0 } else { 0.0 },
            delay_min: Duration::from_millis(50),
            delay_first: Duration::from_secs(1),
            delay_max: Duration::from_secs(4),
        }
    }
}

/// When a request that takes long is worth a second one: past the 95th percentile of its kind lately, and only while
/// such requests are few. Pure: times are handed in.
#[derive(Debug)]
pub struct Policy {
    settings: Settings,
    recent: VecDeque<Duration>,
    budget: f64,
}

impl Policy {
    pub fn new(settings: Settings) -> Policy {
        Policy { settings, recent: VecDeque::with_capacity(WINDOW), budget: settings.burst }
    }

    /// A request starts; answers how long it is waited for before another is sent beside it.
    pub fn start(&mut self) -> Duration {
        self.budget = (self.budget + self.settings.fraction).min(self.settings.burst);
        let Settings { delay_min, delay_first, delay_max, .. } = self.settings;
        self.p95().unwrap_or(delay_first).clamp(delay_min, delay_max)
    }

    /// A request has been waited for so long: may it be sent again?
    pub fn may_repeat(&mut self) -> bool {
        let may = self.budget >= 1.0;
        if may {
            self.budget -= 1.0;
        }
        may
    }

    /// A request was answered, it or its second, this long after it had started. When it was the second, the first would
    /// have taken longer still: so a store that becomes slow as a whole is soon no longer taken for a straggler.
    pub fn end(&mut self, took: Duration) {
        if self.recent.len() == WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back(took);
    }

    fn p95(&self) -> Option<Duration> {
        if self.recent.len() < SAMPLES_MIN {
            return None;
        }
        let mut times: Vec<Duration> = self.recent.iter().copied().collect();
        let at = times.len() * 95 / 100;
        Some(*times.select_nth_unstable(at).1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn settings() -> Settings {
        Settings { fraction: 0.05, burst: 2.0, delay_min: 10 * MS, delay_first: 500 * MS, delay_max: 900 * MS }
    }

    fn after(times: impl IntoIterator<Item = Duration>) -> Policy {
        let mut policy = Policy::new(settings());
        times.into_iter().for_each(|took| policy.end(took));
        policy
    }

    #[test]
    fn waits_as_long_as_nearly_all_took_lately() {
        assert_eq!(after((1..=19).map(|_| 20 * MS)).start(), 500 * MS, "too few to tell");
        assert_eq!(after((1..=100).map(|ms| ms * MS)).start(), 96 * MS);
        let slow_then_fast = (0..200).map(|i| if i < 72 { 400 * MS } else { 20 * MS });
        assert_eq!(after(slow_then_fast).start(), 20 * MS, "what is long past is forgotten");
    }

    #[test]
    fn neither_noise_nor_a_crawling_store_moves_it_out_of_bounds() {
        assert_eq!(after([MS; 50]).start(), 10 * MS);
        assert_eq!(after([5000 * MS; 50]).start(), 900 * MS);
    }

    #[test]
    fn a_store_that_is_slow_as_a_whole_is_soon_normal() {
        let mut policy = after([20 * MS; WINDOW]);
        let mut waited_longer = 0;
        for _ in 0..20 {
            let delay = policy.start();
            waited_longer = if delay >= 300 * MS { waited_longer + 1 } else { 0 };
            policy.end(300 * MS);
        }
        assert!(waited_longer > 0, "twenty slow answers are past the 95th percentile of {WINDOW}");
    }

    #[test]
    fn none_is_repeated_without_a_budget() {
        let mut policy = Policy::new(Settings::percent(0.0));
        for _ in 0..1000 {
            policy.start();
        }
        assert!(!policy.may_repeat());
    }

    proptest! {
        #[test]
        fn repeats_stay_within_their_share(events in proptest::collection::vec(any::<bool>(), 0..2000)) {
            let mut policy = Policy::new(settings());
            let (mut started, mut repeated) = (0.0, 0.0);
            for starts in events {
                if starts {
                    policy.start();
                    started += 1.0;
                } else if policy.may_repeat() {
                    repeated += 1.0;
                }
                prop_assert!(repeated <= 2.0 + 0.05 * started + 1e-6);
            }
        }
    }
}
