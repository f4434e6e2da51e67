//! What a process has used, in the operating system's words.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// Linux shows processor time to programs in hundredths of a second, on every architecture.
const TICKS_PER_SECOND: u64 = 100;
const PAGE_BYTES: u64 = 4096;

/// Processor time of all threads of a process since it started, in user mode and in the kernel for it.
pub fn cpu(pid: u32) -> Result<Duration> {
    let text = read(pid, "stat")?;
    // The name of the program stands in parentheses and may hold anything.
    let (_, rest) = text.rsplit_once(')').context("no name in stat")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |n: usize| -> Result<u64> { Ok(fields.get(n).context("stat is cut")?.parse()?) };
    Ok(Duration::from_millis((ticks(11)? + ticks(12)?) * 1000 / TICKS_PER_SECOND))
}

/// Memory that is really there.
pub fn resident_bytes(pid: u32) -> Result<u64> {
    let text = read(pid, "statm")?;
    let pages: u64 = text.split_whitespace().nth(1).context("statm is cut")?.parse()?;
    Ok(pages * PAGE_BYTES)
}

/// How often the process gave up a processor because it had nothing to do: its wake-ups.
pub fn wakeups(pid: u32) -> Result<u64> {
    let mut all = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between the list and the look.
        let Ok(text) = fs::read_to_string(task?.path().join("status")) else { continue };
        let count = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        all += count.context("no context switches in status")?.trim().parse::<u64>()?;
    }
    Ok(all)
}

fn read(pid: u32, what: &str) -> Result<String> {
    fs::read_to_string(format!("/proc/{pid}/{what}")).with_context(|| format!("process {pid} is gone"))
}
