//! Accepts connections and hands their requests on.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connection::KEEP_ALIVE;
use super::frame::{FrameReader, Tag};
use super::sender::{FrameSender, Outgoing, Pace, frame_queue, write_frames};
use super::traffic::Traffic;
use super::{FIRST_RAFT_KIND, Lane, Limits, handshake, kind};
use crate::Identity;
use crate::door::net::{TcpListener, TcpStream};
use crate::serve::{Requests, Serve};

/// Where the answer to one request goes.
pub(crate) struct Reply {
    sender: FrameSender,
    kind: u8,
    id: u32,
}

impl Reply {
    /// If the connection is gone, or its caller reads so slowly that its queue is full, the answer is dropped and the
    /// caller's own deadline tells it.
    pub(crate) fn send(self, body: Bytes, patient: bool) {
        self.queue(Tag::Answer, body, patient);
    }

    /// Says that the request was not looked at.
    pub(crate) fn refuse(self) {
        self.queue(Tag::Refused, Bytes::new(), false);
    }

    fn queue(self, tag: Tag, body: Bytes, patient: bool) {
        let frame = Outgoing { tag, kind: self.kind, id: self.id, body, patient };
        if let Err(why) = self.sender.send(frame) {
            tracing::debug!(kind = self.kind, ?why, "an answer was dropped");
        }
    }
}

/// Accepts until dropped. Answers the real address and the task.
pub(crate) async fn listen(
    address: SocketAddr,
    identity: Arc<Identity>,
    limits: Limits,
    traffic: Traffic,
    serve: Arc<Serve>,
) -> io::Result<(SocketAddr, impl Future<Output = ()> + Send)> {
    let listener = TcpListener::bind(address).await?;
    let local = listener.local_addr()?;
    Ok((local, accept(listener, identity, limits, traffic, serve)))
}

async fn accept(listener: TcpListener, identity: Arc<Identity>, limits: Limits, traffic: Traffic, serve: Arc<Serve>) {
    let slots = Arc::new(Semaphore::new(limits.connections_max));
    // Dropped with this task, and every connection with it.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(why) => {
                // Out of descriptors, most likely: those in use have to end first.
                tracing::warn!(%why, "cannot accept a connection");
                tokio::time::sleep(limits.progress_timeout / 10).await;
                continue;
            }
        };
        let Ok(slot) = slots.clone().try_acquire_owned() else {
            tracing::warn!(%from, "too many connections: refused");
            continue;
        };
        let (identity, traffic, serve) = (identity.clone(), traffic.clone(), serve.clone());
        connections.spawn(async move {
            if let Err(why) = run(stream, &identity, limits, &traffic, &serve).await {
                tracing::info!(%from, %why, "connection ended");
            }
            drop(slot);
        });
    }
}

async fn run(
    mut stream: TcpStream,
    identity: &Identity,
    limits: Limits,
    traffic: &Traffic,
    serve: &Arc<Serve>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let caller = timeout(limits.connect_timeout, handshake::answer(&mut stream, identity))
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no handshake in time"))??;
    let counters = traffic.of(caller.node);
    counters.received(kind::HANDSHAKE, caller.bytes_received);
    counters.sent(kind::HANDSHAKE, caller.bytes_sent);
    let (read, write) = stream.into_split();
    let (sender, queue) = frame_queue(limits.queue_bytes_max);
    let pace = Pace::of(&limits);
    let writing = write_frames(write, queue, pace, counters.clone(), |_| true);
    let reading = async {
        let mut reader = FrameReader::new(read, limits.frame_bytes_max);
        let mut requests = Requests::new(serve.clone(), caller.node, limits.requests_max);
        loop {
            let next = timeout(KEEP_ALIVE * 3, reader.next()).await;
            let Some((frame, bytes)) = next.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "silent"))?? else {
                return Ok(());
            };
            counters.received(frame.kind, bytes);
            let raft = frame.kind >= FIRST_RAFT_KIND;
            if frame.tag != Tag::Request || (frame.kind != kind::PING && raft != (caller.lane == Lane::Raft)) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame that does not belong on this lane"));
            }
            let reply = Reply { sender: sender.clone(), kind: frame.kind, id: frame.id };
            if frame.kind == kind::PING {
                reply.send(Bytes::new(), false);
            } else {
                requests.take(frame.kind, frame.body, reply);
            }
        }
    };
    let ended = tokio::select! {
        result = writing => result,
        result = reading => result,
    };
    if caller.lane == Lane::Raft {
        serve.caller_lost(caller.node);
    }
    ended
}
