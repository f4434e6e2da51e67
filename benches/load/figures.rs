//! Numbers as people compare them.

use std::time::Duration;

/// A set of times, asked for what most of them stay below.
pub struct Times(Vec<Duration>);

impl Times {
    pub fn new(mut times: Vec<Duration>) -> Times {
        times.sort_unstable();
        Times(times)
    }

    /// The time that `percent` of them do not exceed.
    pub fn at(&self, percent: usize) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0.get((self.0.len() * percent / 100).min(last)).copied().unwrap_or_default()
    }

    /// `p50 / p99` in milliseconds.
    pub fn told(&self) -> String {
        format!("{} / {}", ms(self.at(50)), ms(self.at(99)))
    }
}

pub fn ms(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

/// Decimal megabytes in each second.
pub fn mb_per_second(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / 1e6 / time.as_secs_f64()
}

/// Processor seconds for each decimal gigabyte.
pub fn cpu_per_gb(cpu: Duration, bytes: u64) -> f64 {
    cpu.as_secs_f64() / (bytes as f64 / 1e9)
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
