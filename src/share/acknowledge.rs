use std::collections::HashMap;

use bytes::Bytes;
use kafka_protocol::messages::share_acknowledge_response::{PartitionData, ShareAcknowledgeTopicResponse};
use kafka_protocol::messages::{ShareAcknowledgeRequest, ShareAcknowledgeResponse};

use crate::batch::Segments;
use crate::protocol::{self, ErrorCode};
use crate::share::Share;
use crate::share::request::{Acks, acks_of};
use crate::share::sessions::{FINAL, INITIAL};
use crate::types::{Partition, TopicId};

/// ShareAcknowledge (API 79).
///
/// # Errors
/// The body does not follow the protocol.
pub async fn share_acknowledge(share: &Share, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
    let (request, renews) = protocol::share::share_acknowledge(version, body)?;
    let lock_ms = share.lock_ms(request.group_id.as_deref().map_or("", |group| group));
    let answer = ShareAcknowledgeResponse::default();
    let answer = match answers(share, request, renews).await {
        Ok(topics) => answer.with_responses(topics),
        Err(error) => answer.with_error_code(error.code()),
    };
    protocol::share::share_acknowledge_answer(version, &answer, lock_ms)
}

async fn answers(
    share: &Share,
    request: ShareAcknowledgeRequest,
    renews: bool,
) -> Result<Vec<ShareAcknowledgeTopicResponse>, ErrorCode> {
    let key = share.key(request.group_id.as_ref(), request.member_id.as_ref())?;
    share.check_renewing(&key.0, renews)?;
    let ended = match request.share_session_epoch {
        INITIAL => return Err(ErrorCode::InvalidShareSessionEpoch),
        FINAL => Some(share.sessions.close(&key)?),
        epoch => share.sessions.go_on(&key, epoch, Vec::new(), &[]).map(|_| None)?,
    };
    let named = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| {
            let batches = partition.acknowledgement_batches.iter();
            let acks = acks_of(batches.map(|b| (b.first_offset, b.last_offset, &b.acknowledge_types[..])), renews);
            (Partition { topic: topic.topic_id.into(), index: partition.partition_index }, acks)
        })
    });
    let named: Vec<(Partition, Acks)> = named.collect();
    let asked: Vec<Partition> = named.iter().map(|(partition, _)| *partition).collect();
    let codes: HashMap<Partition, ErrorCode> = share.acknowledge_named(&key, named).await.into_iter().collect();
    if let Some(ended) = ended {
        share.release(ended).await;
    }
    let topics = asked.chunk_by(|a, b| a.topic == b.topic).map(|of| {
        let one = |partition: &Partition| {
            let code = codes.get(partition).copied().unwrap_or(ErrorCode::None);
            PartitionData::default().with_partition_index(partition.index).with_error_code(code.code())
        };
        let topic: TopicId = of[0].topic;
        let answer = ShareAcknowledgeTopicResponse::default().with_topic_id(topic.into());
        answer.with_partitions(of.iter().map(one).collect())
    });
    Ok(topics.collect())
}
