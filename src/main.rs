use clap::Parser;
use milepost::config::{Cli, Command};

#[global_allocator]
static ALLOCATOR: std::alloc::System = std::alloc::System;

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Serve(args) => milepost::serve(*args),
        Command::Inspect(inspect) => milepost::inspect::run(inspect),
        Command::Audit { bootstrap, store } => milepost::audit::run(bootstrap, store),
    }
}
