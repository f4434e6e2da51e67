use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::alter_client_quotas_response::{EntityData as EntityTold, EntryData as EntryTold};
use kafka_protocol::messages::{AlterClientQuotasRequest, AlterClientQuotasResponse};
use tokio::net::lookup_host;
use tokio::time::{Instant, timeout};

use crate::admin::configs::Kind;
use crate::admin::describe_client_quotas::{CLIENT_ID, IP, USER};
use crate::admin::error::code_and_message;
use crate::admin::{Admin, Context, Error, topics};
use crate::batch::Segments;
use crate::cluster::{Limit, QuotaEntity, QuotaName, RootEntry};
use crate::protocol::{self, decode, encode};
use crate::quota::{CONNECTION_RATE, MUTATION_RATE};

/// The request does not say how long its client waits.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the name of an address is looked for.
const RESOLVE_MAX: Duration = Duration::from_secs(5);
/// Kinds of clients with limits, and how long a name of one may be: the root keeps them.
const ENTITIES_MAX: usize = 100_000;
const NAME_BYTES_MAX: usize = 1024;

/// The keys of users and client ids.
const CLIENT_KEYS: [(&str, Kind); 4] = [
    ("consumer_byte_rate", Kind::Long),
    (MUTATION_RATE, Kind::Double),
    ("producer_byte_rate", Kind::Long),
    ("request_percentage", Kind::Double),
];

/// # Errors
/// The body does not follow the protocol.
pub async fn alter_client_quotas(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: AlterClientQuotasRequest = decode(version, body)?;
    let deadline = Instant::now() + PATIENCE;
    let validate_only = request.validate_only;
    let mut seen = HashSet::new();
    let asked = request.entries.into_iter().map(|entry| {
        let mut named: Vec<_> = entry.entity.iter().map(|e| (e.entity_type.clone(), e.entity_name.clone())).collect();
        named.sort_by(|a, b| (a.0.as_str(), a.1.as_deref()).cmp(&(b.0.as_str(), b.1.as_deref())));
        let first = seen.insert(named);
        (entry, first)
    });
    let asked: Vec<(EntryData, bool)> = asked.collect();
    let entries = topics::each(asked, async |(entry, first)| {
        let done = match first {
            true => alter(admin, &entry, validate_only, deadline).await,
            false => Err(Error::InvalidRequest("Ignoring duplicate entity".into())),
        };
        let (code, message) = code_and_message(&done);
        let entity = entry
            .entity
            .into_iter()
            .map(|part| EntityTold::default().with_entity_type(part.entity_type).with_entity_name(part.entity_name));
        EntryTold::default().with_error_code(code).with_error_message(message).with_entity(entity.collect())
    });
    encode(version, &AlterClientQuotasResponse::default().with_entries(entries.await))
}

async fn alter(admin: &Admin, entry: &EntryData, validate_only: bool, deadline: Instant) -> Result<(), Error> {
    let mut entity = entity(&entry.entity)?;
    if let Some(QuotaName::Named(host)) = &mut entity.ip {
        *host = resolve(host).await?;
    }
    let changes = changes(&entity, &entry.ops)?;
    let quotas = admin.cluster.view();
    let quotas = quotas.quotas();
    if !quotas.contains_key(&entity) && quotas.len() >= ENTITIES_MAX {
        return Err(Error::InvalidRequest(format!(
            "{ENTITIES_MAX} kinds of clients have limits: no more can have any"
        )));
    }
    if validate_only || changes.is_empty() {
        return Ok(());
    }
    admin.propose(RootEntry::AlterQuotas { entity, changes }, deadline).await.map(drop)
}

/// One of a user, a client id, both, or an address (Kafka: `ClientQuotaControlManager`).
fn entity(parts: &[EntityData]) -> Result<QuotaEntity, Error> {
    let invalid = |why: String| Err(Error::InvalidRequest(why));
    let mut entity = QuotaEntity::default();
    for part in parts {
        let kind = part.entity_type.as_str();
        let name = match part.entity_name.as_deref() {
            None => QuotaName::Default,
            Some("") => return invalid(format!("Empty {kind} not supported")),
            Some(name) if name.len() > NAME_BYTES_MAX => return invalid(format!("{kind} is too long")),
            Some(name) => QuotaName::Named(name.to_owned()),
        };
        let place = match kind {
            USER => &mut entity.user,
            CLIENT_ID => &mut entity.client_id,
            IP => &mut entity.ip,
            other => return invalid(format!("Unhandled client quota entity type: {other}")),
        };
        if place.replace(name).is_some() {
            return invalid(format!("Invalid empty client quota entity, duplicate entity entry {kind}"));
        }
    }
    match (&entity.ip, entity.user.is_some() || entity.client_id.is_some()) {
        (None, false) => invalid("Invalid empty client quota entity".into()),
        (Some(_), true) => {
            invalid("Invalid quota entity combination, IP entity should not be combined with User or ClientId".into())
        }
        _ => Ok(entity),
    }
}

/// The address is kept, and shown: connections have no other name (Kafka keeps the name, and looks it up at each start).
///
/// # Errors
/// Neither an address nor the name of one.
async fn resolve(host: &str) -> Result<String, Error> {
    if let Some(address) = canonical(host) {
        return Ok(address);
    }
    let found = timeout(RESOLVE_MAX, lookup_host((host, 0))).await.ok().and_then(Result::ok);
    let address = found.and_then(|mut all| all.next()).map(|address| address.ip().to_canonical().to_string());
    address.ok_or_else(|| Error::InvalidRequest(format!("{host} is not a valid IP or resolvable host.")))
}

/// An address in the form in which its limit is kept.
pub(super) fn canonical(address: &str) -> Option<String> {
    address.parse::<IpAddr>().ok().map(|address| address.to_canonical().to_string())
}

fn changes(entity: &QuotaEntity, ops: &[OpData]) -> Result<BTreeMap<String, Option<Limit>>, Error> {
    let kind = |key: &str| match entity.ip {
        Some(_) => (key == CONNECTION_RATE).then_some(Kind::Int),
        None => CLIENT_KEYS.iter().find(|(name, _)| *name == key).map(|(_, kind)| *kind),
    };
    let mut changes = BTreeMap::new();
    for op in ops {
        let key = op.key.as_str();
        let limit = match (op.remove, kind(key)) {
            (true, _) => None,
            (false, None) => return Err(Error::InvalidRequest(format!("Invalid configuration key {key}"))),
            (false, Some(kind)) => Some(limit(key, kind, op.value).map_err(Error::InvalidRequest)?),
        };
        if changes.insert(key.to_owned(), limit).is_some() {
            return Err(Error::InvalidRequest(format!("Duplicate quota key {key} not updating quota for this entity")));
        }
    }
    Ok(changes)
}

fn limit(key: &str, kind: Kind, value: f64) -> Result<Limit, String> {
    let whole = matches!(kind, Kind::Int | Kind::Long);
    match value {
        _ if value <= 0.0 => Err(format!("Quota {key} must be greater than 0")),
        // Kafka takes these of some keys, and then divides by them.
        _ if value.is_nan() || (!whole && value.is_infinite()) => Err(format!("Quota {key} must be a number")),
        _ if kind == Kind::Int && value > f64::from(i32::MAX) => {
            Err(format!("Proposed value for {key} is too large for an INT."))
        }
        _ if kind == Kind::Long && value > i64::MAX as f64 => {
            Err(format!("Proposed value for {key} is too large for a LONG."))
        }
        _ if whole && value % 1.0 > 1e-6 => Err(format!("{key} cannot be a fractional value.")),
        _ => Ok(Limit::new(value)),
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::protocol::StrBytes;

    use super::*;

    fn part(kind: &'static str, name: Option<&'static str>) -> EntityData {
        let part = EntityData::default().with_entity_type(StrBytes::from_static_str(kind));
        part.with_entity_name(name.map(StrBytes::from_static_str))
    }

    fn op(key: &'static str, value: f64) -> OpData {
        OpData::default().with_key(StrBytes::from_static_str(key)).with_value(value)
    }

    #[test]
    fn entities_are_users_and_client_ids_or_addresses() {
        assert!(entity(&[part(USER, Some("u")), part(CLIENT_ID, None)]).is_ok());
        assert!(entity(&[part(IP, Some("10.0.0.1"))]).is_ok() && entity(&[part(IP, None)]).is_ok());
        for refused in [
            vec![],
            vec![part(USER, None), part(IP, None)],
            vec![part(USER, None), part(USER, Some("u"))],
            vec![part(USER, Some(""))],
            vec![part("group", None)],
        ] {
            assert!(matches!(entity(&refused), Err(Error::InvalidRequest(_))), "{refused:?}");
        }
    }

    #[tokio::test]
    async fn an_address_may_have_a_name() {
        for (known, address) in [("10.0.0.1", "10.0.0.1"), ("0:0::1", "::1"), ("::ffff:10.0.0.1", "10.0.0.1")] {
            assert_eq!(resolve(known).await.unwrap(), address);
        }
        assert!(resolve("localhost").await.unwrap().parse::<IpAddr>().unwrap().is_loopback());
        for unknown in ["a b", "-", "10.0.0.1:5"] {
            assert!(matches!(resolve(unknown).await, Err(Error::InvalidRequest(_))), "{unknown}");
        }
    }

    #[test]
    fn each_kind_of_entity_has_its_keys() {
        let user = entity(&[part(USER, None)]).unwrap();
        let ip = entity(&[part(IP, None)]).unwrap();
        let ok = |entity: &QuotaEntity, ops: &[OpData]| changes(entity, ops).is_ok();
        assert!(ok(&user, &[op("producer_byte_rate", 5.0), op("request_percentage", 12.5)]));
        assert!(ok(&ip, &[op(CONNECTION_RATE, 5.0)]));
        assert!(!ok(&user, &[op(CONNECTION_RATE, 5.0)]) && !ok(&ip, &[op("producer_byte_rate", 5.0)]));
        for value in [0.0, -1.0, 1.5, f64::NAN, f64::INFINITY, 1e19] {
            assert!(!ok(&user, &[op("producer_byte_rate", value)]), "{value}");
        }
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(!ok(&user, &[op("request_percentage", value)]), "{value}");
        }
        assert!(ok(&user, &[op("consumer_byte_rate", i64::MAX as f64), op("request_percentage", 1e19)]));
        assert!(ok(&ip, &[op(CONNECTION_RATE, f64::from(i32::MAX))]));
        assert!(!ok(&ip, &[op(CONNECTION_RATE, f64::from(i32::MAX) + 1.0)]));
        let said = changes(&user, &[op("producer_byte_rate", 0.0)]).unwrap_err().to_string();
        assert_eq!(said, "Quota producer_byte_rate must be greater than 0");
        assert!(!ok(&user, &[op("producer_byte_rate", 1.0), op("producer_byte_rate", 2.0)]));
        let gone = changes(&user, &[op("whatever", 0.0).with_remove(true)]).unwrap();
        assert_eq!(gone["whatever"], None);
    }
}
