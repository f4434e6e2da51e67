//! Batches in the codec that their topic asks for (`compression.type`).

use bytes::Bytes;

use super::validate::{ValidBatch, check_lengths};
use super::{Codec, Error, HEADER_BYTES, Header, build, inflate};

/// What a topic's batches are compressed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    pub codec: Codec,
    /// Of gzip and zstd; lz4 and snappy have none here.
    pub level: i32,
}

impl ValidBatch {
    /// Whether the batch is to be compressed anew. One that has the codec is taken as it is, whatever its level was.
    pub fn differs_from(&self, wanted: Compression) -> bool {
        self.header().attributes.codec() != Ok(wanted.codec)
    }

    /// The same records, compressed as wanted.
    ///
    /// # Errors
    /// What was sent does not decompress, or not to as many records as it says, or to more than the caller's cap.
    pub fn recompressed(self, wanted: Compression, inflated_bytes_max: usize) -> Result<ValidBatch, Error> {
        if !self.differs_from(wanted) {
            return Ok(self);
        }
        let header = self.header();
        let payload = self.bytes().slice(HEADER_BYTES..);
        let plain = inflate::all(header.attributes.codec()?, &payload, inflated_bytes_max)?;
        check_lengths(&plain, header.count)?;
        let payload = build::compress(wanted.codec, plain.into(), Some(wanted.level));
        let mut batch = Vec::with_capacity(HEADER_BYTES + payload.len());
        batch.extend_from_slice(&self.bytes()[..HEADER_BYTES]);
        batch.extend_from_slice(&payload);
        let length = i32::try_from(batch.len() - 12).map_err(|_| Error::InflatesTooLarge { max: i32::MAX as usize })?;
        batch[8..12].copy_from_slice(&length.to_be_bytes());
        batch[21..23].copy_from_slice(&header.attributes.with_codec(wanted.codec).0.to_be_bytes());
        // Some producers leave it unset.
        batch[35..43].copy_from_slice(&self.max_timestamp().to_be_bytes());
        build::seal(&mut batch);
        let batch = Bytes::from(batch);
        let header = Header::peek(&batch)?;
        Ok(ValidBatch { header, bytes: batch, max_timestamp: self.max_timestamp() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::build::{NewRecord, Spec};
    use crate::batch::{Rules, records, validate};
    use crate::types::Producer;

    const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    fn batch(codec: Codec) -> ValidBatch {
        let value = "the same again and again ".repeat(40);
        let records = [NewRecord::new(b"k", value.as_bytes(), 5), NewRecord::value(b"v", 9)];
        let producer = Producer { id: 7, epoch: 1 };
        let batch = build::batch(&records, &Spec { codec, producer, base_sequence: 3, ..Spec::default() });
        validate(batch, &Rules::default()).unwrap().remove(0)
    }

    #[test]
    fn every_codec_becomes_every_other_and_nothing_else_changes() {
        for (from, to) in CODECS.into_iter().flat_map(|from| CODECS.map(|to| (from, to))) {
            for level in [1, 9] {
                let before = batch(from);
                let after = before.clone().recompressed(Compression { codec: to, level }, 1 << 20).unwrap();
                let all = |batch: &ValidBatch| {
                    records::iter(batch.bytes(), 1 << 20).unwrap().collect::<Result<Vec<_>, _>>().unwrap()
                };
                assert_eq!(all(&after), all(&before), "{from:?} to {to:?}");
                let (was, is) = (before.header(), after.header());
                assert_eq!(is.attributes.codec(), Ok(to));
                assert_eq!((is.producer, is.base_sequence, is.count), (was.producer, was.base_sequence, was.count));
                // Whoever reads it checks the sum.
                validate(after.bytes().clone(), &Rules::default()).unwrap();
            }
        }
    }

    #[test]
    fn a_batch_that_has_the_codec_is_the_same_bytes() {
        let before = batch(Codec::Zstd);
        let after = before.clone().recompressed(Compression { codec: Codec::Zstd, level: 19 }, 0).unwrap();
        assert_eq!(after.bytes().as_ptr(), before.bytes().as_ptr());
    }

    #[test]
    fn what_does_not_decompress_is_refused() {
        let mut bytes = batch(Codec::Gzip).bytes().to_vec();
        let end = bytes.len();
        bytes[end - 20..].fill(0);
        build::seal(&mut bytes);
        let broken = validate(bytes.into(), &Rules::default()).unwrap().remove(0);
        let wanted = Compression { codec: Codec::Zstd, level: 3 };
        assert!(broken.recompressed(wanted, 1 << 20).is_err());
        let large = batch(Codec::Gzip).recompressed(wanted, 10);
        assert_eq!(large.unwrap_err(), Error::InflatesTooLarge { max: 10 });
    }
}
