//! The smallest harness that does: repeats until the clock can be trusted, tells the best and the middle.

use std::hint::black_box;
use std::time::{Duration, Instant};

const SAMPLES: usize = 31;
const SAMPLE_TIME: Duration = Duration::from_millis(10);

/// Times `work` on what `prepare` makes, which is not timed. `expected` is the back-of-envelope figure.
pub fn bench<I, O>(what: &str, expected: &str, mut prepare: impl FnMut() -> I, mut work: impl FnMut(I) -> O) {
    let mut once = |times: usize| {
        let inputs: Vec<I> = (0..times).map(|_| prepare()).collect();
        let mut outputs = Vec::with_capacity(times);
        let started = Instant::now();
        for input in inputs {
            outputs.push(black_box(work(black_box(input))));
        }
        // What is dropped here is not timed either.
        started.elapsed() / times as u32
    };
    let first = once(1).max(Duration::from_nanos(50));
    // Inputs of one sample are held at once, so there must not be too many.
    let times = (SAMPLE_TIME.as_nanos() / first.as_nanos()).clamp(1, 256) as usize;
    let mut samples: Vec<Duration> = (0..SAMPLES).map(|_| once(times)).collect();
    samples.sort_unstable();
    println!("| {what} | {} | {} | {expected} |", told(samples[0]), told(samples[SAMPLES / 2]));
}

fn told(time: Duration) -> String {
    let ns = time.as_nanos() as f64;
    match ns {
        ..1e3 => format!("{ns:.0} ns"),
        ..1e6 => format!("{:.1} µs", ns / 1e3),
        _ => format!("{:.2} ms", ns / 1e6),
    }
}
