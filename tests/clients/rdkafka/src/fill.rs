//! Uncompressed records that carry a word, for those who then look where the word must not be.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};

use crate::args::Args;
use crate::bulk::{Bulk, Fate};
use crate::client;

pub async fn run(mut args: Args) -> Result<()> {
    let bootstrap = args.required("bootstrap")?;
    let (topic, marker) = (args.required("topic")?, args.required("marker")?);
    let (partitions, records) = (args.optional("partitions", 12)?, args.optional("records", 1_000_000_u64)?);
    args.finish()?;
    client::create_topic(&client::admin(&bootstrap, "fill")?, &topic, partitions).await?;

    let acked = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&acked);
    let mut config = client::producer_config(&bootstrap, "fill");
    config.set("message.timeout.ms", "120000").set("linger.ms", "20");
    let bulk = Bulk::new(&config, move |fate: Fate<'_>| {
        counted.fetch_add(u64::from(fate.outcome.is_ok()), Ordering::Relaxed);
    })?;
    for number in 0..records {
        let partition = (number % partitions as u64) as i32;
        bulk.write(&topic, partition, &number.to_be_bytes(), format!("{marker} record {number}").as_bytes())?;
    }
    bulk.finish()?;
    let acked = acked.load(Ordering::Relaxed);
    println!("wrote {acked} of {records} records that carry {marker}");
    ensure!(acked == records, "{} records were not acknowledged", records - acked);
    Ok(())
}
