use kafka_protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
use kafka_protocol::messages::{ApiKey, ApiVersionsResponse};

use super::{Error, ErrorCode, StrBytes, encode};
use crate::batch::Segments;

/// One line of the table of what we serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Api {
    pub key: ApiKey,
    /// The first version that ApiVersions lists.
    pub listed_min: i16,
    /// The first version that is served.
    pub min: i16,
    pub max: i16,
}

const fn api(key: ApiKey, min: i16, max: i16) -> Api {
    Api { key, listed_min: min, min, max }
}

/// Every API we serve. Versions are those of Kafka 4.1's stable schemas; a room that serves another API
/// adds its line. Fetch and Produce above 12 name topics by id, which is honest only because ours are real.
pub const APIS: [Api; 44] = [
    // librdkafka takes a broker that does not list Produce 0 for one that cannot do compression;
    // as in Kafka 4, versions 0 to 2 are listed and refused.
    Api { key: ApiKey::Produce, listed_min: 0, min: 3, max: 13 },
    api(ApiKey::Fetch, 4, 18),
    api(ApiKey::ListOffsets, 1, 10),
    api(ApiKey::Metadata, 0, 13),
    api(ApiKey::OffsetCommit, 2, 9),
    api(ApiKey::OffsetFetch, 1, 9),
    api(ApiKey::FindCoordinator, 0, 6),
    api(ApiKey::JoinGroup, 0, 9),
    api(ApiKey::Heartbeat, 0, 4),
    api(ApiKey::LeaveGroup, 0, 5),
    api(ApiKey::SyncGroup, 0, 5),
    api(ApiKey::DescribeGroups, 0, 6),
    api(ApiKey::ListGroups, 0, 5),
    api(ApiKey::DeleteGroups, 0, 2),
    api(ApiKey::OffsetDelete, 0, 0),
    api(ApiKey::ApiVersions, 0, 4),
    api(ApiKey::CreateTopics, 2, 7),
    api(ApiKey::DeleteTopics, 1, 6),
    api(ApiKey::DeleteRecords, 0, 2),
    api(ApiKey::InitProducerId, 0, 5),
    api(ApiKey::OffsetForLeaderEpoch, 2, 4),
    api(ApiKey::AddPartitionsToTxn, 0, 5),
    api(ApiKey::AddOffsetsToTxn, 0, 4),
    api(ApiKey::EndTxn, 0, 5),
    api(ApiKey::WriteTxnMarkers, 1, 1),
    api(ApiKey::TxnOffsetCommit, 0, 5),
    api(ApiKey::DescribeConfigs, 1, 4),
    api(ApiKey::AlterReplicaLogDirs, 1, 2),
    api(ApiKey::DescribeLogDirs, 1, 4),
    api(ApiKey::CreatePartitions, 0, 3),
    api(ApiKey::ElectLeaders, 0, 2),
    api(ApiKey::AlterPartitionReassignments, 0, 1),
    api(ApiKey::ListPartitionReassignments, 0, 0),
    api(ApiKey::DescribeQuorum, 0, 2),
    api(ApiKey::DescribeCluster, 0, 2),
    api(ApiKey::ConsumerGroupHeartbeat, 0, 1),
    api(ApiKey::ConsumerGroupDescribe, 0, 1),
    api(ApiKey::UnregisterBroker, 0, 0),
    api(ApiKey::DescribeProducers, 0, 0),
    api(ApiKey::DescribeTransactions, 0, 0),
    api(ApiKey::ListTransactions, 0, 1),
    api(ApiKey::DescribeTopicPartitions, 0, 0),
    api(ApiKey::AddRaftVoter, 0, 0),
    api(ApiKey::RemoveRaftVoter, 0, 0),
];

/// Kafka's features (KIP-584) that clients look at, with the highest level that is served, which is the one that counts:
/// 2 of this one tells producers that every end of a transaction raises their epoch and that they need not add partitions
/// to transactions themselves (KIP-890). Lower levels are for producers that do not know of it.
const FEATURES: [(&str, i16); 1] = [("transaction.version", 2)];
/// Features never change in the life of a cluster of this build.
const FEATURES_EPOCH: i64 = 1;
const FEATURES_SINCE: i16 = 3;
/// Clients before cannot read a feature whose lowest level is 0.
const LEVEL_ZERO_SINCE: i16 = 4;

/// What we make of an API key and version on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiSupport {
    Served(ApiKey),
    /// ApiVersions of a version from the future: answered with version 0 and UNSUPPORTED_VERSION, so
    /// that the client can ask again (KIP-511).
    UnknownApiVersions,
    /// Not served. The connection is to be closed.
    Refused,
}

/// The line of an API.
pub fn find(key: i16) -> Option<&'static Api> {
    APIS.iter().find(|api| api.key as i16 == key)
}

pub fn support(key: i16, version: i16) -> ApiSupport {
    match find(key) {
        Some(api) if (api.min..=api.max).contains(&version) => ApiSupport::Served(api.key),
        Some(api) if api.key == ApiKey::ApiVersions => ApiSupport::UnknownApiVersions,
        _ => ApiSupport::Refused,
    }
}

/// The answer to ApiVersions. None stands for a version we do not know.
///
/// # Errors
/// None in practice: every field is set for every version in the table.
pub fn api_versions(version: Option<i16>) -> Result<Segments, Error> {
    let (error, listed): (_, &[Api]) = match version {
        Some(_) => (ErrorCode::None, &APIS),
        // Only the range of ApiVersions itself is of use to a client that asked for too much.
        None => (ErrorCode::UnsupportedVersion, find(ApiKey::ApiVersions as i16).map_or(&[], std::slice::from_ref)),
    };
    let keys = listed.iter().map(|api| {
        ApiVersion::default().with_api_key(api.key as i16).with_min_version(api.listed_min).with_max_version(api.max)
    });
    let response = ApiVersionsResponse::default().with_error_code(error.code()).with_api_keys(keys.collect());
    match version {
        Some(version) if version >= FEATURES_SINCE => encode(version, &with_features(version, response)),
        version => encode(version.unwrap_or(0), &response),
    }
}

fn with_features(version: i16, response: ApiVersionsResponse) -> ApiVersionsResponse {
    let lowest = if version < LEVEL_ZERO_SINCE { 1 } else { 0 };
    let supported = FEATURES.map(|(name, level)| {
        let key = SupportedFeatureKey::default().with_name(StrBytes::from_static_str(name));
        key.with_min_version(lowest).with_max_version(level)
    });
    let finalized = FEATURES.map(|(name, level)| {
        let key = FinalizedFeatureKey::default().with_name(StrBytes::from_static_str(name));
        key.with_min_version_level(level).with_max_version_level(level)
    });
    let response = response.with_supported_features(supported.into()).with_finalized_features(finalized.into());
    response.with_finalized_features_epoch(FEATURES_EPOCH)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::protocol::decode;

    #[test]
    fn the_codec_knows_every_version_of_the_table() {
        for api in APIS {
            let known = api.key.valid_versions();
            assert!(known.min <= api.min && api.max <= known.max, "{:?}", api.key);
            assert!(api.listed_min <= api.min);
        }
    }

    #[test]
    fn produce_is_listed_from_zero_and_served_from_three() {
        assert_eq!(support(0, 2), ApiSupport::Refused);
        assert_eq!(support(0, 3), ApiSupport::Served(ApiKey::Produce));
        assert_eq!(support(0, 13), ApiSupport::Served(ApiKey::Produce));
        assert_eq!(support(0, 14), ApiSupport::Refused);
        assert_eq!(support(0, -1), ApiSupport::Refused);
        let answer = Bytes::from(api_versions(Some(4)).unwrap().to_vec());
        let answer: ApiVersionsResponse = decode(4, answer).unwrap();
        assert_eq!(answer.api_keys.len(), APIS.len());
        assert_eq!((answer.api_keys[0].min_version, answer.api_keys[0].max_version), (0, 13));
    }

    #[test]
    fn each_version_of_api_versions_is_answered_in_itself() {
        for version in 0..=4 {
            let answer = Bytes::from(api_versions(Some(version)).unwrap().to_vec());
            let answer: ApiVersionsResponse = decode(version, answer).unwrap();
            assert_eq!(answer.error_code, 0);
        }
    }

    #[test]
    fn producers_are_told_of_the_second_version_of_transactions() {
        for (version, lowest) in [(3, 1), (4, 0)] {
            let answer = Bytes::from(api_versions(Some(version)).unwrap().to_vec());
            let answer: ApiVersionsResponse = decode(version, answer).unwrap();
            let supported = &answer.supported_features[0];
            assert_eq!(supported.name.as_str(), "transaction.version");
            assert_eq!((supported.min_version, supported.max_version), (lowest, 2));
            assert_eq!(answer.finalized_features[0].max_version_level, 2);
            assert!(answer.finalized_features_epoch >= 0, "-1 is: no features");
        }
    }

    #[test]
    fn an_unknown_api_versions_is_answered_in_version_zero() {
        assert_eq!(support(18, 5), ApiSupport::UnknownApiVersions);
        let answer: ApiVersionsResponse = decode(0, Bytes::from(api_versions(None).unwrap().to_vec())).unwrap();
        assert_eq!(answer.error_code, ErrorCode::UnsupportedVersion.code());
        assert_eq!(answer.api_keys.len(), 1);
        assert_eq!((answer.api_keys[0].api_key, answer.api_keys[0].max_version), (18, 4));
    }

    #[test]
    fn what_is_not_in_the_table_is_refused() {
        for key in [-1, 4, 17, 88, i16::MAX] {
            assert_eq!(support(key, 0), ApiSupport::Refused);
        }
    }
}
