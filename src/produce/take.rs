use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use tokio::time::{Instant, timeout_at};

use crate::admin::is_internal;
use crate::batch::{ValidBatch, validate};
use crate::cluster::{Topic, now_ms};
use crate::commit::{Error, Reply, SlotError, Ticket, Waiting};
use crate::produce::failure::Failure;
use crate::produce::recompress::{self, Recompressed};
use crate::produce::respond::{PartitionAnswer, TopicAnswer};
use crate::produce::settings::TopicSettings;
use crate::produce::verify::{Membership, Memberships};
use crate::produce::{Produce, error};
use crate::protocol::produce::{ProducePartition, ProduceRequest};
use crate::protocol::{ErrorCode, TopicRef};
use crate::shard::{Slot, Verdict};
use crate::types::{Memory, Partition, ShardId, StorageClass};
use crate::upload::Pending;

/// Smallest wait for verdicts: a client that asks for none still wants to know.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// What is kept of a request while it is looked at.
struct Intake {
    /// acks = -1: `min.insync.replicas` is asked for.
    all_acks: bool,
    /// Shards that could not say which slot a partition has.
    silent: HashSet<ShardId>,
    recompressed: Recompressed,
}

/// One partition's batches, all good.
pub(super) struct Accepted {
    class: StorageClass,
    pub shard: ShardId,
    pub slot: Slot,
    pub partition: Partition,
    pub batches: Vec<ValidBatch>,
}

/// A topic whose batches are on their way.
pub(super) struct Taken {
    topic: TopicRef,
    partitions: Vec<(i32, Result<Waits, Failure>)>,
}

struct Waits {
    verdicts: Vec<Waiting>,
    /// See [`Membership`](crate::produce::verify::Membership).
    assumed: bool,
}

impl Produce {
    /// Validates every partition and hands all good batches to ingest in one piece, in the order of the request.
    pub(super) async fn take(&self, version: i16, request: ProduceRequest, memory: Memory) -> Vec<Taken> {
        let ticket = self.underway.enter();
        let all_acks = request.acks == -1;
        let mut intake = Intake { all_acks, silent: HashSet::new(), recompressed: Recompressed::default() };
        let mut looked_at = Vec::with_capacity(request.topics.len());
        let acks_known = matches!(request.acks, -1..=1);
        for topic in request.topics {
            let found = match acks_known {
                true => self.topic(&topic.topic, version).ok_or(topic.topic.unknown()),
                false => Err(ErrorCode::InvalidRequiredAcks),
            };
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for one in topic.partitions {
                let index = one.index;
                let accepted = match &found {
                    Ok((record, settings)) => self.accept(record, settings, one, &mut intake).await,
                    Err(e) => Err((*e).into()),
                };
                partitions.push((index, accepted));
            }
            looked_at.push((topic.topic, partitions));
        }
        let accepted = looked_at.iter().flat_map(|(_, partitions)| partitions).filter_map(|(_, one)| one.as_ref().ok());
        let memberships = self.memberships(version, request.transactional_id.as_deref(), accepted).await;
        let memory: Memory = match intake.recompressed.memory {
            Some(grown) => Arc::new((memory, grown)),
            None => memory,
        };
        let mut pending = BTreeMap::new();
        let mut taken = Vec::with_capacity(looked_at.len());
        for (topic, partitions) in looked_at {
            let enlisted = partitions.into_iter().map(|(index, accepted)| {
                let waits = accepted.and_then(|one| Ok(enlist(one, &memberships, (&ticket, &memory), &mut pending)?));
                (index, waits)
            });
            taken.push(Taken { topic, partitions: enlisted.collect() });
        }
        for (class, pending) in pending {
            // When the broker stops, the batches are dropped, and their waiters see it.
            let _ = self.ingest.submit(class, pending).await;
        }
        taken
    }

    /// A topic, and what it asks of its batches.
    fn topic(&self, named: &TopicRef, version: i16) -> Option<(Arc<Topic>, TopicSettings)> {
        let view = self.cluster.view();
        let topic = view.find(named)?;
        let layers = self.defaults.layers(&view, self.cluster.broker_id());
        Some((topic.clone(), TopicSettings::of(topic, &view, layers, version, now_ms())))
    }

    async fn accept(
        &self,
        topic: &Topic,
        settings: &TopicSettings,
        request: ProducePartition,
        intake: &mut Intake,
    ) -> Result<Accepted, Failure> {
        let index = request.index;
        if index < 0 || index >= topic.live {
            return Err(ErrorCode::UnknownTopicOrPartition.into());
        }
        if is_internal(&topic.name) {
            return Err(ErrorCode::InvalidTopic.into());
        }
        if !self.ingest.takes(settings.class) {
            // Retriable: another broker may be started with all stores.
            return Err(ErrorCode::KafkaStorageError.into());
        }
        let batches = self.valid(request.records, settings, &mut intake.recompressed).await.map_err(|e| {
            tracing::debug!(topic = topic.name, index, error = %e, "batches refused");
            match e {
                recompress::Error::Batch(e) => Failure::of_batch(&e, &settings.rules, &topic.name, index),
                other => other.code().into(),
            }
        })?;
        if batches.iter().map(|batch| batch.bytes().len()).sum::<usize>() > settings.list_bytes_max {
            return Err(ErrorCode::RecordListTooLarge.into());
        }
        let partition = Partition { topic: topic.id, index };
        let shard = topic.placement[index as usize];
        let insync_min = settings.insync_min;
        if intake.all_acks && insync_min > 1 && !self.has_live_voters(shard, insync_min) {
            return Err(ErrorCode::NotEnoughReplicas.into());
        }
        if self.lanes.is_stalled(shard) || intake.silent.contains(&shard) {
            return Err(error::of_slot(SlotError::Unavailable).into());
        }
        let slot = self.slots.resolve(shard, partition).await.map_err(|e| {
            // Asking once per request is enough: the next partition would wait as long.
            intake.silent.insert(shard);
            error::of_slot(e)
        })?;
        batches.iter().try_for_each(|batch| self.admit(partition, batch))?;
        Ok(Accepted { class: settings.class, shard, slot, partition, batches })
    }

    /// Batches as they are to be stored.
    async fn valid(
        &self,
        records: Bytes,
        settings: &TopicSettings,
        recompressed: &mut Recompressed,
    ) -> Result<Vec<ValidBatch>, recompress::Error> {
        let batches = validate(records, &settings.rules)?;
        match settings.compression.filter(|wanted| batches.iter().any(|batch| batch.differs_from(*wanted))) {
            Some(wanted) => self.recompressor.recompress(batches, wanted, &settings.rules, recompressed).await,
            None => Ok(batches),
        }
    }

    /// Voters heard of lately: so many, or all if there are fewer (Kafka: `Partition.effectiveMinIsr`). Raft wants a majority
    /// whatever this says.
    fn has_live_voters(&self, shard: ShardId, count: usize) -> bool {
        let view = self.cluster.view();
        let Some(record) = view.shard(shard) else { return false };
        let live = record.voters.iter().filter(|node| view.broker_of(**node).is_some_and(|b| b.alive)).count();
        live >= count.min(record.voters.len())
    }

    fn admit(&self, partition: Partition, batch: &ValidBatch) -> Result<(), ErrorCode> {
        let claim = crate::upload::claim_of(batch);
        match claim.is_none_or(|claim| self.poison.admits(partition, claim)) {
            true => Ok(()),
            false => Err(error::of_commit(Error::NotStored)),
        }
    }

    /// Waits for what became of everything that was taken.
    pub(super) async fn verdicts(&self, taken: Vec<Taken>, timeout: Duration) -> Vec<TopicAnswer> {
        let deadline = Instant::now() + timeout.max(TIMEOUT_MIN);
        let mut topics = Vec::with_capacity(taken.len());
        for Taken { topic, partitions } in taken {
            let answers = partitions.into_iter().map(|(index, accepted)| verdict(index, accepted, deadline));
            topics.push(TopicAnswer { topic, partitions: join_all(answers).await });
        }
        topics
    }
}

/// Puts a partition's batches among those that go to ingest, each with its transaction.
fn enlist(
    accepted: Accepted,
    memberships: &Memberships,
    (ticket, memory): (&Ticket, &Memory),
    pending: &mut BTreeMap<StorageClass, Vec<Pending>>,
) -> Result<Waits, ErrorCode> {
    let Accepted { class, shard, slot, partition, batches } = accepted;
    let membership_of = |batch: &ValidBatch| match batch.header().attributes.is_transactional() {
        true => memberships.get(&(batch.header().producer, partition)).copied().transpose(),
        false => Ok(None),
    };
    let members: Vec<Option<Membership>> = batches.iter().map(membership_of).collect::<Result<_, ErrorCode>>()?;
    let assumed = members.iter().flatten().any(|membership| membership.assumed);
    let verdicts = batches.into_iter().zip(members).map(|(batch, membership)| {
        let (reply, waiting) = Reply::awaited(ticket);
        let (transaction, memory) = (membership.map(|membership| membership.number), memory.clone());
        let one = Pending { shard, slot, partition, batch, transaction, reply, memory };
        pending.entry(class).or_default().push(one);
        waiting
    });
    Ok(Waits { verdicts: verdicts.collect(), assumed })
}

/// A partition's answer: the first batch's offset, or the first error.
async fn verdict(index: i32, accepted: Result<Waits, Failure>, deadline: Instant) -> PartitionAnswer {
    let Waits { verdicts, assumed } = match accepted {
        Ok(waits) => waits,
        Err(failure) => return PartitionAnswer::refused(index, failure),
    };
    let mut first = None;
    for one in verdicts {
        let decided = match timeout_at(deadline, one).await {
            Ok(Ok(Ok(verdict))) => verdict,
            Ok(Ok(Err(e))) => return PartitionAnswer::failed(index, error::of_commit(e)),
            Ok(Err(_)) | Err(_) => return PartitionAnswer::failed(index, error::of_commit(Error::Unknown)),
        };
        let appended = match decided {
            Verdict::Appended { base, append_time } | Verdict::Duplicate { base, append_time } => (base, append_time),
            Verdict::Refused(refusal) => return PartitionAnswer::failed(index, error::of_refusal(refusal, assumed)),
            Verdict::Held => return PartitionAnswer::failed(index, error::of_commit(Error::Unknown)),
        };
        first.get_or_insert(appended);
    }
    let (base_offset, append_time) = first.unwrap_or((-1, None));
    PartitionAnswer { index, error: ErrorCode::None, rejected: None, base_offset, append_time }
}
