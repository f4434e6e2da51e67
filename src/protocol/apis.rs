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
pub const APIS: [Api; 63] = [
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
    api(ApiKey::ShareGroupHeartbeat, 1, 1),
    api(ApiKey::ShareGroupDescribe, 1, 1),
    api(ApiKey::UnregisterBroker, 0, 0),
    api(ApiKey::DescribeProducers, 0, 0),
    api(ApiKey::DescribeTransactions, 0, 0),
    api(ApiKey::ListTransactions, 0, 1),
    api(ApiKey::DescribeTopicPartitions, 0, 0),
    api(ApiKey::AddRaftVoter, 0, 0),
    api(ApiKey::RemoveRaftVoter, 0, 0),
    api(ApiKey::AlterConfigs, 0, 2),
    api(ApiKey::IncrementalAlterConfigs, 0, 1),
    api(ApiKey::DescribeClientQuotas, 0, 1),
    api(ApiKey::AlterClientQuotas, 0, 1),
    api(ApiKey::DescribeAcls, 1, 3),
    api(ApiKey::CreateAcls, 1, 3),
    api(ApiKey::DeleteAcls, 1, 3),
    api(ApiKey::DescribeUserScramCredentials, 0, 0),
    api(ApiKey::GetTelemetrySubscriptions, 0, 0),
    api(ApiKey::PushTelemetry, 0, 0),
    api(ApiKey::ListConfigResources, 0, 1),
    api(ApiKey::UpdateFeatures, 0, 2),
    api(ApiKey::ShareFetch, 1, 2),
    api(ApiKey::ShareAcknowledge, 1, 2),
    api(ApiKey::DescribeShareGroupOffsets, 0, 0),
    api(ApiKey::AlterShareGroupOffsets, 0, 0),
    api(ApiKey::DeleteShareGroupOffsets, 0, 0),
];

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

/// What the cluster can do at several levels (KIP-584), as ApiVersions tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Features {
    pub levels: Vec<FeatureLevel>,
    /// Grows with every change; clients keep the newest that they were told.
    pub epoch: i64,
    /// Somebody wants metrics of clients: else nobody is told that they could be pushed, as by Kafka without a reporter.
    pub telemetry: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureLevel {
    pub name: &'static str,
    pub min: i16,
    pub max: i16,
    /// The level in force; 0 for a feature that is off.
    pub level: i16,
}

/// The answer to ApiVersions. None stands for a version we do not know.
///
/// # Errors
/// None in practice: every field is set for every version in the table.
pub fn api_versions(version: Option<i16>, features: &Features) -> Result<Segments, Error> {
    let (error, listed): (_, &[Api]) = match version {
        Some(_) => (ErrorCode::None, &APIS),
        // Only the range of ApiVersions itself is of use to a client that asked for too much.
        None => (ErrorCode::UnsupportedVersion, find(ApiKey::ApiVersions as i16).map_or(&[], std::slice::from_ref)),
    };
    let is_told = |api: &&Api| {
        features.telemetry || !matches!(api.key, ApiKey::GetTelemetrySubscriptions | ApiKey::PushTelemetry)
    };
    let keys = listed.iter().filter(is_told).map(|api| {
        ApiVersion::default().with_api_key(api.key as i16).with_min_version(api.listed_min).with_max_version(api.max)
    });
    let response = ApiVersionsResponse::default().with_error_code(error.code()).with_api_keys(keys.collect());
    let version = version.unwrap_or(0);
    encode(version, &with_features(response, version, features))
}

/// The answer to an ApiVersions that says what its client is in words that Kafka does not take.
///
/// # Errors
/// None in practice, as above.
pub fn api_versions_refused(version: i16) -> Result<Segments, Error> {
    encode(version, &ApiVersionsResponse::default().with_error_code(ErrorCode::InvalidRequest.code()))
}

/// The name of a client's software, or its version: letters, digits, dashes and dots, the last two not at the ends
/// (KIP-511).
pub fn is_software(word: &str) -> bool {
    let (first, last) = (word.bytes().next(), word.bytes().last());
    [first, last].iter().all(|end| end.is_some_and(|b| b.is_ascii_alphanumeric()))
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
}

/// Tagged fields since version 3, where a range begins at 1: clients before version 4 cannot read a lowest level of 0.
fn with_features(response: ApiVersionsResponse, version: i16, features: &Features) -> ApiVersionsResponse {
    let name = |feature: &FeatureLevel| StrBytes::from_static_str(feature.name);
    let supported = features.levels.iter().map(|feature| {
        let key = SupportedFeatureKey::default().with_name(name(feature));
        key.with_min_version(if version < 4 { feature.min.max(1) } else { feature.min }).with_max_version(feature.max)
    });
    let finalized = features.levels.iter().filter(|feature| feature.level > 0).map(|feature| {
        let key = FinalizedFeatureKey::default().with_name(name(feature));
        key.with_min_version_level(feature.level).with_max_version_level(feature.level)
    });
    response
        .with_supported_features(supported.collect())
        .with_finalized_features(finalized.collect())
        .with_finalized_features_epoch(features.epoch)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::protocol::decode;

    #[test]
    fn the_codecs_know_every_version_of_the_table() {
        for api in APIS {
            let known = api.key.valid_versions();
            let by_hand = match api.key {
                ApiKey::ShareFetch | ApiKey::ShareAcknowledge => 2,
                _ => known.max,
            };
            assert!(known.min <= api.min && api.max <= by_hand, "{:?}", api.key);
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
        let told = |telemetry| {
            let features = Features { telemetry, ..Features::default() };
            let answer = Bytes::from(api_versions(Some(4), &features).unwrap().to_vec());
            decode::<ApiVersionsResponse>(4, answer).unwrap()
        };
        let answer = told(true);
        assert_eq!((answer.api_keys.len(), told(false).api_keys.len()), (APIS.len(), APIS.len() - 2));
        assert_eq!((answer.api_keys[0].min_version, answer.api_keys[0].max_version), (0, 13));
    }

    #[test]
    fn each_version_of_api_versions_is_answered_in_itself() {
        for version in 0..=4 {
            let answer = Bytes::from(api_versions(Some(version), &Features::default()).unwrap().to_vec());
            let answer: ApiVersionsResponse = decode(version, answer).unwrap();
            assert_eq!(answer.error_code, 0);
        }
    }

    #[test]
    fn features_are_told_to_clients_that_can_take_them() {
        let level = |name, min, level| FeatureLevel { name, min, max: 3, level };
        let features =
            Features { levels: vec![level("a", 0, 2), level("b", 1, 1), level("c", 0, 0)], epoch: 5, telemetry: false };
        for (version, lowest) in [(3, [1, 1, 1]), (4, [0, 1, 0])] {
            let answer = Bytes::from(api_versions(Some(version), &features).unwrap().to_vec());
            let answer: ApiVersionsResponse = decode(version, answer).unwrap();
            let supported: Vec<i16> = answer.supported_features.iter().map(|f| f.min_version).collect();
            assert_eq!((supported, answer.finalized_features_epoch), (lowest.to_vec(), 5));
            let told: Vec<_> =
                answer.finalized_features.iter().map(|f| (f.name.as_str(), f.max_version_level)).collect();
            assert_eq!(told, [("a", 2), ("b", 1)]);
        }
    }

    #[test]
    fn an_unknown_api_versions_is_answered_in_version_zero() {
        assert_eq!(support(18, 5), ApiSupport::UnknownApiVersions);
        let answer: ApiVersionsResponse =
            decode(0, Bytes::from(api_versions(None, &Features::default()).unwrap().to_vec())).unwrap();
        assert_eq!(answer.error_code, ErrorCode::UnsupportedVersion.code());
        assert_eq!(answer.api_keys.len(), 1);
        assert_eq!((answer.api_keys[0].api_key, answer.api_keys[0].max_version), (18, 4));
    }

    #[test]
    fn software_is_named_in_words_of_letters_and_digits() {
        for word in ["a", "apache-kafka-java", "4.1.0", "1", "a-.b", "Z9"] {
            assert!(is_software(word), "{word}");
        }
        for word in ["", "-a", "a.", "a b", "a_b", "ä", "a\n", "(a)"] {
            assert!(!is_software(word), "{word}");
        }
    }

    #[test]
    fn what_is_not_in_the_table_is_refused() {
        for key in [-1, 4, 17, 88, i16::MAX] {
            assert_eq!(support(key, 0), ApiSupport::Refused);
        }
    }
}
