//! A whole cluster in one thread and in simulated time: three real brokers, their clients, everything that can go
//! wrong. One process runs one seed, since a process is what its randomness belongs to.
//!
//!     cargo run --features simulation --example simulation -- SEED [--seconds N] [--trace FILE] [--mutant KIND]
//!
//! `--mutant store` lets the store forget what it acknowledged, `--mutant producer` drops the sequences: a simulation that
//! passes with either is blind.
//!
//! The same seed gives the same trace, byte by byte. `tests/simulate.sh` runs many.
//!
//! # Decisions
//! **The simulation replaces the world, not the code.** `tests/simulation` runs three whole brokers, listeners
//! included, on turmoil's network: `door.rs` gives sockets, wall clock and blocking work, the log's disk loses what
//! was not synced, time is tokio's paused clock. Randomness is replaced where it enters the process: the program's
//! own `getrandom`, seeded, comes before the C library's, so hash maps, uuids, tokio's `select!` and openraft's
//! timeouts all follow the seed. That spares `--cfg tokio_unstable`, a deterministic random source in openraft's type
//! config and a scope around every task, and with them a second build of all dependencies; it is the one `unsafe`
//! function of the project, in a test. A process runs one seed, since it is the process's randomness. turmoil is a
//! dev-dependency even without the feature `simulation`, so that tokio has one set of features and only our two
//! crates are built twice.

mod chaos;
mod cluster;
mod entropy;
mod ledger;
mod producer;
mod reader;
mod store;
mod trace;
mod watch;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::resource::{UsageWho, getrusage};
use turmoil::Sim;

use crate::chaos::Chaos;
use crate::cluster::{BROKERS, Mutant, Run, client_host, host};
use crate::watch::Watch;

/// Of writing, with faults.
const SECONDS: u64 = 45;
/// Of writing, after the faults.
const CALM: Duration = Duration::from_secs(5);
/// Within this everything is whole again: a producer's slowest retry, and a broker that replaces another.
const WHOLE_WITHIN: Duration = Duration::from_secs(100);

static PANICKED: AtomicBool = AtomicBool::new(false);

struct Args {
    seed: u64,
    seconds: u64,
    trace: PathBuf,
    mutant: Option<Mutant>,
}

fn args() -> Option<Args> {
    let trace = std::env::temp_dir().join("milepost-simulation.log");
    let mut args = Args { seed: 1, seconds: SECONDS, trace, mutant: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seconds" => args.seconds = words.next()?.parse().ok()?,
            "--mutant" => args.mutant = Some(Mutant::named(&words.next()?)?),
            "--trace" => args.trace = words.next()?.into(),
            seed => args.seed = seed.parse().ok()?,
        }
    }
    Some(args)
}

fn main() -> ExitCode {
    let Some(args) = args() else {
        eprintln!("usage: simulation [SEED] [--seconds N] [--trace FILE] [--mutant store|producer]");
        return ExitCode::from(2);
    };
    entropy::seed(args.seed);
    trace::start(&args.trace).expect("the trace can be written");
    let panics = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |what| {
        PANICKED.store(true, Ordering::Relaxed);
        tracing::error!(%what, "a panic");
        panics(what);
    }));
    // Relative paths, since brokers log them.
    let dir = tempfile::tempdir().expect("a directory");
    std::env::set_current_dir(dir.path()).expect("it is there");
    let began = Instant::now();
    let simulation = Simulation::new(args.seed, args.mutant);
    let outcome = simulation.run(Duration::from_secs(args.seconds), began, args.seed);
    trace::finish().expect("the trace can be written");
    outcome
}

struct Simulation {
    sim: Sim<'static>,
    run: Rc<Run>,
    chaos: Chaos,
    watch: Watch,
    now: Duration,
}

impl Simulation {
    fn new(seed: u64, mutant: Option<Mutant>) -> Simulation {
        let mut sim = turmoil::Builder::new()
            .epoch(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000))
            .simulation_duration(Duration::from_secs(100_000))
            .tick_duration(Duration::from_millis(1))
            .min_message_latency(Duration::from_millis(1))
            .max_message_latency(Duration::from_millis(4))
            .tcp_capacity(65_536)
            .rng_seed(seed)
            .build();
        let run = Run::new(seed, mutant);
        for broker in 1..=BROKERS {
            let run = run.clone();
            sim.host(host(broker), move || {
                let serving = run.clone().serve(broker);
                async move {
                    serving.await;
                    Ok(())
                }
            });
        }
        for zone in 1..=BROKERS {
            let run = run.clone();
            sim.client(client_host(zone), async move {
                clients(run, zone).await;
                Ok(())
            });
        }
        let chaos = Chaos::new(run.clone(), seed);
        Simulation { sim, run, chaos, watch: Watch::default(), now: Duration::ZERO }
    }

    fn run(mut self, faults: Duration, began: Instant, seed: u64) -> ExitCode {
        self.advance(faults, true);
        self.chaos.heal(&mut self.sim);
        self.advance(CALM, false);
        self.run.writing.set(false);
        self.until(|run| run.writers.get() == 0, "producers have everything acknowledged");
        self.until(Run::is_whole, "every shard has three voters, all of them running");
        self.chaos.restart_all(&mut self.sim);
        self.run.scanning.set(true);
        self.until(|run| run.scanners.get() == 0, "everything is read through every broker");
        self.report(began, seed)
    }

    fn failed(&self) -> bool {
        PANICKED.load(Ordering::Relaxed) || !self.run.ledger.is_clean()
    }

    fn step(&mut self, faults: bool) {
        if let Err(why) = self.sim.step() {
            self.run.ledger.violation(format!("the simulation ended: {why}"));
        }
        self.now = self.sim.elapsed();
        trace::set_now(self.now);
        self.chaos.step(&mut self.sim, self.now, faults);
        let millis = self.now.as_millis();
        if millis.is_multiple_of(10) {
            self.watch.leaders(&self.run);
        }
        if millis.is_multiple_of(250) {
            self.watch.states(&self.run);
        }
    }

    fn advance(&mut self, time: Duration, faults: bool) {
        let end = self.now + time;
        while self.now < end && !self.failed() {
            self.step(faults);
        }
    }

    fn until(&mut self, reached: impl Fn(&Run) -> bool, what: &str) {
        let end = self.now + WHOLE_WITHIN;
        while !reached(&self.run) && !self.failed() {
            if self.now >= end {
                self.run.ledger.violation(format!("not reached after the faults: {what}: {:?}", self.run.outline()));
            }
            self.step(false);
        }
    }

    fn report(&self, began: Instant, seed: u64) -> ExitCode {
        let (simulated, wall) = (self.now.as_secs_f64(), began.elapsed().as_secs_f64());
        let usage = getrusage(UsageWho::RUSAGE_SELF).expect("it is there");
        let cpu: f64 =
            [usage.user_time(), usage.system_time()].iter().map(|t| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6).sum();
        let ledger = &self.run.ledger;
        let outcome = if self.failed() { "FAILED" } else { "ok" };
        println!(
            "seed {seed} {outcome}: {simulated:.1} s simulated in {wall:.1} s ({cpu:.1} s of CPU), {} records \
             acknowledged, {} read, {} terms",
            ledger.acked_count(),
            ledger.reads.get(),
            self.watch.terms(),
        );
        for kind in chaos::kinds() {
            println!("fault {} {kind}", self.chaos.counts().get(kind).unwrap_or(&0));
        }
        let counts = self.run.bucket.counts();
        for fault in store::Fault::ALL {
            println!("fault {} {}", counts.get(&fault).unwrap_or(&0), fault.name());
        }
        if self.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

/// One zone's clients: two producers, a reader that tails and at last scans, and one that lists.
async fn clients(run: Rc<Run>, zone: i32) {
    if zone == 1 {
        tokio::task::spawn_local({
            let run = run.clone();
            async move { run.create_topic().await }
        });
    }
    let writers = (1..=2).map(|nth| producer::Writer::run(run.clone(), format!("p{zone}{nth}")));
    let writing = async {
        futures::future::join_all(writers).await;
        run.writers.set(run.writers.get() - 1);
    };
    tokio::join!(writing, reader::Reader::tail(run.clone(), zone), reader::list(run.clone()));
    while !run.scanning.get() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    reader::Reader::scan(run.clone(), zone, WHOLE_WITHIN).await;
    run.scanners.set(run.scanners.get() - 1);
    // Clients that have ended end the simulation.
    std::future::pending().await
}
