use bytes::Bytes;

use super::build::{self, NewRecord, Spec};
use super::*;
use crate::types::Producer;

fn plain() -> Vec<u8> {
    build::batch(&[NewRecord::value(b"a", 10), NewRecord::value(b"b", 20)], &Spec::default()).to_vec()
}

/// Changes `bytes` at `at`, and makes the CRC right again.
fn altered(mut batch: Vec<u8>, at: usize, bytes: &[u8]) -> Bytes {
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    build::seal(&mut batch);
    Bytes::from(batch)
}

fn refusal(records: Bytes) -> Error {
    validate(records, &Rules::default()).unwrap_err()
}

#[test]
fn accepts_each_codec_and_shares_the_bytes() {
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let spec = Spec { codec, producer: Producer { id: 9, epoch: 1 }, base_sequence: 4, ..Spec::default() };
        let batch = build::batch(&[NewRecord::new(b"k", b"v", 10), NewRecord::new(b"k", b"w", 20)], &spec);
        let valid = validate(batch.clone(), &Rules { keys_required: true, ..Rules::default() }).unwrap();
        assert_eq!(valid.len(), 1);
        assert_eq!(valid[0].bytes().as_ptr(), batch.as_ptr());
        assert_eq!(valid[0].max_timestamp(), 20);
        assert_eq!(valid[0].count(), 2);
        assert_eq!(valid[0].header().attributes.codec(), Ok(codec));
        assert_eq!(valid[0].header().producer, Producer { id: 9, epoch: 1 });
    }
}

#[test]
fn splits_several_batches() {
    let records = Bytes::from([plain(), plain(), plain()].concat());
    assert_eq!(validate(records, &Rules::default()).unwrap().len(), 3);
}

#[test]
fn refuses_old_and_unknown_magic() {
    for magic in [0u8, 1, 3, 255] {
        assert_eq!(refusal(altered(plain(), 16, &[magic])), Error::InvalidMagic(magic as i8));
    }
    // A message set of magic 0 may be shorter than a v2 header.
    assert_eq!(refusal(Bytes::from(vec![0; 30])), Error::InvalidMagic(0));
}

#[test]
fn refuses_damage_anywhere_under_the_crc() {
    for at in 17..plain().len() {
        let mut batch = plain();
        batch[at] ^= 1;
        assert_eq!(refusal(Bytes::from(batch)), Error::Corrupt("CRC-32C does not match"), "byte {at}");
    }
}

#[test]
fn refuses_a_length_that_is_not_the_batch() {
    for length in [i32::MIN, -1, 0, 48, i32::MAX, plain().len() as i32 - 11] {
        let error = refusal(altered(plain(), 8, &length.to_be_bytes()));
        assert!(matches!(error, Error::Corrupt(_) | Error::Cut), "{length}: {error}");
    }
    for cut in 0..plain().len() {
        validate(Bytes::from(plain()[..cut].to_vec()), &Rules::default()).unwrap_err();
    }
    assert!(matches!(refusal(Bytes::from([plain(), vec![1, 2, 3]].concat())), Error::Corrupt(_)));
}

#[test]
fn refuses_a_batch_above_the_limit() {
    let batch = Bytes::from(plain());
    let max = batch.len() - 1;
    let rules = Rules { message_bytes_max: max, ..Rules::default() };
    assert_eq!(validate(batch.clone(), &rules).unwrap_err(), Error::TooLarge { bytes: max + 1, max });
    assert!(validate(batch, &Rules { message_bytes_max: max + 1, ..rules }).is_ok());
}

#[test]
fn refuses_counts_that_do_not_agree() {
    for (count, last_delta) in [(0, -1), (-1, -2), (2, 2), (2, 0), (i32::MIN, i32::MAX)] {
        let mut batch = plain();
        batch[23..27].copy_from_slice(&i32::to_be_bytes(last_delta));
        assert!(matches!(refusal(altered(batch, 57, &i32::to_be_bytes(count))), Error::InvalidRecord(_)));
    }
    for count in [1i32, 3, 1_000_000] {
        let mut batch = plain();
        batch[23..27].copy_from_slice(&(count - 1).to_be_bytes());
        assert!(matches!(refusal(altered(batch, 57, &count.to_be_bytes())), Error::InvalidRecord(_)));
    }
}

#[test]
fn refuses_what_only_a_broker_may_write() {
    let control = build::batch(&[NewRecord::value(b"", 1)], &Spec { control: true, ..Spec::default() });
    assert!(matches!(refusal(control), Error::InvalidRecord(_)));
    let stamped = altered(plain(), 21, &8i16.to_be_bytes());
    let rules = Rules { append_time: true, ..Rules::default() };
    assert!(matches!(validate(stamped.clone(), &rules), Err(Error::InvalidTimestamp(_))));
    assert!(validate(stamped, &Rules::default()).is_ok());
    assert!(matches!(refusal(altered(plain(), 0, &7i64.to_be_bytes())), Error::InvalidRecord(_)));
}

#[test]
fn refuses_times_that_the_topic_does_not_take() {
    let batch = Bytes::from(plain());
    let within = |timestamp_min, timestamp_max, append_time| {
        validate(batch.clone(), &Rules { timestamp_min, timestamp_max, append_time, ..Rules::default() }).map(drop)
    };
    assert_eq!(within(10, 20, false), Ok(()));
    assert_eq!(within(10, 19, false), Err(Error::RecordTimes(vec![(1, 20)])));
    assert_eq!(within(11, 20, false), Err(Error::RecordTimes(vec![(0, 10)])));
    assert_eq!(within(11, 19, true), Ok(()));
}

#[test]
fn refuses_unknown_codecs_and_zstd_from_old_clients() {
    for codec in 5..8i16 {
        assert_eq!(refusal(altered(plain(), 21, &codec.to_be_bytes())), Error::UnsupportedCodec(codec as u8));
    }
    let zstd = build::batch(&[NewRecord::value(b"z", 1)], &Spec { codec: Codec::Zstd, ..Spec::default() });
    let rules = Rules { zstd_allowed: false, ..Rules::default() };
    assert_eq!(validate(zstd, &rules).unwrap_err(), Error::UnsupportedCodec(4));
}

/// franz-go without idempotence sends 0.
#[test]
fn the_sequence_of_no_producer_means_nothing() {
    let spec = Spec { producer: NO_PRODUCER, base_sequence: 0, ..Spec::default() };
    let batch = build::batch(&[NewRecord::value(b"v", 1)], &spec);
    assert!(validate(batch, &Rules::default()).is_ok());
}

#[test]
fn refuses_a_producer_without_epoch_or_sequence() {
    let cases = [(5i64, 0i16, -1i32), (5, -1, 0), (-2, 0, 0)];
    for (id, epoch, base_sequence) in cases {
        let spec = Spec { producer: Producer { id, epoch }, base_sequence, ..Spec::default() };
        let batch = build::batch(&[NewRecord::value(b"v", 1)], &spec);
        assert!(matches!(refusal(batch), Error::InvalidRecord(_)), "{id} {epoch} {base_sequence}");
    }
    let spec = Spec { transactional: true, ..Spec::default() };
    assert!(matches!(refusal(build::batch(&[NewRecord::value(b"v", 1)], &spec)), Error::InvalidRecord(_)));
}

#[test]
fn refuses_a_keyless_record_where_keys_are_required() {
    let rules = Rules { keys_required: true, ..Rules::default() };
    assert!(matches!(validate(Bytes::from(plain()), &rules), Err(Error::Keyless(_))));
    let records = [NewRecord::value(b"a", 1), NewRecord::new(b"k", b"b", 1), NewRecord::value(b"c", 1)];
    let batch = build::batch(&records, &Spec { codec: Codec::Lz4, ..Spec::default() });
    assert_eq!(validate(batch, &rules).unwrap_err(), Error::Keyless(vec![0, 2]));
}

#[test]
fn a_record_that_is_too_early_is_found_behind_the_first() {
    let records = [NewRecord::value(b"a", 50), NewRecord::value(b"b", 3), NewRecord::value(b"c", -1)];
    let batch = build::batch(&records, &Spec { codec: Codec::Gzip, ..Spec::default() });
    let rules = Rules { timestamp_min: 10, ..Rules::default() };
    assert_eq!(validate(batch, &rules).unwrap_err(), Error::RecordTimes(vec![(1, 3)]));
}

#[test]
fn computes_a_maximum_timestamp_the_producer_left_unset() {
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let records = [NewRecord::value(b"a", 30), NewRecord::value(b"b", 90), NewRecord::value(b"c", 40)];
        let batch = build::batch(&records, &Spec { codec, ..Spec::default() }).to_vec();
        for claimed in [-1i64, 29] {
            let batch = altered(batch.clone(), 35, &claimed.to_be_bytes());
            assert_eq!(validate(batch, &Rules::default()).unwrap()[0].max_timestamp(), 90);
        }
    }
    let untimed = build::batch(&[NewRecord::value(b"a", -1)], &Spec::default());
    assert_eq!(validate(untimed, &Rules::default()).unwrap()[0].max_timestamp(), -1);
}

#[test]
fn the_last_sequence_wraps_to_zero() {
    let spec = Spec { producer: Producer { id: 1, epoch: 0 }, base_sequence: i32::MAX, ..Spec::default() };
    let batch = build::batch(&[NewRecord::value(b"a", 1), NewRecord::value(b"b", 1)], &spec);
    assert_eq!(Header::peek(&batch).unwrap().last_sequence(), 0);
}
