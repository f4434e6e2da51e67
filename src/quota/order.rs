use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::cluster::{Limit, QuotaEntity, QuotaName};

/// Who shares one rate: the clients of this user, of this name, or both; or those at an address, which is a name then.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Sharing {
    pub user: Option<String>,
    pub client_id: Option<String>,
}

/// The limit of one kind for a client, and who shares it, in Kafka's order (`ClientQuotaManager`): the most specific first,
/// users before client ids, names before defaults.
pub fn in_force(
    quotas: &BTreeMap<QuotaEntity, BTreeMap<String, Limit>>,
    user: &str,
    client_id: &str,
    key: &str,
) -> Option<(f64, Sharing)> {
    let named = |name: &str| Some(QuotaName::Named(name.to_owned()));
    let default = || Some(QuotaName::Default);
    let order = [
        (named(user), named(client_id)),
        (named(user), default()),
        (named(user), None),
        (default(), named(client_id)),
        (default(), default()),
        (default(), None),
        (None, named(client_id)),
        (None, default()),
    ];
    order.into_iter().find_map(|(of_user, of_client)| {
        let sharing = Sharing {
            user: of_user.is_some().then(|| user.to_owned()),
            client_id: of_client.is_some().then(|| client_id.to_owned()),
        };
        let limits = quotas.get(&QuotaEntity { user: of_user, client_id: of_client, ip: None })?;
        limits.get(key).map(|limit| (limit.get(), sharing))
    })
}

/// The limit of those who connect from an address: its own, or that of every address by itself.
pub fn of_address(
    quotas: &BTreeMap<QuotaEntity, BTreeMap<String, Limit>>,
    address: IpAddr,
    key: &str,
) -> Option<(f64, Sharing)> {
    let name = address.to_canonical().to_string();
    [QuotaName::Named(name.clone()), QuotaName::Default].into_iter().find_map(|of| {
        let limits = quotas.get(&QuotaEntity { ip: Some(of), ..QuotaEntity::default() })?;
        limits.get(key).map(|limit| (limit.get(), Sharing { user: None, client_id: Some(name.clone()) }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_limit_is_in_force_and_shared_at_its_level() {
        let name = |name: &str| match name {
            "" => None,
            "*" => Some(QuotaName::Default),
            name => Some(QuotaName::Named(name.to_owned())),
        };
        // From the weakest on, each with another limit.
        let order = [("", "*"), ("", "c"), ("*", ""), ("*", "*"), ("*", "c"), ("u", ""), ("u", "*"), ("u", "c")];
        let shared = [("", "c"), ("", "c"), ("u", ""), ("u", "c"), ("u", "c"), ("u", ""), ("u", "c"), ("u", "c")];
        let mut quotas = BTreeMap::new();
        let of = |quotas: &_, client: &str, key: &str| in_force(quotas, "u", client, key);
        assert_eq!(of(&quotas, "c", "k"), None);
        for (strength, ((user, client), sharing)) in order.into_iter().zip(shared).enumerate() {
            let entity = QuotaEntity { user: name(user), client_id: name(client), ip: None };
            quotas.insert(entity, BTreeMap::from([("k".to_owned(), Limit::new(strength as f64))]));
            let (limit, who) = of(&quotas, "c", "k").unwrap();
            assert_eq!(limit, strength as f64, "{user} {client}");
            let who = (who.user.unwrap_or_default(), who.client_id.unwrap_or_default());
            assert_eq!((who.0.as_str(), who.1.as_str()), sharing, "{user} {client}");
        }
        // Another client of the same user, and another kind of limit.
        assert_eq!(of(&quotas, "d", "k").unwrap().0, 6.0);
        assert_eq!(of(&quotas, "c", "other"), None);
    }

    #[test]
    fn an_address_has_its_own_limit_or_that_of_all() {
        let ip = |name| QuotaEntity { ip: Some(name), ..QuotaEntity::default() };
        let limits = |limit| BTreeMap::from([("k".to_owned(), Limit::new(limit))]);
        let mut quotas = BTreeMap::from([(ip(QuotaName::Named("10.0.0.1".into())), limits(5.0))]);
        let of = |quotas: &_, address: &str| of_address(quotas, address.parse().unwrap(), "k").map(|(limit, _)| limit);
        assert_eq!((of(&quotas, "10.0.0.1"), of(&quotas, "::ffff:10.0.0.1")), (Some(5.0), Some(5.0)));
        assert_eq!(of(&quotas, "10.0.0.2"), None);
        quotas.insert(ip(QuotaName::Default), limits(1.0));
        assert_eq!((of(&quotas, "10.0.0.1"), of(&quotas, "10.0.0.2")), (Some(5.0), Some(1.0)));
        let shared = |address: &str| of_address(&quotas, address.parse().unwrap(), "k").unwrap().1;
        assert_ne!(shared("10.0.0.2"), shared("10.0.0.3"));
    }
}
