use std::net::SocketAddr;

use crate::cluster::{Registration, ZoneAddress};
use crate::config::{Config, HostPort};
use crate::door::net::TcpListener;
use crate::node::Error;
use crate::node::router::ZONE_LISTENER;
use crate::node::run::{listen, listen_error};

/// Where clients come in: first the listener of all, then those of zones, in the order of the configuration.
pub(super) struct Listeners {
    pub named: Vec<(String, TcpListener)>,
    pub addresses: Vec<SocketAddr>,
}

impl Listeners {
    pub async fn bind(config: &Config) -> Result<Listeners, Error> {
        let of_zones = config.zone_listeners.iter();
        let of_zones = of_zones.map(|one| ("zone_listeners", format!("{ZONE_LISTENER}{}", one.zone), &one.listen));
        let all = [("listen", "clients".to_owned(), &config.listen)].into_iter().chain(of_zones);
        let mut listeners = Listeners { named: Vec::new(), addresses: Vec::new() };
        for (what, name, at) in all {
            let listener = listen(what, at).await?;
            listeners.addresses.push(listener.local_addr().map_err(|e| listen_error(what, at, e))?);
            listeners.named.push((name, listener));
        }
        Ok(listeners)
    }

    pub fn registration(&self, config: &Config) -> Registration {
        // Whoever asked for any port is found at the one that was given.
        let port = |told: &HostPort, bound: &SocketAddr| if told.port == 0 { bound.port() } else { told.port };
        let of_zones = config.zone_listeners.iter().zip(&self.addresses[1..]).map(|(one, bound)| ZoneAddress {
            zone: one.zone.clone(),
            host: one.advertise.host.clone(),
            port: port(&one.advertise, bound),
        });
        Registration {
            broker: config.broker_id,
            node: 0,
            zone: config.zone.clone().unwrap_or_default(),
            host: config.advertise.host.clone(),
            port: port(&config.advertise, &self.addresses[0]),
            internal: config.internal_advertise.to_string(),
            listeners: of_zones.collect(),
            life: 0,
        }
    }
}
