use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{FuturesOrdered, StreamExt};
use milepost_raft::{CallError, NodeId};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use crate::cluster::{Cluster, LeaderGuess};
use crate::commit::run::{Run, join};
use crate::commit::underway::Reply;
use crate::commit::wire::{IN_FLIGHT_MAX, decode_outcome, with_shard};
use crate::index::Shards;
use crate::object::Durable;
use crate::peer::{self, Answer};
use crate::shard::{Append, Outcome, Part, Verdict};
use crate::types::{ObjectId, ShardId};

const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// A failover takes about a second; a shard silent for longer gets no new batches.
const SILENCE_MAX: Duration = Duration::from_secs(3);
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// What became of a batch, as far as this broker can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It may be in the log. The producer repeats it under the same sequence.
    #[error("the outcome is unknown")]
    Unknown,
    /// It is not in the log and never will be under this object.
    #[error("this broker was fenced")]
    Fenced,
    /// Its object was not stored, so no pointer to it was ever sent.
    #[error("the object was not stored")]
    NotStored,
}

/// What one durable object holds for one shard. Only an object that the store acknowledged can be named here.
pub struct Submission {
    pub object: Durable<ObjectId>,
    pub parts: Vec<Part>,
    /// One per batch, in the order of the parts.
    pub replies: Vec<Reply>,
    pub deadline: Instant,
    /// Held until everything of the object is settled: bounds the objects on their way.
    pub in_flight: Arc<OwnedSemaphorePermit>,
}

/// A submission as its shard gets it.
struct Queued {
    object: Durable<ObjectId>,
    parts: Vec<Part>,
    /// One per batch of the parts.
    runs: Vec<Run>,
    deadline: Instant,
    _in_flight: Arc<OwnedSemaphorePermit>,
}

impl From<Submission> for Queued {
    fn from(submission: Submission) -> Queued {
        let Submission { object, parts, replies, deadline, in_flight } = submission;
        let (parts, runs) = join(parts, replies);
        Queued { object, parts, runs, deadline, _in_flight: in_flight }
    }
}

/// The lanes of this broker, one per shard, made when first used.
pub struct Lanes {
    cluster: Cluster,
    shards: Arc<Shards>,
    lanes: Mutex<HashMap<ShardId, Entrance>>,
    fenced: Arc<watch::Sender<bool>>,
}

#[derive(Clone)]
struct Entrance {
    queue: mpsc::UnboundedSender<Queued>,
    stalled: Arc<AtomicBool>,
}

impl Lanes {
    pub fn new(cluster: Cluster, shards: Arc<Shards>) -> Self {
        Lanes { cluster, shards, lanes: Mutex::default(), fenced: Arc::default() }
    }

    /// Hands over the next object for this shard. Sequences must ascend. The queue is bounded by the `in_flight` permits.
    pub fn submit(&self, shard: ShardId, submission: Submission) {
        if let Err(mpsc::error::SendError(lost)) = self.entrance(shard).queue.send(submission.into()) {
            answer_all(lost.runs, Err(Error::Unknown));
        }
    }

    /// The shard has had no leader for a while: batches for it would only hold room that other shards need.
    pub fn is_stalled(&self, shard: ShardId) -> bool {
        self.entrance(shard).stalled.load(Ordering::Relaxed)
    }

    /// Returns when a shard has heard from a later life of this broker: nothing that this one stores is taken any more.
    pub async fn fenced(&self) {
        let _ = self.fenced.subscribe().wait_for(|fenced| *fenced).await;
    }

    fn entrance(&self, shard: ShardId) -> Entrance {
        let mut lanes = self.lanes.lock().expect("no holder panics");
        let lane = lanes.entry(shard).or_insert_with(|| {
            let (queue, submissions) = mpsc::unbounded_channel();
            let stalled = Arc::new(AtomicBool::new(false));
            let way = Way { shard, cluster: self.cluster.clone(), shards: self.shards.clone() };
            tokio::spawn(Lane::new(way, stalled.clone(), self.fenced.clone()).run(submissions));
            Entrance { queue, stalled }
        });
        lane.clone()
    }
}

/// How to reach a shard's leader.
#[derive(Clone)]
struct Way {
    shard: ShardId,
    cluster: Cluster,
    shards: Arc<Shards>,
}

type Call = Pin<Box<dyn Future<Output = Result<Answer, CallError>> + Send>>;

/// Keeps one shard's objects in order: sends ahead, takes the answers in order, and after any failure waits until
/// nothing is on its way and starts again from the oldest that is not settled.
struct Lane {
    way: Way,
    queue: VecDeque<Queued>,
    /// Answers expected for the first `calls.len()` of the queue.
    calls: FuturesOrdered<Call>,
    /// The sequence that the oldest in the queue follows.
    settled: u64,
    guess: LeaderGuess,
    hint: Option<NodeId>,
    failed: bool,
    resume_at: Instant,
    /// Since when nobody has answered; `None` while all is well.
    silent_since: Option<Instant>,
    stalled: Arc<AtomicBool>,
    fenced: Arc<watch::Sender<bool>>,
}

impl Lane {
    fn new(way: Way, stalled: Arc<AtomicBool>, fenced: Arc<watch::Sender<bool>>) -> Self {
        Lane {
            guess: way.guess(),
            way,
            queue: VecDeque::new(),
            calls: FuturesOrdered::new(),
            settled: 0,
            hint: None,
            failed: false,
            resume_at: Instant::now(),
            silent_since: None,
            stalled,
            fenced,
        }
    }

    async fn run(mut self, mut submissions: mpsc::UnboundedReceiver<Queued>) {
        loop {
            self.send_ahead();
            let waits = self.calls.is_empty() && (!self.queue.is_empty() || self.silent_since.is_some());
            tokio::select! {
                submission = submissions.recv() => match submission {
                    Some(submission) => self.queue.push_back(submission),
                    None => return,
                },
                Some(answer) = self.calls.next() => self.on_answer(answer),
                () = sleep_until(self.resume_at), if waits => {}
            }
            if self.calls.is_empty() {
                self.failed = false;
                self.give_up_late();
            }
        }
    }

    fn send_ahead(&mut self) {
        if self.failed || Instant::now() < self.resume_at {
            return;
        }
        let Some(leader) = self.hint.or_else(|| self.guess.current()) else {
            self.pause();
            return;
        };
        if self.queue.is_empty() {
            match self.way.may_have_leader() {
                // Whether it answers is seen with the next object.
                true => self.is_heard(),
                // Nobody to send to: looked at again in a while, not at once and for ever.
                false if self.silent_since.is_some() => self.pause(),
                false => {}
            }
        }
        while self.calls.len() < IN_FLIGHT_MAX.min(self.queue.len()) {
            let at = self.calls.len();
            let previous = at.checked_sub(1).map_or(self.settled, |before| self.queue[before].object.id().sequence);
            let body = self.queue[at].request(self.way.shard, previous);
            let node = self.way.cluster.node().clone();
            let call = async move { node.call(leader, peer::COMMIT, body, CALL_TIMEOUT).await };
            self.calls.push_back(Box::pin(call.map_answer()));
        }
    }

    fn on_answer(&mut self, answer: Result<Answer, CallError>) {
        if self.failed {
            // Sent behind one that failed: asked again after it.
            return;
        }
        match answer {
            Ok(Answer::Done(body)) => match decode_outcome(&body) {
                Ok(Outcome::Taken(verdicts)) => self.settle(verdicts),
                Ok(Outcome::OutOfTurn { last }) => {
                    debug!(shard = self.way.shard, last, settled = self.settled, "out of turn");
                    self.settled = last;
                    self.fail();
                }
                Ok(Outcome::Fenced) => {
                    self.fenced.send_replace(true);
                    self.drop_front(Error::Fenced);
                }
                Ok(Outcome::Marked(_) | Outcome::Refused(_)) | Err(_) => self.fail(),
            },
            Ok(Answer::NotLeader { leader }) => {
                self.hint = leader;
                self.guess.was_wrong();
                self.fail();
            }
            Ok(Answer::Refused(why)) => {
                warn!(shard = self.way.shard, why, "the shard cannot read this object's pointers");
                self.drop_front(Error::Unknown);
            }
            Ok(Answer::Unknown) | Err(_) => {
                self.hint = None;
                self.guess.was_wrong();
                self.fail();
            }
        }
    }

    fn settle(&mut self, verdicts: Vec<Verdict>) {
        self.is_heard();
        self.guess.was_right();
        let Some(front) = self.queue.pop_front() else { return };
        let previous = std::mem::replace(&mut self.settled, front.object.id().sequence);
        if verdicts.contains(&Verdict::Held) {
            let body = front.request(self.way.shard, previous);
            tokio::spawn(follow_held(self.way.clone(), front, verdicts, body));
        } else if verdicts.len() == front.runs.len() {
            front.runs.into_iter().zip(verdicts).for_each(|(run, verdict)| run.answer(Ok(verdict)));
        } else {
            answer_all(front.runs, Err(Error::Unknown));
        }
    }

    /// What was sent behind it names it as previous, is found out of turn, and is sent again.
    fn drop_front(&mut self, e: Error) {
        if let Some(front) = self.queue.pop_front() {
            answer_all(front.runs, Err(e));
        }
    }

    fn fail(&mut self) {
        self.failed = true;
        self.pause();
    }

    fn pause(&mut self) {
        let now = Instant::now();
        self.resume_at = now + RETRY_PAUSE;
        if now - *self.silent_since.get_or_insert(now) > SILENCE_MAX {
            self.stalled.store(true, Ordering::Relaxed);
        }
    }

    fn is_heard(&mut self) {
        if self.silent_since.take().is_some() {
            self.stalled.store(false, Ordering::Relaxed);
        }
    }

    fn give_up_late(&mut self) {
        while self.queue.front().is_some_and(|front| front.deadline <= Instant::now()) {
            let late = self.queue.pop_front().expect("looked at above");
            warn!(shard = self.way.shard, sequence = late.object.id().sequence, "no verdict in time");
            answer_all(late.runs, Err(Error::Unknown));
        }
    }
}

impl Queued {
    fn request(&self, shard: ShardId, previous: u64) -> Bytes {
        // A chain that lost its place is refused and set right; the distance must only never be negative.
        let object = *self.object.id();
        let previous = previous.min(object.sequence);
        with_shard(shard, &Append { object, previous, parts: self.parts.clone() }.encode())
    }
}

impl Way {
    /// Known by a broker that replicates the shard; others can only try.
    fn may_have_leader(&self) -> bool {
        self.shards.get(self.shard).is_none_or(|open| open.leader().is_some())
    }

    fn guess(&self) -> LeaderGuess {
        LeaderGuess::new(self.cluster.clone(), self.shards.clone(), self.shard)
    }
}

/// Answers what is decided and asks for the rest until it is.
async fn follow_held(way: Way, queued: Queued, verdicts: Vec<Verdict>, body: Bytes) {
    let mut open: Vec<Option<Run>> = queued.runs.into_iter().map(Some).collect();
    answer_decided(&mut open, &verdicts);
    let timeout = queued.deadline.saturating_duration_since(Instant::now());
    let mut guess = way.guess();
    let answer = peer::call_leader(way.cluster.node(), || guess.take(), peer::AWAIT_HELD, body, timeout).await;
    if let Ok(Ok(Outcome::Taken(verdicts))) = answer.map(|body| decode_outcome(&body)) {
        answer_decided(&mut open, &verdicts);
    }
    answer_all(open.into_iter().flatten(), Err(Error::Unknown));
}

fn answer_decided(open: &mut [Option<Run>], verdicts: &[Verdict]) {
    for (run, verdict) in open.iter_mut().zip(verdicts).filter(|(_, verdict)| **verdict != Verdict::Held) {
        run.take().into_iter().for_each(|run| run.answer(Ok(*verdict)));
    }
}

fn answer_all(runs: impl IntoIterator<Item = Run>, result: Result<Verdict, Error>) {
    runs.into_iter().for_each(|run| run.answer(result));
}

trait MapAnswer: Future<Output = Result<Bytes, CallError>> + Sized {
    /// An answer that cannot be read is no answer.
    async fn map_answer(self) -> Result<Answer, CallError> {
        Answer::decode(self.await?).map_err(|e| CallError::Unknown(e.to_string()))
    }
}

impl<F: Future<Output = Result<Bytes, CallError>>> MapAnswer for F {}
