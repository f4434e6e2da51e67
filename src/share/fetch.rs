use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::share_fetch_response::{AcquiredRecords, PartitionData, ShareFetchableTopicResponse};
use kafka_protocol::messages::{ShareFetchRequest, ShareFetchResponse};
use tokio::time::{Instant, sleep_until};

use crate::batch::Segments;
use crate::connection::Peer;
use crate::fetch::{Missing, RESPONSE_BYTES_MAX};
use crate::protocol::{self, ErrorCode, encode};
use crate::share::Share;
use crate::share::ask::{Limits, code_of};
use crate::share::read::{Read, read};
use crate::share::request::{Acks, Key, acks_of};
use crate::share::sessions::{FINAL, INITIAL};
use crate::share::wire::{Ack, Acquired, Range};
use crate::types::{AnswerMemory, Partition, ShardId, TopicId};

/// The answer of version 2 is that of version 1.
const VERSION: i16 = 1;

/// Of one partition, by now.
#[derive(Default)]
struct Told {
    error: Option<ErrorCode>,
    /// When something was acknowledged.
    acknowledged: Option<ErrorCode>,
    read: Read,
}

type Answers = Vec<(Partition, Told)>;

/// ShareFetch (API 78). Any number of bytes is enough to answer, whatever `min_bytes` asks for, unless that is 0.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn share_fetch(
    share: &Share,
    peer: &Peer,
    version: i16,
    body: Bytes,
    memory: &AnswerMemory,
) -> Result<Segments, protocol::Error> {
    let (request, renews) = protocol::share::share_fetch(version, body)?;
    let lock_ms = share.lock_ms(request.group_id.as_deref().map_or("", |group| group));
    let answers = match answer(share, peer, request, renews, memory).await {
        Ok(answers) => answers,
        Err(error) => return encode(VERSION, &ShareFetchResponse::default().with_error_code(error.code())),
    };
    let mut topics: Vec<ShareFetchableTopicResponse> = Vec::new();
    let mut at: HashMap<TopicId, usize> = HashMap::new();
    for (partition, told) in answers {
        let at = *at.entry(partition.topic).or_insert_with(|| {
            topics.push(ShareFetchableTopicResponse::default().with_topic_id(partition.topic.into()));
            topics.len() - 1
        });
        topics[at].partitions.push(data(partition.index, told));
    }
    encode(VERSION, &ShareFetchResponse::default().with_acquisition_lock_timeout_ms(lock_ms).with_responses(topics))
}

async fn answer(
    share: &Share,
    peer: &Peer,
    request: ShareFetchRequest,
    renews: bool,
    memory: &AnswerMemory,
) -> Result<Answers, ErrorCode> {
    let deadline = match request.min_bytes {
        ..=0 => Instant::now(),
        _ => Instant::now() + Duration::from_millis(request.max_wait_ms.max(0) as u64),
    };
    let key = share.key(request.group_id.as_ref(), request.member_id.as_ref())?;
    share.check_renewing(&key.0, renews)?;
    let fetches = [request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records];
    if renews && fetches.into_iter().any(|asked| asked != 0) {
        // Who renews has no time to wait for records (KIP-1222).
        return Err(ErrorCode::InvalidRequest);
    }
    let named = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| {
            let batches = partition.acknowledgement_batches.iter();
            let acks = acks_of(batches.map(|b| (b.first_offset, b.last_offset, &b.acknowledge_types[..])), renews);
            (Partition { topic: topic.topic_id.into(), index: partition.partition_index }, acks)
        })
    });
    let named: Vec<(Partition, Acks)> = named.collect();
    let acknowledges = named.iter().any(|(_, acks)| acks.as_ref().map_or(true, |acks| !acks.is_empty()));
    let epoch = request.share_session_epoch;
    let all = || named.iter().map(|(partition, _)| *partition).collect::<Vec<_>>();
    let (wanted, ended) = match epoch {
        // There is nothing yet that could be acknowledged.
        INITIAL if acknowledges => return Err(ErrorCode::InvalidRequest),
        INITIAL => (share.open_session(&key, all(), peer.id).await?, None),
        FINAL => (Vec::new(), Some(share.sessions.close(&key)?)),
        _ => {
            let forgotten = request.forgotten_topics_data.iter().flat_map(|topic| {
                let of = |index: &i32| Partition { topic: topic.topic_id.into(), index: *index };
                topic.partitions.iter().map(of)
            });
            let forgotten: Vec<Partition> = forgotten.collect();
            (share.sessions.go_on(&key, epoch, all(), &forgotten)?, None)
        }
    };
    let limits = Limits {
        records: u32::try_from(request.max_records).unwrap_or(0),
        bytes: (request.max_bytes.max(0) as u64).min(RESPONSE_BYTES_MAX as u64),
    };
    let acknowledging = share.acknowledge_named(&key, named);
    let fetching = fetch(share, &key, wanted, limits, deadline, memory);
    let (acknowledged, mut answers) = tokio::join!(acknowledging, fetching);
    for (partition, code) in acknowledged {
        match answers.iter_mut().find(|(at, _)| *at == partition) {
            Some((_, told)) => told.acknowledged = Some(code),
            None => answers.push((partition, Told { acknowledged: Some(code), ..Told::default() })),
        }
    }
    if let Some(ended) = ended {
        share.release(ended).await;
    }
    Ok(answers)
}

/// Those that have something to tell.
async fn fetch(
    share: &Share,
    key: &Key,
    wanted: Vec<Partition>,
    limits: Limits,
    deadline: Instant,
    memory: &AnswerMemory,
) -> Answers {
    let mut answers = Vec::new();
    let mut placed: Vec<(Partition, ShardId)> = Vec::with_capacity(wanted.len());
    for partition in wanted {
        match share.place(&partition) {
            Ok(shard) => placed.push((partition, shard)),
            Err(error) => answers.push((partition, Told { error: Some(error), ..Told::default() })),
        }
    }
    if placed.is_empty() {
        return answers;
    }
    loop {
        // Whoever has an error to hear does not wait.
        let until = if answers.is_empty() { deadline } else { Instant::now() };
        let acquired = share.acquire(key, &placed, limits, until).await;
        let (told, unread) = deliver(share, key, &placed, acquired, limits, memory).await;
        answers.extend(told);
        let nothing = answers.is_empty();
        if nothing && unread {
            // The store does not answer: don't let the client spin.
            sleep_until(deadline).await;
        }
        if !nothing || unread || limits.records == 0 || limits.bytes == 0 || Instant::now() >= deadline {
            return answers;
        }
    }
}

/// Reads what was acquired. What does not get to the member is given back at once.
async fn deliver(
    share: &Share,
    key: &Key,
    placed: &[(Partition, ShardId)],
    acquired: Vec<Acquired>,
    limits: Limits,
    memory: &AnswerMemory,
) -> (Answers, bool) {
    let bytes: usize = acquired.iter().flat_map(|one| &one.pointers).map(|pointer| pointer.len as usize).sum();
    let mut left = if bytes > 0 { memory.take(bytes.min(limits.bytes as usize), false).await } else { 0 };
    let (mut answers, mut total): (Answers, usize) = (Vec::new(), 0);
    for one in acquired.into_iter().filter(|one| one.error != 0 || !one.ranges.is_empty()) {
        let error = (one.error != 0).then(|| code_of(one.error));
        let read = read(&share.cache, &one, left, total == 0).await;
        left = left.saturating_sub(read.records.len());
        total += read.records.len();
        answers.push((one.partition, Told { error, read, ..Told::default() }));
    }
    if !memory.settle(total) {
        // A first batch that is larger than all that was asked for, and no room for it now: it is asked for again.
        for (_, told) in &mut answers {
            told.read.acks.extend(told.read.ranges.drain(..).map(Ack::give_back));
            told.read.records = Segments::new();
        }
        memory.settle(0);
    }
    let mut acks = Vec::new();
    for (partition, told) in &mut answers {
        let of = std::mem::take(&mut told.read.acks);
        let shard = placed.iter().find(|(at, _)| at == partition).map(|(_, shard)| *shard);
        acks.extend(shard.filter(|_| !of.is_empty()).map(|shard| (*partition, shard, of)));
        if matches!(told.read.missing, Some(Missing::Gone | Missing::Damaged)) && told.read.ranges.is_empty() {
            told.error = Some(ErrorCode::KafkaStorageError);
        }
    }
    for (partition, error) in share.acknowledge(key, acks).await {
        if error != ErrorCode::None {
            tracing::debug!(?partition, ?error, "records that nobody got are held until their locks run out");
        }
    }
    let unread = answers.iter().any(|(_, told)| told.read.missing.is_some());
    answers.retain(|(_, told)| told.error.is_some() || !told.read.ranges.is_empty());
    (answers, unread)
}

fn data(index: i32, told: Told) -> PartitionData {
    let Told { error, acknowledged, read } = told;
    let of = |range: &Range| {
        AcquiredRecords::default()
            .with_first_offset(range.first)
            .with_last_offset(range.last)
            .with_delivery_count(i16::try_from(range.count).unwrap_or(i16::MAX))
    };
    PartitionData::default()
        .with_partition_index(index)
        .with_error_code(error.unwrap_or(ErrorCode::None).code())
        .with_acknowledge_error_code(acknowledged.unwrap_or(ErrorCode::None).code())
        // The generated codec wants one piece: a copy here, and another into the answer.
        .with_records(Some(Bytes::from(read.records.to_vec())))
        .with_acquired_records(read.ranges.iter().map(of).collect())
}
