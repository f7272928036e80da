//! Events of the classic protocol: partitions that are revoked before a join, and new assignments.

use std::collections::BTreeSet;

use super::{Classic, Common, MemberEvent, PendingEvent, RebalanceProtocol, Subscription, topics};
use crate::{TopicPartition, assign::MemberAssignment};

impl Classic {
    pub(super) fn next_assignment_event(&mut self, common: &mut Common) -> Option<MemberEvent> {
        if !self.generation.is_valid() && !common.owned.is_empty() {
            return Some(MemberEvent::Lost(common.owned_list()));
        }
        if let Some(received) = self.received.take() {
            if matches_subscription(common, &received) {
                return Some(self.apply_assignment(common, received));
            }
            self.request_rejoin("received assignment does not match the current subscription");
        }
        // Without a join to come, nothing is revoked for it.
        if !common.wants_group() || self.join_call.is_some() || !self.must_join(common) {
            return None;
        }
        let revoked = self.to_revoke(common)?;
        self.is_revoking = true;
        // Whatever becomes of the reason: a member that has revoked must join to get its partitions again.
        if self.rejoin.is_none() {
            let reason = self.change(common).unwrap_or_default();
            self.request_rejoin(reason);
        }
        Some(MemberEvent::Revoked(revoked.into_iter().collect()))
    }

    /// The partitions that must be revoked before the join, or `None` without an event. Eager members get the event
    /// even if there is no partition.
    pub(super) fn to_revoke(&self, common: &Common) -> Option<BTreeSet<TopicPartition>> {
        if self.has_revoked || !self.generation.is_valid() {
            return None;
        }
        match self.protocol {
            RebalanceProtocol::Eager => Some(common.owned.clone()),
            RebalanceProtocol::Cooperative => {
                let wanted = topics(common);
                let is_left = |topic_partition: &&TopicPartition| {
                    wanted.is_none_or(|wanted| !wanted.contains(&topic_partition.topic))
                };
                let left: BTreeSet<TopicPartition> = common.owned.iter().filter(is_left).cloned().collect();
                (!left.is_empty()).then_some(left)
            }
        }
    }

    /// Revokes first; if any partition was revoked, the member rejoins so that others get it. Then assigns the rest.
    fn apply_assignment(&mut self, common: &mut Common, received: MemberAssignment) -> MemberEvent {
        let assigned: BTreeSet<TopicPartition> = received.partitions.iter().cloned().collect();
        let revoked: Vec<TopicPartition> = common.owned.difference(&assigned).cloned().collect();
        if !revoked.is_empty() {
            self.received = Some(received);
            self.request_rejoin("need to revoke partitions and re-join");
            return MemberEvent::Revoked(revoked);
        }
        if let Some(Subscription::Matching { topics, .. }) = &mut common.subscription {
            // The leader knows of topics that this member has not seen yet.
            let found: BTreeSet<_> = assigned
                .iter()
                .map(|topic_partition| topic_partition.topic.clone())
                .collect();
            topics.extend(found.iter().cloned());
            self.joined_topics.extend(found);
        }
        let generation = self.generation.id;
        if let Some(assignor) = self
            .assignors
            .iter_mut()
            .find(|assignor| self.assignor == assignor.name())
        {
            assignor.on_assignment(&received, generation);
        }
        let added = assigned.difference(&common.owned).cloned().collect();
        common.owned = assigned;
        MemberEvent::Assigned {
            added,
            all: common.owned_list(),
        }
    }

    pub(super) fn assignment_done(&mut self, event: &PendingEvent) {
        let is_revoking = std::mem::take(&mut self.is_revoking);
        if is_revoking && matches!(event, PendingEvent::Revoked(_)) {
            self.has_revoked = true;
        }
    }
}

/// The subscription may have changed since the join.
fn matches_subscription(common: &Common, received: &MemberAssignment) -> bool {
    let is_wanted = |topic_partition: &TopicPartition| match &common.subscription {
        Some(Subscription::Topics(topics)) => topics.contains(&topic_partition.topic),
        Some(Subscription::Matching { filter, .. }) => filter.matches(&topic_partition.topic),
        Some(Subscription::BrokerPattern(_)) | None => false,
    };
    received.partitions.iter().all(is_wanted)
}
