use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use futures::StreamExt;
use futures::stream::{FuturesOrdered, try_unfold};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until};

use super::frames::Frames;
use super::intake::{Intake, Started};
use super::outbox::Outbox;
use super::{Error, Outcome, Peer, Server};
use crate::batch::Segments;
use crate::door::net::TcpStream;
use crate::protocol;

/// Runs one connection to its end. One task does it all: reading, the requests in progress and writing
/// are polled side by side, so an idle client costs one small task, and none waits for another.
pub(super) async fn run(
    server: Arc<Server>,
    peer: Arc<Peer>,
    socket: TcpStream,
    shutdown: watch::Receiver<bool>,
) -> Result<(), Error> {
    socket.set_nodelay(true)?;
    let (read, write) = socket.into_split();
    let limits = server.limits();
    let pipeline = Arc::new(Semaphore::new(limits.pipeline_max));
    let intake = Intake { server: server.clone(), peer, frames: Frames::new(read), pipeline, shutdown };
    let requests =
        try_unfold(intake, |mut intake| async move { Ok(intake.next().await?.map(|started| (started, intake))) });
    let mut requests = std::pin::pin!(requests);
    let mut pending = FuturesOrdered::new();
    let mut outbox = Outbox::new(write, limits.write_stall_max);
    // How reading ended, and until when the answers still owed may be written.
    let mut ended: Option<(Result<(), Error>, Instant)> = None;
    loop {
        let drain_at = ended.as_ref().map(|(_, drain_at)| *drain_at);
        tokio::select! {
            written = outbox.write(), if !outbox.is_empty() => {
                server.metrics().bytes_out.fetch_add(written? as u64, Relaxed);
            }
            Some((started, outcome)) = pending.next(), if !pending.is_empty() => {
                if let Err(error) = answer(started, outcome, &mut outbox) {
                    // What was answered before is still written; what was asked behind it is dropped.
                    pending = FuturesOrdered::new();
                    ended = Some((Err(error), Instant::now() + limits.drain_max));
                }
            }
            request = requests.next(), if ended.is_none() => match request {
                Some(Ok(started)) => pending.push_back(finish(started)),
                Some(Err(error)) => ended = Some((Err(error), Instant::now() + limits.drain_max)),
                None => ended = Some((Ok(()), Instant::now() + limits.drain_max)),
            },
            () = until(drain_at), if drain_at.is_some() && !(outbox.is_empty() && pending.is_empty()) => {
                return Err(Error::DrainTimeout);
            }
            else => return ended.map_or(Ok(()), |(end, _)| end),
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn finish(mut started: Started) -> (Started, Outcome) {
    let outcome = (&mut started.pending).await;
    (started, outcome)
}

fn answer<W: tokio::io::AsyncWrite + Unpin>(
    started: Started,
    outcome: Outcome,
    outbox: &mut Outbox<W>,
) -> Result<(), Error> {
    match outcome {
        Outcome::Reply(body) => {
            let Started { api, version, correlation_id, charge, .. } = started;
            let head = protocol::response_header(api, version, correlation_id, body.len())?;
            let mut answer = Segments::from(head);
            answer.append(body);
            outbox.push(answer, charge);
            Ok(())
        }
        Outcome::NoReply => Ok(()),
        Outcome::Close(reason) => Err(Error::Closed(reason)),
    }
}
