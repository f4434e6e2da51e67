use serde::Serialize;

use crate::cluster::Broker;
use crate::config::HostPort;
use crate::survey::table::{bytes, table};
use crate::survey::{Seen, look};
use crate::types::{BrokerEpoch, BrokerId, ROOT_SHARD, ShardId};

#[derive(Serialize)]
struct Cluster {
    cluster: String,
    brokers: Vec<BrokerSeen>,
    zones: Vec<ZoneSeen>,
    shards: Vec<ShardSeen>,
}

#[derive(Serialize)]
struct BrokerSeen {
    broker: BrokerId,
    zone: String,
    address: String,
    alive: bool,
    /// It was asked, and said what it has.
    answers: bool,
    epoch: BrokerEpoch,
    shards_led: usize,
    replicas: usize,
    store_gets: u64,
    store_get_bytes: u64,
}

#[derive(Serialize)]
struct ZoneSeen {
    zone: String,
    brokers: usize,
    alive: usize,
    shards_led: usize,
    store_gets: u64,
    store_get_bytes: u64,
}

#[derive(Serialize)]
struct ShardSeen {
    /// 0 is the root.
    shard: ShardId,
    replication_factor: usize,
    partitions: usize,
    leader: Option<BrokerId>,
    preferred: Option<BrokerId>,
    term: Option<u64>,
    committed: Option<u64>,
    replicas: Vec<ReplicaSeen>,
    /// Some of the replicas are still to come.
    moving: bool,
}

#[derive(Serialize)]
struct ReplicaSeen {
    /// None for a node that no broker has any more.
    broker: Option<BrokerId>,
    voter: bool,
    /// Entries behind the leader; None when nobody leads, or the leader has not heard of it.
    lag: Option<u64>,
    silent_ms: Option<u64>,
}

/// Runs `milepost cluster`.
pub async fn cluster(bootstrap: Vec<HostPort>, json: bool) -> anyhow::Result<()> {
    let seen = describe(&look(&bootstrap).await?);
    match json {
        true => println!("{}", serde_json::to_string_pretty(&seen)?),
        false => print!("{}", in_words(&seen)),
    }
    Ok(())
}

fn describe(seen: &Seen) -> Cluster {
    let root = ShardSeen {
        preferred: None,
        partitions: 0,
        moving: false,
        ..shard(
            seen,
            ROOT_SHARD,
            seen.leader(ROOT_SHARD).map_or(Vec::new(), |(_, led)| led.members.iter().map(|m| m.node).collect()),
        )
    };
    let others = seen.root.shards().map(|record| ShardSeen {
        preferred: seen.root.broker_of(record.preferred).map(|broker| broker.id),
        partitions: seen.root.partitions_in(record.id),
        moving: record.is_moving(),
        ..shard(seen, record.id, record.members().collect())
    });
    let shards: Vec<ShardSeen> = [root].into_iter().chain(others).collect();
    let brokers: Vec<BrokerSeen> = seen.root.brokers().map(|broker| of_broker(seen, broker, &shards)).collect();
    let zones = seen.gets_by_zone().into_iter().map(|(zone, (store_gets, store_get_bytes))| {
        let here = || brokers.iter().filter(|broker| broker.zone == zone);
        ZoneSeen {
            zone: zone.to_owned(),
            brokers: here().count(),
            alive: here().filter(|broker| broker.alive).count(),
            shards_led: here().map(|broker| broker.shards_led).sum(),
            store_gets,
            store_get_bytes,
        }
    });
    Cluster { cluster: seen.cluster_id.clone(), zones: zones.collect(), brokers, shards }
}

fn of_broker(seen: &Seen, broker: &Broker, shards: &[ShardSeen]) -> BrokerSeen {
    let told = seen.told.get(&broker.id);
    BrokerSeen {
        broker: broker.id,
        zone: broker.zone.clone(),
        address: format!("{}:{}", broker.host, broker.port),
        alive: broker.alive,
        answers: told.is_some(),
        epoch: broker.epoch,
        shards_led: shards.iter().filter(|shard| shard.leader == Some(broker.id)).count(),
        replicas: shards.iter().filter(|shard| shard.replicas.iter().any(|r| r.broker == Some(broker.id))).count(),
        store_gets: told.map_or(0, |told| told.store_gets),
        store_get_bytes: told.map_or(0, |told| told.store_get_bytes),
    }
}

/// Members as the leader knows them; those of the root state while there is no leader.
fn shard(seen: &Seen, id: ShardId, members: Vec<milepost_raft::NodeId>) -> ShardSeen {
    let broker = |node| seen.root.broker_of(node).map(|broker| broker.id);
    let led = seen.leader(id);
    let replicas: Vec<ReplicaSeen> = match led {
        Some((_, led)) => {
            let told = led.members.iter().map(|member| ReplicaSeen {
                broker: broker(member.node),
                voter: member.voter,
                lag: member.matched.map(|matched| led.last().saturating_sub(matched)),
                silent_ms: member.silent_ms,
            });
            told.collect()
        }
        None => {
            let known = members.iter();
            known.map(|node| ReplicaSeen { broker: broker(*node), voter: true, lag: None, silent_ms: None }).collect()
        }
    };
    ShardSeen {
        shard: id,
        replication_factor: replicas.iter().filter(|replica| replica.voter).count(),
        partitions: 0,
        leader: led.map(|(broker, _)| broker),
        preferred: None,
        term: led.map(|(_, led)| led.term),
        committed: led.map(|(_, led)| led.committed),
        replicas,
        moving: false,
    }
}

fn in_words(seen: &Cluster) -> String {
    let number = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    let brokers = seen.brokers.iter().map(|broker| {
        let state = match (broker.alive, broker.answers) {
            (true, true) => "alive",
            (true, false) => "does not answer",
            (false, _) => "away",
        };
        vec![
            broker.broker.to_string(),
            broker.zone.clone(),
            broker.address.clone(),
            state.to_owned(),
            broker.epoch.to_string(),
            broker.shards_led.to_string(),
            broker.replicas.to_string(),
            broker.store_gets.to_string(),
            bytes(broker.store_get_bytes),
        ]
    });
    let zones = seen.zones.iter().map(|zone| {
        vec![
            zone.zone.clone(),
            format!("{} of {}", zone.alive, zone.brokers),
            zone.shards_led.to_string(),
            zone.store_gets.to_string(),
            bytes(zone.store_get_bytes),
        ]
    });
    let shards = seen.shards.iter().map(|shard| {
        let note = match (shard.leader, shard.preferred) {
            (None, _) => "no leader",
            _ if shard.moving => "moving",
            (Some(leader), Some(preferred)) if leader != preferred => "not led by the preferred",
            _ => "",
        };
        vec![
            if shard.shard == ROOT_SHARD { "root".to_owned() } else { shard.shard.to_string() },
            shard.partitions.to_string(),
            number(shard.leader.map(|leader| leader as u64)),
            number(shard.term),
            number(shard.committed),
            shard.replicas.iter().map(|replica| replica_in_words(replica, shard)).collect::<Vec<_>>().join(" "),
            note.to_owned(),
        ]
    });
    let lists: [(&[&str], Vec<Vec<String>>); 3] = [
        (&["BROKER", "ZONE", "ADDRESS", "STATE", "EPOCH", "LEADS", "REPLICAS", "GETS", "FETCHED"], brokers.collect()),
        (&["ZONE", "ALIVE", "LEADS", "GETS", "FETCHED"], zones.collect()),
        (&["SHARD", "PARTITIONS", "LEADER", "TERM", "COMMITTED", "REPLICAS (LAG)", ""], shards.collect()),
    ];
    let tables: Vec<String> = lists.iter().map(|(header, rows)| table(header, rows)).collect();
    format!("cluster {}\n\n{}", seen.cluster, tables.join("\n"))
}

/// `2` for one that has everything, `2(14)` for one that lacks fourteen entries, `2(?)` for one that nobody has heard.
fn replica_in_words(replica: &ReplicaSeen, shard: &ShardSeen) -> String {
    let broker = replica.broker.map_or("?".to_owned(), |broker| broker.to_string());
    let learner = if replica.voter { "" } else { "+" };
    match (replica.lag, shard.leader) {
        (Some(0), _) | (None, None) => format!("{learner}{broker}"),
        (Some(lag), _) => format!("{learner}{broker}({lag})"),
        (None, Some(_)) => format!("{learner}{broker}(?)"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::admin::sample;
    use crate::cluster::{Quorum, QuorumMember};
    use crate::survey::told::{BrokerTold, ShardTold};

    #[test]
    fn lag_and_leaders_are_what_the_leaders_say() {
        let mut root = sample::cluster(&["a", "b"]);
        sample::topic(&mut root, "t", 1, 3, 3);
        let member = |node, matched| QuorumMember { node, voter: true, matched, silent_ms: Some(1) };
        let led = |leader, term| {
            let members = vec![member(1, Some(20)), member(2, Some(6))];
            Some(Quorum { term, leader, committed: 19, members })
        };
        let told = |broker, leads| {
            let shards = vec![ShardTold { shard: 1, applied: 20, serving: true, leads }];
            (broker, BrokerTold { broker, store_gets: 5, store_get_bytes: 5000, shards })
        };
        // The one that has lost the lead does not know it yet.
        let told = BTreeMap::from([told(0, led(1, 8)), told(1, led(2, 7))]);
        let seen = describe(&Seen { cluster_id: "c".into(), root, told });
        let first = seen.shards.iter().find(|shard| shard.shard == 1).unwrap();
        assert_eq!((first.leader, first.term, first.replicas[1].lag), (Some(0), Some(8), Some(14)));
        assert_eq!(seen.brokers.iter().map(|b| b.shards_led).collect::<Vec<_>>(), [1, 0]);
        let words = in_words(&seen);
        assert!(words.contains("0 1(14)") && words.contains("no leader"), "{words}");
        assert_eq!(seen.zones.iter().map(|zone| zone.store_gets).collect::<Vec<_>>(), [5, 5]);
    }
}
