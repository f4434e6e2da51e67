use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C (Castagnoli), as Kafka's batches use it.
pub(super) fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    u32::try_from(digest.finalize()).expect("a 32-bit algorithm yields 32 bits")
}

#[cfg(test)]
mod tests {
    #[test]
    fn matches_the_published_check_value() {
        assert_eq!(super::crc32c(&[b"1234", b"56789"]), 0xE306_9283);
    }
}
