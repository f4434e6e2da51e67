use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use tokio::task::unconstrained;

use crate::admin::{self, Admin, Context};
use crate::batch::Segments;
use crate::connection::{Outcome, Peer, Pending, Request, Router};
use crate::fetch::Fetch;
use crate::group::{self, Groups};
use crate::produce::{Answer, Produce};
use crate::protocol::{self, ApiKey, Features};
use crate::share::{self, Share};
use crate::transaction::{self, Transactions};

/// How the names of listeners begin whose clients are in a zone; the zone follows.
pub(super) const ZONE_LISTENER: &str = "zone=";

/// Which room answers which API.
pub(super) struct Rooms {
    pub produce: Arc<Produce>,
    pub fetch: Arc<Fetch>,
    pub admin: Arc<Admin>,
    pub groups: Arc<Groups>,
    pub transactions: Arc<Transactions>,
    pub share: Arc<Share>,
}

#[async_trait]
impl Router for Rooms {
    async fn start(&self, peer: &Arc<Peer>, request: Request) -> Pending {
        let Request { api, version, client_id, body, memory, answer, .. } = request;
        let (admin, fetch, groups) = (self.admin.clone(), self.fetch.clone(), self.groups.clone());
        let (transactions, share) = (self.transactions.clone(), self.share.clone());
        let listener = peer.listener.strip_prefix(ZONE_LISTENER).map(Arc::from);
        let software = peer.software.get().cloned();
        let context = Context { client_id, address: peer.address, listener, software };
        match api {
            ApiKey::Produce => match self.produce.start(version, body, memory).await {
                Ok(verdicts) => async move { produced(verdicts.await) }.boxed(),
                Err(e) => async move { close(&e) }.boxed(),
            },
            ApiKey::Fetch => reply(async move { fetch.fetch(version, body, &answer).await }),
            ApiKey::ListOffsets => reply(async move { fetch.list_offsets(version, body).await }),
            ApiKey::OffsetForLeaderEpoch => reply(async move { fetch.offset_for_leader_epoch(version, body).await }),
            ApiKey::DescribeProducers => reply(async move { fetch.describe_producers(version, body).await }),
            ApiKey::WriteTxnMarkers => {
                let produce = self.produce.clone();
                reply(async move { produce.write_txn_markers(version, body).await })
            }
            ApiKey::Metadata => reply(async move { admin::metadata(&admin, &context, version, body).await }),
            ApiKey::CreateTopics => {
                reply_then_wait(async move { admin::create_topics(&admin, &context, version, body).await })
            }
            ApiKey::DeleteTopics => {
                reply_then_wait(async move { admin::delete_topics(&admin, &context, version, body).await })
            }
            ApiKey::DeleteRecords => reply(async move { admin::delete_records(&admin, &context, version, body).await }),
            ApiKey::CreatePartitions => {
                reply_then_wait(async move { admin::create_partitions(&admin, &context, version, body).await })
            }
            ApiKey::DescribeConfigs => {
                reply(async move { admin::describe_configs(&admin, &context, version, body).await })
            }
            ApiKey::DescribeCluster => {
                reply(async move { admin::describe_cluster(&admin, &context, version, body).await })
            }
            ApiKey::DescribeTopicPartitions => {
                reply(async move { admin::describe_topic_partitions(&admin, &context, version, body).await })
            }
            ApiKey::InitProducerId => {
                reply(async move { transaction::init_producer_id(&transactions, version, body).await })
            }
            ApiKey::AddPartitionsToTxn => {
                reply(async move { transaction::add_partitions_to_txn(&transactions, version, body).await })
            }
            ApiKey::AddOffsetsToTxn => {
                reply(async move { transaction::add_offsets_to_txn(&transactions, version, body).await })
            }
            ApiKey::EndTxn => reply(async move { transaction::end_txn(&transactions, version, body).await }),
            ApiKey::DescribeTransactions => {
                reply(async move { transaction::describe_transactions(&transactions, version, body).await })
            }
            ApiKey::ListTransactions => {
                reply(async move { transaction::list_transactions(&transactions, version, body).await })
            }
            ApiKey::AlterReplicaLogDirs => {
                reply(async move { admin::alter_replica_log_dirs(&admin, &context, version, body).await })
            }
            ApiKey::DescribeLogDirs => {
                reply(async move { admin::describe_log_dirs(&admin, &context, version, body).await })
            }
            ApiKey::ElectLeaders => reply(async move { admin::elect_leaders(&admin, &context, version, body).await }),
            ApiKey::AlterPartitionReassignments => {
                reply(async move { admin::alter_partition_reassignments(&admin, &context, version, body).await })
            }
            ApiKey::ListPartitionReassignments => {
                reply(async move { admin::list_partition_reassignments(&admin, &context, version, body).await })
            }
            ApiKey::DescribeQuorum => {
                reply(async move { admin::describe_quorum(&admin, &context, version, body).await })
            }
            ApiKey::UnregisterBroker => {
                reply(async move { admin::unregister_broker(&admin, &context, version, body).await })
            }
            ApiKey::AddRaftVoter => reply(async move { admin::add_raft_voter(&admin, &context, version, body).await }),
            ApiKey::RemoveRaftVoter => {
                reply(async move { admin::remove_raft_voter(&admin, &context, version, body).await })
            }
            ApiKey::FindCoordinator => {
                let listener = context.listener;
                reply(async move { group::find_coordinator(&groups, listener.as_deref(), version, body).await })
            }
            ApiKey::JoinGroup => reply(async move { group::join_group(&groups, &context, version, body).await }),
            ApiKey::SyncGroup => reply(async move { group::sync_group(&groups, version, body).await }),
            ApiKey::Heartbeat => reply(async move { group::heartbeat(&groups, version, body).await }),
            ApiKey::LeaveGroup => reply(async move { group::leave_group(&groups, version, body).await }),
            ApiKey::ConsumerGroupHeartbeat => {
                reply(async move { group::consumer_group_heartbeat(&groups, &context, version, body).await })
            }
            ApiKey::ConsumerGroupDescribe => {
                reply(async move { group::consumer_group_describe(&groups, version, body).await })
            }
            ApiKey::ShareGroupHeartbeat => {
                reply(async move { group::share_group_heartbeat(&groups, &context, version, body).await })
            }
            ApiKey::ShareGroupDescribe => {
                reply(async move { group::share_group_describe(&groups, version, body).await })
            }
            ApiKey::OffsetCommit => reply(async move { group::offset_commit(&groups, version, body).await }),
            ApiKey::TxnOffsetCommit => reply(async move { group::txn_offset_commit(&groups, version, body).await }),
            ApiKey::OffsetFetch => reply(async move { group::offset_fetch(&groups, version, body).await }),
            ApiKey::DescribeGroups => reply(async move { group::describe_groups(&groups, version, body).await }),
            ApiKey::ListGroups => reply(async move { group::list_groups(&groups, version, body).await }),
            ApiKey::DeleteGroups => reply(async move { group::delete_groups(&groups, version, body).await }),
            ApiKey::ShareFetch => {
                let peer = peer.clone();
                reply(async move { share::share_fetch(&share, &peer, version, body, &answer).await })
            }
            ApiKey::DescribeShareGroupOffsets => {
                reply(async move { share::describe_share_group_offsets(&share, &groups, version, body).await })
            }
            ApiKey::AlterShareGroupOffsets => {
                reply(async move { share::alter_share_group_offsets(&share, &groups, version, body).await })
            }
            ApiKey::DeleteShareGroupOffsets => {
                reply(async move { share::delete_share_group_offsets(&share, &groups, version, body).await })
            }
            ApiKey::ShareAcknowledge => reply(async move { share::share_acknowledge(&share, version, body).await }),
            ApiKey::OffsetDelete => reply(async move { group::offset_delete(&groups, version, body).await }),
            ApiKey::AlterConfigs => reply(async move { admin::alter_configs(&admin, &context, version, body).await }),
            ApiKey::IncrementalAlterConfigs => {
                reply(async move { admin::incremental_alter_configs(&admin, &context, version, body).await })
            }
            ApiKey::DescribeClientQuotas => {
                reply(async move { admin::describe_client_quotas(&admin, &context, version, body).await })
            }
            ApiKey::AlterClientQuotas => {
                reply(async move { admin::alter_client_quotas(&admin, &context, version, body).await })
            }
            ApiKey::DescribeAcls => reply(async move { admin::describe_acls(&admin, &context, version, body).await }),
            ApiKey::CreateAcls => reply(async move { admin::create_acls(&admin, &context, version, body).await }),
            ApiKey::DeleteAcls => reply(async move { admin::delete_acls(&admin, &context, version, body).await }),
            ApiKey::DescribeUserScramCredentials => {
                reply(async move { admin::describe_user_scram_credentials(&admin, &context, version, body).await })
            }
            ApiKey::GetTelemetrySubscriptions => {
                reply(async move { admin::get_telemetry_subscriptions(&admin, &context, version, body).await })
            }
            ApiKey::PushTelemetry => reply(async move { admin::push_telemetry(&admin, &context, version, body).await }),
            ApiKey::ListConfigResources => {
                reply(async move { admin::list_config_resources(&admin, &context, version, body).await })
            }
            ApiKey::UpdateFeatures => {
                reply(async move { admin::update_features(&admin, &context, version, body).await })
            }
            other => async move { Outcome::Close(format!("{other:?} is advertised but not routed").into()) }.boxed(),
        }
    }

    fn ended(&self, peer: &Peer) {
        self.share.connection_ended(peer.id);
    }

    fn features(&self) -> Features {
        self.admin.features()
    }
}

/// Goes as far as it gets at once. What a coordinator is asked is asked here, so in the order of the requests: of two
/// commits sent one behind the other the second is to win. (Begun with the other requests in progress, one that has
/// used up its task's turn would come after those behind it.)
fn reply(answer: impl Future<Output = Result<Segments, protocol::Error>> + Send + 'static) -> Pending {
    let mut pending = async move { answer.await.map_or_else(|e| close(&e), Outcome::Reply) }.boxed();
    match unconstrained(&mut pending).now_or_never() {
        Some(outcome) => std::future::ready(outcome).boxed(),
        None => pending,
    }
}

/// The client is not read from for a while, where it is told so.
fn reply_then_wait(
    answer: impl Future<Output = Result<(Segments, Duration), protocol::Error>> + Send + 'static,
) -> Pending {
    let outcome = |answer: Result<_, _>| match answer {
        Ok((body, wait)) if Duration::is_zero(&wait) => Outcome::Reply(body),
        Ok((body, wait)) => Outcome::Throttled(Some(body), wait),
        Err(e) => close(&e),
    };
    answer.map(outcome).boxed()
}

fn produced(answer: Result<Answer, protocol::Error>) -> Outcome {
    match answer {
        Ok(Answer::Reply(segments)) => Outcome::Reply(segments),
        Ok(Answer::Nothing) => Outcome::NoReply,
        Ok(Answer::Close(error)) => Outcome::Close(format!("acks=0 and {error:?}").into()),
        Err(e) => close(&e),
    }
}

fn close(e: &protocol::Error) -> Outcome {
    Outcome::Close(e.to_string().into())
}
