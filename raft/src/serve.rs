//! Requests of other nodes, from the listener to the groups and to the application.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use futures::StreamExt;
use openraft::raft::AppendEntriesResponse;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::messages;
use crate::replica::Replica;
use crate::transport::{FIRST_RAFT_KIND, Reply, kind};
use crate::types::{AppendRequest, Raft};
use crate::{GroupId, NodeId, Service};

/// Appends of one stream that may wait for the group: more than a leader ever has in flight.
const APPENDS_QUEUED_MAX: usize = 256;

/// What the node answers with.
pub(crate) struct Serve {
    service: Arc<dyn Service>,
    replicas: RwLock<HashMap<GroupId, Arc<Replica>>>,
    /// Whose connection ended, for [`crate::succession`].
    lost: mpsc::Sender<NodeId>,
}

impl Serve {
    pub(crate) fn new(service: Arc<dyn Service>, lost: mpsc::Sender<NodeId>) -> Self {
        Serve { service, replicas: RwLock::default(), lost }
    }

    /// A connection that brought Raft's requests from this node has ended.
    pub(crate) fn caller_lost(&self, node: NodeId) {
        // With so many lost that there is no room, elections begin when their time has come.
        let _ = self.lost.try_send(node);
    }

    pub(crate) fn service(&self) -> &Arc<dyn Service> {
        &self.service
    }

    pub(crate) fn replica(&self, group: GroupId) -> Option<Arc<Replica>> {
        self.replicas.read().unwrap_or_else(PoisonError::into_inner).get(&group).cloned()
    }

    pub(crate) fn insert(&self, group: GroupId, replica: Arc<Replica>) {
        self.replicas.write().unwrap_or_else(PoisonError::into_inner).insert(group, replica);
    }

    pub(crate) fn remove(&self, group: GroupId) -> Option<Arc<Replica>> {
        self.replicas.write().unwrap_or_else(PoisonError::into_inner).remove(&group)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Replica>> {
        self.replicas.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

/// The appends of one leader's stream to one group, which must keep their order.
struct AppendStream {
    session: u32,
    queue: mpsc::Sender<(AppendRequest, Reply)>,
}

/// The requests of one connection.
pub(crate) struct Requests {
    serve: Arc<Serve>,
    from: NodeId,
    slots: Arc<Semaphore>,
    streams: HashMap<GroupId, AppendStream>,
}

impl Requests {
    pub(crate) fn new(serve: Arc<Serve>, from: NodeId, requests_max: usize) -> Self {
        Requests { serve, from, slots: Arc::new(Semaphore::new(requests_max)), streams: HashMap::new() }
    }

    /// Never waits: what cannot be taken is refused.
    pub(crate) fn take(&mut self, kind: u8, mut body: Bytes, reply: Reply) {
        if kind == kind::APPEND {
            match messages::take_group(&mut body) {
                Ok(group) => self.take_append(group, body, reply),
                Err(why) => reply.send(messages::failed(&why.to_string()), false),
            }
            return;
        }
        let Ok(slot) = self.slots.clone().try_acquire_owned() else {
            return reply.refuse();
        };
        if kind < FIRST_RAFT_KIND {
            let answer = self.serve.service.call(self.from, kind, body);
            spawn_with(slot, async move { reply.send(answer.await, false) });
            return;
        }
        let serve = self.serve.clone();
        spawn_with(slot, async move {
            let answer = match messages::take_group(&mut body) {
                Ok(group) => match serve.replica(group) {
                    Some(replica) => {
                        replica.answer(kind, body).await.unwrap_or_else(|why| messages::failed(&why.to_string()))
                    }
                    None => messages::no_group(),
                },
                Err(why) => messages::failed(&why.to_string()),
            };
            reply.send(answer, kind == kind::BEAT);
        });
    }

    fn take_append(&mut self, group: GroupId, body: Bytes, reply: Reply) {
        let Some(replica) = self.serve.replica(group) else {
            return reply.send(messages::no_group(), false);
        };
        let (session, request) = match messages::take_append(body) {
            Ok(decoded) => decoded,
            Err(why) => return reply.send(messages::failed(&why.to_string()), false),
        };
        let current = self.streams.get(&group).map(|stream| stream.session);
        if current != Some(session) {
            // The leader has given up its earlier stream to this group, and what it had sent on it.
            let (queue, requests) = mpsc::channel(APPENDS_QUEUED_MAX);
            tokio::spawn(run_appends(replica, requests));
            self.streams.insert(group, AppendStream { session, queue });
        }
        let stream = &self.streams[&group];
        match stream.queue.try_send((request, reply)) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full((_, reply))) => reply.refuse(),
            // The stream ended with an answer that makes the leader start another one.
            Err(mpsc::error::TrySendError::Closed((_, reply))) => {
                reply.send(messages::failed("the stream has ended"), false);
            }
        }
    }
}

fn spawn_with(slot: OwnedSemaphorePermit, work: impl Future<Output = ()> + Send + 'static) {
    // Not tied to the connection: the application's handlers run to their end.
    tokio::spawn(async move {
        work.await;
        drop(slot);
    });
}

/// Feeds a stream of appends to the group and answers each, in order, up to the first that fails. When the replica
/// stops, what openraft has already is still answered.
async fn run_appends(replica: Arc<Replica>, mut requests: mpsc::Receiver<(AppendRequest, Reply)>) {
    if let Ok(_inside) = replica.enter().await {
        feed_appends(&replica, &mut requests).await;
    }
    requests.close();
    while let Some((_, reply)) = requests.recv().await {
        reply.send(messages::failed("the stream has ended"), false);
    }
}

async fn feed_appends(replica: &Replica, requests: &mut mpsc::Receiver<(AppendRequest, Reply)>) {
    let (feed, fed) = mpsc::channel(APPENDS_QUEUED_MAX);
    let mut feed = Some(feed);
    let mut stopped = std::pin::pin!(replica.until_stopped());
    let raft: &Raft = replica.raft();
    let fed = futures::stream::unfold(fed, |mut fed| async { fed.recv().await.map(|request| (request, fed)) });
    let mut results = std::pin::pin!(raft.stream_append(fed));
    let mut replies = std::collections::VecDeque::new();
    while feed.is_some() || !replies.is_empty() {
        tokio::select! {
            biased;
            result = results.next(), if !replies.is_empty() => {
                let reply: Reply = replies.pop_front().expect("the guard of this branch");
                match result {
                    Some(Ok(Ok(_))) => {
                        replica.heard();
                        reply.send(messages::append_answer(&AppendEntriesResponse::Success), false);
                    }
                    Some(Ok(Err(refusal))) => {
                        let answer = AppendEntriesResponse::from(Err(refusal));
                        if matches!(answer, AppendEntriesResponse::Conflict) {
                            replica.heard();
                        }
                        return reply.send(messages::append_answer(&answer), false);
                    }
                    Some(Err(why)) => return reply.send(messages::failed(&why.to_string()), false),
                    None => return reply.send(messages::failed("the stream has ended"), false),
                }
            }
            () = &mut stopped, if feed.is_some() => feed = None,
            request = requests.recv(), if feed.is_some() && replies.len() < APPENDS_QUEUED_MAX => {
                let Some((request, reply)) = request else { return };
                replies.push_back(reply);
                // There is room: no more wait in it than have a reply to come.
                if feed.as_ref().is_none_or(|feed| feed.try_send(request).is_err()) {
                    return;
                }
            }
        }
    }
}
