use super::ApiKey;
use crate::batch::Segments;

/// Writes into an encoded answer how long its client is left waiting (KIP-219). False for an answer that cannot say it:
/// the client is left waiting all the same.
pub fn set_throttle(api: ApiKey, version: i16, body: &mut Segments, throttle_ms: i32) -> bool {
    match place(api, version) {
        Some(Place::Front(at)) => body.overwrite(at, &throttle_ms.to_be_bytes()),
        Some(Place::Back(from_end)) => {
            let at = body.len().checked_sub(from_end);
            at.is_some_and(|at| body.overwrite(at, &throttle_ms.to_be_bytes()))
        }
        None => false,
    }
}

/// Where the field is: bytes from the front, or from the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Front(usize),
    Back(usize),
}

fn place(api: ApiKey, version: i16) -> Option<Place> {
    let since = match api {
        // Behind all partitions; then, in flexible versions, the count of tagged fields, of which we write none.
        ApiKey::Produce => return (version >= 1).then_some(Place::Back(if version >= 9 { 5 } else { 4 })),
        // Behind the error.
        ApiKey::OffsetDelete => return Some(Place::Front(2)),
        // Have no such field, or one that only this floor writes.
        ApiKey::SaslHandshake | ApiKey::SaslAuthenticate | ApiKey::WriteTxnMarkers | ApiKey::DescribeQuorum => {
            return None;
        }
        ApiKey::ApiVersions => return None,
        ApiKey::Fetch
        | ApiKey::FindCoordinator
        | ApiKey::Heartbeat
        | ApiKey::LeaveGroup
        | ApiKey::SyncGroup
        | ApiKey::DescribeGroups
        | ApiKey::ListGroups
        | ApiKey::DeleteTopics => 1,
        ApiKey::ListOffsets | ApiKey::JoinGroup | ApiKey::CreateTopics | ApiKey::OffsetForLeaderEpoch => 2,
        ApiKey::Metadata | ApiKey::OffsetCommit | ApiKey::OffsetFetch => 3,
        _ => 0,
    };
    (version >= since).then_some(Place::Front(0))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kafka_protocol::messages::*;
    use kafka_protocol::protocol::{Decodable, Encodable};

    use super::*;
    use crate::protocol::{APIS, decode, encode};

    /// Whether the answer of every served version says what was written, and nothing else of it changed.
    fn says<T: Encodable + Decodable + Default + PartialEq>(api: ApiKey, with: impl Fn(T) -> T) -> bool {
        let line = APIS.iter().find(|line| line.key == api).unwrap();
        // What comes after the codec's newest was made from it by hand.
        (line.min..=line.max.min(api.valid_versions().max)).all(|version| {
            let mut body = encode(version, &T::default()).unwrap();
            if !set_throttle(api, version, &mut body, 77) {
                return version < 3;
            }
            let told: T = decode(version, Bytes::from(body.to_vec())).unwrap();
            told == with(decode(version, Bytes::from(encode(version, &T::default()).unwrap().to_vec())).unwrap())
        })
    }

    #[test]
    fn every_answer_that_can_says_how_long_to_wait() {
        macro_rules! say {
            ($($api:ident $response:ident,)*) => {
                [$((ApiKey::$api, says::<$response>(ApiKey::$api, |mut r| { r.throttle_time_ms = 77; r })),)*]
            };
        }
        let said = say! {
            Produce ProduceResponse,
            Fetch FetchResponse,
            ListOffsets ListOffsetsResponse,
            Metadata MetadataResponse,
            OffsetCommit OffsetCommitResponse,
            OffsetFetch OffsetFetchResponse,
            FindCoordinator FindCoordinatorResponse,
            JoinGroup JoinGroupResponse,
            Heartbeat HeartbeatResponse,
            LeaveGroup LeaveGroupResponse,
            SyncGroup SyncGroupResponse,
            DescribeGroups DescribeGroupsResponse,
            ListGroups ListGroupsResponse,
            DeleteGroups DeleteGroupsResponse,
            OffsetDelete OffsetDeleteResponse,
            CreateTopics CreateTopicsResponse,
            DeleteTopics DeleteTopicsResponse,
            InitProducerId InitProducerIdResponse,
            OffsetForLeaderEpoch OffsetForLeaderEpochResponse,
            DescribeConfigs DescribeConfigsResponse,
            AlterConfigs AlterConfigsResponse,
            IncrementalAlterConfigs IncrementalAlterConfigsResponse,
            CreatePartitions CreatePartitionsResponse,
            DescribeCluster DescribeClusterResponse,
            DescribeTopicPartitions DescribeTopicPartitionsResponse,
            UpdateFeatures UpdateFeaturesResponse,
            DescribeClientQuotas DescribeClientQuotasResponse,
            AlterClientQuotas AlterClientQuotasResponse,
            DescribeAcls DescribeAclsResponse,
            CreateAcls CreateAclsResponse,
            DeleteAcls DeleteAclsResponse,
            DescribeUserScramCredentials DescribeUserScramCredentialsResponse,
            GetTelemetrySubscriptions GetTelemetrySubscriptionsResponse,
            PushTelemetry PushTelemetryResponse,
            ListConfigResources ListConfigResourcesResponse,
            ShareFetch ShareFetchResponse,
            ShareAcknowledge ShareAcknowledgeResponse,
            DescribeShareGroupOffsets DescribeShareGroupOffsetsResponse,
            AlterShareGroupOffsets AlterShareGroupOffsetsResponse,
            DeleteShareGroupOffsets DeleteShareGroupOffsetsResponse,
        };
        for (api, says) in said {
            assert!(says, "{api:?}");
        }
    }
}
