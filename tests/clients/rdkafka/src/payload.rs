//! Values that prove themselves: who wrote them, which one it is, and a checksum over the rest.
//!
//! ```text
//! | "MP01" | writer u32 | sequence u64 | CRC-32 of writer, sequence and body u32 | body … |
//! ```
//! The body looks random, so that compression changes nothing in the byte counts.

use anyhow::{Context, Result, ensure};

const MAGIC: &[u8; 4] = b"MP01";
pub const HEADER_BYTES: usize = 20;

/// What a value says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    pub writer: u32,
    pub sequence: u64,
}

pub fn make(stamp: Stamp, value_bytes: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(value_bytes.max(HEADER_BYTES) + 8);
    value.extend_from_slice(MAGIC);
    value.extend_from_slice(&stamp.writer.to_be_bytes());
    value.extend_from_slice(&stamp.sequence.to_be_bytes());
    value.extend_from_slice(&[0; 4]);
    // splitmix64: every stamp starts another row of numbers.
    let mut state = (u64::from(stamp.writer) << 40) ^ stamp.sequence;
    while value.len() < value_bytes {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
    }
    value.truncate(value_bytes.max(HEADER_BYTES));
    let crc = checksum(&value);
    value[16..20].copy_from_slice(&crc.to_be_bytes());
    value
}

/// Reads the stamp and refuses a value that was changed on the way.
pub fn read(value: &[u8]) -> Result<Stamp> {
    ensure!(value.len() >= HEADER_BYTES, "a value of {} bytes is not one of ours", value.len());
    ensure!(&value[..4] == MAGIC, "a value without our mark: {:?}", &value[..4]);
    let stamp = Stamp {
        writer: u32::from_be_bytes(value[4..8].try_into().context("writer")?),
        sequence: u64::from_be_bytes(value[8..16].try_into().context("sequence")?),
    };
    let claimed = u32::from_be_bytes(value[16..20].try_into().context("checksum")?);
    ensure!(checksum(value) == claimed, "the payload checksum of {stamp:?} is wrong");
    Ok(stamp)
}

fn checksum(value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&value[4..16]);
    hasher.update(&value[HEADER_BYTES..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_its_own_stamp() {
        let stamp = Stamp { writer: 3, sequence: 1 << 40 };
        for value_bytes in [0, 20, 21, 1024] {
            let value = make(stamp, value_bytes);
            assert_eq!(value.len(), value_bytes.max(HEADER_BYTES));
            assert_eq!(read(&value).unwrap(), stamp);
        }
    }

    #[test]
    fn refuses_any_changed_byte() {
        let value = make(Stamp { writer: 1, sequence: 7 }, 64);
        for position in 0..value.len() {
            let mut changed = value.clone();
            changed[position] ^= 1;
            assert!(read(&changed).is_err(), "byte {position}");
        }
    }
}
