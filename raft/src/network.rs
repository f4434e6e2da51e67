//! openraft's network, over our transport.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::Either;
use futures::{Stream, StreamExt};
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest, TransferLeaderResponse,
    VoteRequest, VoteResponse,
};
use openraft::{EmptyNode, OptionalSend, RaftNetworkFactory, RaftNetworkV2};

use crate::messages::{self, Declined};
use crate::offers::Offers;
use crate::snapshot::SnapshotData;
use crate::transport::{Lane, Peers, Request, kind};
use crate::types::{AppendRequest, LogId, TypeConfig, Vote};
use crate::{CallError, GroupId, NodeId};

type Snapshot = openraft::alias::SnapshotOf<TypeConfig, SnapshotData>;
type RpcError = RPCError<TypeConfig>;
type Append = StreamAppendResult<TypeConfig>;
type AppendResults<'s> = BoxStream<'s, Result<Append, RpcError>>;

/// Appends on their way to one follower.
const WINDOW: usize = 64;

/// One group's way to its peers.
#[derive(Clone)]
pub(crate) struct GroupNetwork {
    pub(crate) group: GroupId,
    pub(crate) peers: Peers,
    pub(crate) offers: Arc<Offers>,
    /// Reads that wait for the next round of beats: those must not wait for company.
    pub(crate) reads_waiting: Arc<AtomicUsize>,
    /// This replica is about to end: what comes back now has nowhere to go.
    pub(crate) stopping: Arc<AtomicBool>,
    pub(crate) sessions: Arc<AtomicU32>,
    /// For an answer to an append; a dead connection is noticed earlier, by the transport.
    pub(crate) append_timeout: Duration,
    pub(crate) install_timeout: Duration,
}

impl RaftNetworkFactory<TypeConfig> for GroupNetwork {
    type Network = Client;

    async fn new_client(&mut self, target: NodeId, _: &EmptyNode) -> Client {
        Client { network: self.clone(), target, beats: false }
    }

    /// Beats are not queued behind a window of appends.
    async fn new_heartbeat_client(&mut self, target: NodeId, _: &EmptyNode) -> Client {
        Client { network: self.clone(), target, beats: true }
    }
}

/// One group's way to one peer.
pub(crate) struct Client {
    network: GroupNetwork,
    target: NodeId,
    beats: bool,
}

fn unreachable(why: impl ToString) -> RpcError {
    RPCError::Unreachable(Unreachable::from_string(why))
}

impl From<Declined> for RpcError {
    /// openraft backs off after "unreachable", which fits a peer without the group or in trouble.
    fn from(why: Declined) -> Self {
        unreachable(why)
    }
}

impl From<CallError> for RpcError {
    fn from(why: CallError) -> Self {
        unreachable(why)
    }
}

impl Client {
    async fn send(&self, kind: u8, body: Bytes) -> Result<Request, CallError> {
        let connection = self.network.peers.connection(self.target, Lane::Raft).await?;
        connection.request(kind, body, kind == kind::BEAT)
    }

    async fn call(&self, kind: u8, body: Bytes, within: Duration) -> Result<Bytes, RpcError> {
        let mut request = self.send(kind, body).await?;
        Ok(request.answer(within).await?)
    }

    async fn beat(
        &self,
        request: &AppendRequest,
        within: Duration,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RpcError> {
        let urgent = self.network.reads_waiting.load(Ordering::Relaxed) > 0;
        let kind = if urgent { kind::URGENT_BEAT } else { kind::BEAT };
        let body = messages::append(self.network.group, 0, request);
        let answer = self.call(kind, body, within).await?;
        if self.network.stopping.load(Ordering::Relaxed) {
            return Err(unreachable("this replica stops"));
        }
        Ok(messages::take_append_answer(answer)?)
    }
}

/// What an answer to this request would acknowledge.
fn range(request: &AppendRequest) -> (Option<LogId>, Option<LogId>) {
    let last = request.entries.last().map(|entry| entry.log_id).or(request.prev_log_id);
    (request.prev_log_id, last)
}

fn result_of(
    answer: AppendEntriesResponse<TypeConfig>,
    prev: Option<LogId>,
    last: Option<LogId>,
) -> Result<Append, RpcError> {
    if matches!(answer, AppendEntriesResponse::Conflict) && prev.is_none() {
        return Err(unreachable("the peer contradicts the beginning of the log"));
    }
    Ok(answer.into_stream_result(prev, last))
}

impl RaftNetworkV2<TypeConfig> for Client {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        request: AppendRequest,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RpcError> {
        self.beat(&request, option.hard_ttl()).await
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<AppendResults<'s>, RpcError>>
    where
        S: Stream<Item = AppendRequest> + OptionalSend + Unpin + 'static,
    {
        let client: &'s Client = self;
        let within = option.hard_ttl();
        let results: AppendResults<'s> = if client.beats {
            Box::pin(input.then(move |request| async move {
                let (prev, last) = range(&request);
                result_of(client.beat(&request, within).await?, prev, last)
            }))
        } else {
            let session = client.network.sessions.fetch_add(1, Ordering::Relaxed);
            let window = Window { client, session, input: Some(input), in_flight: VecDeque::new() };
            Box::pin(futures::stream::unfold(Some(window), |window| async move {
                let mut window = window?;
                let item = window.next().await?;
                let goes_on = matches!(item, Ok(Ok(_)));
                Some((item, goes_on.then_some(window)))
            }))
        };
        Box::pin(async move { Ok(results) })
    }

    async fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RpcError> {
        let body = messages::vote(self.network.group, &request);
        Ok(messages::take_vote_answer(self.call(kind::VOTE, body, option.hard_ttl()).await?)?)
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RpcError> {
        let body = messages::vote(self.network.group, &request);
        Ok(messages::take_vote_answer(self.call(kind::PRE_VOTE, body, option.hard_ttl()).await?)?)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let group = self.network.group;
        let transfer = async {
            let failed = |why: String| StreamingError::Unreachable(Unreachable::from_string(why));
            let file = &snapshot.snapshot.file;
            let offer = self.network.offers.offer(group, vote, file).await.map_err(|why| failed(why.to_string()))?;
            let body = messages::snapshot(group, &offer);
            let answer = self.call(kind::SNAPSHOT, body, self.network.install_timeout).await?;
            messages::take_snapshot_answer(answer).map_err(|why| {
                // Perhaps the stored object is gone: the next attempt stores it again.
                self.network.offers.forget();
                failed(why.to_string())
            })
        };
        match futures::future::select(std::pin::pin!(transfer), std::pin::pin!(cancel)).await {
            Either::Left((result, _)) => result,
            Either::Right((closed, _)) => Err(StreamingError::Closed(closed)),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RpcError> {
        let body = messages::transfer(self.network.group, &request);
        Ok(messages::take_transfer_answer(self.call(kind::TRANSFER, body, option.hard_ttl()).await?)?)
    }
}

/// A window of appends to one follower.
///
/// openraft sleeps off failures inside `input`: a connection is therefore only made after a request has been taken from
/// there, never before. Otherwise a dead peer would be dialled in a busy loop.
struct Window<'s, S> {
    client: &'s Client,
    session: u32,
    input: Option<S>,
    in_flight: VecDeque<(Option<LogId>, Option<LogId>, Request)>,
}

enum Event {
    Input(Option<AppendRequest>),
    Answer(Result<Bytes, CallError>),
}

impl<S: Stream<Item = AppendRequest> + Unpin> Window<'_, S> {
    /// The next result, in the order of the requests.
    async fn next(&mut self) -> Option<Result<Append, RpcError>> {
        loop {
            let within = self.client.network.append_timeout;
            let room = self.in_flight.len() < WINDOW;
            let event = match (&mut self.input, self.in_flight.front_mut()) {
                (None, None) => return None,
                (Some(input), None) => Event::Input(input.next().await),
                (Some(input), Some((_, _, oldest))) if room => {
                    let answer = std::pin::pin!(oldest.answer(within));
                    match futures::future::select(input.next(), answer).await {
                        Either::Left((request, _)) => Event::Input(request),
                        Either::Right((answer, _)) => Event::Answer(answer),
                    }
                }
                (_, Some((_, _, oldest))) => Event::Answer(oldest.answer(within).await),
            };
            match event {
                Event::Input(None) => self.input = None,
                Event::Input(Some(request)) => {
                    if let Err(why) = self.send(&request).await {
                        return Some(Err(why.into()));
                    }
                }
                Event::Answer(answer) => return self.done(answer),
            }
        }
    }

    async fn send(&mut self, request: &AppendRequest) -> Result<(), CallError> {
        let body = messages::append(self.client.network.group, self.session, request);
        let sent = self.client.send(kind::APPEND, body).await?;
        let (prev, last) = range(request);
        self.in_flight.push_back((prev, last, sent));
        Ok(())
    }

    fn done(&mut self, answer: Result<Bytes, CallError>) -> Option<Result<Append, RpcError>> {
        let (prev, last, _) = self.in_flight.pop_front()?;
        let decode = |bytes| Ok(messages::take_append_answer(bytes)?);
        Some(answer.map_err(RpcError::from).and_then(decode).and_then(|answer| result_of(answer, prev, last)))
    }
}
