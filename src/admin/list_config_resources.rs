use bytes::Bytes;
use kafka_protocol::messages::list_config_resources_response::ConfigResource;
use kafka_protocol::messages::{ListConfigResourcesRequest, ListConfigResourcesResponse};
use kafka_protocol::protocol::StrBytes;

use crate::admin::resource::{BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC};
use crate::admin::{Admin, Context};
use crate::batch::Segments;
use crate::cluster::{Resource, RootState};
use crate::protocol::{self, ErrorCode, decode, encode};

/// What has settings here.
const KINDS: [i8; 4] = [TOPIC, BROKER, CLIENT_METRICS, GROUP];

/// Lists what has settings (KIP-714, KIP-1142). Version 0 is of subscriptions alone, and has no field for the kind.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn list_config_resources(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: ListConfigResourcesRequest = decode(version, body)?;
    let kinds = match (version, request.resource_types) {
        (0, _) => vec![CLIENT_METRICS],
        (_, kinds) if kinds.is_empty() => KINDS.to_vec(),
        (_, kinds) => kinds,
    };
    if kinds.iter().any(|kind| !KINDS.contains(kind) && *kind != BROKER_LOGGER) {
        let refused = ListConfigResourcesResponse::default().with_error_code(ErrorCode::UnsupportedVersion.code());
        return encode(version, &refused);
    }
    let view = admin.cluster.view();
    let listed = KINDS.into_iter().filter(|kind| kinds.contains(kind)).flat_map(|kind| {
        names(&view, kind).into_iter().map(move |name| {
            let resource = ConfigResource::default().with_resource_name(StrBytes::from_string(name));
            if version == 0 { resource } else { resource.with_resource_type(kind) }
        })
    });
    encode(version, &ListConfigResourcesResponse::default().with_config_resources(listed.collect()))
}

fn names(view: &RootState, kind: i8) -> Vec<String> {
    let configured = |name: fn(&Resource) -> Option<&String>| {
        view.configured().filter_map(|(resource, _)| name(resource).cloned()).collect()
    };
    match kind {
        TOPIC => view.live_topics().map(|topic| topic.name.clone()).collect(),
        BROKER => view.brokers().map(|broker| broker.id.to_string()).collect(),
        GROUP => configured(|resource| match resource {
            Resource::Group(name) => Some(name),
            _ => None,
        }),
        _ => configured(|resource| match resource {
            Resource::ClientMetrics(name) => Some(name),
            _ => None,
        }),
    }
}
