use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use milepost::config::{Cli, Command, Config, LogFormat};
use milepost::node::Node;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info, warn};
use tracing_subscriber::EnvFilter;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse().command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("milepost: {e:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(args) => serve(Config::load(*args)?).await,
        Command::Inspect(what) => milepost::inspect::run(what).await,
        Command::Cluster { bootstrap, json } => milepost::survey::cluster(bootstrap, json).await,
        Command::Topic { name, bootstrap, json } => milepost::survey::topic(&name, bootstrap, json).await,
        Command::Audit { bootstrap, store, copies } => milepost::audit::run(bootstrap, store, copies).await,
    }
}

async fn serve(config: Config) -> anyhow::Result<()> {
    log_to_stderr(&config)?;
    for name in &config.ignored_environment {
        warn!(name, "this environment variable names no setting");
    }
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let starting = Node::start(config);
    let node = tokio::select! {
        started = starting => started?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let failed = tokio::select! {
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
        why = node.failed() => Some(why),
    };
    match &failed {
        Some(why) => error!(why, "this broker stops, others take its place"),
        None => info!("stopping"),
    }
    node.shut_down().await;
    info!("stopped");
    failed.map_or(Ok(()), |why| Err(anyhow::anyhow!(why)))
}

fn log_to_stderr(config: &Config) -> anyhow::Result<()> {
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(EnvFilter::try_new(&config.log_filter)?);
    match config.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}
