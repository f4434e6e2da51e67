//! Stamps on a stored batch what only its commit knew: base offset, leader epoch, append time.

use bytes::Bytes;

use super::header::CRC_START;
use super::{Attributes, Error, HEADER_BYTES, Header, Segments, TimestampType, crc};
use crate::types::{LeaderEpoch, Offset, Timestamp};

/// From this size on, a copied header plus a shared rest is cheaper than a copy of the whole.
const SHARED_BATCH_BYTES_MIN: usize = 2048;

/// Appends `batch` to `out` as a reader must see it. Base offset and epoch stand outside the CRC; the
/// append time of a topic with LogAppendTime lies inside, so its CRC is computed anew.
///
/// # Errors
/// Those of [`Header::peek`]; nothing is appended then.
pub fn for_reader(
    batch: &Bytes,
    base_offset: Offset,
    leader_epoch: LeaderEpoch,
    append_time: Option<Timestamp>,
    out: &mut Segments,
) -> Result<(), Error> {
    let header = Header::peek(batch)?;
    let mut head: [u8; HEADER_BYTES] =
        batch[..HEADER_BYTES].try_into().expect("peek saw a whole header in these bytes");
    let rest = batch.slice(HEADER_BYTES..header.total_len);
    head[0..8].copy_from_slice(&base_offset.to_be_bytes());
    head[12..16].copy_from_slice(&leader_epoch.to_be_bytes());
    // A producer may have set the bit of append time where there is none.
    let stamped = header.attributes.timestamp_type() == TimestampType::LogAppendTime;
    if append_time.is_some() || stamped {
        let attributes = match append_time {
            Some(_) => header.attributes.0 | Attributes::LOG_APPEND_TIME,
            None => header.attributes.with_create_time().0,
        };
        head[21..23].copy_from_slice(&attributes.to_be_bytes());
        head[35..43].copy_from_slice(&append_time.unwrap_or(header.max_timestamp).to_be_bytes());
        let sum = crc::crc32c(&[&head[CRC_START..], &rest]);
        head[17..21].copy_from_slice(&sum.to_be_bytes());
    }
    out.put(&head);
    if header.total_len >= SHARED_BATCH_BYTES_MIN {
        out.share(rest);
    } else {
        out.put(&rest);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::build::{self, NewRecord, Spec};
    use crate::batch::records;
    use crate::types::Producer;

    fn batch_of(value_bytes: usize) -> Bytes {
        let value = vec![b'v'; value_bytes];
        build::batch(&[NewRecord::value(&value, 1_000), NewRecord::value(b"second", 2_000)], &Spec::default())
    }

    #[test]
    fn shares_the_bytes_of_a_big_batch_and_copies_a_small_one() {
        let big = batch_of(4_000);
        let mut out = Segments::new();
        for_reader(&big, 77, 5, None, &mut out).unwrap();
        for_reader(&batch_of(10), 79, 5, None, &mut out).unwrap();
        let chunks = out.into_chunks();
        assert_eq!(chunks.len(), 3);
        assert_eq!(chunks[1].as_ptr(), big[HEADER_BYTES..].as_ptr());
    }

    #[test]
    fn offset_and_epoch_leave_the_crc_valid() {
        for size in [10, 4_000] {
            let mut out = Segments::new();
            for_reader(&batch_of(size), 77, 5, None, &mut out).unwrap();
            let patched = Bytes::from(out.to_vec());
            let header = Header::peek(&patched).unwrap();
            assert_eq!((header.base_offset, header.leader_epoch), (77, 5));
            assert_eq!(header.crc, crc::crc32c(&[&patched[CRC_START..]]));
        }
    }

    #[test]
    fn a_producer_s_own_claim_of_append_time_is_cleared() {
        let mut batch = batch_of(10).to_vec();
        batch[22] |= Attributes::LOG_APPEND_TIME as u8;
        build::seal(&mut batch);
        let mut out = Segments::new();
        for_reader(&batch.into(), 7, 1, None, &mut out).unwrap();
        let patched = Bytes::from(out.to_vec());
        let header = Header::peek(&patched).unwrap();
        assert_eq!(header.attributes.timestamp_type(), TimestampType::CreateTime);
        assert_eq!(header.crc, crc::crc32c(&[&patched[CRC_START..]]));
        let times = records::iter(&patched, 1 << 20).unwrap().map(|record| record.unwrap().timestamp);
        assert_eq!(times.collect::<Vec<_>>(), [1_000, 2_000]);
    }

    #[test]
    fn append_time_is_the_time_of_every_record_and_the_crc_is_new() {
        for size in [10, 4_000] {
            let mut out = Segments::new();
            for_reader(&batch_of(size), 0, 0, Some(9_999), &mut out).unwrap();
            let patched = Bytes::from(out.to_vec());
            let header = Header::peek(&patched).unwrap();
            assert_eq!(header.attributes.timestamp_type(), TimestampType::LogAppendTime);
            assert_eq!(header.crc, crc::crc32c(&[&patched[CRC_START..]]));
            let times = records::iter(&patched, 1 << 20).unwrap().map(|record| record.unwrap().timestamp);
            assert_eq!(times.collect::<Vec<_>>(), [9_999, 9_999]);
        }
    }

    /// As kafka-clients 4.4 writes it (`MemoryRecords.withEndTransactionMarker`, offset 41, leader epoch 5).
    #[test]
    fn the_end_of_a_transaction_is_kafkas_to_the_byte() {
        let rest = "0030000000000000018bcfe5687b0000018bcfe5687b0000000000000fa00003ffffffff0000000120000000080000000";
        let commit = format!("0000000000000029000000420000000502d6b083cb{rest}10c00000000000c00");
        let abort = format!("0000000000000029000000420000000502228e5583{rest}00c00000000000c00");
        for (commits, bytes) in [(true, commit), (false, abort)] {
            let end = build::transaction_end(Producer { id: 4000, epoch: 3 }, commits, 12, 1_700_000_000_123);
            let mut out = Segments::new();
            for_reader(&end, 41, 5, None, &mut out).unwrap();
            let hex: String = out.to_vec().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, bytes);
            assert_eq!(hex.len() / 2, crate::shard::CONTROL_BATCH_BYTES as usize);
        }
    }
}
