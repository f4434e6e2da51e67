use bytes::Bytes;

use super::build::{self, NewRecord, Spec};
use super::*;

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

fn spec(codec: Codec) -> Spec {
    Spec { codec, ..Spec::default() }
}

#[test]
fn decodes_what_was_built_with_each_codec() {
    let long = vec![b'x'; 100_000];
    let headers: [(&[u8], Option<&[u8]>); 3] = [(b"h", Some(b"1")), (b"h", None), (b"", Some(b""))];
    let records = [
        NewRecord { headers: &headers, ..NewRecord::new(b"key", b"value", 1_000) },
        NewRecord { key: None, value: None, timestamp: 500, headers: &[] },
        NewRecord::new(b"", &long, 5_000_000_000_000),
    ];
    for codec in CODECS {
        let batch = build::batch(&records, &spec(codec));
        let decoded: Vec<_> = records::iter(&batch, 1 << 20).unwrap().map(Result::unwrap).collect();
        assert_eq!(decoded.len(), 3);
        for ((delta, record), built) in (0..).zip(&decoded).zip(&records) {
            assert_eq!(record.offset_delta, delta);
            assert_eq!(record.timestamp, built.timestamp);
            assert_eq!(record.key.as_deref(), built.key);
            assert_eq!(record.value.as_deref(), built.value);
            let names = record.headers.iter().map(|(name, value)| (&name[..], value.as_deref()));
            assert_eq!(names.collect::<Vec<_>>(), built.headers);
        }
    }
}

#[test]
fn reads_snappy_without_xerial_framing() {
    let xerial = build::batch(&[NewRecord::new(b"key", b"value", 7)], &spec(Codec::Snappy));
    let plain = build::batch(&[NewRecord::new(b"key", b"value", 7)], &Spec::default());
    let raw = snap::raw::Encoder::new().compress_vec(&plain[HEADER_BYTES..]).unwrap();
    let mut batch = [&xerial[..HEADER_BYTES], &raw].concat();
    let length = (batch.len() - 12) as i32;
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    let decoded: Vec<_> = records::iter(&Bytes::from(batch), 1 << 20).unwrap().collect();
    assert_eq!(decoded[0].as_ref().unwrap().value.as_deref(), Some(b"value".as_slice()));
}

#[test]
fn shares_uncompressed_values_with_the_batch() {
    let batch = build::batch(&[NewRecord::value(b"value", 7)], &Spec::default());
    let record = records::iter(&batch, 0).unwrap().next().unwrap().unwrap();
    assert!(batch.as_ptr_range().contains(&record.value.unwrap().as_ptr()));
}

#[test]
fn finds_the_first_record_at_or_after_a_time_inside_a_batch() {
    let records: Vec<_> = [100, 300, 200, 300, 250].map(|timestamp| NewRecord::value(b"some value", timestamp)).into();
    for codec in CODECS {
        let batch = build::batch(&records, &spec(codec));
        let find = |target| records::find_timestamp(&batch, 1_000, 0, target, 1 << 20).unwrap();
        assert_eq!(find(0), Some((1_000, 100)));
        assert_eq!(find(100), Some((1_000, 100)));
        assert_eq!(find(101), Some((1_001, 300)));
        assert_eq!(find(300), Some((1_001, 300)));
        assert_eq!(find(301), None);
        assert_eq!(records::max_timestamp(&batch, 1_000, 0, 1 << 20), Ok(Some((1_001, 300))));
        // As if the log began inside the batch.
        assert_eq!(records::find_timestamp(&batch, 1_000, 1_002, 0, 1 << 20).unwrap().map(|(at, _)| at), Some(1_002));
        assert_ne!(records::max_timestamp(&batch, 1_000, 1_002, 1 << 20), Ok(Some((1_001, 300))));
        assert_eq!(records::max_timestamp(&batch, 1_000, 2_000, 1 << 20), Ok(None));
    }
}

/// Look-ups read what is stored, where append time is the pointer's and never the batch's.
#[test]
fn a_producer_s_claim_of_append_time_means_nothing_to_a_look_up() {
    let records = [NewRecord::value(b"a", 5), NewRecord::value(b"b", 6)];
    let mut batch = build::batch(&records, &Spec::default()).to_vec();
    batch[22] |= 8;
    build::seal(&mut batch);
    assert_eq!(records::find_timestamp(&batch, 40, 0, 6, 1 << 20), Ok(Some((41, 6))));
    assert_eq!(records::max_timestamp(&batch, 40, 0, 1 << 20), Ok(Some((41, 6))));
}

#[test]
fn a_bomb_is_refused_at_the_cap() {
    let zeros = vec![0; 8 << 20];
    for codec in CODECS {
        let batch = build::batch(&[NewRecord::value(&zeros, 1), NewRecord::value(b"v", 2)], &spec(codec));
        if codec != Codec::None {
            assert_eq!(
                records::iter(&batch, 1 << 20).unwrap_err(),
                Error::InflatesTooLarge { max: 1 << 20 },
                "{codec:?}"
            );
        }
        assert_eq!(
            records::max_timestamp(&batch, 0, 0, 1 << 20),
            Err(Error::InflatesTooLarge { max: 1 << 20 }),
            "{codec:?}"
        );
        assert_eq!(records::max_timestamp(&batch, 0, 0, 9 << 20), Ok(Some((1, 2))), "{codec:?}");
    }
}

#[test]
fn exactly_the_cap_is_allowed() {
    let plain = build::batch(&[NewRecord::value(b"some value", 1)], &Spec::default());
    let bytes = plain.len() - HEADER_BYTES;
    for codec in CODECS {
        let batch = build::batch(&[NewRecord::value(b"some value", 1)], &spec(codec));
        assert_eq!(records::iter(&batch, bytes).unwrap().filter(Result::is_ok).count(), 1, "{codec:?}");
        assert_eq!(records::max_timestamp(&batch, 0, 0, bytes), Ok(Some((0, 1))), "{codec:?}");
    }
}
