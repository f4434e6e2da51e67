//! Writes the history: every line is in the file before the call that it announces begins.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};

use crate::event::{Event, Isolation, Process, Role, What};

pub struct Recorder {
    lines: Mutex<BufWriter<File>>,
    began: Instant,
    ops: AtomicU64,
    processes: AtomicU32,
    /// Names this run inside its records.
    pub run: u64,
}

impl Recorder {
    pub fn create(path: &str, partitions: u32) -> Result<Recorder> {
        let wall_ns = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
        let recorder = Recorder {
            lines: Mutex::new(BufWriter::new(File::create(path).with_context(|| path.to_owned())?)),
            began: Instant::now(),
            ops: AtomicU64::new(1),
            processes: AtomicU32::new(1),
            run: wall_ns / 1_000_000,
        };
        recorder.write(0, 0, What::Began { run: recorder.run, wall_ns, partitions });
        Ok(recorder)
    }

    /// A client came to be; its process number.
    pub fn open(&self, role: Role, zone: &str, isolation: Isolation) -> Process {
        let process = self.processes.fetch_add(1, Ordering::Relaxed);
        self.write(process, self.op(), What::Open { role, zone: zone.to_owned(), isolation });
        process
    }

    pub fn op(&self) -> u64 {
        self.ops.fetch_add(1, Ordering::Relaxed)
    }

    /// Announces a call; the number that its answer must carry.
    pub fn invoke(&self, process: Process, what: What) -> u64 {
        let op = self.op();
        self.write(process, op, what);
        op
    }

    /// The time is taken while the file is held, so that lines are in the order of their times.
    pub fn write(&self, process: Process, op: u64, what: What) {
        let mut lines = self.lines.lock().expect("no holder panics");
        let event = Event { process, op, t: self.began.elapsed().as_nanos() as u64, what };
        serde_json::to_writer(&mut *lines, &event).expect("the history can be written");
        lines.write_all(b"\n").and_then(|()| lines.flush()).expect("the history can be written");
    }
}
