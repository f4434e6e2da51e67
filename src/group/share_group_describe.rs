use std::collections::BTreeSet;

use bytes::Bytes;
use kafka_protocol::messages::share_group_describe_response::{
    Assignment as ToldAssignment, DescribedGroup, Member, TopicPartitions,
};
use kafka_protocol::messages::{GroupId, ShareGroupDescribeRequest, ShareGroupDescribeResponse};

use crate::admin::operations::ON_A_GROUP;
use crate::batch::Segments;
use crate::cluster::RootState;
use crate::group::Groups;
use crate::group::share::{ASSIGNOR, Ask, MemberDescribed, Reply};
use crate::protocol::{self, ErrorCode, StrBytes, decode, encode};
use crate::shard::group::Assignment;

/// What another room needs to know of a share group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareGroupSeen {
    pub members: usize,
    /// Names of the topics that they are subscribed to.
    pub topics: BTreeSet<String>,
}

/// Why not, for programs and for people.
pub type ShareGroupUnseen = (ErrorCode, String);

/// # Errors
/// The body does not follow the protocol.
pub async fn share_group_describe(groups: &Groups, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
    let request: ShareGroupDescribeRequest = decode(version, body)?;
    let mut answers = Vec::with_capacity(request.group_ids.len());
    for id in request.group_ids {
        let reply = match groups.check_shares() {
            Err((error, why)) => Reply::failed(error, why),
            Ok(()) if id.is_empty() => Reply::failed(ErrorCode::InvalidGroupId, String::new()),
            Ok(()) => groups.ask_share(&id, Ask::Describe).await,
        };
        let group = told(id, reply, &groups.cluster.view());
        answers.push(match request.include_authorized_operations && group.error_code == ErrorCode::None.code() {
            true => group.with_authorized_operations(ON_A_GROUP),
            false => group,
        });
    }
    encode(version, &ShareGroupDescribeResponse::default().with_groups(answers))
}

impl Groups {
    /// Asks the coordinator, if it is this broker.
    ///
    /// # Errors
    /// Another broker is to be asked, or a later moment; there is no such share group.
    pub async fn share_group(&self, group: &str) -> Result<ShareGroupSeen, ShareGroupUnseen> {
        self.see_share_group(group, Ask::Describe).await
    }

    /// Likewise, of a group that is to be changed: where there is none of any kind it is made, or seen as one without
    /// members.
    ///
    /// # Errors
    /// Another broker is to be asked, or a later moment; the group is of another kind.
    pub async fn share_group_or_new(&self, group: &str, makes: bool) -> Result<ShareGroupSeen, ShareGroupUnseen> {
        self.see_share_group(group, if makes { Ask::Create } else { Ask::Look }).await
    }

    async fn see_share_group(&self, group: &str, ask: Ask) -> Result<ShareGroupSeen, ShareGroupUnseen> {
        if group.is_empty() {
            return Err((ErrorCode::InvalidGroupId, "The group id is invalid.".into()));
        }
        match self.ask_share(group, ask).await {
            Reply::Described(described) => {
                let topics = described.members.iter().flat_map(|found| &found.member.who.topics);
                Ok(ShareGroupSeen { members: described.members.len(), topics: topics.cloned().collect() })
            }
            Reply::Failed { error, why } => Err((error, why)),
            Reply::Beaten(_) => Err((ErrorCode::UnknownServerError, String::new())),
        }
    }
}

fn told(id: GroupId, reply: Reply, view: &RootState) -> DescribedGroup {
    let answer = DescribedGroup::default().with_group_id(id);
    let described = match reply {
        Reply::Described(described) => described,
        Reply::Failed { error, why } => {
            let why = (!why.is_empty()).then(|| StrBytes::from_string(why));
            return answer.with_error_code(error.code()).with_error_message(why);
        }
        Reply::Beaten(_) => return answer.with_error_code(ErrorCode::UnknownServerError.code()),
    };
    let members = described.members.into_iter().map(|member| member_told(member, view));
    answer
        .with_group_state(StrBytes::from_static_str(described.state))
        .with_group_epoch(described.epoch)
        .with_assignment_epoch(described.assignment_epoch)
        .with_assignor_name(StrBytes::from_static_str(ASSIGNOR))
        .with_members(members.collect())
}

fn member_told(MemberDescribed { id, member }: MemberDescribed, view: &RootState) -> Member {
    let text = StrBytes::from_string;
    let who = member.who;
    Member::default()
        .with_member_id(text(id))
        .with_rack_id(who.rack.map(text))
        .with_member_epoch(member.epochs.now)
        .with_client_id(text(who.client_id))
        .with_client_host(text(who.client_host))
        .with_subscribed_topic_names(who.topics.into_iter().map(|name| text(name).into()).collect())
        .with_assignment(named(member.assigned, view))
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
