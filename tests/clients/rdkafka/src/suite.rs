//! Runs the cases one after another and says one line for each.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow};
use futures::future::LocalBoxFuture;
use rdkafka::consumer::BaseConsumer;
use rdkafka::producer::FutureProducer;

use crate::{cases, client};

const CASE_TIME_MAX: Duration = Duration::from_secs(120);

pub type Run = for<'a> fn(&'a Context) -> LocalBoxFuture<'a, Result<()>>;

/// What every case is given.
pub struct Context {
    pub bootstrap: String,
    run: String,
}

impl Context {
    pub fn new(bootstrap: String) -> Result<Context> {
        let run = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis().to_string();
        Ok(Context { bootstrap, run })
    }

    /// A topic name that no earlier run has used.
    pub fn topic(&self, name: &str) -> String {
        format!("rdkafka-{name}-{}", self.run)
    }

    pub fn admin(&self) -> Result<client::Admin> {
        client::admin(&self.bootstrap, "rdkafka-cases")
    }

    pub fn consumer(&self) -> Result<BaseConsumer> {
        client::consumer(&self.bootstrap, "rdkafka-cases")
    }

    pub fn producer(&self, settings: &[(&str, &str)]) -> Result<FutureProducer> {
        let mut config = client::producer_config(&self.bootstrap, "rdkafka-cases");
        for (name, value) in settings {
            config.set(*name, *value);
        }
        Ok(config.create()?)
    }
}

/// Runs the cases whose names contain one of `wanted` (all when empty).
pub async fn run(context: &Context, wanted: &[String]) -> Result<()> {
    let (mut passed, mut failed) = (0, 0);
    for (name, case) in cases::all() {
        if !wanted.is_empty() && !wanted.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let started = Instant::now();
        let outcome = tokio::time::timeout(CASE_TIME_MAX, case(context)).await;
        let seconds = started.elapsed().as_secs_f32();
        match outcome.unwrap_or_else(|_| Err(anyhow!("not done after {CASE_TIME_MAX:?}"))) {
            Ok(()) => {
                println!("ok      {seconds:5.1} s  {name}");
                passed += 1;
            }
            Err(error) => {
                println!("FAILED  {seconds:5.1} s  {name}: {error:#}");
                failed += 1;
            }
        }
    }
    println!("rdkafka: {passed} passed, {failed} failed");
    if failed == 0 && passed > 0 { Ok(()) } else { Err(anyhow!("{failed} cases failed")) }
}
