//! An S3 server in the store's namespace, and what zones asked of it.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::ground::{Ground, STORE_ADDRESS, ZONES};
use crate::process::{self, Owned};
use crate::s3;

/// Runs this program as the server.
pub const COMMAND: &str = "s3-server";
pub const ACCESS_KEY: &str = "milepost";
pub const SECRET_KEY: &str = "milepost-secret";
pub const BUCKET: &str = "milepost";
const PORT: u16 = 9000;

pub struct Store {
    _process: Owned,
    url: String,
}

/// What one zone asked of the store since it began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Requests {
    pub puts: u64,
    pub gets: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

impl Store {
    pub fn start(ground: &Ground, latency: Duration) -> Result<Store> {
        let mut command = process::command(&ground.store(), std::env::current_exe()?);
        command.args([COMMAND, &latency.as_millis().to_string()]);
        let (process, url) = process::start_and_hear(command).context("starting the S3 server")?;
        Ok(Store { _process: process, url })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// By zone.
    pub fn requests(&self, ground: &Ground) -> Result<Vec<Requests>> {
        let told = ground.http_get(&ground.store(), &format!("{}/_milepost/stats", self.url))?;
        let told: serde_json::Value = serde_json::from_str(&told)?;
        let of = |zone: usize| {
            let caller = &told["callers"][Ground::store_side_address(zone)];
            let count = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
            Requests {
                puts: count(&caller["requests"]["put"]),
                gets: count(&caller["requests"]["get"]),
                bytes_in: count(&caller["bytes_in"]),
                bytes_out: count(&caller["bytes_out"]),
            }
        };
        Ok((0..ZONES).map(of).collect())
    }
}

impl Requests {
    pub fn since(self, before: Requests) -> Requests {
        Requests {
            puts: self.puts - before.puts,
            gets: self.gets - before.gets,
            bytes_in: self.bytes_in - before.bytes_in,
            bytes_out: self.bytes_out - before.bytes_out,
        }
    }
}

/// The child's side of it.
pub async fn serve(latency_ms: &str) -> Result<()> {
    let latency = Duration::from_millis(latency_ms.parse()?);
    let address: Ipv4Addr = STORE_ADDRESS.parse()?;
    let server = s3::Server::start(s3::Options {
        listen: (address, PORT).into(),
        access_key: ACCESS_KEY.into(),
        secret_key: SECRET_KEY.into(),
        bucket: BUCKET.into(),
        put_latency: latency,
        get_latency: latency,
    })
    .await?;
    println!("{}", server.url());
    server.run().await;
    Ok(())
}
