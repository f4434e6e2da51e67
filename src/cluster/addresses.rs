use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Mutex;
use std::time::Duration;

use futures::future::join_all;
use milepost_raft::{Node, NodeId};
use tokio::time::sleep;

use crate::cluster::RootState;
use crate::types::BrokerEpoch;

const LEARN_PAUSE: Duration = Duration::from_millis(200);

/// Keeps the address book of Raft. Registrations say where a broker is; while none that is true has been applied here
/// (nothing is applied yet, or all brokers have moved), it is whoever answers at the seeds.
pub(super) struct Addresses {
    node: Node,
    /// The newest registration noted of each node. One that is known already does not overwrite what was learned since.
    noted: Mutex<BTreeMap<NodeId, BrokerEpoch>>,
}

impl Addresses {
    pub fn new(node: Node) -> Self {
        Addresses { node, noted: Mutex::default() }
    }

    pub fn follow(&self, view: &RootState) {
        let me = self.node.identity().node_id;
        for broker in view.brokers().filter(|b| b.node != me) {
            if is_news(&mut self.noted.lock().expect("no holder panics"), broker.node, broker.epoch) {
                self.node.set_address(broker.node, broker.internal.clone());
            }
        }
    }

    /// Asks each seed until it has said which node it is, then waits for ever.
    pub async fn learn(&self, mut seeds: Vec<String>) -> Infallible {
        while !seeds.is_empty() {
            let answers = join_all(seeds.iter().map(|seed| self.node.learn(seed))).await;
            let mut silent = answers.iter().map(Result::is_err);
            seeds.retain(|_| silent.next().unwrap_or(true));
            sleep(LEARN_PAUSE).await;
        }
        pending().await
    }
}

fn is_news(noted: &mut BTreeMap<NodeId, BrokerEpoch>, node: NodeId, epoch: BrokerEpoch) -> bool {
    let news = noted.get(&node).is_none_or(|known| *known < epoch);
    if news {
        noted.insert(node, epoch);
    }
    news
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_is_news_once() {
        let mut noted = BTreeMap::new();
        assert!(is_news(&mut noted, 1, 5));
        assert!(!is_news(&mut noted, 1, 5));
        assert!(is_news(&mut noted, 2, 6));
        assert!(is_news(&mut noted, 1, 7));
        assert!(!is_news(&mut noted, 1, 6));
    }
}
