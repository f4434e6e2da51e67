use bytes::Bytes;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse};
use kafka_protocol::protocol::StrBytes;
use tokio::time::Instant;

use crate::admin::epochs::Epochs;
use crate::admin::error::{code_and_message, unknown};
use crate::admin::{Admin, Context, Error, internal, names, topics};
use crate::batch::Segments;
use crate::cluster::{self, RootEntry, RootRefusal};
use crate::protocol::{self, TopicRef, decode, encode};

/// # Errors
/// The body does not follow the protocol.
pub async fn delete_topics(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: DeleteTopicsRequest = decode(version, body)?;
    let deadline = topics::deadline(request.timeout_ms);
    let by_name = request.topic_names.into_iter().map(|name| DeleteTopicState::default().with_name(Some(name)));
    let asked: Vec<DeleteTopicState> = by_name.chain(request.topics).collect();
    let repeated = names::repeated(asked.iter().map(|topic| (topic.name.clone(), topic.topic_id)));
    let repeated = &repeated;
    let results = topics::each(asked, async |asked| {
        let mut result = DeletableTopicResult::default().with_name(asked.name.clone()).with_topic_id(asked.topic_id);
        let twice = repeated.contains(&(asked.name.clone(), asked.topic_id));
        let deleted = delete(admin, asked, twice, &mut result, deadline).await;
        let (code, message) = code_and_message(&deleted);
        result.with_error_code(code).with_error_message(message)
    });
    encode(version, &DeleteTopicsResponse::default().with_responses(results.await))
}

/// Fills in the name and id that the request left out.
async fn delete(
    admin: &Admin,
    asked: DeleteTopicState,
    repeated: bool,
    result: &mut DeletableTopicResult,
    deadline: Instant,
) -> Result<(), Error> {
    topics::refuse_repeated(repeated)?;
    let wanted = match asked.name {
        Some(name) if asked.topic_id.is_nil() => TopicRef::Name(name.0),
        None if !asked.topic_id.is_nil() => TopicRef::Id(asked.topic_id.into()),
        _ => return Err(Error::InvalidRequest("a topic is deleted either by its name or by its id".into())),
    };
    let topic = admin.cluster.view().find(&wanted).cloned().ok_or_else(|| unknown(&wanted))?;
    result.name = Some(StrBytes::from_string(topic.name.clone()).into());
    result.topic_id = topic.id.into();
    internal::refuse_internal(&topic.name)?;
    let epoch = Epochs::of_topic(admin, &topic).await;
    // Once the root has decided, no view that has applied it shows the topic: there is nothing else to wait for.
    match admin.propose(RootEntry::DeleteTopic { topic: topic.id, epoch }, deadline).await {
        // The answer to the first attempt was lost, or somebody else was quicker: it is gone as asked.
        Err(Error::Cluster(cluster::Error::Refused(RootRefusal::UnknownTopic))) | Ok(_) => Ok(()),
        Err(e) => Err(e),
    }
}
