//! Bytes nobody meant as a batch: every function answers, none panics, none allocates beyond its cap.

use bytes::Bytes;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::build::{self, NewRecord, Spec};
use super::*;

const INFLATED_BYTES_MAX: usize = 64 * 1024;

/// Runs everything that takes foreign bytes.
fn exercise(bytes: Bytes) {
    let rules = Rules { keys_required: true, inflated_bytes_max: INFLATED_BYTES_MAX, ..Rules::default() };
    let _ = validate(bytes.clone(), &rules);
    if let Ok(records) = records::iter(&bytes, INFLATED_BYTES_MAX) {
        for record in records.flatten() {
            let held = record.value.map_or(0, |value| value.len());
            assert!(held <= INFLATED_BYTES_MAX.max(bytes.len()));
        }
    }
    let _ = records::find_timestamp(&bytes, i64::MAX, 0, i64::MAX, INFLATED_BYTES_MAX);
    let _ = records::max_timestamp(&bytes, i64::MAX, 0, INFLATED_BYTES_MAX);
    let mut out = Segments::new();
    let _ = patch::for_reader(&bytes, i64::MAX, i32::MAX, Some(i64::MAX), &mut out);
    assert!(out.len() <= bytes.len());
}

fn seeds() -> Vec<Vec<u8>> {
    let value = vec![b'v'; 3_000];
    let headers: [(&[u8], Option<&[u8]>); 1] = [(b"name", Some(b"value"))];
    let records = [
        NewRecord { headers: &headers, ..NewRecord::new(b"key", &value, 1_000) },
        NewRecord::value(b"", -1),
        NewRecord::new(b"k", b"v", i64::MAX / 4),
    ];
    [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd]
        .map(|codec| build::batch(&records, &Spec { codec, ..Spec::default() }).to_vec())
        .into()
}

#[test]
fn mutated_batches_are_answered() {
    let mut random = StdRng::seed_from_u64(0x6d69_6c65);
    let seeds = seeds();
    for round in 0..20_000 {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..random.random_range(1..6) {
            let at = random.random_range(0..bytes.len());
            bytes[at] = match random.random_range(0..4) {
                0 => 0xff,
                1 => 0x7f,
                2 => bytes[at] ^ (1 << random.random_range(0..8)),
                _ => random.random(),
            };
        }
        if random.random_bool(0.2) {
            bytes.truncate(random.random_range(0..=bytes.len()));
        }
        // With a right length and CRC the damage reaches the code behind these checks.
        if bytes.len() >= HEADER_BYTES && random.random_bool(0.8) {
            let length = (bytes.len() - 12) as i32;
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
            bytes[16] = 2;
            build::seal(&mut bytes);
        }
        exercise(Bytes::from(bytes));
    }
}

#[test]
fn every_truncation_is_answered() {
    for seed in seeds() {
        for cut in 0..seed.len() {
            exercise(Bytes::from(seed[..cut].to_vec()));
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        exercise(Bytes::from(bytes));
    }

    #[test]
    fn random_payloads_behind_a_right_header_are_answered(
        payload in proptest::collection::vec(any::<u8>(), 0..300),
        attributes in 0i16..8,
        count in prop_oneof![Just(1), Just(i32::MAX), any::<i32>()],
    ) {
        let mut batch = build::batch(&[], &Spec::default()).to_vec();
        batch.extend_from_slice(&payload);
        let length = (batch.len() - 12) as i32;
        batch[8..12].copy_from_slice(&length.to_be_bytes());
        batch[21..23].copy_from_slice(&attributes.to_be_bytes());
        batch[23..27].copy_from_slice(&count.wrapping_sub(1).to_be_bytes());
        batch[57..61].copy_from_slice(&count.to_be_bytes());
        build::seal(&mut batch);
        exercise(Bytes::from(batch));
    }

    #[test]
    fn records_survive_a_round_trip(
        records in proptest::collection::vec(
            (proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
             proptest::option::of(proptest::collection::vec(any::<u8>(), 0..200)),
             0i64..i64::MAX / 2),
            1..20),
        codec in prop_oneof![
            Just(Codec::None), Just(Codec::Gzip), Just(Codec::Snappy), Just(Codec::Lz4), Just(Codec::Zstd)],
    ) {
        let new: Vec<_> = records.iter().map(|(key, value, timestamp)| NewRecord {
            key: key.as_deref(), value: value.as_deref(), timestamp: *timestamp, headers: &[],
        }).collect();
        let batch = build::batch(&new, &Spec { codec, ..Spec::default() });
        let valid = validate(batch.clone(), &Rules::default()).unwrap();
        prop_assert_eq!(valid[0].max_timestamp(), records.iter().map(|r| r.2).max().unwrap());
        let decoded: Vec<_> = records::iter(&batch, 1 << 20).unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(decoded.len(), records.len());
        for (record, (key, value, timestamp)) in decoded.iter().zip(&records) {
            prop_assert_eq!(record.key.as_deref(), key.as_deref());
            prop_assert_eq!(record.value.as_deref(), value.as_deref());
            prop_assert_eq!(record.timestamp, *timestamp);
        }
    }
}
