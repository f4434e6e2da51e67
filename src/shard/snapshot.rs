//! ▲ A shard's state as bytes: version byte, then MessagePack by position. Maps are ordered, so equal states have equal
//! bytes, and their checksum is the state's digest.

use bytes::{BufMut, Bytes, BytesMut};

use crate::shard::State;

const VERSION: u8 = 3;

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("snapshot version {0} is not known to this build")]
    Version(u8),
    #[error("snapshot is empty")]
    Empty,
    #[error("snapshot bytes are malformed: {0}")]
    Malformed(#[from] rmp_serde::decode::Error),
}

impl State {
    pub fn to_snapshot(&self) -> Bytes {
        let mut out = BytesMut::new().writer();
        out.get_mut().put_u8(VERSION);
        rmp_serde::encode::write(&mut out, self).expect("writing to memory does not fail");
        out.into_inner().freeze()
    }

    /// # Errors
    /// Bytes of another version or damaged ones; the caller must not serve from them.
    pub fn from_snapshot(bytes: &[u8]) -> Result<State, SnapshotError> {
        let (version, body) = bytes.split_first().ok_or(SnapshotError::Empty)?;
        if *version != VERSION {
            return Err(SnapshotError::Version(*version));
        }
        let mut state: State = rmp_serde::from_slice(body)?;
        state.index_partitions();
        Ok(state)
    }

    /// Equal on every replica that applied the same log (invariant 8).
    pub fn digest(&self) -> u32 {
        crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &self.to_snapshot()) as u32
    }
}
