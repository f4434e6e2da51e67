use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use kafka_protocol::messages::ApiVersionsRequest;
use tokio::io::AsyncRead;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::debug;

use super::frames::{Arriving, Frames};
use super::server::told_to_stop;
use super::{CONTROL_FRAME_BYTES_MAX, Error, Outcome, Peer, Pending, Request, Server};
use crate::batch::Segments;
use crate::protocol::{self, ApiKey, ApiSupport, RequestHeader};
use crate::types::{AnswerMemory, Memory};

/// Being decoded, a body of many empty structures takes this many times its bytes: an array is given room for as many
/// elements as bytes are left, and grows by doubling. `decoders_test` holds every API to it (158 was the worst it met).
pub(crate) const DECODING_EXPANSION: usize = 192;

/// What a request takes from before its body is read until it is answered: thousands of long polls must not eat the
/// budget, nor may frames that are announced and do not come.
const WAITING_EXPANSION: usize = 4;
const SMALL_FRAME_BYTES_MAX: usize = 64 * 1024;

/// A large Fetch is the long poll of a client with very many partitions; what was decoded is soon dropped.
const WAITING_FETCH_EXPANSION: usize = 32;

/// So many requests of one connection at once, where nobody has asked for their answers' memory before they are made.
/// They are made at once and wait for their turn: 512 would be as many megabytes. Kafka takes one at a time.
const UNASKED_MAX: usize = 8;

/// Reads requests off a socket and starts them, one after the other.
pub(super) struct Intake<R> {
    pub(super) server: Arc<Server>,
    pub(super) peer: Arc<Peer>,
    pub(super) frames: Frames<R>,
    /// What requests of this connection in progress share: see [`permits`].
    pub(super) pipeline: Arc<Semaphore>,
    /// Until when no request is begun.
    pub(super) muted: watch::Receiver<Option<Instant>>,
    pub(super) shutdown: watch::Receiver<bool>,
}

/// A request that has been started.
pub(super) struct Started {
    pub(super) owed: Owed,
    pub(super) pending: Pending,
    /// What its frame takes, until it is known how the request ends.
    pub(super) memory: Memory,
}

/// The answer that a request is owed.
pub(super) struct Owed {
    pub(super) api: ApiKey,
    pub(super) version: i16,
    pub(super) correlation_id: i32,
    pub(super) charge: Charge,
}

/// What a request holds until its answer is written.
pub(super) struct Charge {
    /// What the answer takes, if it takes anything yet.
    pub(super) answer: AnswerMemory,
    _pipeline: OwnedSemaphorePermit,
}

#[cfg(test)]
impl Charge {
    /// Of nothing but the answer.
    pub(super) fn for_tests(answer: AnswerMemory) -> Charge {
        let pipeline = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("there is one");
        Charge { answer, _pipeline: pipeline }
    }
}

impl<R: AsyncRead + Unpin> Intake<R> {
    /// The next request, started. None when the peer is done or idle, or we are shutting down.
    pub(super) async fn next(&mut self) -> Result<Option<Started>, Error> {
        const OPEN: &str = "our semaphores are never closed";
        let Some(arriving) = self.arriving().await? else {
            return Ok(None);
        };
        let (api, version) = self.admit(arriving)?;
        let permits = permits(api, self.server.limits().pipeline_max);
        let pipeline = self.pipeline.clone().acquire_many_owned(permits).await.expect(OPEN);
        if !self.unmuted().await {
            return Ok(None);
        }
        let memory: Memory = Arc::new(self.server.take_memory(memory_of(api, arriving.bytes)).await);
        let frame = self.frames.take(arriving).await?;
        let metrics = self.server.metrics();
        metrics.bytes_in.fetch_add(frame.len() as u64 + 4, Relaxed);
        metrics.count_request(api);
        let answer = AnswerMemory::new(self.server.answers());
        // Who waits here has its frame already, and who has it waits for no other memory: it soon comes back.
        let decoding = match api {
            // Its decoder shares the frame and limits the rest.
            ApiKey::Produce => None,
            _ => Some(self.server.take_decoding(frame.len() * DECODING_EXPANSION).await),
        };
        let pending = match version {
            Some(version) => {
                let held = (memory.clone(), answer.clone());
                self.start(api, version, arriving.front.correlation_id, frame, held).await?
            }
            None => reply(protocol::api_versions(None, &self.server.router().features())?),
        };
        drop(decoding);
        let owed = Owed {
            api,
            version: version.unwrap_or(0),
            correlation_id: arriving.front.correlation_id,
            charge: Charge { answer, _pipeline: pipeline },
        };
        Ok(Some(Started { owed, pending, memory }))
    }

    async fn arriving(&mut self) -> Result<Option<Arriving>, Error> {
        loop {
            let waited = tokio::select! {
                () = told_to_stop(&mut self.shutdown) => return Ok(None),
                waited = timeout(self.server.limits().idle_max, self.frames.next()) => waited,
            };
            match waited {
                Ok(arriving) => return arriving,
                // A request in progress may well take longer than a connection may idle.
                Err(_) if self.pipeline.available_permits() < self.server.limits().pipeline_max => {}
                Err(_) => return Ok(None),
            }
        }
    }

    /// Waits as long as the client is to wait; false when we are shutting down. Not within a frame: what that is
    /// charged is for others to use.
    async fn unmuted(&mut self) -> bool {
        loop {
            let until = *self.muted.borrow();
            let Some(until) = until.filter(|until| *until > Instant::now()) else { return true };
            tokio::select! {
                () = told_to_stop(&mut self.shutdown) => return false,
                () = sleep_until(until) => {}
            }
        }
    }

    /// Decides by API and size alone. A version of None stands for an ApiVersions we do not know.
    fn admit(&self, arriving: Arriving) -> Result<(ApiKey, Option<i16>), Error> {
        let front = arriving.front;
        let (api, version) = match protocol::support(front.api_key, front.version) {
            ApiSupport::Served(api) => (api, Some(front.version)),
            ApiSupport::UnknownApiVersions => (ApiKey::ApiVersions, None),
            ApiSupport::Refused => {
                return Err(Error::Unsupported { key: front.api_key, version: front.version });
            }
        };
        let max = match api {
            ApiKey::Produce => self.server.limits().request_bytes_max,
            _ => CONTROL_FRAME_BYTES_MAX,
        };
        if arriving.bytes > max {
            return Err(Error::FrameTooLarge { api, bytes: arriving.bytes, max });
        }
        Ok((api, version))
    }

    async fn start(
        &self,
        api: ApiKey,
        version: i16,
        correlation_id: i32,
        frame: Bytes,
        (memory, answer): (Memory, AnswerMemory),
    ) -> Result<Pending, Error> {
        let RequestHeader { client_id, body } = RequestHeader::parse(api, version, frame)?;
        if api == ApiKey::ApiVersions {
            let request: ApiVersionsRequest = protocol::decode(version, body)?;
            let (name, software) = (&request.client_software_name, &request.client_software_version);
            // The fields came with version 3.
            if version >= 3 && ![name, software].iter().all(|word| protocol::is_software(word)) {
                return Ok(reply(protocol::api_versions_refused(version)?));
            }
            // Once told it stays: a client has no reason to become another. Strings of a frame of bounded size.
            let _ = self.peer.software.set(Arc::new((name.to_string(), software.to_string())));
            debug!(peer = %self.peer, client_id = client_id.as_deref(), %name, version = %software, "client");
            return Ok(reply(protocol::api_versions(Some(version), &self.server.router().features())?));
        }
        let request = Request { api, version, correlation_id, client_id, body, memory, answer };
        Ok(self.server.router().start(&self.peer, request).await)
    }
}

/// What a request takes of its connection's pipeline.
fn permits(api: ApiKey, pipeline_max: usize) -> u32 {
    match api {
        // Answers of Produce are small; Fetch takes memory before it reads.
        ApiKey::Produce | ApiKey::Fetch => 1,
        _ => u32::try_from(pipeline_max / UNASKED_MAX).unwrap_or(u32::MAX).max(1),
    }
}

/// What a frame is charged until it is answered.
fn memory_of(api: ApiKey, frame_bytes: usize) -> usize {
    match api {
        ApiKey::Produce => frame_bytes,
        ApiKey::Fetch if frame_bytes > SMALL_FRAME_BYTES_MAX => frame_bytes * WAITING_FETCH_EXPANSION,
        _ => frame_bytes * WAITING_EXPANSION,
    }
}

fn reply(body: Segments) -> Pending {
    Box::pin(std::future::ready(Outcome::Reply(body)))
}
