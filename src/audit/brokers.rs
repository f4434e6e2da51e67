use std::time::Duration;

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::metadata_response::MetadataResponseBroker;
use kafka_protocol::messages::{
    ApiKey, DescribeConfigsRequest, DescribeConfigsResponse, MetadataRequest, MetadataResponse, RequestHeader,
    ResponseHeader,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use milepost_raft::call_address;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::cluster::{RootMachine, RootState};
use crate::config::HostPort;
use crate::door::net::TcpStream;
use crate::peer::{self, Answer};
use crate::shard::State;
use crate::types::varint::{self, Reader};
use crate::types::{BrokerId, ROOT_SHARD, ShardId};

const CALL_TIMEOUT: Duration = Duration::from_secs(30);
const METADATA_VERSION: i16 = 9;
const DESCRIBE_CONFIGS_VERSION: i16 = 4;
const RESPONSE_BYTES_MAX: usize = 16 << 20;
/// Kafka's resource type of a broker in DescribeConfigs.
const BROKER: i8 = 4;

/// A broker as the audit reaches it.
pub(crate) struct Member {
    pub broker: BrokerId,
    pub internal: String,
    pub store: Option<String>,
}

/// The cluster's id and its live brokers, from whichever bootstrap address answers.
pub(super) async fn members(bootstrap: &[HostPort]) -> anyhow::Result<(String, Vec<Member>)> {
    for address in bootstrap {
        match members_from(address).await {
            Ok(found) => return Ok(found),
            Err(e) => eprintln!("{address}: {e:#}"),
        }
    }
    bail!("no bootstrap address answered")
}

/// The cluster's id and one of its brokers, which answers.
pub(crate) async fn any_member(bootstrap: &[HostPort]) -> anyhow::Result<(String, Member)> {
    for address in bootstrap {
        match named_by(address).await {
            Ok((cluster_id, brokers)) => {
                for (id, address) in brokers {
                    match member(&address, id).await {
                        Ok(found) => return Ok((cluster_id, found)),
                        Err(e) => eprintln!("broker {id}: {e:#}"),
                    }
                }
            }
            Err(e) => eprintln!("{address}: {e:#}"),
        }
    }
    bail!("no bootstrap address led to a broker that answers")
}

async fn members_from(address: &HostPort) -> anyhow::Result<(String, Vec<Member>)> {
    let (cluster_id, brokers) = named_by(address).await?;
    let mut members = Vec::new();
    for (id, address) in brokers {
        members.push(member(&address, id).await.with_context(|| format!("broker {id}"))?);
    }
    if members.is_empty() {
        bail!("the cluster has no live broker");
    }
    Ok((cluster_id, members))
}

/// The cluster's id and its live brokers, as one of them names them.
async fn named_by(address: &HostPort) -> anyhow::Result<(String, Vec<(BrokerId, HostPort)>)> {
    let metadata: MetadataResponse =
        ask(address, ApiKey::Metadata, METADATA_VERSION, &MetadataRequest::default().with_topics(Some(vec![]))).await?;
    let cluster_id = metadata.cluster_id.context("the broker names no cluster")?.to_string();
    let address = |broker: &MetadataResponseBroker| {
        (broker.node_id.0, HostPort { host: broker.host.to_string(), port: broker.port as u16 })
    };
    Ok((cluster_id, metadata.brokers.iter().map(address).collect()))
}

/// Where a broker's internal listener is stands among its configs.
async fn member(address: &HostPort, broker: BrokerId) -> anyhow::Result<Member> {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(BROKER)
        .with_resource_name(StrBytes::from_string(broker.to_string()))
        .with_configuration_keys(None);
    let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
    let response: DescribeConfigsResponse =
        ask(address, ApiKey::DescribeConfigs, DESCRIBE_CONFIGS_VERSION, &request).await?;
    let configs = &response.results.first().context("the broker describes nothing")?.configs;
    let value = |name: &str| {
        let found = configs.iter().find(|c| c.name.as_str() == name)?;
        found.value.as_ref().map(|v| v.to_string())
    };
    let internal = value("milepost.internal.listener").context("this is no Milepost broker")?;
    Ok(Member { broker, internal, store: value("milepost.store") })
}

/// One request over a connection of its own.
async fn ask<Q, A>(address: &HostPort, api: ApiKey, version: i16, request: &Q) -> anyhow::Result<A>
where
    Q: Encodable + HeaderVersion,
    A: Decodable + HeaderVersion,
{
    let header = RequestHeader::default()
        .with_request_api_key(api as i16)
        .with_request_api_version(version)
        .with_correlation_id(1)
        .with_client_id(Some(StrBytes::from_static_str("milepost-audit")));
    let mut body = BytesMut::new();
    header.encode(&mut body, Q::header_version(version))?;
    request.encode(&mut body, version)?;
    let exchange = async {
        let mut socket = TcpStream::connect((address.host.as_str(), address.port)).await?;
        socket.write_u32(body.len() as u32).await?;
        socket.write_all(&body).await?;
        let len = socket.read_u32().await? as usize;
        if len > RESPONSE_BYTES_MAX {
            bail!("the answer claims {len} bytes");
        }
        let mut answer = vec![0; len];
        socket.read_exact(&mut answer).await?;
        let mut answer = Bytes::from(answer);
        ResponseHeader::decode(&mut answer, A::header_version(version))?;
        anyhow::Ok(A::decode(&mut answer, version)?)
    };
    tokio::time::timeout(CALL_TIMEOUT, exchange).await.context("no answer")?
}

pub(crate) async fn root_of(cluster_id: &str, members: &[Member]) -> anyhow::Result<RootState> {
    for member in members {
        if let Some((_, snapshot)) = replica(cluster_id, member, ROOT_SHARD).await? {
            return Ok(RootMachine::decode(&snapshot)?);
        }
    }
    bail!("no broker shows the root state")
}

/// The applied index and state of a broker's replica; `None` when it has none.
pub(super) async fn state_of(
    cluster_id: &str,
    member: &Member,
    shard: ShardId,
) -> anyhow::Result<Option<(u64, State)>> {
    let Some((applied, snapshot)) = replica(cluster_id, member, shard).await? else { return Ok(None) };
    Ok(Some((applied, State::from_snapshot(&snapshot)?)))
}

async fn replica(cluster_id: &str, member: &Member, shard: ShardId) -> anyhow::Result<Option<(u64, Bytes)>> {
    let mut body = BytesMut::new();
    varint::put(&mut body, shard.into());
    let answer = call_address(&member.internal, cluster_id, peer::STATE, body.freeze(), CALL_TIMEOUT).await?;
    match Answer::decode(answer)? {
        Answer::Done(mut body) => {
            let mut r = Reader::new(&body);
            let applied = r.u64()?;
            let rest = r.remaining();
            Ok(Some((applied, body.split_off(body.len() - rest))))
        }
        Answer::NotLeader { .. } | Answer::Unknown => Ok(None),
        Answer::Refused(why) => bail!("broker {}: {why}", member.broker),
    }
}
