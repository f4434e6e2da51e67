use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;

use crate::batch::Segments;
use crate::cluster::Cluster;
use crate::connection::{Outcome, Peer, Pending, Request, Router};
use crate::fetch;
use crate::protocol::{self, ApiKey, Features, set_throttle};
use crate::quota::{Kind, Quotas, Timed};
use crate::zone::{self, Zones};

/// Counts what each request takes, before and behind the rooms, and has clients wait that take too much.
///
/// A Fetch that comes while its client is over the limit is answered with nothing, at once; else it is answered as it
/// is, and what it took is waited for afterwards. Kafka reads first and throws away; a batch larger than ten seconds'
/// worth never comes then.
pub(super) struct Throttling<R> {
    pub rooms: R,
    pub quotas: Arc<Quotas>,
    pub cluster: Cluster,
    pub zones: Zones,
}

#[async_trait]
impl<R: Router> Router for Throttling<R> {
    async fn start(&self, peer: &Arc<Peer>, request: Request) -> Pending {
        if !self.quotas.any() {
            return self.rooms.start(peer, request).await;
        }
        let (api, version, request_bytes) = (request.api, request.version, request.body.len());
        let client_id = self.client_id(request.client_id.as_deref().unwrap_or(""));
        let quotas = self.quotas.clone();
        if api == ApiKey::Fetch {
            let wait = quotas.count(Kind::Fetch, &client_id, 0.0);
            if !wait.is_zero() {
                return nothing(version, wait);
            }
        }
        let (pending, starting) = Timed::new(self.rooms.start(peer, request)).await;
        async move {
            let (outcome, finishing) = Timed::new(pending).await;
            let body_bytes = match &outcome {
                Outcome::Reply(body) => body.len(),
                _ => 0,
            };
            let of_bytes = match api {
                ApiKey::Produce => quotas.count(Kind::Produce, &client_id, request_bytes as f64),
                ApiKey::Fetch | ApiKey::ShareFetch => quotas.count(Kind::Fetch, &client_id, body_bytes as f64),
                _ => Duration::ZERO,
            };
            let percents = (starting + finishing).as_secs_f64() * 100.0;
            let of_time = quotas.count(Kind::Request, &client_id, percents);
            throttled(api, version, outcome, of_bytes.max(of_time))
        }
        .boxed()
    }

    fn connect(&self, address: IpAddr) -> Result<(), Duration> {
        if self.quotas.any() { self.quotas.connect(address) } else { Ok(()) }
    }

    fn ended(&self, peer: &Peer) {
        self.rooms.ended(peer);
    }

    fn features(&self) -> Features {
        self.rooms.features()
    }
}

impl<R> Throttling<R> {
    /// A client's name, without what it says of its zone.
    fn client_id(&self, client_id: &str) -> String {
        zone::without_zone(client_id, &self.zones, &zone::known(&self.cluster.view())).into_owned()
    }
}

fn nothing(version: i16, wait: Duration) -> Pending {
    let empty = protocol::fetch::encode(version, fetch::nothing());
    let outcome = empty.map_or_else(|e| Outcome::Close(e.to_string().into()), Outcome::Reply);
    std::future::ready(throttled(ApiKey::Fetch, version, outcome, wait)).boxed()
}

fn throttled(api: ApiKey, version: i16, outcome: Outcome, wait: Duration) -> Outcome {
    if wait.is_zero() {
        return outcome;
    }
    // Told in whole milliseconds, at least one.
    let wait = Duration::from_millis(wait.as_millis().max(1) as u64);
    let told = |mut body: Segments| {
        set_throttle(api, version, &mut body, wait.as_millis() as i32);
        Outcome::Throttled(Some(body), wait)
    };
    match outcome {
        Outcome::Reply(body) => told(body),
        Outcome::NoReply => Outcome::Throttled(None, wait),
        other @ (Outcome::Throttled(..) | Outcome::Close(_)) => other,
    }
}
