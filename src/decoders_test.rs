//! Every decoder of bytes from outside, with bytes that nobody meant for it: none panics, none allocates out of
//! proportion. `DECODER_ROUNDS=100000 cargo test --lib decoders_test -- --nocapture` goes on for longer.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic};
use kafka_protocol::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::describe_quorum_request::{PartitionData, TopicData};
use kafka_protocol::messages::describe_user_scram_credentials_request::UserName;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource as IncrementalResource, AlterableConfig as IncrementalConfig,
};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::update_features_request::FeatureUpdateKey;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

use self::fuzz::{Bound, Fuzz};
use crate::batch::{self, Codec, Rules, build, build::NewRecord, build::Spec, records};
use crate::cluster::{Registration, RootEntry, RootMachine, RootState};
use crate::connection::intake::DECODING_EXPANSION;
use crate::object::{Key, layout, paths};
use crate::protocol::{self, RequestHeader, produce};
use crate::shard::share::{self, Run, ShareEntry, ShareUpdate};
use crate::shard::transaction::{Change, TransactionEntry};
use crate::shard::{Append, Batch, Entry, Markers, Outcome, Part, Refusal, Sequence, State, Target, Verdict};
use crate::types::{ObjectId, Partition, Producer, StorageClass, TopicId};
use crate::{commit, peer, transaction};

#[path = "../tests/decoders/mod.rs"]
mod fuzz;

/// What the connection charges a frame for its decoding: see `connection/intake.rs`.
const KAFKA: Bound = Bound { base: 4 << 10, factor: DECODING_EXPANSION };
/// From brokers of the same cluster, and from what they wrote.
const OURS: Bound = Bound { base: 4 << 10, factor: 64 };
/// Serde reserves up to 1 MiB for each sequence on the word of its claim.
const SERDE: Bound = Bound { base: 4 << 20, factor: 64 };
const INFLATED_BYTES_MAX: usize = 64 << 10;

fn as_is(_: &mut Vec<u8>) {}

fn name() -> TopicName {
    TopicName(StrBytes::from_static_str("topic"))
}

/// The request as each version can carry it; where a version lacks a field that is set, the empty request.
fn seeds<T: Encodable + Default>(versions: std::ops::RangeInclusive<i16>, full: &T) -> Vec<(i16, Vec<Vec<u8>>)> {
    let encoded = |request: &T, version| {
        let mut out = BytesMut::new();
        request.encode(&mut out, version).ok().map(|()| out.to_vec())
    };
    let of = |version| [encoded(full, version), encoded(&T::default(), version), Some(Vec::new())];
    versions.map(|version| (version, of(version).into_iter().flatten().collect())).collect()
}

/// The same with something in between.
fn with_bytes(seeds: Vec<(i16, Vec<Vec<u8>>)>, at: usize, bytes: &[u8]) -> Vec<Vec<u8>> {
    let of = |mut seed: Vec<u8>| {
        let at = at.min(seed.len());
        seed.splice(at..at, bytes.iter().copied());
        seed
    };
    seeds.into_iter().flat_map(|(_, seeds)| seeds).map(of).collect()
}

fn api<T: Encodable + Decodable + Default>(fuzz: &mut Fuzz, key: ApiKey, full: &T) {
    let api = protocol::find(key as i16).unwrap();
    for (version, seeds) in seeds(api.min..=api.max, full) {
        fuzz.run(&format!("{key:?} {version}"), &seeds, KAFKA, as_is, |bytes| {
            let _ = protocol::decode::<T>(version, bytes);
        });
    }
}

#[test]
fn kafka_requests_are_decoded_within_what_they_are_charged() {
    let mut fuzz = Fuzz::new(1);
    let forgotten = ForgottenTopic::default().with_topic(name()).with_partitions(vec![1, 2, 3]);
    let topic = FetchTopic::default().with_topic(name()).with_partitions(vec![FetchPartition::default(); 2]);
    let fetch = FetchRequest::default().with_topics(vec![topic]);
    api(&mut fuzz, ApiKey::Fetch, &fetch.clone().with_forgotten_topics_data(vec![forgotten]));
    let topic = ListOffsetsTopic::default().with_name(name()).with_partitions(vec![ListOffsetsPartition::default(); 2]);
    api(&mut fuzz, ApiKey::ListOffsets, &ListOffsetsRequest::default().with_topics(vec![topic]));
    let topics = vec![MetadataRequestTopic::default().with_name(Some(name())); 2];
    api(&mut fuzz, ApiKey::Metadata, &MetadataRequest::default().with_topics(Some(topics)));
    api(&mut fuzz, ApiKey::ApiVersions, &ApiVersionsRequest::default());
    let assignment = CreatableReplicaAssignment::default().with_broker_ids(vec![BrokerId(1), BrokerId(2)]);
    let config = CreatableTopicConfig::default().with_name(StrBytes::from_static_str("retention.ms"));
    let topic = CreatableTopic::default().with_name(name()).with_assignments(vec![assignment]);
    let topic = topic.with_configs(vec![config]);
    api(&mut fuzz, ApiKey::CreateTopics, &CreateTopicsRequest::default().with_topics(vec![topic]));
    api(&mut fuzz, ApiKey::DeleteTopics, &DeleteTopicsRequest::default().with_topic_names(vec![name()]));
    let state = DeleteTopicState::default().with_name(Some(name()));
    api(&mut fuzz, ApiKey::DeleteTopics, &DeleteTopicsRequest::default().with_topics(vec![state]));
    let partitions = vec![DeleteRecordsPartition::default(); 2];
    let topic = DeleteRecordsTopic::default().with_name(name()).with_partitions(partitions);
    api(&mut fuzz, ApiKey::DeleteRecords, &DeleteRecordsRequest::default().with_topics(vec![topic]));
    api(&mut fuzz, ApiKey::InitProducerId, &InitProducerIdRequest::default());
    let partitions = vec![OffsetForLeaderPartition::default(); 2];
    let topic = OffsetForLeaderTopic::default().with_topic(name()).with_partitions(partitions);
    let request = OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
    api(&mut fuzz, ApiKey::OffsetForLeaderEpoch, &request);
    let keys = Some(vec![StrBytes::from_static_str("a"), StrBytes::from_static_str("b")]);
    let resource = DescribeConfigsResource::default().with_configuration_keys(keys);
    api(&mut fuzz, ApiKey::DescribeConfigs, &DescribeConfigsRequest::default().with_resources(vec![resource]));
    let topic = CreatePartitionsTopic::default().with_name(name()).with_count(3);
    api(&mut fuzz, ApiKey::CreatePartitions, &CreatePartitionsRequest::default().with_topics(vec![topic]));
    api(&mut fuzz, ApiKey::DescribeCluster, &DescribeClusterRequest::default());
    let partition = ReassignablePartition::default().with_replicas(Some(vec![BrokerId(1), BrokerId(2)]));
    let topic = ReassignableTopic::default().with_name(name()).with_partitions(vec![partition; 2]);
    let request = AlterPartitionReassignmentsRequest::default().with_topics(vec![topic]);
    api(&mut fuzz, ApiKey::AlterPartitionReassignments, &request);
    let topic = ListPartitionReassignmentsTopics::default().with_name(name()).with_partition_indexes(vec![1, 2]);
    let request = ListPartitionReassignmentsRequest::default().with_topics(Some(vec![topic]));
    api(&mut fuzz, ApiKey::ListPartitionReassignments, &request);
    let topic = TopicPartitions::default().with_topic(name()).with_partitions(vec![1, 2]);
    api(&mut fuzz, ApiKey::ElectLeaders, &ElectLeadersRequest::default().with_topic_partitions(Some(vec![topic])));
    let topic = DescribableLogDirTopic::default().with_topic(name()).with_partitions(vec![1, 2]);
    api(&mut fuzz, ApiKey::DescribeLogDirs, &DescribeLogDirsRequest::default().with_topics(Some(vec![topic])));
    let topic = AlterReplicaLogDirTopic::default().with_name(name()).with_partitions(vec![1, 2]);
    let dir = AlterReplicaLogDir::default().with_topics(vec![topic]);
    api(&mut fuzz, ApiKey::AlterReplicaLogDirs, &AlterReplicaLogDirsRequest::default().with_dirs(vec![dir]));
    let topic = TopicData::default().with_topic_name(name()).with_partitions(vec![PartitionData::default(); 2]);
    api(&mut fuzz, ApiKey::DescribeQuorum, &DescribeQuorumRequest::default().with_topics(vec![topic]));
    let listeners = vec![add_raft_voter_request::Listener::default(); 2];
    api(&mut fuzz, ApiKey::AddRaftVoter, &AddRaftVoterRequest::default().with_listeners(listeners));
    api(&mut fuzz, ApiKey::RemoveRaftVoter, &RemoveRaftVoterRequest::default());
    api(&mut fuzz, ApiKey::UnregisterBroker, &UnregisterBrokerRequest::default());
    let configs = vec![AlterableConfig::default().with_name(StrBytes::from_static_str("a")); 2];
    let resource = AlterConfigsResource::default().with_configs(configs);
    api(&mut fuzz, ApiKey::AlterConfigs, &AlterConfigsRequest::default().with_resources(vec![resource; 2]));
    let configs = vec![IncrementalConfig::default().with_name(StrBytes::from_static_str("a")); 2];
    let resource = IncrementalResource::default().with_configs(configs);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource; 2]);
    api(&mut fuzz, ApiKey::IncrementalAlterConfigs, &request);
    let components = vec![ComponentData::default().with_entity_type(StrBytes::from_static_str("user")); 2];
    let request = DescribeClientQuotasRequest::default().with_components(components);
    api(&mut fuzz, ApiKey::DescribeClientQuotas, &request);
    let entry = EntryData::default().with_entity(vec![EntityData::default(); 2]).with_ops(vec![OpData::default(); 2]);
    api(&mut fuzz, ApiKey::AlterClientQuotas, &AlterClientQuotasRequest::default().with_entries(vec![entry; 2]));
    api(&mut fuzz, ApiKey::DescribeAcls, &DescribeAclsRequest::default());
    let request = CreateAclsRequest::default().with_creations(vec![AclCreation::default(); 2]);
    api(&mut fuzz, ApiKey::CreateAcls, &request);
    let request = DeleteAclsRequest::default().with_filters(vec![DeleteAclsFilter::default(); 2]);
    api(&mut fuzz, ApiKey::DeleteAcls, &request);
    let request = DescribeUserScramCredentialsRequest::default().with_users(Some(vec![UserName::default(); 2]));
    api(&mut fuzz, ApiKey::DescribeUserScramCredentials, &request);
    api(&mut fuzz, ApiKey::GetTelemetrySubscriptions, &GetTelemetrySubscriptionsRequest::default());
    api(&mut fuzz, ApiKey::PushTelemetry, &PushTelemetryRequest::default().with_metrics(Bytes::from_static(b"abc")));
    let request = ListConfigResourcesRequest::default().with_resource_types(vec![2, 4, 16]);
    api(&mut fuzz, ApiKey::ListConfigResources, &request);
    let updates = vec![FeatureUpdateKey::default().with_feature(StrBytes::from_static_str("a")); 2];
    api(&mut fuzz, ApiKey::UpdateFeatures, &UpdateFeaturesRequest::default().with_feature_updates(updates));
    let ack = share_fetch_request::AcknowledgementBatch::default().with_acknowledge_types(vec![1, 2]);
    let partition = share_fetch_request::FetchPartition::default().with_acknowledgement_batches(vec![ack; 2]);
    let topic = share_fetch_request::FetchTopic::default().with_partitions(vec![partition; 2]);
    let request = ShareFetchRequest::default().with_topics(vec![topic]);
    api(&mut fuzz, ApiKey::ShareFetch, &request);
    // Version 2 says more after two absent names and six numbers.
    let seeds = with_bytes(self::seeds(1..=1, &request), 2 + 6 * 4, &[1, 1]);
    fuzz.run("ShareFetch 2", &seeds, KAFKA, as_is, |bytes| drop(protocol::share::share_fetch(2, bytes)));
    let ack = share_acknowledge_request::AcknowledgementBatch::default().with_acknowledge_types(vec![1, 2]);
    let partition =
        share_acknowledge_request::AcknowledgePartition::default().with_acknowledgement_batches(vec![ack; 2]);
    let topic = share_acknowledge_request::AcknowledgeTopic::default().with_partitions(vec![partition; 2]);
    let request = ShareAcknowledgeRequest::default().with_topics(vec![topic]);
    api(&mut fuzz, ApiKey::ShareAcknowledge, &request);
    let seeds = with_bytes(self::seeds(1..=1, &request), 2 + 4, &[1]);
    fuzz.run("ShareAcknowledge 2", &seeds, KAFKA, as_is, |bytes| drop(protocol::share::share_acknowledge(2, bytes)));
    let request = ShareGroupHeartbeatRequest::default().with_subscribed_topic_names(Some(vec![name(); 3]));
    api(&mut fuzz, ApiKey::ShareGroupHeartbeat, &request);
    let request = ShareGroupDescribeRequest::default().with_group_ids(vec![StrBytes::from_static_str("g").into(); 3]);
    api(&mut fuzz, ApiKey::ShareGroupDescribe, &request);
    fuzz.finish("Kafka requests");
}

#[test]
fn produce_and_headers_are_decoded_within_what_they_are_charged() {
    let mut fuzz = Fuzz::new(2);
    let records = build::batch(&[NewRecord::value(b"value", 1)], &Spec::default());
    let partition = PartitionProduceData::default().with_records(Some(records));
    let topic = TopicProduceData::default().with_name(name()).with_partition_data(vec![partition; 2]);
    let request = ProduceRequest::default().with_acks(-1).with_topic_data(vec![topic]);
    for (version, seeds) in seeds(3..=13, &request) {
        // Its decoder shares the frame, and the connection charges the frame alone; what it makes of many empty
        // topics is limited by their number.
        fuzz.run(&format!("Produce {version}"), &seeds, KAFKA, as_is, |bytes| {
            let _ = produce::decode(version, bytes, &produce::Limits::default());
        });
    }
    for api in protocol::APIS {
        let header = kafka_protocol::messages::RequestHeader::default()
            .with_request_api_key(api.key as i16)
            .with_client_id(Some(StrBytes::from_static_str("client")));
        for version in [api.min, api.max] {
            let mut seed = BytesMut::new();
            header.encode(&mut seed, api.key.request_header_version(version)).unwrap();
            fuzz.run(&format!("header of {:?} {version}", api.key), &[seed.to_vec()], KAFKA, as_is, |bytes| {
                let _ = RequestHeader::parse(api.key, version, bytes);
            });
        }
    }
    fuzz.finish("Produce and headers");
}

#[test]
fn record_batches_are_read_within_their_cap() {
    let mut fuzz = Fuzz::new(3);
    let value = vec![b'v'; 3_000];
    let records = [NewRecord::new(b"key", &value, 1_000), NewRecord::value(b"", -1), NewRecord::new(b"k", b"v", 9)];
    // Inflating takes up to the cap twice (a buffer that grows), and the codecs' own tables.
    let bound = Bound { base: 4 * INFLATED_BYTES_MAX + (256 << 10), factor: 8 };
    let rules = Rules { keys_required: true, inflated_bytes_max: INFLATED_BYTES_MAX, ..Rules::default() };
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let seed = build::batch(&records, &Spec { codec, ..Spec::default() }).to_vec();
        let mend = |bytes: &mut Vec<u8>| {
            if bytes.len() >= batch::HEADER_BYTES {
                let length = (bytes.len() - 12) as i32;
                bytes[8..12].copy_from_slice(&length.to_be_bytes());
                bytes[16] = 2;
                build::seal(bytes);
            }
        };
        fuzz.run(&format!("batch {codec:?}"), &[seed], bound, mend, |bytes| {
            let _ = batch::validate(bytes.clone(), &rules);
            if let Ok(records) = records::iter(&bytes, INFLATED_BYTES_MAX) {
                records.for_each(drop);
            }
            let _ = records::find_timestamp(&bytes, i64::MAX, 0, i64::MAX, INFLATED_BYTES_MAX);
            let _ = records::max_timestamp(&bytes, i64::MAX, 0, INFLATED_BYTES_MAX);
            let _ = batch::patch::for_reader(&bytes, 1, 1, Some(1), &mut batch::Segments::new());
        });
    }
    fuzz.finish("record batches");
}

fn at(topic: u8, index: i32) -> Partition {
    Partition { topic: TopicId::from_bytes([topic; 16]), index }
}

fn append() -> Append {
    let claim = Sequence { producer: Producer { id: 7, epoch: 1 }, base: 3, transaction: None };
    let batch = |span| Batch { len: 100, span, max_timestamp: 1_700_000_000_000, sequence: Some(claim) };
    let in_transaction = |base| Sequence { base, transaction: Some(300), ..claim };
    let in_transaction = |base| Batch { sequence: Some(in_transaction(base)), ..batch(1) };
    let part = |slot| Part {
        slot,
        start: 0,
        batches: vec![batch(1), batch(2), Batch { sequence: None, ..batch(3) }, in_transaction(6), in_transaction(7)],
    };
    let object = ObjectId { broker: 1, epoch: 2, sequence: 9, attempt: 1, class: StorageClass::Regional };
    Append { object, previous: 8, parts: vec![part(0), Part { start: 500, ..part(4) }] }
}

fn delivered(slot: u32) -> ShareUpdate {
    let runs =
        vec![Run { first: 7, last: 9, count: 1, done: true }, Run { first: 300, last: 301, count: 2, done: false }];
    ShareUpdate { slot, group: "group".into(), change: share::Change::Move { epoch: 1, start: 5, runs } }
}

#[test]
fn what_brokers_say_and_store_is_decoded_in_proportion() {
    let mut fuzz = Fuzz::new(4);
    let registration = Registration {
        broker: 1,
        node: 1,
        zone: "az1".into(),
        host: "localhost".into(),
        port: 9092,
        internal: "localhost:9192".into(),
        listeners: vec![],
        life: 1,
    };
    let trim = Entry::Trim { starts: vec![(0, 5), (3, 1 << 40)] };
    let markers = Markers {
        append_time: 5,
        producer: Producer { id: 7, epoch: 2 },
        txn_no: 300,
        commit: true,
        coordinator_epoch: 4,
        targets: vec![Target { slot: 3, groups: false }, Target { slot: 400, groups: true }],
    };
    let entries = [
        Entry::Append { append_time: 5, append: append() },
        Entry::ExpireProducers { before: 1 },
        trim,
        Entry::Markers(markers),
        Entry::Transaction(TransactionEntry {
            slot: 3,
            term: 2,
            clock_ms: 70_000,
            id: "id".into(),
            revision: 4,
            change: Change::Add { partitions: vec![(at(3, 1), 2), (at(3, 300), 7), (at(4, 0), 2)], started_at: 5 },
        }),
        Entry::Share(ShareEntry { term: 2, updates: vec![delivered(3), delivered(400)] }),
    ];
    fuzz.run("shard entry", &entries.map(|entry| entry.encode().to_vec()), OURS, as_is, |bytes| {
        let _ = Entry::decode(&bytes);
    });
    fuzz.run("append", &[append().encode().to_vec()], OURS, as_is, |bytes| {
        let _ = commit::split_shard(bytes.clone());
        let _ = Append::decode(&bytes);
    });
    let taken = Outcome::Taken(vec![Verdict::Appended { base: 9, append_time: Some(3) }, Verdict::Held]);
    fuzz.run("outcome", &[commit::encode_outcome(&taken).to_vec()], OURS, as_is, |bytes| {
        let _ = commit::decode_outcome(&bytes);
    });
    let topic = [7; 16];
    fuzz.run("trim", &[[&[1], &topic[..], &[0, 1]].concat()], OURS, as_is, |bytes| {
        let _ = commit::decode_wanted(&bytes);
        let _ = commit::decode_trimmed(&bytes);
    });
    let marked = Outcome::Marked(vec![Ok(()), Err(Refusal::WrongTransaction)]);
    fuzz.run("markers' outcome", &[commit::encode_outcome(&marked).to_vec()], OURS, as_is, |bytes| {
        let _ = commit::decode_outcome(&bytes);
    });
    let ending = [&[14, 4, 172, 2, 1, 8, 1][..], &[9; 16], &[2, 0, 6]].concat();
    assert!(commit::decode_ending(&ending).is_ok());
    fuzz.run("ending", &[ending], OURS, as_is, |bytes| {
        let _ = commit::decode_ending(&bytes);
    });
    let question = transaction::Question {
        at: at(1, 49),
        id: "id".into(),
        producer: Producer { id: 1 << 40, epoch: 3 },
        add: true,
        partitions: vec![(at(2, 0), 1), (at(2, 7), 300), (at(3, 1), 2)],
    };
    fuzz.run("question about a transaction", &[question.encode().to_vec()], OURS, as_is, |bytes| {
        let _ = transaction::Question::decode(&bytes);
    });
    fuzz.run("number of a transaction", &[vec![2, 0, 5, 102]], OURS, as_is, |bytes| {
        let _ = transaction::decode_results(&bytes);
    });
    let what = crate::share::What::Acquire {
        member: "m".into(),
        records_max: 500,
        bytes_max: 1 << 20,
        wait_ms: 500,
        partitions: vec![at(2, 0), at(2, 7)],
    };
    let ask = crate::share::Ask { group: "g".into(), what };
    fuzz.run("ask of a share group", &[crate::share::pack(&ask).to_vec()], SERDE, as_is, |bytes| {
        let _ = crate::share::unpack::<crate::share::Ask>(&bytes);
        let _ = crate::share::unpack::<crate::share::Reply>(&bytes);
    });
    fuzz.run("slots", &[vec![2, 0, 5, 1, 6]], OURS, as_is, |bytes| {
        let _ = commit::decode_slots(&bytes);
    });
    let answers = [peer::Answer::NotLeader { leader: Some(3) }, peer::Answer::Refused("why".into())];
    fuzz.run("peer answer", &answers.map(|answer| answer.encode().to_vec()), OURS, as_is, |bytes| {
        let _ = peer::Answer::decode(bytes);
    });
    let entries = [
        RootEntry::RegisterBroker(registration.clone()),
        RootEntry::CreateShard { replication_factor: 3, voters: vec![1, 2, 3], preferred: 1 },
    ];
    fuzz.run("root entry", &entries.map(|entry| entry.encode().to_vec()), SERDE, as_is, |bytes| {
        let _ = RootEntry::decode(&bytes);
    });
    fuzz.run("shard snapshot", &[State::default().to_snapshot().to_vec()], SERDE, as_is, |bytes| {
        let _ = State::from_snapshot(&bytes);
    });
    let root = [&[1u8][..], &rmp_serde::to_vec(&RootState::default()).unwrap()].concat();
    assert!(RootMachine::decode(&root).is_ok());
    fuzz.run("root snapshot", &[root], SERDE, as_is, |bytes| {
        let _ = RootMachine::decode(&bytes);
    });
    fuzz.finish("what brokers say and store");
}

#[test]
fn what_is_in_the_store_is_decoded_in_proportion() {
    let mut fuzz = Fuzz::new(5);
    let partition = |index| crate::types::Partition { topic: crate::types::TopicId::from_bytes([3; 16]), index };
    let mut builder = layout::Builder::new();
    for index in 0..5 {
        let contents = layout::Contents {
            shard: 1,
            partition: partition(index),
            slices: vec![Bytes::from_static(b"some records")],
            batch_count: 1,
            record_count: 1,
            min_timestamp: 1,
            max_timestamp: 2,
        };
        builder.push(contents).unwrap();
    }
    let object = builder.finish().0.to_vec();
    assert!(layout::Footer::read(&object, object.len() as u64).is_ok());
    fuzz.run("object footer", &[object], OURS, layout::mend, |bytes| {
        let _ = layout::Footer::read(&bytes, bytes.len() as u64);
        let _ = layout::Footer::read(&bytes, u64::MAX);
    });
    let keys = [b"c-1/wal/0a/1-2/3.1".to_vec(), b"c-1/snap/7/9-ffff".to_vec()];
    fuzz.run("key", &keys, OURS, as_is, |bytes| {
        if let Ok(key) = std::str::from_utf8(&bytes).map_err(drop).and_then(|text| Key::parse(text).map_err(drop)) {
            let _ = paths::parse(&key);
        }
    });
    fuzz.finish("what is in the store");
}
