//! What was sent, acknowledged and read so far, and how long it took. Everything only grows: whoever wants a part of
//! it subtracts.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Times are kept as the upper end of their bucket, 2 % above its lower end.
const BUCKET_RATIO: f64 = 1.02;

#[derive(Default)]
pub struct Tally(Mutex<State>);

#[derive(Default)]
struct State {
    sent_records: u64,
    acked_records: u64,
    acked_bytes: u64,
    failed_records: u64,
    read_records: u64,
    read_bytes: u64,
    ack_us: Histogram,
    end_to_end_us: Histogram,
    errors: BTreeMap<String, u64>,
}

#[derive(Default)]
struct Histogram(BTreeMap<u32, u64>);

impl Histogram {
    fn add(&mut self, time: Duration) {
        let bucket = (time.as_micros().max(1) as f64).log(BUCKET_RATIO) as u32;
        *self.0.entry(bucket).or_default() += 1;
    }

    /// The upper end of each bucket in microseconds, with its count.
    fn told(&self) -> Vec<(u64, u64)> {
        self.0.iter().map(|(bucket, count)| (BUCKET_RATIO.powi(*bucket as i32 + 1).ceil() as u64, *count)).collect()
    }
}

impl Tally {
    pub fn sent(&self) {
        self.locked(|state| state.sent_records += 1);
    }

    pub fn acked(&self, value: &[u8]) {
        let took = since(value);
        self.locked(|state| {
            state.acked_records += 1;
            state.acked_bytes += value.len() as u64;
            state.ack_us.add(took);
        });
    }

    pub fn failed(&self, error: &str) {
        self.locked(|state| state.failed_records += 1);
        self.error(error);
    }

    pub fn read(&self, value: &[u8]) {
        let took = since(value);
        self.locked(|state| {
            state.read_records += 1;
            state.read_bytes += value.len() as u64;
            state.end_to_end_us.add(took);
        });
    }

    pub fn error(&self, error: &str) {
        self.locked(|state| *state.errors.entry(error.to_owned()).or_default() += 1);
    }

    /// One line of JSON.
    pub fn told(&self) -> String {
        self.locked(|state| {
            serde_json::json!({
                "sent_records": state.sent_records,
                "acked_records": state.acked_records,
                "acked_bytes": state.acked_bytes,
                "failed_records": state.failed_records,
                "read_records": state.read_records,
                "read_bytes": state.read_bytes,
                "ack_us": state.ack_us.told(),
                "end_to_end_us": state.end_to_end_us.told(),
                "errors": state.errors,
            })
            .to_string()
        })
    }

    fn locked<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().expect("nothing panics under this lock"))
    }
}

/// Since the epoch. All zones of a run are on one machine, so they share its clock.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A value begins with the time at which it was due, in nanoseconds.
pub fn stamp(value: &mut [u8], due: Duration) {
    value[..8].copy_from_slice(&(due.as_nanos() as u64).to_be_bytes());
}

fn since(value: &[u8]) -> Duration {
    let due = value.first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    now().saturating_sub(Duration::from_nanos(due))
}
