//! Groups that leave for the consumer protocol, or come from it.

use tokio::time::Instant;

use crate::group::classic::coordinator::Coordinator;
use crate::group::classic::live::{GroupState, Live, Member};
use crate::group::classic::subscription::CONSUMER;
use crate::group::migrants::{Migrant, Migrants};
use crate::protocol::ErrorCode;
use crate::shard::Slot;

impl Coordinator {
    /// The members of a group of consumers; they stay until [`Coordinator::part`].
    pub fn migrants(&self, id: &str) -> Option<Migrants> {
        let group = self.live(id).filter(|group| group.protocol_type.as_deref() == Some(CONSUMER))?;
        let members = group.members.iter().map(|(id, member)| Migrant {
            id: id.clone(),
            instance: member.instance.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            rebalance_timeout: member.rebalance_timeout,
            session_timeout: member.session_timeout,
            protocols: member.protocols.clone(),
            assignment: member.assignment.clone(),
        });
        let (generation, protocol_name) = (group.generation, group.protocol_name.clone());
        Some(Migrants { generation, protocol_name, members: members.collect() })
    }

    /// The group is another's from now on. Who waits is told to join again.
    pub fn part(&mut self, now: Instant, id: &str) {
        self.turn(now, id, |turn, group| {
            let ids: Vec<String> = group.members.keys().cloned().collect();
            for id in ids {
                let joining = group.members.get_mut(&id).and_then(|member| member.joining.take());
                joining.into_iter().for_each(|waiter| turn.refuse(waiter, ErrorCode::RebalanceInProgress, &id));
            }
            turn.fail_syncs(group, ErrorCode::RebalanceInProgress);
        });
        self.forget(id);
    }

    /// Members of a group that was another's: they are asked to join again (Kafka: `ClassicGroup.fromConsumerGroup`).
    pub fn receive(&mut self, now: Instant, slot: Slot, id: &str, migrants: Migrants) {
        let mut group = Live::new(slot);
        group.state = GroupState::Stable;
        group.generation = migrants.generation;
        group.protocol_type = Some(CONSUMER.to_owned());
        for migrant in migrants.members {
            let member = Member {
                instance: migrant.instance,
                client_id: migrant.client_id,
                client_host: migrant.client_host,
                rebalance_timeout: migrant.rebalance_timeout,
                session_timeout: migrant.session_timeout,
                protocols: migrant.protocols,
                assignment: migrant.assignment,
                joining: None,
                syncing: None,
                is_new: false,
                deadline: Some(now + migrant.session_timeout),
            };
            group.add(migrant.id, member);
        }
        group.protocol_name = group.select_protocol();
        group.subscribed = group.subscribed_topics();
        self.insert(id, group);
        self.turn(now, id, |turn, group| turn.prepare_rebalance(group));
    }
}
