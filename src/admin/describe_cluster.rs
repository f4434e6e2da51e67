use bytes::Bytes;
use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::{DescribeClusterRequest, DescribeClusterResponse};
use kafka_protocol::protocol::StrBytes;

use crate::admin::error::code_and_message;
use crate::admin::{Admin, Context, Error, operations};
use crate::batch::Segments;
use crate::cluster::{Broker, RootState};
use crate::protocol::{self, decode, encode};
use crate::types::BrokerId;

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

/// # Errors
/// The body does not follow the protocol.
pub async fn describe_cluster(
    admin: &Admin,
    context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: DescribeClusterRequest = decode(version, body)?;
    let answer = DescribeClusterResponse::default().with_endpoint_type(BROKERS);
    let checked = check(request.endpoint_type);
    if checked.is_err() {
        let (code, message) = code_and_message(&checked);
        return encode(version, &answer.with_error_code(code).with_error_message(message));
    }
    let view = admin.cluster.view();
    let told = answer
        .with_cluster_id(StrBytes::from_string(admin.cluster.cluster_id().to_string()))
        .with_controller_id(admin.controller(&view).into())
        .with_brokers(brokers(&view, context.listener.as_deref(), request.include_fenced_brokers));
    let told = match request.include_cluster_authorized_operations {
        true => told.with_cluster_authorized_operations(operations::ON_THE_CLUSTER),
        false => told,
    };
    encode(version, &told)
}

fn check(endpoint_type: i8) -> Result<(), Error> {
    match endpoint_type {
        BROKERS => Ok(()),
        CONTROLLERS => Err(Error::OtherEndpointType),
        other => Err(Error::UnknownEndpointType(other)),
    }
}

/// A broker that is not alive is what Kafka calls fenced.
fn brokers(view: &RootState, listener: Option<&str>, dead_too: bool) -> Vec<DescribeClusterBroker> {
    let told = view.brokers().filter(|broker| broker.alive || dead_too).map(|broker| {
        let (host, port) = broker.address_for(listener);
        DescribeClusterBroker::default()
            .with_broker_id(broker.id.into())
            .with_host(StrBytes::from_string(host.to_owned()))
            .with_port(port.into())
            .with_rack(rack(broker))
            .with_is_fenced(!broker.alive)
    });
    told.collect()
}

pub(super) fn rack(broker: &Broker) -> Option<StrBytes> {
    (!broker.zone.is_empty()).then(|| StrBytes::from_string(broker.zone.clone()))
}

impl Admin {
    /// The broker that clients are to take for the controller. Any does what they ask of one, so while nobody leads the
    /// root it is this broker: clients would wait for a name before they even asked.
    pub(super) fn controller(&self, view: &RootState) -> BrokerId {
        let alive = |id: &BrokerId| view.broker(*id).is_some_and(|broker| broker.alive);
        self.cluster.controller().filter(alive).unwrap_or(self.cluster.broker_id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::sample;
    use crate::protocol::ErrorCode;

    #[test]
    fn tells_of_dead_brokers_only_when_asked_to() {
        let mut view = sample::cluster(&["a", ""]);
        sample::set_dead(&mut view, 0);
        let alive = brokers(&view, None, false);
        assert_eq!((alive.len(), alive[0].broker_id.0, alive[0].rack.clone()), (1, 1, None));
        let all = brokers(&view, None, true);
        assert_eq!((all.len(), all[0].is_fenced, all[0].rack.as_deref()), (2, true, Some("a")));
    }

    #[test]
    fn there_are_no_controller_endpoints_here() {
        assert_eq!(check(2).unwrap_err().code(), ErrorCode::MismatchedEndpointType);
        assert_eq!(check(3).unwrap_err().code(), ErrorCode::UnsupportedEndpointType);
    }
}
