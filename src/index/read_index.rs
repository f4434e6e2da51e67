use std::time::Duration;

use bytes::{Bytes, BytesMut};
use milepost_raft::{Node, ReadError};

use crate::index::OpenShard;
use crate::peer::{self, Answer, LeaderError};
use crate::types::varint::{self, Reader};

/// Waits until this replica has applied everything that was committed anywhere when the call began.
///
/// # Errors
/// No leader was reached, or this replica did not catch up in time: the reader should ask elsewhere or later.
pub async fn read_index(node: &Node, shard: &OpenShard, timeout: Duration) -> Result<(), LeaderError> {
    let mut body = BytesMut::new();
    varint::put(&mut body, shard.id.into());
    let index = peer::call_leader(node, || shard.leader(), peer::READ_INDEX, body.freeze(), timeout).await?;
    let index = Reader::new(&index).u64().map_err(|_| LeaderError::NoLeader)?;
    shard.group.wait_applied(index, timeout).await.map_err(|_| LeaderError::NoLeader)
}

/// The leader's side.
pub async fn answer_read_index(shard: &OpenShard) -> Answer {
    match shard.group.read_index().await {
        Ok(index) => {
            let mut body = BytesMut::new();
            varint::put(&mut body, index);
            Answer::Done(Bytes::from(body))
        }
        Err(ReadError::NotLeader { leader }) => Answer::NotLeader { leader },
        Err(ReadError::NoQuorum | ReadError::Stopped) => Answer::NotLeader { leader: None },
    }
}
