//! Stock-client cases over librdkafka, and the larger checks that use the same client.
//!
//! ```text
//! rdkafka-cases cases  --bootstrap HOSTS [--only a,b]
//! ```

mod args;
mod cases;
mod client;
mod payload;
mod suite;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use args::Args;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rdkafka-cases: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let command = words.next().context("no command: cases")?;
    let mut args = Args::parse(words)?;
    match command.as_str() {
        "cases" => {
            let context = suite::Context::new(args.required("bootstrap")?)?;
            let only = args.list("only");
            args.finish()?;
            suite::run(&context, &only).await
        }
        other => bail!("unknown command {other}"),
    }
}
