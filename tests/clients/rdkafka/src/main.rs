//! Stock-client cases over librdkafka, and the larger checks that use the same client.
//!
//! ```text
//! rdkafka-cases cases    --bootstrap HOSTS [--only WORD,WORD]
//! rdkafka-cases check    --bootstrap HOSTS [--zones az1=HOST:PORT,…] [--metrics 1=HOST:PORT,…] [--s3 URL]
//! rdkafka-cases produce  --bootstrap HOSTS --topic T --log FILE [--records-per-second N]
//! rdkafka-cases verify   --bootstrap HOSTS --topic T --log FILE [--zones az1,az2]
//! rdkafka-cases fill     --bootstrap HOSTS --topic T --marker WORD [--records N]
//! ```

mod acked;
mod bulk;
mod cases;
mod check;
mod fill;
mod payload;
mod report;
mod suite;
mod zones;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use rdkafka_cases::args::{self, Args};
use rdkafka_cases::client;

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
    let command = words.next().context("no command: cases, check, produce, verify or fill")?;
    let mut args = Args::parse(words)?;
    match command.as_str() {
        "cases" => {
            let context = suite::Context::new(args.required("bootstrap")?)?;
            let only = args.list("only");
            args.finish()?;
            suite::run(&context, &only).await
        }
        "check" => check::Check::from_args(args)?.run().await,
        "produce" => acked::produce(args).await,
        "verify" => acked::verify(args),
        "fill" => fill::run(args).await,
        other => bail!("unknown command {other}"),
    }
}
