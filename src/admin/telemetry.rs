//! Metrics of clients (KIP-714): what is asked of them follows the subscriptions; what they push is counted and dropped,
//! since there is nobody to pass it on to. A broker remembers no client: any broker takes a push, whichever was asked
//! what to push.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use kafka_protocol::messages::{
    GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse, PushTelemetryRequest, PushTelemetryResponse,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use crate::admin::configs::client_metrics::{INTERVAL, INTERVAL_MS, METRICS, patterns};
use crate::admin::configs::list;
use crate::admin::configs::pattern::Pattern;
use crate::admin::{Admin, Context};
use crate::batch::Segments;
use crate::cluster::{Configs, Resource, RootState};
use crate::protocol::{self, ErrorCode, decode, encode};

/// Kafka's `telemetry.max.bytes`.
const PUSH_BYTES_MAX: usize = 1024 * 1024;
/// Kafka's numbers of zstd, lz4, gzip, snappy and none, the best first.
const COMPRESSIONS: [i8; 5] = [4, 3, 1, 2, 0];
/// All metrics.
const ALL: &str = "*";

/// What was pushed to this broker.
#[derive(Debug, Default)]
pub struct Pushed {
    pub pushes: AtomicU64,
    pub bytes: AtomicU64,
}

/// What one client is to push.
#[derive(Debug, PartialEq, Eq)]
struct Subscription {
    id: i32,
    interval_ms: i32,
    metrics: Vec<String>,
}

/// # Errors
/// The body does not follow the protocol.
pub async fn get_telemetry_subscriptions(
    admin: &Admin,
    context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: GetTelemetrySubscriptionsRequest = decode(version, body)?;
    let client = if request.client_instance_id.is_nil() { Uuid::new_v4() } else { request.client_instance_id };
    let subscription = subscription(&admin.cluster.view(), context, client);
    let metrics = subscription.metrics.into_iter().map(StrBytes::from_string);
    let response = GetTelemetrySubscriptionsResponse::default()
        .with_client_instance_id(client)
        .with_subscription_id(subscription.id)
        .with_accepted_compression_types(COMPRESSIONS.to_vec())
        .with_push_interval_ms(subscription.interval_ms)
        .with_telemetry_max_bytes(PUSH_BYTES_MAX as i32)
        .with_delta_temporality(true)
        .with_requested_metrics(metrics.collect());
    encode(version, &response)
}

/// # Errors
/// The body does not follow the protocol.
pub async fn push_telemetry(
    admin: &Admin,
    context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: PushTelemetryRequest = decode(version, body)?;
    let expected = subscription(&admin.cluster.view(), context, request.client_instance_id).id;
    let error = refusal(&request, expected);
    if error == ErrorCode::None {
        admin.pushed.pushes.fetch_add(1, Relaxed);
        admin.pushed.bytes.fetch_add(request.metrics.len() as u64, Relaxed);
    }
    encode(version, &PushTelemetryResponse::default().with_error_code(error.code()))
}

fn refusal(request: &PushTelemetryRequest, expected: i32) -> ErrorCode {
    match request {
        _ if request.client_instance_id.is_nil() => ErrorCode::InvalidRequest,
        // It asks again what is wanted.
        _ if request.subscription_id != expected => ErrorCode::UnknownSubscriptionId,
        _ if !COMPRESSIONS.contains(&request.compression_type) => ErrorCode::UnsupportedCompressionType,
        _ if request.metrics.len() > PUSH_BYTES_MAX => ErrorCode::TelemetryTooLarge,
        _ => ErrorCode::None,
    }
}

/// All subscriptions that the client matches, together: the shortest interval, every metric. A prefix of no characters
/// is every metric too.
fn subscription(view: &RootState, context: &Context, client: Uuid) -> Subscription {
    let mut interval_ms = INTERVAL_MS;
    let mut metrics = BTreeSet::new();
    for (resource, configs) in view.configured() {
        if matches!(resource, Resource::ClientMetrics(_)) && is_for(configs, context, client) {
            let own = configs.get(INTERVAL).and_then(|value| value.trim().parse().ok()).unwrap_or(INTERVAL_MS);
            interval_ms = interval_ms.min(own);
            metrics.extend(list(configs.get(METRICS).map_or("", String::as_str)).map(str::to_owned));
        }
    }
    if metrics.contains(ALL) {
        metrics = BTreeSet::from([ALL.to_owned()]);
    }
    let metrics: Vec<String> = metrics.into_iter().collect();
    let text = format!("{}{interval_ms}{client}", metrics.join(","));
    let id = crate::object::crc32c(text.as_bytes()) as i32;
    Subscription { id, interval_ms, metrics }
}

fn is_for(configs: &Configs, context: &Context, client: Uuid) -> bool {
    let (name, version) = context.software.as_deref().map_or(("", ""), |(name, version)| (name, version));
    patterns(configs).all(|pattern| {
        let Ok((about, pattern)) = pattern else { return false };
        let shown = match about {
            "client_id" => context.client_id.as_deref().unwrap_or("").to_owned(),
            "client_instance_id" => client.to_string(),
            "client_software_name" => name.to_owned(),
            "client_software_version" => version.to_owned(),
            "client_source_address" => context.address.ip().to_string(),
            "client_source_port" => context.address.port().to_string(),
            _ => return false,
        };
        Pattern::parse(pattern).is_some_and(|pattern| pattern.matches(&shown))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::RootEntry;

    fn context(software: &str) -> Context {
        Context {
            client_id: Some(StrBytes::from_static_str("orders")),
            address: "10.0.0.7:4711".parse().unwrap(),
            listener: None,
            software: Some(Arc::new((software.to_owned(), "3.9.1".to_owned()))),
        }
    }

    fn subscribe(view: &mut RootState, name: &str, configs: &[(&str, &str)]) {
        let after = configs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let resource = Resource::ClientMetrics(name.to_owned());
        view.apply(RootEntry::AlterConfigs { resource, before: Configs::new(), after });
    }

    #[test]
    fn a_client_is_asked_for_what_its_subscriptions_say_together() {
        let mut view = RootState::default();
        let client = Uuid::from_u128(7);
        let java = context("apache-kafka-java");
        let none = subscription(&view, &java, client);
        assert_eq!((none.interval_ms, none.metrics.len()), (300_000, 0));
        subscribe(&mut view, "a", &[(METRICS, "b.,a."), (INTERVAL, "5000")]);
        subscribe(&mut view, "b", &[(METRICS, "c."), ("match", "client_software_name=apache-.*,client_id=orders")]);
        let asked = subscription(&view, &java, client);
        assert_eq!((asked.interval_ms, asked.metrics.join(" ")), (5000, "a. b. c.".to_owned()));
        assert_eq!(subscription(&view, &context("librdkafka"), client).metrics.len(), 2);
        // Whoever changes what is asked for changes the id, and each client has another.
        assert_ne!(asked.id, none.id);
        assert_ne!(asked.id, subscription(&view, &java, Uuid::from_u128(8)).id);
        subscribe(&mut view, "c", &[(METRICS, ALL)]);
        assert_eq!(subscription(&view, &java, client).metrics, [ALL]);
    }

    #[test]
    fn a_push_that_is_not_as_asked_is_refused() {
        let request =
            PushTelemetryRequest::default().with_client_instance_id(Uuid::from_u128(7)).with_subscription_id(5);
        assert_eq!(refusal(&request, 5), ErrorCode::None);
        assert_eq!(refusal(&request, 6), ErrorCode::UnknownSubscriptionId);
        assert_eq!(refusal(&request.clone().with_compression_type(5), 5), ErrorCode::UnsupportedCompressionType);
        let large = request.clone().with_metrics(Bytes::from(vec![0; PUSH_BYTES_MAX + 1]));
        assert_eq!(refusal(&large, 5), ErrorCode::TelemetryTooLarge);
        assert_eq!(refusal(&request.with_client_instance_id(Uuid::nil()), 5), ErrorCode::InvalidRequest);
    }
}
