//! Records that prove themselves: every field of a record says which one it is.
//!
//! ```text
//! payload     | "MPH1" | run u64 | process u32 | op u64 | key u32 | value u64 | CRC-32 of the rest u32 | filling … |
//! record key  value u64
//! header      "v" → value u64
//! timestamp   run + value, modulo what keeps it near the present
//! ```

use anyhow::{Context as _, Result, ensure};
use rdkafka::message::{Headers as _, Message};

use crate::event::{Key, Process, Value, writer_of};

const MAGIC: &[u8; 4] = b"MPH1";
const CRC_AT: usize = 36;
pub const HEADER_BYTES: usize = 40;
pub const HEADER_NAME: &str = "v";

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stamp {
    pub run: u64,
    pub process: Process,
    pub op: u64,
    pub key: Key,
    pub value: Value,
}

impl Stamp {
    pub fn payload(&self, bytes: usize) -> Vec<u8> {
        let mut payload = Vec::with_capacity(bytes.max(HEADER_BYTES));
        payload.extend_from_slice(MAGIC);
        payload.extend_from_slice(&self.run.to_be_bytes());
        payload.extend_from_slice(&self.process.to_be_bytes());
        payload.extend_from_slice(&self.op.to_be_bytes());
        payload.extend_from_slice(&self.key.to_be_bytes());
        payload.extend_from_slice(&self.value.to_be_bytes());
        payload.extend_from_slice(&[0; 4]);
        // Filling that differs from record to record: bytes of a neighbour never pass for one's own.
        let mut state = self.value ^ (u64::from(self.key) << 48);
        while payload.len() < bytes {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            payload.push((state >> 56) as u8);
        }
        let crc = checksum(&payload);
        payload[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_be_bytes());
        payload
    }

    /// Milliseconds; a function of the value, so that a reader knows what is due.
    pub fn timestamp(&self) -> i64 {
        self.run as i64 + (self.value % 1_000_000) as i64
    }

    fn parse(payload: &[u8]) -> Result<Stamp> {
        ensure!(payload.len() >= HEADER_BYTES, "a payload of {} bytes is not one of ours", payload.len());
        ensure!(&payload[..4] == MAGIC, "a payload without our mark: {:?}", &payload[..4]);
        let claimed = u32::from_be_bytes(payload[CRC_AT..HEADER_BYTES].try_into().context("checksum")?);
        ensure!(checksum(payload) == claimed, "the payload's checksum is wrong");
        Ok(Stamp {
            run: u64::from_be_bytes(payload[4..12].try_into().context("run")?),
            process: u32::from_be_bytes(payload[12..16].try_into().context("process")?),
            op: u64::from_be_bytes(payload[16..24].try_into().context("op")?),
            key: u32::from_be_bytes(payload[24..28].try_into().context("key")?),
            value: u64::from_be_bytes(payload[28..36].try_into().context("value")?),
        })
    }
}

fn checksum(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&payload[..CRC_AT]);
    hasher.update(&payload[HEADER_BYTES..]);
    hasher.finalize()
}

/// The value of a record found at `key`, if everything about the record is as it was sent.
pub fn read(message: &impl Message, run: u64, key: Key) -> Result<Value> {
    let stamp = Stamp::parse(message.payload().context("a record without a payload")?)?;
    ensure!(stamp.run == run, "{stamp:?} is of another run");
    ensure!(stamp.key == key, "{stamp:?} was sent to another partition");
    ensure!(stamp.process == writer_of(stamp.value), "{stamp:?} is not its process's");
    let due = stamp.value.to_be_bytes();
    ensure!(message.key() == Some(&due[..]), "{stamp:?} has the record key {:?}", message.key());
    let headers = message.headers().context("a record without headers")?;
    ensure!(headers.count() == 1, "{stamp:?} has {} headers", headers.count());
    let header = headers.get(0);
    ensure!(header.key == HEADER_NAME && header.value == Some(&due[..]), "{stamp:?} has the header {header:?}");
    let timestamp = message.timestamp().to_millis();
    ensure!(timestamp == Some(stamp.timestamp()), "{stamp:?} has the timestamp {timestamp:?}");
    Ok(stamp.value)
}

#[cfg(test)]
mod tests {
    use rdkafka::Timestamp;
    use rdkafka::message::{Header, OwnedHeaders, OwnedMessage};

    use super::*;
    use crate::event::value;

    fn message(stamp: &Stamp, payload: Vec<u8>, timestamp: i64) -> OwnedMessage {
        let due = stamp.value.to_be_bytes();
        let headers = OwnedHeaders::new().insert(Header { key: HEADER_NAME, value: Some(&due) });
        let time = Timestamp::CreateTime(timestamp);
        OwnedMessage::new(Some(payload), Some(due.to_vec()), "t".into(), time, 0, 0, Some(headers))
    }

    #[test]
    fn refuses_whatever_was_changed_on_the_way() {
        let stamp = Stamp { run: 5, process: 3, op: 9, key: 2, value: value(3, 70) };
        let (payload, time) = (stamp.payload(100), stamp.timestamp());
        assert_eq!(read(&message(&stamp, payload.clone(), time), 5, 2).unwrap(), stamp.value);
        for position in 0..payload.len() {
            let mut changed = payload.clone();
            changed[position] ^= 1;
            assert!(read(&message(&stamp, changed, time), 5, 2).is_err(), "byte {position}");
        }
        assert!(read(&message(&stamp, payload.clone(), time + 1), 5, 2).is_err(), "timestamp");
        assert!(read(&message(&stamp, payload.clone(), time), 6, 2).is_err(), "run");
        assert!(read(&message(&stamp, payload.clone(), time), 5, 1).is_err(), "partition");
        let other = Stamp { value: value(3, 71), ..stamp };
        assert!(read(&message(&other, payload, time), 5, 2).is_err(), "record key");
    }
}
