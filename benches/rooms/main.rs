//! Micro-benchmarks of the rooms, each beside the figure it should be near.
//!
//! `cargo bench --bench rooms`. The figures assume that memory is copied at 10 GB/s and checksummed at 40 GB/s, that an
//! allocation takes 50 ns and a step through a small tree 20 ns.

mod clock;
mod samples;

use bytes::Bytes;
use milepost::batch::{NO_PRODUCER, Rules, Segments, patch, validate};
use milepost::object::layout::Builder;
use milepost::protocol::{fetch, produce};
use milepost::shard::entry::append_entry;
use milepost::shard::{Append, State};
use milepost::types::Producer;

use crate::clock::bench;

const NOW: i64 = 1_790_000_000_000;

fn main() {
    println!("| what | best | middle | back of the envelope |");
    println!("|---|---|---|---|");
    batches();
    requests();
    pointers();
    objects();
    snapshots();
}

fn batches() {
    let rules = Rules::default();
    for (what, codec, expected) in [
        ("batch: validate 64 KB, 63 records", milepost::batch::Codec::None, "1.6 µs of CRC + 63 lengths at 3 ns: 2 µs"),
        ("batch: validate 64 KB, lz4", milepost::batch::Codec::Lz4, "only the CRC of what it shrank to: < 1 µs"),
    ] {
        let batch = samples::batch(1024, 63, NO_PRODUCER, codec);
        bench(what, expected, || batch.clone(), |batch| validate(batch, &rules).expect("it is valid"));
    }
    let batch = samples::batch(1024, 63, NO_PRODUCER, milepost::batch::Codec::None);
    bench("batch: patch 64 KB for a reader", "a header copied, the rest shared: 0.2 µs", Segments::new, |mut out| {
        patch::for_reader(&batch, 77, 5, None, &mut out).expect("it is a batch");
        out
    });
    bench("batch: patch 64 KB, append time", "and 1.6 µs of CRC: 2 µs", Segments::new, |mut out| {
        patch::for_reader(&batch, 77, 5, Some(NOW), &mut out).expect("it is a batch");
        out
    });
}

fn requests() {
    let body = samples::produce_body(100, 16 << 10);
    bench(
        "protocol: decode Produce, 100 × 16 KB",
        "100 × 50 ns, nothing copied: 5 µs",
        || body.clone(),
        |body| produce::decode(9, body, &produce::Limits::default()).expect("it is a request"),
    );
    let batch = samples::batch(1024, 16, NO_PRODUCER, milepost::batch::Codec::None);
    bench(
        "protocol: encode Fetch, 100 × 16 KB",
        "100 × (2 segments at 100 ns): 20 µs",
        || samples::fetch_response(100, &batch),
        |response| fetch::encode(12, response).expect("it can be encoded").into_chunks(),
    );
}

fn pointers() {
    let append = samples::append(2, 1, 100, 1, Producer { id: 4000, epoch: 0 }, 0);
    let packed = append.encode();
    println!(
        "| shard: 100 pointers packed | {} B | {:.1} B each | 20 B each |",
        packed.len(),
        packed.len() as f64 / 100.0
    );
    bench("shard: encode an append, 100 partitions", "100 × 8 varints at 3 ns: 2.5 µs", || (), |()| append.encode());
    bench(
        "shard: decode an append, 100 partitions",
        "the same, and 100 allocations: 7 µs",
        || packed.clone(),
        |packed| Append::decode(&packed).expect("it is an append"),
    );
    let mut sequence = 0;
    let mut state = samples::state(10_000);
    bench(
        "shard: apply an append, 100 partitions",
        "decode 7 µs, 100 × (2 trees at 100 ns + pointer at 50 ns): 30 µs",
        || {
            sequence += 1;
            let append = samples::append(2, sequence, 100, 1, Producer { id: 4000, epoch: 0 }, sequence as i32 - 1);
            append_entry(NOW, &append.encode())
        },
        |entry| state.apply(1, &entry).expect("it is an entry"),
    );
}

fn objects() {
    let contents = samples::contents(100, 40 << 10);
    bench(
        "object: lay out 4 MB, 100 partitions",
        "copy 400 µs + CRC 100 µs",
        || contents.clone(),
        |contents| {
            let mut builder = Builder::new();
            contents.into_iter().for_each(|c| builder.push(c).expect("they are in order"));
            builder.finish()
        },
    );
}

fn snapshots() {
    let state = samples::filled_state(10_000, 10);
    let snapshot = state.to_snapshot();
    println!(
        "| shard: snapshot of 10,000 partitions × 10 pointers | {} KB | | 50 B a pointer: 5 MB |",
        snapshot.len() / 1000
    );
    bench("shard: encode that snapshot", "100 k pointers at 200 ns: 20 ms", || (), |()| state.to_snapshot());
    bench(
        "shard: decode that snapshot",
        "twice that: 40 ms",
        || snapshot.clone(),
        |snapshot: Bytes| State::from_snapshot(&snapshot).expect("it is a snapshot"),
    );
    bench("shard: take that snapshot (share the state)", "10 k × 30 ns: 0.3 ms", || (), |()| state.clone());
}
