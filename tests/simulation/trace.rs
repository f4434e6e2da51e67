//! Everything that the brokers log and that is done to them, with simulated times. The same seed gives the same bytes.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

const FILTER: &str = "debug,openraft=off,turmoil=off,foyer=off";

static NOW_MICROS: AtomicU64 = AtomicU64::new(0);

/// Told by the driver after each step.
pub fn set_now(now: Duration) {
    NOW_MICROS.store(now.as_micros() as u64, Ordering::Relaxed);
}

/// Simulated time since the start.
pub fn now() -> Duration {
    Duration::from_micros(NOW_MICROS.load(Ordering::Relaxed))
}

struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        let now = now();
        write!(w, "{:4}.{:03}", now.as_secs(), now.subsec_millis())
    }
}

static OUT: Mutex<Option<BufWriter<File>>> = Mutex::new(None);

/// Each event is one write.
struct Out;

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut out = OUT.lock().expect("nothing panics under this lock");
        out.as_mut().map_or(Ok(bytes.len()), |out| out.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut out = OUT.lock().expect("nothing panics under this lock");
        out.as_mut().map_or(Ok(()), BufWriter::flush)
    }
}

/// The trace is complete on disk.
pub fn finish() -> io::Result<()> {
    Out.flush()
}

/// `MILEPOST_LOG_FILTER` shows more, or less.
pub fn start(file: &Path) -> io::Result<()> {
    *OUT.lock().expect("nothing panics under this lock") = Some(BufWriter::with_capacity(1 << 20, File::create(file)?));
    let filter = std::env::var("MILEPOST_LOG_FILTER").unwrap_or_else(|_| FILTER.to_owned());
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_timer(Clock)
        .with_ansi(false)
        .with_writer(|| Out)
        .init();
    Ok(())
}
