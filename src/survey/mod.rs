//! `milepost cluster` and `milepost topic NAME`: what Kafka's tools cannot show, of a running cluster.
//!
//! - **In**: the client address of any broker; from there the root state, and what each broker says of itself ([`told`]).
//! - **Out**: tables for people, or JSON with the same facts and more digits for programs.
//! - **Promises**: a broker that does not answer is shown as such and spoils nothing else.
//! - **Never does**: change anything, or read the object store.
//! - **Limits**: [`PATIENCE`] per broker; all are asked at once.
//!
//! # Decisions
//! **A look from outside asks brokers, it does not scrape them.** `milepost cluster` takes any broker's client
//! address, reads the root state as the audit does, and asks each live broker one question: a shard's leader knows
//! every lag. A console path would have needed every broker's metrics address, which the root does not know and which
//! may be off.

mod cluster;
mod table;
pub(crate) mod told;
mod topic;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;
use bytes::Bytes;
use futures::future::join_all;
use milepost_raft::call_address;

pub use cluster::cluster;
pub use topic::topic;

use crate::audit::{any_member, root_of};
use crate::cluster::{Quorum, RootState};
use crate::config::HostPort;
use crate::peer::{self, Answer};
use crate::survey::told::BrokerTold;
use crate::types::{BrokerId, ShardId};

const PATIENCE: Duration = Duration::from_secs(10);

/// What a look at the cluster shows.
struct Seen {
    cluster_id: String,
    root: RootState,
    /// What those brokers said that answered.
    told: BTreeMap<BrokerId, BrokerTold>,
}

async fn look(bootstrap: &[HostPort]) -> anyhow::Result<Seen> {
    let (cluster_id, member) = any_member(bootstrap).await?;
    let root = root_of(&cluster_id, &[member]).await?;
    let asked = root.brokers().filter(|broker| broker.alive).map(async |broker| {
        let told = ask(&cluster_id, &broker.internal, peer::STATUS, Bytes::new()).await;
        (broker.id, told.and_then(|body| Ok(rmp_serde::from_slice::<BrokerTold>(&body)?)))
    });
    let mut told = BTreeMap::new();
    for (broker, answer) in join_all(asked).await {
        match answer {
            Ok(answer) => drop(told.insert(broker, answer)),
            Err(e) => eprintln!("broker {broker}: {e:#}"),
        }
    }
    Ok(Seen { cluster_id, root, told })
}

async fn ask(cluster_id: &str, internal: &str, kind: u8, body: Bytes) -> anyhow::Result<Bytes> {
    match Answer::decode(call_address(internal, cluster_id, kind, body, PATIENCE).await?)? {
        Answer::Done(body) => Ok(body),
        Answer::Refused(why) => bail!(why),
        Answer::NotLeader { .. } | Answer::Unknown => bail!("it has no such replica, or is not seated yet"),
    }
}

impl Seen {
    /// The broker that leads a shard, as it says itself; the newest term counts.
    fn leader(&self, shard: ShardId) -> Option<(BrokerId, &Quorum)> {
        let led = self.told.iter().filter_map(|(broker, told)| {
            let here = told.shards.iter().find(|here| here.shard == shard)?;
            Some((*broker, here.leads.as_ref()?))
        });
        led.max_by_key(|(_, led)| led.term)
    }

    /// GETs of the brokers of each zone since their start: (requests, bytes).
    fn gets_by_zone(&self) -> BTreeMap<&str, (u64, u64)> {
        let mut zones: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for broker in self.root.brokers() {
            let zone = zones.entry(&broker.zone).or_default();
            if let Some(told) = self.told.get(&broker.id) {
                zone.0 += told.store_gets;
                zone.1 += told.store_get_bytes;
            }
        }
        zones
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::build::Spec;
    use crate::node::testing::{Client, Site, TOPIC, Topic, records_of};
    use crate::types::ROOT_SHARD;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_look_through_any_address_shows_leaders_and_what_partitions_hold() {
        let site = Site::new(1);
        let node = site.start(0, &[0]).await;
        let mut client = Client::connect(&node).await;
        let topic = Topic::create(&mut client, 2, &[]).await;
        for _ in 0..3 {
            assert_eq!(topic.produced(&mut client, 9, &[records_of(10, &Spec::default())]).await.error_code, 0);
        }
        let nobody = HostPort { host: "127.0.0.1".into(), port: 1 };
        let address = HostPort { host: "127.0.0.1".into(), port: node.address().port() };
        let seen = look(&[nobody, address]).await.unwrap();
        let (id, shard) = {
            let topic = seen.root.topic_named(TOPIC).unwrap();
            (topic.id, topic.placement[0])
        };
        for shard in [ROOT_SHARD, shard] {
            let (leader, led) = seen.leader(shard).expect("it leads everything");
            assert_eq!((leader, led.members.len(), led.members[0].silent_ms), (0, 1, Some(0)));
            assert_eq!(led.members[0].matched, Some(led.last()));
        }
        assert!(seen.leader(99).is_none());
        let told = topic::of_shard(&seen, shard, id).await;
        let first = told.iter().find(|told| told.partition == 0).unwrap();
        assert_eq!((first.log_start_offset, first.high_watermark), (0, 30));
        assert!(first.objects > 0 && first.pointers >= first.objects && first.bytes > 30 * 60);
        assert_eq!(seen.gets_by_zone().keys().copied().collect::<Vec<_>>(), ["z0"]);
        node.shut_down().await;
    }
}
