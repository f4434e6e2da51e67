use bytes::{Bytes, BytesMut};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::builder::put_footer;
use super::*;
use crate::object::crc32c;
use crate::types::TopicId;

fn partition(topic: u8, index: i32) -> Partition {
    Partition { topic: TopicId::from_bytes([topic; 16]), index }
}

fn contents(shard: ShardId, topic: u8, index: i32, slices: &[&'static [u8]]) -> Contents {
    Contents {
        shard,
        partition: partition(topic, index),
        slices: slices.iter().map(|slice| Bytes::from_static(slice)).collect(),
        batch_count: slices.len() as u32,
        record_count: 10,
        min_timestamp: 1_700_000_000_000,
        max_timestamp: 1_700_000_000_500,
    }
}

fn sample() -> (Bytes, Vec<Section>) {
    let mut builder = Builder::new();
    builder.push(contents(1, 7, 0, &[b"alpha", b"beta"])).unwrap();
    builder.push(contents(1, 7, 3, &[b"gamma"])).unwrap();
    builder.push(contents(4, 2, 0, &[b"delta"])).unwrap();
    builder.finish()
}

fn read(object: &[u8]) -> Result<Footer, Error> {
    Footer::read(object, object.len() as u64)
}

#[test]
fn the_format_is_pinned() {
    let (object, sections) = sample();
    // A change of these bytes is a change of format: it needs a new version.
    let (records, index) = object.split_at(19);
    assert_eq!(records, b"alphabetagammadelta");
    let hex: String = index.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, include_str!("v1.hex").trim());
    let ranges: Vec<_> = sections.iter().map(|s| (s.range.start, s.range.len)).collect();
    assert_eq!(ranges, [(0, 9), (9, 5), (14, 5)]);
    assert_eq!(sections[0].crc32c, crc32c(b"alphabeta"));
}

#[test]
fn a_short_tail_says_what_it_needs() {
    let (object, sections) = sample();
    let tail = |len: usize| Footer::read(&object[object.len() - len..], object.len() as u64);
    assert_eq!(tail(15), Err(Error::TailTooShort { tail_bytes: 16 }));
    let Err(Error::TailTooShort { tail_bytes }) = tail(16) else { panic!("sixteen bytes hold no footer") };
    assert_eq!(tail(tail_bytes as usize).unwrap().sections, sections);
    assert_eq!(tail(tail_bytes as usize).unwrap().index_bytes, tail_bytes);
}

#[test]
fn an_object_cut_short_or_extended_is_refused() {
    let (object, _) = sample();
    for len in 0..object.len() {
        assert!(read(&object[..len]).is_err(), "cut to {len}");
    }
    // The tail of one object under the length of another.
    assert!(Footer::read(&object[10..], object.len() as u64 - 10).is_err());
    assert!(Footer::read(&object, object.len() as u64 + 1).is_err());
    assert!(Footer::read(&object, object.len() as u64 - 1).is_err());
}

#[test]
fn every_flipped_bit_of_the_index_is_noticed() {
    let (object, _) = sample();
    for bit in 19 * 8..object.len() * 8 {
        let mut damaged = object.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&damaged).is_err(), "bit {bit}");
    }
}

#[test]
fn a_newer_version_is_named() {
    let (object, _) = sample();
    let mut newer = object.to_vec();
    let at = newer.len() - 8;
    newer[at] = 2;
    assert_eq!(read(&newer), Err(Error::Version { version: 2 }));
}

#[test]
fn an_object_without_sections_is_read() {
    let (object, sections) = Builder::new().finish();
    assert_eq!(read(&object).unwrap().sections, sections);
}

#[test]
fn the_builder_refuses_what_the_format_cannot_say() {
    let mut builder = Builder::new();
    builder.push(contents(2, 7, 1, &[b"x"])).unwrap();
    for wrong in [
        contents(2, 7, 1, &[b"x"]),
        contents(2, 7, 0, &[b"x"]),
        contents(1, 9, 0, &[b"x"]),
        contents(3, 7, -1, &[b"x"]),
        contents(3, 7, 0, &[b""]),
        contents(3, 7, 0, &[]),
    ] {
        assert!(matches!(builder.push(wrong), Err(Error::Input(_))));
    }
    assert_eq!(builder.bytes(), 1);
}

/// A footer whose checksum is right, so that only the strict reader stands between it and the broker.
fn seal(footer: &[u8], records_bytes: usize) -> Vec<u8> {
    let mut object = vec![0; records_bytes];
    object.extend_from_slice(footer);
    object.extend_from_slice(&(footer.len() as u32).to_le_bytes());
    object.extend_from_slice(&footer_crc32c(footer, VERSION).to_le_bytes());
    object.extend_from_slice(&VERSION.to_le_bytes());
    object.extend_from_slice(&MAGIC);
    object
}

type Given = (Vec<Vec<u8>>, u32, u32, i64, i64);

fn any_sections() -> impl Strategy<Value = std::collections::BTreeMap<(u32, u8, i32), Given>> {
    let given = (vec(vec(any::<u8>(), 1..20), 1..4), any::<u32>(), any::<u32>(), any::<i64>(), any::<i64>());
    btree_map((any::<u32>(), any::<u8>(), 0..i32::MAX), given, 0..20)
}

proptest! {
    #[test]
    fn what_was_built_is_read(given in any_sections()) {
        let mut builder = Builder::new();
        let mut expected = Vec::new();
        for ((shard, topic, index), (slices, batch_count, record_count, min_timestamp, max_timestamp)) in given {
            expected.push(slices.concat());
            let slices = slices.into_iter().map(Bytes::from).collect();
            let partition = partition(topic, index);
            builder.push(Contents {
                shard, partition, slices, batch_count, record_count, min_timestamp, max_timestamp,
            }).unwrap();
        }
        let (object, sections) = builder.finish();
        let footer = read(&object).unwrap();
        prop_assert_eq!(&footer.sections, &sections);
        for (section, bytes) in sections.iter().zip(expected) {
            let stored = &object[section.range.start as usize..section.range.end() as usize];
            prop_assert_eq!(stored, &bytes[..]);
            prop_assert_eq!(section.crc32c, crc32c(&bytes));
        }
    }

    #[test]
    fn hostile_footers_never_panic_and_have_one_spelling(footer in vec(any::<u8>(), 0..120), records in 0usize..64) {
        let object = seal(&footer, records);
        if let Ok(read) = read(&object) {
            let mut topics: Vec<_> = read.sections.iter().map(|s| s.partition.topic).collect();
            topics.sort_unstable();
            topics.dedup();
            let mut again = BytesMut::new();
            put_footer(&mut again, &topics, &read.sections);
            // Only a topic that no section names can be lost on the way.
            prop_assert!(again.len() <= footer.len());
        }
    }

    #[test]
    fn damaged_footers_never_panic(at in any::<prop::sample::Index>(), value: u8, extra in vec(any::<u8>(), 0..6)) {
        let (object, _) = sample();
        let mut footer = object[19..object.len() - TRAILER_BYTES].to_vec();
        let at = at.index(footer.len());
        footer[at] = value;
        footer.splice(at..at, extra);
        let _ = read(&seal(&footer, 19));
    }
}
