//! What is run, and what each figure is held against.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;
use kafka_protocol::messages::MetadataRequest;

use crate::cluster::{self, BROKERS, Cluster};
use crate::figures::{Times, cpu_per_gb, mb_per_second, median, ms};
use crate::frame::{Shape, stamp_at};
use crate::producer::Pace;
use crate::wire::Connection;
use crate::{consumer, producer, topics, usage};
use milepost::batch::NO_PRODUCER;

/// What is added to every request of the S3 server.
pub const LATENCIES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(10), Duration::from_millis(40)];
/// A budget of requests that never binds.
const PLENTY: u32 = 10_000;
const TOPIC: &str = "load";
const SETTLING: Duration = Duration::from_secs(2);
const MB: u64 = 1_000_000;

pub struct Options {
    /// The broker's program.
    pub binary: String,
    pub runs: usize,
    pub seconds: u64,
    /// Of the paced load, in bytes a second.
    pub rate: u64,
    pub bytes: u64,
}

fn producers(
    cluster: &Cluster,
    each: usize,
    partitions: impl Fn(usize, usize) -> Vec<i32>,
    pace: Pace,
) -> Vec<producer::Plan> {
    let plan = |broker: usize, n: usize| producer::Plan {
        address: cluster.brokers[broker].address.clone(),
        client_id: format!("load,zone=az{}", broker + 1),
        topic: TOPIC.into(),
        partitions: partitions(broker, n),
        shape: Shape::USUAL,
        pace,
        transactions: None,
    };
    (0..BROKERS).flat_map(|broker| (0..each).map(move |n| (broker, n))).map(|(broker, n)| plan(broker, n)).collect()
}

fn consumer(cluster: &Cluster, broker: usize, partitions: Vec<i32>, until: consumer::Until) -> consumer::Plan {
    consumer::Plan {
        address: cluster.brokers[broker].address.clone(),
        client_id: format!("load,zone=az{}", broker + 1),
        topic: TOPIC.into(),
        partitions,
        stamp_at: stamp_at(&Shape::USUAL.batch(NO_PRODUCER)),
        until,
    }
}

async fn produce(plans: Vec<producer::Plan>, epoch: Instant) -> Result<producer::Report> {
    let reports = try_join_all(plans.into_iter().map(|plan| producer::run(plan, epoch))).await?;
    let mut all = producer::Report::default();
    for report in reports {
        all.bytes += report.bytes;
        all.latencies.extend(report.latencies);
        all.transactions += report.transactions;
    }
    Ok(all)
}

async fn start(options: &Options, latency: Duration, puts_per_second: Option<u32>, partitions: i32) -> Result<Cluster> {
    let cluster = Cluster::start(cluster::Plan { binary: &options.binary, latency, puts_per_second }).await?;
    let names = [TOPIC.to_owned()];
    topics::create(&cluster, &names, partitions).await?;
    topics::wait_seen(&cluster, &names, partitions).await?;
    // New shards hand leadership to their preferred voters; that is no part of any figure here.
    tokio::time::sleep(SETTLING).await;
    Ok(cluster)
}

/// A steady rate over three brokers, one batch of 64 KB to a request, and a reader of everything in each zone.
///
/// Back of the envelope: ack = PUT + 1 fsync on two brokers + 2 hops, so the injected latency and 3 to 5 ms.
pub async fn paced(options: &Options) -> Result<()> {
    const EACH: usize = 4;
    println!(
        "\n{} MB/s, 64 KB batches one to a request, 12 producers; ms; aims: PUT + 5 at p50, PUT + 15 at p99 without budget",
        options.rate / MB
    );
    println!(
        "| PUT and GET + | budget | MB/s | ack p50 / p99 | e2e same zone | e2e other zones | broker CPU-s/GB, 1 in 3 out |"
    );
    println!("|---|---|---|---|---|---|---|");
    for latency in LATENCIES {
        for budget in [Some(PLENTY), None] {
            let cluster = start(options, latency, budget, (BROKERS * EACH) as i32).await?;
            let time = Duration::from_secs(options.seconds);
            let producers_count = (BROKERS * EACH) as u64;
            let interval = Duration::from_nanos(
                Shape::USUAL.batch(NO_PRODUCER).len() as u64 * 1_000_000_000 * producers_count / options.rate,
            );
            let partition = |broker: usize, n: usize| vec![(broker * EACH + n) as i32];
            let plans = producers(&cluster, EACH, partition, Pace::Open { interval, time });
            let (epoch, stopped) = (Instant::now(), Arc::new(AtomicBool::new(false)));
            let readers: Vec<_> = (0..BROKERS)
                .map(|broker| {
                    let until = consumer::Until::Stopped(stopped.clone());
                    let plan = consumer(&cluster, broker, (0..(BROKERS * EACH) as i32).collect(), until);
                    tokio::spawn(consumer::run(plan, epoch))
                })
                .collect();
            let (cpu, started) = (cluster.broker_cpu()?, Instant::now());
            // Not in step with each other: producers of a real cluster are not.
            let staggered = plans.into_iter().enumerate().map(|(n, plan)| async move {
                tokio::time::sleep(interval * n as u32 / producers_count as u32).await;
                producer::run(plan, epoch).await
            });
            let reports = try_join_all(staggered).await?;
            let (cpu, took) = (cluster.broker_cpu()? - cpu, started.elapsed());
            tokio::time::sleep(Duration::from_millis(500)).await;
            stopped.store(true, Ordering::Relaxed);
            let (mut same, mut other) = (Vec::new(), Vec::new());
            for (broker, reader) in readers.into_iter().enumerate() {
                for (partition, time) in reader.await??.latencies {
                    let near = partition as usize / EACH == broker;
                    if near { same.push(time) } else { other.push(time) }
                }
            }
            let bytes = reports.iter().map(|r| r.bytes).sum::<u64>();
            let acks = Times::new(reports.into_iter().flat_map(|r| r.latencies).collect());
            println!(
                "| {} | {} | {:.1} | {} | {} | {} | {:.2} |",
                ms(latency),
                budget.map_or("default".to_owned(), |puts| format!("{puts}/s")),
                mb_per_second(bytes, took),
                acks.told(),
                Times::new(same).told(),
                Times::new(other).told(),
                cpu_per_gb(cpu, bytes),
            );
        }
    }
    Ok(())
}

/// As fast as it goes, in through all three brokers; then out of their caches.
///
/// Back of the envelope, per GB in: the kernel copies a byte in and out (0.3 s), two copies of ours and three checksums
/// (0.4 s), 16 k frames at 64 KB (0.1 s), 240 PUTs at 0.2 ms, 240 entries on three brokers at 85 µs: about 1 s.
pub async fn throughput(options: &Options) -> Result<()> {
    println!("\nfull rate, 1 KB records in 64 KB batches, default budget; CPU-s/GB; aims: 2.0 in, 1.0 out of cache");
    println!(
        "| producers × batches to a request | in: MB/s | brokers | S3 server | clients | ack p50 / p99 ms | out: MB/s | brokers | clients |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for batches in [1usize, 16] {
        let mut rows: Vec<[f64; 7]> = Vec::new();
        let mut acks = Vec::new();
        for _ in 0..options.runs {
            let (row, latencies) = flood(options, batches).await?;
            rows.push(row);
            acks.extend(latencies);
        }
        let column = |n: usize| median(rows.iter().map(|row| row[n]).collect());
        println!(
            "| {} × {batches} | {:.0} | {:.2} | {:.2} | {:.2} | {} | {:.0} | {:.2} | {:.2} |",
            32 / batches * BROKERS,
            column(0),
            column(1),
            column(2),
            column(3),
            Times::new(acks).told(),
            column(4),
            column(5),
            column(6),
        );
    }
    Ok(())
}

async fn flood(options: &Options, batches: usize) -> Result<([f64; 7], Vec<Duration>)> {
    // Each broker has 10 MB on their way to it: more than an object, so that sizes seal and not the budget.
    let each = 32 / batches;
    // What all readers together read again and again fits in every broker's cache.
    const READ_AGAIN_BYTES: u64 = 64 * MB;
    let streams = BROKERS * each;
    let cluster = start(options, Duration::ZERO, None, (streams * batches) as i32).await?;
    let of_stream = |broker: usize, n: usize| {
        let first = (broker * each + n) * batches;
        (first as i32..(first + batches) as i32).collect::<Vec<i32>>()
    };
    let me = std::process::id();
    let usage = || Ok::<_, anyhow::Error>((cluster.broker_cpu()?, cluster.store_cpu()?, usage::cpu(me)?));
    let epoch = Instant::now();

    // First what is read later, so that the caches hold it in full; it also warms everything up.
    let pace = |bytes: u64| Pace::Closed { bytes: bytes / streams as u64 };
    produce(producers(&cluster, each, of_stream, pace(READ_AGAIN_BYTES)), epoch).await?;
    let (before, started) = (usage()?, Instant::now());
    let read_bytes = options.bytes / streams as u64;
    let readers = (0..BROKERS).flat_map(|broker| (0..each).map(move |n| (broker, n))).map(|(broker, n)| {
        consumer::run(consumer(&cluster, broker, of_stream(broker, n), consumer::Until::Bytes(read_bytes)), epoch)
    });
    let reports = try_join_all(readers).await?;
    let (after, took) = (usage()?, started.elapsed());
    let out_bytes: u64 = reports.iter().map(|r| r.bytes).sum();
    let out = [
        mb_per_second(out_bytes, took),
        cpu_per_gb(after.0 - before.0, out_bytes),
        cpu_per_gb(after.2 - before.2, out_bytes),
    ];

    let (before, started) = (usage()?, Instant::now());
    let report = produce(producers(&cluster, each, of_stream, pace(options.bytes)), epoch).await?;
    let (after, took) = (usage()?, started.elapsed());
    let per_gb = |cpu: Duration| cpu_per_gb(cpu, report.bytes);
    let (brokers, store, clients) = (after.0 - before.0, after.1 - before.1, after.2 - before.2);
    let row =
        [mb_per_second(report.bytes, took), per_gb(brokers), per_gb(store), per_gb(clients), out[0], out[1], out[2]];
    Ok((row, report.latencies))
}

/// One idempotent producer: five requests on their way, 16 batches of 64 KB each, as a client with 16 partitions fills
/// `max.request.size`.
///
/// Back of the envelope: 5 MB on their way for each round trip, so 5 MB ÷ (PUT + 10 ms): 500, 250 and 100 MB/s.
pub async fn single(options: &Options) -> Result<()> {
    println!("\none idempotent producer, 1 MB requests, 5 on their way; aim: 100 MB/s");
    println!("| PUT + | budget | MB/s | ack p50 / p99 ms | broker CPU-s/GB |");
    println!("|---|---|---|---|---|");
    for latency in LATENCIES {
        for budget in [Some(PLENTY), None] {
            let mut rates = Vec::new();
            let (mut cpus, mut acks) = (Vec::new(), Vec::new());
            for _ in 0..options.runs {
                let cluster = start(options, latency, budget, 16).await?;
                let pace = Pace::Closed { bytes: options.bytes / 2 };
                let plan = producers(&cluster, 1, |_, _| (0..16).collect(), pace).swap_remove(0);
                let (cpu, started) = (cluster.broker_cpu()?, Instant::now());
                let report = produce(vec![plan], started).await?;
                rates.push(mb_per_second(report.bytes, started.elapsed()));
                cpus.push(cpu_per_gb(cluster.broker_cpu()? - cpu, report.bytes));
                acks.extend(report.latencies);
            }
            let budget = budget.map_or("default".to_owned(), |puts| format!("{puts}/s"));
            println!(
                "| {} | {budget} | {:.0} | {} | {:.2} |",
                ms(latency),
                median(rates),
                Times::new(acks).told(),
                median(cpus)
            );
        }
    }
    Ok(())
}

/// What transactions cost: the same load with and without them, six producers of 16 partitions each.
///
/// Back of the envelope: a producer waits for its last answers and for one entry before it goes on, about a PUT and 10 ms;
/// each end is three entries and one for every shard written to. At full rate others use what it leaves.
pub async fn transactional(options: &Options) -> Result<()> {
    const EACH: usize = 2;
    const BATCHES: usize = 16;
    const LENGTHS: [Option<Duration>; 4] =
        [None, Some(Duration::from_secs(3)), Some(Duration::from_secs(1)), Some(Duration::from_millis(100))];
    println!("\nfull rate, 6 producers, 16 batches of 64 KB to a request, default budget; aim: 0.8 of idempotent");
    println!("| transactions of | committed | MB/s | of idempotent | broker CPU-s/GB | ack p50 / p99 ms |");
    println!("|---|---|---|---|---|---|");
    let mut rows = vec![(Vec::new(), Vec::new(), Vec::new(), 0); LENGTHS.len()];
    // In turn, so that what else the machine does falls on all alike.
    for run in 0..options.runs {
        for (length, row) in LENGTHS.iter().zip(&mut rows) {
            let partitions = (BROKERS * EACH * BATCHES) as i32;
            let cluster = start(options, Duration::ZERO, None, partitions).await?;
            let of = |broker: usize, n: usize| {
                let first = ((broker * EACH + n) * BATCHES) as i32;
                (first..first + BATCHES as i32).collect::<Vec<i32>>()
            };
            let pace = Pace::Closed { bytes: options.bytes / (BROKERS * EACH) as u64 };
            let mut plans = producers(&cluster, EACH, of, pace);
            for (n, plan) in plans.iter_mut().enumerate() {
                plan.transactions = length.map(|length| (format!("load-{run}-{n}"), length));
            }
            let (cpu, started) = (cluster.broker_cpu()?, Instant::now());
            let report = produce(plans, started).await?;
            row.0.push(mb_per_second(report.bytes, started.elapsed()));
            row.1.push(cpu_per_gb(cluster.broker_cpu()? - cpu, report.bytes));
            row.2.extend(report.latencies);
            row.3 += report.transactions;
        }
    }
    let idempotent = median(rows[0].0.clone());
    for (length, (rates, cpus, acks, committed)) in LENGTHS.iter().zip(rows) {
        let rate = median(rates);
        println!(
            "| {} | {committed} | {rate:.0} | {:.2} | {:.2} | {} |",
            length.map_or("(none)".to_owned(), |length| format!("{} ms", length.as_millis())),
            rate / idempotent,
            median(cpus),
            Times::new(acks).told(),
        );
    }
    Ok(())
}

/// 10,000 partitions, in ten topics and in one.
///
/// Back of the envelope: creation is a handful of entries, each partition 20 bytes of them; state is about 300 bytes a
/// partition, 3 MB; what is idle costs 4 groups of beats on each broker, 0.15 % of a core each.
pub async fn partitions(options: &Options) -> Result<()> {
    println!("\n10,000 partitions; aims: 15 s, 3 % of a core, 500 MB");
    println!(
        "| topics | created in s | idle CPU per broker, % | wake-ups/s | idle CPU without partitions, % | RSS per broker, MB | Metadata of all, ms |"
    );
    println!("|---|---|---|---|---|---|---|");
    for topics_count in [1, 10, 1000] {
        let each = 10_000 / topics_count;
        let cluster =
            Cluster::start(cluster::Plan { binary: &options.binary, latency: Duration::ZERO, puts_per_second: None })
                .await?;
        let empty = idle(&cluster, options.seconds).await?.0;
        let names: Vec<String> = (0..topics_count).map(|n| format!("idle-{n}")).collect();
        let started = Instant::now();
        topics::create(&cluster, &names, each).await?;
        let created = started.elapsed();
        topics::wait_seen(&cluster, &names, each).await?;
        let (cpu, wakeups) = idle(&cluster, options.seconds).await?;
        let mut rss = Vec::new();
        for broker in &cluster.brokers {
            rss.push(usage::resident_bytes(broker.pid())? as f64 / 1e6);
        }
        let mut connection = Connection::open(&cluster.brokers[1].address, "admin").await?;
        let asked = Instant::now();
        connection.call(9, &MetadataRequest::default().with_topics(None)).await?;
        let told = |values: &[f64]| values.iter().map(|v| format!("{v:.1}")).collect::<Vec<_>>().join(", ");
        println!(
            "| {topics_count} | {:.1} | {} | {} | {} | {} | {} |",
            created.as_secs_f64(),
            told(&cpu),
            told(&wakeups),
            told(&empty),
            told(&rss),
            ms(asked.elapsed()),
        );
    }
    Ok(())
}

/// Percent of a core, and wake-ups in each second, of each broker while nobody asks for anything.
async fn idle(cluster: &Cluster, seconds: u64) -> Result<(Vec<f64>, Vec<f64>)> {
    // What was started by creation has to come to rest.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let look = || cluster.brokers.iter().map(|b| Ok((b.cpu()?, usage::wakeups(b.pid())?))).collect::<Result<Vec<_>>>();
    let (before, started) = (look()?, Instant::now());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (after, took) = (look()?, started.elapsed().as_secs_f64());
    let pairs = || before.iter().zip(&after);
    let cpu = pairs().map(|(b, a)| (a.0 - b.0).as_secs_f64() / took * 100.0).collect();
    Ok((cpu, pairs().map(|(b, a)| (a.1 - b.1) as f64 / took).collect()))
}
