use bytes::Bytes;
use kafka_protocol::messages::consumer_group_describe_response::{
    Assignment as ToldAssignment, DescribedGroup, Member, TopicPartitions,
};
use kafka_protocol::messages::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, GroupId};

use crate::admin::operations::ON_A_GROUP;
use crate::batch::Segments;
use crate::cluster::RootState;
use crate::group::Groups;
use crate::group::consumer::{Ask, MemberDescribed, Reply};
use crate::protocol::{self, ErrorCode, StrBytes, decode, encode};
use crate::shard::group::Assignment;

/// Since this version a member's protocol is told.
const TYPE_SINCE: i16 = 1;
const CLASSIC: i8 = 0;
const CONSUMER: i8 = 1;

/// # Errors
/// The body does not follow the protocol.
pub async fn consumer_group_describe(groups: &Groups, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
    let request: ConsumerGroupDescribeRequest = decode(version, body)?;
    let mut answers = Vec::with_capacity(request.group_ids.len());
    for id in request.group_ids {
        let reply = match id.is_empty() {
            true => Reply::failed(ErrorCode::InvalidGroupId, String::new()),
            false => groups.ask_consumer(&id, Ask::Describe).await,
        };
        let group = told(id, reply, &groups.cluster.view(), version);
        answers.push(match request.include_authorized_operations && group.error_code == ErrorCode::None.code() {
            true => group.with_authorized_operations(ON_A_GROUP),
            false => group,
        });
    }
    encode(version, &ConsumerGroupDescribeResponse::default().with_groups(answers))
}

fn told(id: GroupId, reply: Reply, view: &RootState, version: i16) -> DescribedGroup {
    let answer = DescribedGroup::default().with_group_id(id);
    let described = match reply {
        Reply::Described(described) => described,
        Reply::Failed { error, why } => {
            let why = (!why.is_empty()).then(|| StrBytes::from_string(why));
            return answer.with_error_code(error.code()).with_error_message(why);
        }
        Reply::Done | Reply::Beaten(_) => return answer.with_error_code(ErrorCode::UnknownServerError.code()),
    };
    let members = described.members.into_iter().map(|member| member_told(member, view, version));
    answer
        .with_group_state(StrBytes::from_static_str(described.state))
        .with_group_epoch(described.epoch)
        .with_assignment_epoch(described.assignment_epoch)
        .with_assignor_name(StrBytes::from_static_str(described.assignor))
        .with_members(members.collect())
}

fn member_told(member: MemberDescribed, view: &RootState, version: i16) -> Member {
    let text = StrBytes::from_string;
    let who = member.who;
    let kind = if who.classic.is_some() { CLASSIC } else { CONSUMER };
    // It has those too that it is to let go of.
    let mut has = member.current.assigned;
    for (topic, partitions) in member.current.revoking {
        has.entry(topic).or_default().extend(partitions);
    }
    let told = Member::default()
        .with_member_id(text(member.id))
        .with_instance_id(who.instance.map(text))
        .with_rack_id(who.rack.map(text))
        .with_member_epoch(member.current.epoch)
        .with_client_id(text(who.client_id))
        .with_client_host(text(who.client_host))
        .with_subscribed_topic_names(who.topics.into_iter().map(|name| text(name).into()).collect())
        .with_subscribed_topic_regex(who.pattern.map(text))
        .with_assignment(named(has, view))
        .with_target_assignment(named(member.target, view));
    if version >= TYPE_SINCE { told.with_member_type(kind) } else { told }
}

/// A topic that is gone has no name any more.
fn named(assignment: Assignment, view: &RootState) -> ToldAssignment {
    let topics = assignment.into_iter().filter_map(|(id, partitions)| {
        let name = StrBytes::from_string(view.topic(id)?.name.clone());
        let told = TopicPartitions::default().with_topic_id(id.into()).with_topic_name(name.into());
        Some(told.with_partitions(partitions.into_iter().collect()))
    });
    ToldAssignment::default().with_topic_partitions(topics.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::group::{ClassicMember, Current, Who};

    #[test]
    fn members_are_told_with_the_protocol_they_speak() {
        let type_of = |classic: Option<ClassicMember>| {
            let who = Who { classic, ..Who::default() };
            let (current, target) = (Current::default(), Assignment::new());
            let member = MemberDescribed { id: "a".into(), who, current, target };
            member_told(member, &RootState::default(), TYPE_SINCE).member_type
        };
        let classic = ClassicMember { session_timeout_ms: 1, protocols: Vec::new() };
        assert_eq!((type_of(Some(classic)), type_of(None)), (CLASSIC, CONSUMER));
    }
}
