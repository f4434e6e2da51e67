use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse};
use kafka_protocol::protocol::StrBytes;
use tokio::time::Instant;

use crate::admin::epochs::Epochs;
use crate::admin::error::{code_and_message, unknown};
use crate::admin::mutations::Mutations;
use crate::admin::{Admin, Context, Error, internal, names, topics};
use crate::batch::Segments;
use crate::cluster::{self, RootEntry, RootRefusal, RootState, Topic};
use crate::protocol::{self, TopicRef, decode, encode};

/// Whose clients know that a quota was exceeded (KIP-599).
const STRICT_SINCE: i16 = 5;

/// Also how long the client is to be left waiting.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn delete_topics(
    admin: &Admin,
    context: &Context,
    version: i16,
    body: Bytes,
) -> Result<(Segments, Duration), protocol::Error> {
    let request: DeleteTopicsRequest = decode(version, body)?;
    let deadline = topics::deadline(request.timeout_ms);
    let mutations = Mutations::of(admin, context, version >= STRICT_SINCE);
    let planned = plan(&admin.cluster.view(), request);
    let results = topics::each(planned, async |(result, topic)| {
        let deleted = match topic {
            Ok(topic) => delete(admin, &mutations, topic, deadline).await,
            Err(e) => Err(e),
        };
        let (code, message) = code_and_message(&deleted);
        result.with_error_code(code).with_error_message(message)
    });
    let answer = DeleteTopicsResponse::default().with_responses(results.await);
    let wait = mutations.wait();
    Ok((encode(version, &answer.with_throttle_time_ms(wait.as_millis() as i32))?, wait))
}

/// What becomes of each topic that is named. One that is named twice, also by name here and by id there, stays.
fn plan(view: &RootState, request: DeleteTopicsRequest) -> Vec<(DeletableTopicResult, Result<Arc<Topic>, Error>)> {
    let by_name = request.topic_names.into_iter().map(|name| DeleteTopicState::default().with_name(Some(name)));
    let asked = names::counted(by_name.chain(request.topics), |topic| (topic.name.clone(), topic.topic_id));
    let mut planned: Vec<(_, Result<Arc<Topic>, Error>)> = Vec::with_capacity(asked.len());
    let mut places = HashMap::new();
    for (asked, repeated) in asked {
        let result = DeletableTopicResult::default().with_name(asked.name.clone()).with_topic_id(asked.topic_id);
        let topic = match find(asked, repeated).and_then(|wanted| view.find(&wanted).ok_or_else(|| unknown(&wanted))) {
            Ok(topic) => topic,
            Err(e) => {
                planned.push((result, Err(e)));
                continue;
            }
        };
        if let Some(place) = places.insert(topic.id, planned.len()) {
            let why = "The provided topic name maps to an ID that was already supplied.";
            planned[place].1 = Err(Error::InvalidRequest(why.into()));
            places.insert(topic.id, place);
            continue;
        }
        let name = StrBytes::from_string(topic.name.clone()).into();
        let result = result.with_name(Some(name)).with_topic_id(topic.id.into());
        planned.push((result, internal::refuse_internal(&topic.name).map(|()| topic.clone())));
    }
    planned
}

fn find(asked: DeleteTopicState, repeated: bool) -> Result<TopicRef, Error> {
    let refused = |why: &str| Err(Error::InvalidRequest(why.into()));
    match asked.name {
        None if asked.topic_id.is_nil() => refused("Neither topic name nor id were specified."),
        Some(_) if !asked.topic_id.is_nil() => refused("You may not specify both topic name and topic id."),
        Some(name) => topics::refuse_repeated(repeated).map(|()| TopicRef::Name(name.0)),
        None if repeated => refused("Duplicate topic id."),
        None => Ok(TopicRef::Id(asked.topic_id.into())),
    }
}

async fn delete(admin: &Admin, mutations: &Mutations, topic: Arc<Topic>, deadline: Instant) -> Result<(), Error> {
    mutations.take(topic.placement.len())?;
    let epoch = Epochs::of_topic(admin, &topic).await;
    // Once the root has decided, no view that has applied it shows the topic: there is nothing else to wait for.
    match admin.propose(RootEntry::DeleteTopic { topic: topic.id, epoch }, deadline).await {
        // The answer to the first attempt was lost, or somebody else was quicker: it is gone as asked.
        Err(Error::Cluster(cluster::Error::Refused(RootRefusal::UnknownTopic))) | Ok(_) => Ok(()),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::{CONSUMER_OFFSETS, sample};
    use crate::protocol::ErrorCode;
    use crate::types::TopicId;

    fn asked(name: &'static str, id: Option<TopicId>) -> DeleteTopicState {
        let topic = DeleteTopicState::default().with_topic_id(id.map(Into::into).unwrap_or_default());
        topic.with_name((!name.is_empty()).then(|| StrBytes::from_static_str(name).into()))
    }

    #[test]
    fn a_topic_is_named_once_and_told_of_once() {
        let mut view = sample::cluster(&["a"]);
        let t = sample::topic(&mut view, "t", 1, 1, 1);
        let u = sample::topic(&mut view, "u", 2, 1, 1);
        sample::topic(&mut view, CONSUMER_OFFSETS, 3, 1, 1);
        let of = |topics| {
            let planned = plan(&view, DeleteTopicsRequest::default().with_topics(topics)).into_iter();
            planned.map(|(_, topic)| topic.map(|topic| topic.id).map_err(|e| e.code())).collect::<Vec<_>>()
        };
        let invalid = || Err(ErrorCode::InvalidRequest);
        assert_eq!(of(vec![asked("t", None), asked("", Some(u))]), [Ok(t), Ok(u)]);
        // By its name and by its id; other topics are deleted all the same.
        assert_eq!(of(vec![asked("", Some(t)), asked("u", None), asked("t", None)]), [invalid(), Ok(u)]);
        assert_eq!(of(vec![asked("t", None), asked("", Some(t)), asked("t", None)]).first(), Some(&invalid()));
        assert_eq!(of(vec![asked("t", None), asked("t", None)]), [invalid()]);
        assert_eq!(of(vec![asked("", Some(t)), asked("", Some(t))]), [invalid()]);
        assert_eq!(of(vec![asked("t", Some(t)), asked("", None)]), [invalid(), invalid()]);
        let unknown = of(vec![asked("v", None), asked("", Some(sample::topic_id(9)))]);
        assert_eq!(unknown, [Err(ErrorCode::UnknownTopicOrPartition), Err(ErrorCode::UnknownTopicId)]);
        assert_eq!(of(vec![asked(CONSUMER_OFFSETS, None)]), [invalid()]);
    }
}
