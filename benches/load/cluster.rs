//! A real cluster as child processes: one S3 server, brokers in zones of their own. All of it ends with the value.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kafka_protocol::messages::MetadataRequest;

use crate::usage;
use crate::wire::Connection;

pub const BROKERS: usize = 3;
const READY_MAX: Duration = Duration::from_secs(60);
const ACCESS_KEY: &str = "milepost";
const SECRET_KEY: &str = "milepost-secret";
const BUCKET: &str = "milepost";

/// What differs between two clusters of a run.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// The broker's program.
    pub binary: &'a str,
    /// Added by the S3 server to every request.
    pub latency: Duration,
    /// Of each broker; None for the default.
    pub puts_per_second: Option<u32>,
}

pub struct Cluster {
    pub brokers: Vec<Broker>,
    store: Owned,
    _data: tempfile::TempDir,
}

pub struct Broker {
    pub address: String,
    process: Owned,
}

/// Ends with its owner.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        // Nothing of it is kept, so nobody has to say goodbye.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Cluster {
    pub async fn start(plan: Plan<'_>) -> Result<Cluster> {
        let data = tempfile::tempdir()?;
        let (store, url) = start_store(plan.latency)?;
        let addresses = free_addresses(2 * BROKERS)?;
        let (clients, internal) = addresses.split_at(BROKERS);
        let store_url = format!("s3://{BUCKET}/load?endpoint={url}&region=us-east-1");
        let mut brokers = Vec::with_capacity(BROKERS);
        for (n, address) in clients.iter().enumerate() {
            let mut command = Command::new(plan.binary);
            command.args(["serve", "--broker-id", &(n + 1).to_string(), "--zone", &format!("az{}", n + 1)]);
            command.args(["--listen", address, "--internal-listen", &internal[n], "--seeds", &internal.join(",")]);
            command.args(["--store", &store_url, "--log-filter", "error", "--data-dir"]);
            command.arg(data.path().join(format!("broker-{}", n + 1)));
            if let Some(puts) = plan.puts_per_second {
                command.args(["--puts-per-second", &puts.to_string(), "--puts-burst", &puts.to_string()]);
            }
            command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
            command.stdout(Stdio::null());
            let process = Owned(command.spawn().context("starting a broker")?);
            brokers.push(Broker { address: address.clone(), process });
        }
        let cluster = Cluster { brokers, store, _data: data };
        cluster.wait_ready().await?;
        Ok(cluster)
    }

    /// Until every broker names every broker.
    async fn wait_ready(&self) -> Result<()> {
        let started = Instant::now();
        for broker in &self.brokers {
            while broker.sees().await.unwrap_or(0) < BROKERS {
                ensure!(started.elapsed() < READY_MAX, "{} is not ready after {READY_MAX:?}", broker.address);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    pub fn broker_cpu(&self) -> Result<Duration> {
        self.brokers.iter().map(Broker::cpu).sum()
    }

    pub fn store_cpu(&self) -> Result<Duration> {
        usage::cpu(self.store.0.id())
    }
}

impl Broker {
    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    pub fn cpu(&self) -> Result<Duration> {
        usage::cpu(self.pid())
    }

    async fn sees(&self) -> Result<usize> {
        let mut connection = Connection::open(&self.address, "ready").await?;
        let nobody = MetadataRequest::default().with_topics(Some(Vec::new()));
        let seen = tokio::time::timeout(Duration::from_secs(2), connection.call(9, &nobody)).await??;
        Ok(seen.brokers.len())
    }
}

/// This program again, as an S3 server. It says where it listens.
fn start_store(latency: Duration) -> Result<(Owned, String)> {
    let latency_ms = latency.as_millis().to_string();
    let mut command = Command::new(std::env::current_exe()?);
    command.args([STORE_COMMAND, &latency_ms]).stdout(Stdio::piped());
    let mut process = Owned(command.spawn().context("starting the S3 server")?);
    let mut said = String::new();
    BufReader::new(process.0.stdout.take().context("no output")?).read_line(&mut said)?;
    ensure!(said.starts_with("http://"), "the S3 server did not start");
    Ok((process, said.trim().to_owned()))
}

pub const STORE_COMMAND: &str = "s3-server";

/// The child's side of it.
pub async fn serve_store(latency_ms: &str) -> Result<()> {
    let latency = Duration::from_millis(latency_ms.parse()?);
    let server = crate::s3::Server::start(crate::s3::Options {
        listen: ([127, 0, 0, 1], 0).into(),
        access_key: ACCESS_KEY.into(),
        secret_key: SECRET_KEY.into(),
        bucket: BUCKET.into(),
        put_latency: latency,
        get_latency: latency,
    });
    let server = server.await?;
    println!("{}", server.url());
    server.run().await;
    Ok(())
}

/// All are held until all are known, so that none is given twice.
fn free_addresses(count: usize) -> Result<Vec<String>> {
    let held: Vec<TcpListener> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    Ok(held.iter().map(|listener| Ok(listener.local_addr()?.to_string())).collect::<Result<_, std::io::Error>>()?)
}
