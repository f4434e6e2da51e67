//! The first bytes of a connection, version 1.
//!
//! ```text
//! caller   = magic "MPRT" | version u16 | lane u8 | from u64 | to u64 | cluster id (u8 length, bytes)
//! listener = magic "MPRT" | version u16 | verdict u8 | node id u64 | reason (u8 length, bytes)
//! ```
//! `to` 0 stands for "whoever answers there", `from` 0 for "not a member yet". TLS would go around this, not into it.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Lane;
use crate::{Identity, NodeId};

const MAGIC: &[u8; 4] = b"MPRT";
const VERSION: u16 = 1;
const WELCOME: u8 = 0;
const REFUSED: u8 = 1;

/// Who called.
pub(super) struct Caller {
    pub(super) node: NodeId,
    pub(super) lane: Lane,
    pub(super) bytes_received: usize,
    pub(super) bytes_sent: usize,
}

/// Who answered.
pub(super) struct Answerer {
    pub(super) node: NodeId,
    pub(super) bytes_sent: usize,
    pub(super) bytes_received: usize,
}

fn malformed(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

pub(super) async fn call<S>(stream: &mut S, from: &Identity, to: NodeId, lane: Lane) -> io::Result<Answerer>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut hello = MAGIC.to_vec();
    hello.extend_from_slice(&VERSION.to_le_bytes());
    hello.push(lane as u8);
    hello.extend_from_slice(&from.node_id.to_le_bytes());
    hello.extend_from_slice(&to.to_le_bytes());
    put_short(&mut hello, &from.cluster_id);
    stream.write_all(&hello).await?;
    let mut front = [0; 7];
    stream.read_exact(&mut front).await?;
    if front[..4] != MAGIC[..] {
        return Err(malformed("the other side is no node"));
    }
    let node = stream.read_u64_le().await?;
    let reason = take_short(stream).await?;
    if front[6] != WELCOME {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("refused: {reason}")));
    }
    if to != 0 && node != to {
        return Err(malformed(format!("node {node} answers at the address of node {to}")));
    }
    if node == 0 {
        return Err(malformed("the other side says that it is no member"));
    }
    Ok(Answerer { node, bytes_sent: hello.len(), bytes_received: front.len() + 8 + 1 + reason.len() })
}

/// Listens for a call and answers it.
///
/// # Errors
/// Also when the caller was refused, which it has been told.
pub(super) async fn answer<S>(stream: &mut S, own: &Identity) -> io::Result<Caller>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut front = [0; 7];
    stream.read_exact(&mut front).await?;
    if front[..4] != MAGIC[..] {
        return Err(malformed("the caller is no node"));
    }
    let version = u16::from_le_bytes([front[4], front[5]]);
    if version != VERSION {
        return refuse(stream, own, format!("this node speaks version {VERSION}, not {version}")).await;
    }
    let from = stream.read_u64_le().await?;
    let to = stream.read_u64_le().await?;
    let cluster = take_short(stream).await?;
    if cluster != own.cluster_id {
        return refuse(stream, own, format!("this node is of cluster {}, not {cluster}", own.cluster_id)).await;
    }
    if to != 0 && to != own.node_id {
        return refuse(stream, own, format!("this is node {}, not {to}", own.node_id)).await;
    }
    let lane = match front[6] {
        0 => Lane::Raft,
        1 => Lane::Application,
        2 => Lane::Bulk,
        _ => return refuse(stream, own, "unknown lane".into()).await,
    };
    if lane == Lane::Raft && from == 0 {
        return refuse(stream, own, "only members speak Raft".into()).await;
    }
    let welcome = verdict(own, WELCOME, "");
    stream.write_all(&welcome).await?;
    let bytes_received = front.len() + 17 + cluster.len();
    Ok(Caller { node: from, lane, bytes_received, bytes_sent: welcome.len() })
}

async fn refuse<S: AsyncWrite + Unpin>(stream: &mut S, own: &Identity, reason: String) -> io::Result<Caller> {
    stream.write_all(&verdict(own, REFUSED, &reason)).await?;
    stream.shutdown().await?;
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

fn verdict(own: &Identity, verdict: u8, reason: &str) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.push(verdict);
    out.extend_from_slice(&own.node_id.to_le_bytes());
    put_short(&mut out, reason);
    out
}

/// At most 255 bytes, cut if need be.
fn put_short(out: &mut Vec<u8>, text: &str) {
    let bytes = &text.as_bytes()[..text.len().min(255)];
    out.push(bytes.len() as u8);
    out.extend_from_slice(bytes);
}

async fn take_short<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<String> {
    let mut bytes = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut bytes).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
