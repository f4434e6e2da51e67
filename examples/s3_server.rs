//! A small S3 server for trying Milepost out, and for benches: one bucket, in memory, with latency and faults to order.
//!
//! ```text
//! $ cargo run --example s3_server -- --listen 127.0.0.1:9000 --access-key k --secret-key s --bucket records
//! listening on http://127.0.0.1:9000
//! $ curl http://127.0.0.1:9000/_milepost/stats
//! $ curl http://127.0.0.1:9000/_milepost/faults -d '{"operation": "put", "count": 3, "fault": "slow_down"}'
//! $ curl http://127.0.0.1:9000/_milepost/faults -d '{"operation": "get", "rate": 0.5, "fault": {"hang_ms": 9000}}'
//! $ curl -X DELETE http://127.0.0.1:9000/_milepost/faults
//! $ curl http://127.0.0.1:9000/_milepost/outage -d 5000
//! ```

#[path = "../tests/s3/mod.rs"]
mod s3;

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;

#[derive(Parser)]
struct Arguments {
    /// Port 0 takes any free one.
    #[arg(long, default_value = "127.0.0.1:9000")]
    listen: SocketAddr,
    #[arg(long)]
    access_key: String,
    #[arg(long)]
    secret_key: String,
    #[arg(long)]
    bucket: String,
    /// Added to every write.
    #[arg(long, default_value_t = 0)]
    put_latency_ms: u64,
    /// Added to every read.
    #[arg(long, default_value_t = 0)]
    get_latency_ms: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let server = s3::Server::start(s3::Options {
        listen: arguments.listen,
        access_key: arguments.access_key,
        secret_key: arguments.secret_key,
        bucket: arguments.bucket,
        put_latency: Duration::from_millis(arguments.put_latency_ms),
        get_latency: Duration::from_millis(arguments.get_latency_ms),
    })
    .await?;
    println!("listening on {}", server.url());
    server.run().await;
    Ok(())
}
