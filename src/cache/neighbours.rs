//! The brokers of one zone as one cache: which of them fetches an object, and how the others get it from there.

use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use futures::future::BoxFuture;
use milepost_raft::NodeId;
use tokio::time::Instant;

use super::key::{put_name, read_name};
use crate::cluster::{Broker, Cluster};
use crate::object::{Error, Name, crc32c};
use crate::peer::{self, Answer};
use crate::types::varint::{self, Malformed, Reader};
use crate::types::{BrokerId, ByteRange};

/// Longer than a GET takes nearly always: an owner that fetches first is worth waiting for.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// An owner that did not answer is passed over for this long; by then the root knows whether it is alive.
const AWAY_FOR: Duration = Duration::from_secs(3);

/// What is asked of an owner: exactly one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub name: Name,
    pub range: ByteRange,
    /// For a reader that catches up.
    pub catch_up: bool,
}

impl Request {
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(40);
        put_name(&mut out, &self.name);
        varint::put(&mut out, self.range.start);
        varint::put(&mut out, self.range.len);
        varint::put(&mut out, self.catch_up.into());
        out.freeze()
    }

    pub fn decode(bytes: &[u8]) -> Result<Request, Malformed> {
        let mut r = Reader::new(bytes);
        let name = read_name(&mut r)?;
        let range = ByteRange::new(r.u64()?, r.u64()?);
        let catch_up = r.byte()? != 0;
        r.finish()?;
        Ok(Request { name, range, catch_up })
    }
}

/// The other brokers of this zone, as the cache needs them.
pub trait Neighbours: fmt::Debug + Send + Sync {
    /// Who fetches this object for the zone; `None` when this broker does.
    fn owner(&self, name: &Name) -> Option<NodeId>;

    /// Asks an owner. A transient error: it is not there, ask [`Neighbours::owner`] again. Any other: it has no such bytes
    /// to give, ask the store.
    fn read(&self, owner: NodeId, request: Request) -> BoxFuture<'_, Result<Bytes, Error>>;

    /// May this node be answered? Record bytes never leave the zone.
    fn is_near(&self, node: NodeId) -> bool;
}

/// Neighbours by the root's word and this broker's own experience.
pub struct Zone {
    cluster: Cluster,
    away: Mutex<HashMap<NodeId, Instant>>,
}

impl Zone {
    pub fn new(cluster: Cluster) -> Zone {
        Zone { cluster, away: Mutex::default() }
    }

    fn is_away(&self, node: NodeId) -> bool {
        let mut away = self.away.lock().expect("no holder panics");
        away.retain(|_, since| since.elapsed() < AWAY_FOR);
        away.contains_key(&node)
    }

    fn mark_away(&self, node: NodeId) {
        self.away.lock().expect("no holder panics").insert(node, Instant::now());
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Zone")
    }
}

impl Neighbours for Zone {
    fn owner(&self, name: &Name) -> Option<NodeId> {
        let view = self.cluster.view();
        let me = view.broker(self.cluster.broker_id())?;
        let here = |b: &&Broker| b.id == me.id || (same_zone(b, me) && b.alive && !self.is_away(b.node));
        let brokers: Vec<&Broker> = view.brokers().map(|b| &**b).filter(here).collect();
        let owner = owner_of(name, brokers.iter().map(|b| b.id))?;
        brokers.iter().find(|b| b.id == owner && b.id != me.id).map(|b| b.node)
    }

    fn read(&self, owner: NodeId, request: Request) -> BoxFuture<'_, Result<Bytes, Error>> {
        async move {
            let answer = self.cluster.node().call_bulk(owner, peer::READ, request.encode(), READ_TIMEOUT).await;
            match answer.map(Answer::decode) {
                // A copy: the frame lies in a buffer that may be twice as large, and would be kept with it.
                Ok(Ok(Answer::Done(bytes))) => Ok(Bytes::copy_from_slice(&bytes)),
                Ok(answer) => Err(Error::refused("read", format!("node {owner} answers {answer:?}"))),
                Err(e) => {
                    self.mark_away(owner);
                    Err(Error::retryable("read", e))
                }
            }
        }
        .boxed()
    }

    fn is_near(&self, node: NodeId) -> bool {
        let view = self.cluster.view();
        let me = view.broker(self.cluster.broker_id());
        me.zip(view.broker_of(node)).is_some_and(|(me, other)| same_zone(other, me))
    }
}

/// Brokers without a zone are near nobody.
fn same_zone(one: &Broker, other: &Broker) -> bool {
    !one.zone.is_empty() && one.zone == other.zone
}

/// The broker that wrote the object, while it is among `brokers`: it has the bytes. Else by rendezvous hashing: all who
/// ask find the same one, and when a broker comes or goes no other one's objects move.
fn owner_of(name: &Name, brokers: impl Iterator<Item = BrokerId> + Clone) -> Option<BrokerId> {
    if let Name::WriteAhead(object) = name
        && brokers.clone().any(|id| id == object.broker)
    {
        return Some(object.broker);
    }
    let mut packed = Vec::with_capacity(40);
    put_name(&mut packed, name);
    let hash = u64::from(crc32c(&packed));
    brokers.max_by_key(|id| (mix((hash << 32) | u64::from(*id as u32)), *id))
}

/// Spreads every bit over all (the finaliser of SplitMix64).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{ObjectId, StorageClass};

    fn object(broker: BrokerId, sequence: u64) -> Name {
        Name::WriteAhead(ObjectId { broker, epoch: 3, sequence, attempt: 1, class: StorageClass::Regional })
    }

    fn owners(brokers: &[BrokerId]) -> Vec<BrokerId> {
        (0..3000).map(|i| owner_of(&object(99, i), brokers.iter().copied()).unwrap()).collect()
    }

    #[test]
    fn the_broker_that_wrote_an_object_owns_it_while_it_is_here() {
        assert!((0..100).all(|i| owner_of(&object(2, i), [1, 2, 3].into_iter()) == Some(2)));
        assert_eq!(owner_of(&object(2, 1), [1].into_iter()), Some(1));
        assert_eq!(owner_of(&object(2, 1), std::iter::empty()), None);
    }

    #[test]
    fn other_objects_are_spread_evenly_whatever_the_order_of_the_brokers() {
        let owners_here = owners(&[1, 2, 3]);
        assert_eq!(owners_here, owners(&[3, 1, 2]));
        for broker in [1, 2, 3] {
            let share = owners_here.iter().filter(|owner| **owner == broker).count();
            assert!((900..1100).contains(&share), "broker {broker} owns {share} of 3000");
        }
    }

    #[test]
    fn when_a_broker_goes_only_its_objects_move() {
        for (before, after) in owners(&[1, 2, 3]).into_iter().zip(owners(&[1, 3])) {
            assert!(before == after || before == 2);
        }
    }

    #[test]
    fn requests_read_back_as_written() {
        let request = Request { name: object(1, 2), range: ByteRange::new(7, u64::MAX), catch_up: true };
        let written = request.encode();
        assert_eq!(Request::decode(&written), Ok(request));
        assert!((0..written.len()).all(|cut| Request::decode(&written[..cut]).is_err()));
    }
}
