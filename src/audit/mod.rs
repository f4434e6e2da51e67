//! `milepost audit`: checks from outside that every live pointer is true.
//!
//! - **In**: a cluster's client address. **Out**: a table and an exit code.
//! - **Checks**, per replica of every shard: the invariants of the state; per pointer: the object is there, the range
//!   lies inside it, every batch in it has the right checksum, and their spans fill the pointer exactly. Replicas at
//!   the same applied index have the same digest. Where each zone has a bucket, the copies of every object are counted;
//!   one that is missing is no fault while another can be read, since it will be made again.
//! - **Never does**: write, or trust a broker for what the store can show.

mod brokers;
mod check;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};

use crate::audit::brokers::{Member, members, state_of};
pub(crate) use crate::audit::brokers::{any_member, root_of};
use crate::audit::check::Checker;
use crate::cluster::RootState;
use crate::config::{HostPort, StoreUrl, StoreUrls};
use crate::object::{self, marker};
use crate::types::ShardId;

/// Runs `milepost audit`; an error when something is wrong.
pub async fn run(bootstrap: Vec<HostPort>, store: Option<Vec<StoreUrl>>, print_copies: bool) -> anyhow::Result<()> {
    let (cluster_id, members) = members(&bootstrap).await?;
    let urls = match (store, &members[0].store) {
        (Some(urls), _) => urls,
        (None, Some(said)) => said.split(',').map(str::parse).collect::<Result<_, _>>().map_err(anyhow::Error::msg)?,
        (None, None) => bail!("the brokers keep their store to themselves: name it with --store"),
    };
    let urls = StoreUrls::new(urls).map_err(anyhow::Error::msg)?;
    let store = object::open_all(&urls, None).await?;
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    let marker = marker::read(&*store, deadline).await.context("the store has no cluster")?;
    if marker.cluster_id != cluster_id {
        bail!("the store belongs to cluster {}, the brokers to {cluster_id}", marker.cluster_id);
    }
    let root = root_of(&cluster_id, &members).await?;
    let mut checker = Checker::new(store, marker.paths()?, print_copies);
    for shard in root.shards() {
        audit_shard(&mut checker, &cluster_id, shard.id, &root, &members).await?;
    }
    checker.report()
}

async fn audit_shard(
    checker: &mut Checker,
    cluster_id: &str,
    shard: ShardId,
    root: &RootState,
    members: &[Member],
) -> anyhow::Result<()> {
    let record = root.shard(shard).context("the shard was listed a moment ago")?;
    let voters: BTreeSet<i32> = record.voters.iter().filter_map(|node| root.broker_of(*node)).map(|b| b.id).collect();
    let mut digests: BTreeMap<u64, BTreeMap<u32, Vec<i32>>> = BTreeMap::new();
    for member in members.iter().filter(|m| voters.contains(&m.broker)) {
        let Some((applied, state)) = state_of(cluster_id, member, shard).await? else {
            checker.fault(format!("shard {shard}: broker {} does not replicate it yet", member.broker));
            continue;
        };
        digests.entry(applied).or_default().entry(state.digest()).or_default().push(member.broker);
        checker.state(shard, member.broker, &state, root).await;
    }
    for (applied, digests) in digests.iter().filter(|(_, digests)| digests.len() > 1) {
        checker.fault(format!("shard {shard}: replicas differ at index {applied}: {digests:?}"));
    }
    Ok(())
}
