use std::collections::BTreeSet;

use anyhow::Context;
use bytes::{Bytes, BytesMut};
use futures::future::join_all;
use serde::Serialize;

use crate::config::HostPort;
use crate::peer;
use crate::survey::table::{bytes, table};
use crate::survey::told::PartitionTold;
use crate::survey::{Seen, ask, look};
use crate::types::{BrokerId, ShardId, TopicId, varint};

#[derive(Serialize)]
struct TopicSeen {
    topic: String,
    id: String,
    replication_factor: u16,
    partitions: Vec<PartitionSeen>,
    pointers: u64,
    bytes: u64,
    /// An object holds many topics, so a GET is no single topic's: these are the zone's brokers' since their start.
    zones: Vec<ZoneSeen>,
}

#[derive(Serialize)]
struct PartitionSeen {
    partition: i32,
    shard: ShardId,
    leader: Option<BrokerId>,
    replicas: Vec<BrokerId>,
    /// None when no replica answered.
    #[serde(flatten)]
    told: Option<PartitionTold>,
}

#[derive(Serialize)]
struct ZoneSeen {
    zone: String,
    store_gets: u64,
    store_get_bytes: u64,
}

/// Runs `milepost topic NAME`.
pub async fn topic(name: &str, bootstrap: Vec<HostPort>, json: bool) -> anyhow::Result<()> {
    let seen = look(&bootstrap).await?;
    let topic = seen.root.topic_named(name).with_context(|| format!("there is no topic {name:?}"))?;
    let shards: BTreeSet<ShardId> = topic.placement.iter().copied().collect();
    let asked = shards.into_iter().map(async |shard| (shard, of_shard(&seen, shard, topic.id).await));
    let told: Vec<(ShardId, Vec<PartitionTold>)> = join_all(asked).await;
    let partitions = (0..).zip(&topic.placement).map(|(partition, shard)| {
        let told =
            told.iter().find(|(of, _)| of == shard).and_then(|(_, all)| all.iter().find(|p| p.partition == partition));
        let voters = seen.root.shard(*shard).map(|shard| shard.voters.clone()).unwrap_or_default();
        PartitionSeen {
            partition,
            shard: *shard,
            leader: seen.leader(*shard).map(|(broker, _)| broker),
            replicas: voters.iter().filter_map(|node| seen.root.broker_of(*node)).map(|broker| broker.id).collect(),
            told: told.cloned(),
        }
    });
    let partitions: Vec<PartitionSeen> = partitions.collect();
    let sum = |of: fn(&PartitionTold) -> u64| partitions.iter().filter_map(|p| p.told.as_ref()).map(of).sum();
    let zones = seen.gets_by_zone().into_iter().map(|(zone, (store_gets, store_get_bytes))| ZoneSeen {
        zone: zone.to_owned(),
        store_gets,
        store_get_bytes,
    });
    let shown = TopicSeen {
        topic: name.to_owned(),
        id: topic.id.to_string(),
        replication_factor: topic.replication_factor,
        pointers: sum(|told| told.pointers),
        bytes: sum(|told| told.bytes),
        zones: zones.collect(),
        partitions,
    };
    match json {
        true => println!("{}", serde_json::to_string_pretty(&shown)?),
        false => print!("{}", in_words(&shown)),
    }
    Ok(())
}

/// From the leader, else from any replica that answers.
pub(super) async fn of_shard(seen: &Seen, shard: ShardId, topic: TopicId) -> Vec<PartitionTold> {
    let leader = seen.leader(shard).map(|(broker, _)| broker);
    let has = |broker: &BrokerId| seen.told[broker].shards.iter().any(|here| here.shard == shard);
    let others = seen.told.keys().copied().filter(|broker| Some(*broker) != leader && has(broker));
    let mut body = BytesMut::new();
    varint::put(&mut body, shard.into());
    body.extend_from_slice(topic.as_bytes());
    let body: Bytes = body.freeze();
    for broker in leader.into_iter().chain(others).filter_map(|id| seen.root.broker(id)) {
        let told = ask(&seen.cluster_id, &broker.internal, peer::TOPIC, body.clone()).await;
        match told.and_then(|body| Ok(rmp_serde::from_slice::<Vec<PartitionTold>>(&body)?)) {
            Ok(told) => return told,
            Err(e) => eprintln!("broker {}: {e:#}", broker.id),
        }
    }
    Vec::new()
}

fn in_words(topic: &TopicSeen) -> String {
    let rows = topic.partitions.iter().map(|partition| {
        let told = |of: fn(&PartitionTold) -> String| partition.told.as_ref().map_or("-".to_owned(), of);
        let replicas: Vec<String> = partition.replicas.iter().map(ToString::to_string).collect();
        vec![
            partition.partition.to_string(),
            partition.shard.to_string(),
            partition.leader.map_or("-".to_owned(), |leader| leader.to_string()),
            replicas.join(","),
            told(|told| told.log_start_offset.to_string()),
            told(|told| told.high_watermark.to_string()),
            told(|told| told.pointers.to_string()),
            told(|told| told.objects.to_string()),
            told(|told| bytes(told.bytes)),
        ]
    });
    let zones = topic.zones.iter();
    let zones = zones.map(|zone| vec![zone.zone.clone(), zone.store_gets.to_string(), bytes(zone.store_get_bytes)]);
    let header = ["PARTITION", "SHARD", "LEADER", "REPLICAS", "START", "END", "POINTERS", "OBJECTS", "BYTES"];
    format!(
        "topic {}  id {}  {} pointers  {}\n\n{}\n{}",
        topic.topic,
        topic.id,
        topic.pointers,
        bytes(topic.bytes),
        table(&header, &rows.collect::<Vec<_>>()),
        table(&["ZONE", "GETS (ALL TOPICS)", "FETCHED"], &zones.collect::<Vec<_>>()),
    )
}
