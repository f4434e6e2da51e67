use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesOrdered, try_unfold};
use futures::{FutureExt, StreamExt};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until};

use super::frames::Frames;
use super::intake::{Charge, Intake, Owed, Started};
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
    // Until when a client that has taken too much is not read from.
    let (mute, muted) = watch::channel(None);
    let pipeline = Arc::new(Semaphore::new(limits.pipeline_max));
    let intake = Intake { server: server.clone(), peer, frames: Frames::new(read), pipeline, muted, shutdown };
    let requests =
        try_unfold(intake, |mut intake| async move { Ok(intake.next().await?.map(|started| (started, intake))) });
    // None once reading has ended. It is polled until then: what it waits for may have been given to it already, and
    // others would wait for that.
    let mut requests = Some(requests.boxed());
    let mut pending = FuturesOrdered::new();
    let mut outbox = Outbox::new(write, limits);
    // An answer that waits for memory; those behind it wait with it.
    let mut waiting: Option<BoxFuture<'static, (Segments, Charge)>> = None;
    // How reading ended, and until when the answers still owed may be written.
    let mut ended: Option<(Result<(), Error>, Instant)> = None;
    loop {
        let drain_at = ended.as_ref().map(|(_, drain_at)| *drain_at);
        tokio::select! {
            written = outbox.write(), if !outbox.is_empty() => {
                server.metrics().bytes_out.fetch_add(written? as u64, Relaxed);
            }
            (answer, charge) = granted(&mut waiting), if waiting.is_some() => {
                waiting = None;
                outbox.push(answer, charge)?;
            }
            Some((owed, outcome)) = pending.next(), if waiting.is_none() && !pending.is_empty() => {
                if let Outcome::Throttled(_, wait) = &outcome {
                    mute.send_modify(|until| *until = (*until).max(Some(Instant::now() + *wait)));
                }
                match answer(owed, outcome) {
                    Ok(Some((answer, charge))) if charge.answer.is_taken() => outbox.push(answer, charge)?,
                    Ok(Some((answer, charge))) => waiting = Some(take_memory(answer, charge).boxed()),
                    Ok(None) => {}
                    Err(error) => {
                        // What was answered before is still written; what was asked behind it is dropped.
                        requests = None;
                        pending = FuturesOrdered::new();
                        ended = Some((Err(error), Instant::now() + limits.drain_max));
                    }
                }
            }
            request = next(&mut requests), if requests.is_some() => match request {
                Some(Ok(started)) => pending.push_back(finish(started)),
                end => {
                    requests = None;
                    let end = end.map_or(Ok(()), |failed| failed.map(drop));
                    ended = Some((end, Instant::now() + limits.drain_max));
                }
            },
            () = until(drain_at), if drain_at.is_some()
                && !(outbox.is_empty() && pending.is_empty() && waiting.is_none()) =>
            {
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

async fn next(requests: &mut Option<BoxStream<'_, Result<Started, Error>>>) -> Option<Result<Started, Error>> {
    requests.as_mut()?.next().await
}

/// The frame's memory ends here: the answer may have to wait very long for those of the requests before it.
async fn finish(Started { owed, pending, memory }: Started) -> (Owed, Outcome) {
    let outcome = pending.await;
    drop(memory);
    (owed, outcome)
}

async fn granted(waiting: &mut Option<BoxFuture<'static, (Segments, Charge)>>) -> (Segments, Charge) {
    match waiting {
        Some(waiting) => waiting.await,
        None => std::future::pending().await,
    }
}

/// A room that did not ask for memory before it made its answer waits for it now.
async fn take_memory(answer: Segments, charge: Charge) -> (Segments, Charge) {
    charge.answer.take(answer.len(), false).await;
    (answer, charge)
}

fn answer(owed: Owed, outcome: Outcome) -> Result<Option<(Segments, Charge)>, Error> {
    match outcome {
        Outcome::Reply(body) | Outcome::Throttled(Some(body), _) => {
            let Owed { api, version, correlation_id, charge } = owed;
            let head = protocol::response_header(api, version, correlation_id, body.len())?;
            let mut answer = Segments::from(head);
            answer.append(body);
            Ok(Some((answer, charge)))
        }
        Outcome::NoReply | Outcome::Throttled(None, _) => Ok(None),
        Outcome::Close(reason) => Err(Error::Closed(reason)),
    }
}
