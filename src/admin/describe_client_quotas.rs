use std::collections::BTreeSet;

use bytes::Bytes;
use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
use kafka_protocol::messages::describe_client_quotas_response::{EntityData, EntryData, ValueData};
use kafka_protocol::messages::{DescribeClientQuotasRequest, DescribeClientQuotasResponse};
use kafka_protocol::protocol::StrBytes;

use crate::admin::alter_client_quotas::canonical;
use crate::admin::error::code_and_message;
use crate::admin::{Admin, Context, Error};
use crate::batch::Segments;
use crate::cluster::{QuotaEntity, QuotaName};
use crate::protocol::{self, decode, encode};

/// Kafka's types of quota entities.
pub(super) const USER: &str = "user";
pub(super) const CLIENT_ID: &str = "client-id";
pub(super) const IP: &str = "ip";

/// What one type of an entity has to be. Numbers are Kafka's (`DescribeClientQuotasRequest`).
#[derive(Debug, Clone, PartialEq, Eq)]
enum Match {
    /// 0 and 1: a name, or the default.
    Exactly(QuotaName),
    /// 2: anything, if it is said.
    Any,
}

#[derive(Debug, Default)]
struct Filter {
    user: Option<Match>,
    client_id: Option<Match>,
    ip: Option<Match>,
    /// What is not asked for is not there.
    strict: bool,
}

/// # Errors
/// The body does not follow the protocol.
pub async fn describe_client_quotas(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: DescribeClientQuotasRequest = decode(version, body)?;
    let filter = filter(&request.components, request.strict);
    let (code, message) = code_and_message(&filter);
    let entries = filter.ok().map(|filter| {
        let view = admin.cluster.view();
        let matching = view.quotas().iter().filter(|(entity, _)| filter.matches(entity));
        let described = matching.map(|(entity, limits)| {
            let values = limits.iter().map(|(key, limit)| {
                ValueData::default().with_key(StrBytes::from_string(key.clone())).with_value(limit.get())
            });
            EntryData::default().with_entity(described(entity)).with_values(values.collect())
        });
        described.collect()
    });
    let response = DescribeClientQuotasResponse::default().with_error_code(code).with_error_message(message);
    encode(version, &response.with_entries(entries))
}

fn described(entity: &QuotaEntity) -> Vec<EntityData> {
    let parts = [(USER, &entity.user), (CLIENT_ID, &entity.client_id), (IP, &entity.ip)];
    let parts = parts.into_iter().filter_map(|(kind, name)| Some((kind, name.as_ref()?)));
    let described = parts.map(|(kind, name)| {
        let name = match name {
            QuotaName::Default => None,
            QuotaName::Named(name) => Some(StrBytes::from_string(name.clone())),
        };
        EntityData::default().with_entity_type(StrBytes::from_static_str(kind)).with_entity_name(name)
    });
    described.collect()
}

fn filter(components: &[ComponentData], strict: bool) -> Result<Filter, Error> {
    let mut filter = Filter { strict, ..Filter::default() };
    let mut seen = BTreeSet::new();
    for component in components {
        let kind = component.entity_type.as_str();
        if !seen.insert(kind) {
            return Err(Error::InvalidRequest(format!(
                "Entity type {kind} cannot appear more than once in the filter."
            )));
        }
        let wanted = match (component.match_type, &component._match) {
            (0, Some(name)) => {
                let address = canonical(name).filter(|_| kind == IP);
                Match::Exactly(QuotaName::Named(address.unwrap_or_else(|| name.to_string())))
            }
            (0, None) => {
                return Err(Error::InvalidRequest(
                    "Request specified MATCH_TYPE_EXACT, but set match string to null.".into(),
                ));
            }
            (1, None) => Match::Exactly(QuotaName::Default),
            (2, None) => Match::Any,
            (1 | 2, Some(_)) => {
                return Err(Error::InvalidRequest("Request also specified a match string.".into()));
            }
            (other, _) => return Err(Error::InvalidRequest(format!("Unknown match type {other}"))),
        };
        let part = match kind {
            USER => &mut filter.user,
            CLIENT_ID => &mut filter.client_id,
            IP => &mut filter.ip,
            "" => return Err(Error::InvalidRequest("Invalid empty entity type.".into())),
            other => return Err(Error::UnsupportedVersion(format!("Unsupported entity type {other}"))),
        };
        *part = Some(wanted);
    }
    if seen.contains(IP) && seen.len() > 1 {
        return Err(Error::InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId \
             filter component."
                .into(),
        ));
    }
    Ok(filter)
}

impl Filter {
    fn matches(&self, entity: &QuotaEntity) -> bool {
        let parts = [(&self.user, &entity.user), (&self.client_id, &entity.client_id), (&self.ip, &entity.ip)];
        parts.into_iter().all(|(wanted, name)| match (wanted, name) {
            (None, None) => true,
            (None, Some(_)) => !self.strict,
            (Some(_), None) => false,
            (Some(Match::Any), Some(_)) => true,
            (Some(Match::Exactly(wanted)), Some(name)) => wanted == name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ErrorCode;

    fn component(kind: &'static str, match_type: i8, name: Option<&'static str>) -> ComponentData {
        let component = ComponentData::default().with_entity_type(StrBytes::from_static_str(kind));
        component.with_match_type(match_type).with_match(name.map(StrBytes::from_static_str))
    }

    fn entity(user: &str, client_id: &str) -> QuotaEntity {
        let name = |name: &str| match name {
            "" => None,
            "*" => Some(QuotaName::Default),
            name => Some(QuotaName::Named(name.to_owned())),
        };
        QuotaEntity { user: name(user), client_id: name(client_id), ip: None }
    }

    #[test]
    fn strict_means_nothing_else() {
        let entities = [entity("u", ""), entity("u", "c"), entity("*", ""), entity("", "c"), entity("*", "*")];
        let found = |components: &[ComponentData], strict| {
            let filter = filter(components, strict).unwrap();
            entities.iter().map(|entity| usize::from(filter.matches(entity))).collect::<Vec<_>>()
        };
        assert_eq!(found(&[], false), [1, 1, 1, 1, 1]);
        assert_eq!(found(&[], true), [0, 0, 0, 0, 0]);
        assert_eq!(found(&[component(USER, 0, Some("u"))], false), [1, 1, 0, 0, 0]);
        assert_eq!(found(&[component(USER, 0, Some("u"))], true), [1, 0, 0, 0, 0]);
        assert_eq!(found(&[component(USER, 1, None)], false), [0, 0, 1, 0, 1]);
        assert_eq!(found(&[component(USER, 2, None)], true), [1, 0, 1, 0, 0]);
        assert_eq!(found(&[component(USER, 2, None), component(CLIENT_ID, 2, None)], true), [0, 1, 0, 0, 1]);
    }

    #[test]
    fn refuses_what_kafka_refuses() {
        let code = |components: &[ComponentData]| filter(components, false).unwrap_err().code();
        assert_eq!(code(&[component(USER, 2, None), component(USER, 2, None)]), ErrorCode::InvalidRequest);
        assert_eq!(code(&[component(USER, 2, None), component(IP, 2, None)]), ErrorCode::InvalidRequest);
        assert_eq!(code(&[component(USER, 0, None)]), ErrorCode::InvalidRequest);
        assert_eq!(code(&[component(USER, 3, None)]), ErrorCode::InvalidRequest);
        assert_eq!(code(&[component("", 2, None)]), ErrorCode::InvalidRequest);
        assert_eq!(code(&[component("group", 2, None)]), ErrorCode::UnsupportedVersion);
    }
}
