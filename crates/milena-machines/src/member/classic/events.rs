//! What the application gives back and gets, and in which order.

use std::collections::BTreeSet;

use super::{Classic, Common, MemberEvent, RebalanceProtocol, Subscription, Told, topics};
use crate::{TopicPartition, assign::MemberAssignment};

impl Classic {
    pub(super) fn next_of_assignment(&mut self, common: &mut Common) -> Option<MemberEvent> {
        if !self.generation.is_valid() && !common.owned.is_empty() {
            return Some(MemberEvent::Lost(common.owned_list()));
        }
        if let Some(received) = self.received.take() {
            if matches_subscription(common, &received) {
                return Some(self.take_over(common, received));
            }
            self.request_rejoin("received assignment does not match the current subscription");
        }
        // Nobody gives anything back for a join that is not to come now.
        if !common.wants_group() || self.join_call.is_some() || !self.must_join(common) {
            return None;
        }
        let given_back = self.to_give_back(common)?;
        self.is_preparing = true;
        // Whatever becomes of the reason, who has given back must join to get it again.
        if self.rejoin.is_none() {
            let reason = self.change(common).unwrap_or_default();
            self.request_rejoin(reason);
        }
        Some(MemberEvent::Revoked(given_back.into_iter().collect()))
    }

    /// What the application must let go of before we join, if it must hear of it at all: eager members hear of it even if
    /// it is nothing.
    pub(super) fn to_give_back(&self, common: &Common) -> Option<BTreeSet<TopicPartition>> {
        if self.is_prepared || !self.generation.is_valid() {
            return None;
        }
        match self.protocol {
            RebalanceProtocol::Eager => Some(common.owned.clone()),
            RebalanceProtocol::Cooperative => {
                let wanted = topics(common);
                let is_left = |place: &&TopicPartition| wanted.is_none_or(|wanted| !wanted.contains(&place.topic));
                let left: BTreeSet<TopicPartition> = common.owned.iter().filter(is_left).cloned().collect();
                (!left.is_empty()).then_some(left)
            }
        }
    }

    /// First what must go, and if anything must, the group rebalances once more so that others get it. Then what is new.
    fn take_over(&mut self, common: &mut Common, received: MemberAssignment) -> MemberEvent {
        let assigned: BTreeSet<TopicPartition> = received.partitions.iter().cloned().collect();
        let revoked: Vec<TopicPartition> = common.owned.difference(&assigned).cloned().collect();
        if !revoked.is_empty() {
            self.received = Some(received);
            self.request_rejoin("need to revoke partitions and re-join");
            return MemberEvent::Revoked(revoked);
        }
        if let Some(Subscription::Matching { topics, .. }) = &mut common.subscription {
            // The leader knows of topics that we have not seen yet.
            let found: BTreeSet<_> = assigned.iter().map(|place| place.topic.clone()).collect();
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

    pub(super) fn assignment_told(&mut self, told: &Told) {
        let is_preparing = std::mem::take(&mut self.is_preparing);
        if is_preparing && matches!(told, Told::Revoked(_)) {
            self.is_prepared = true;
        }
    }
}

/// It may have changed since the join.
fn matches_subscription(common: &Common, received: &MemberAssignment) -> bool {
    let is_wanted = |place: &TopicPartition| match &common.subscription {
        Some(Subscription::Topics(topics)) => topics.contains(&place.topic),
        Some(Subscription::Matching { filter, .. }) => filter.matches(&place.topic),
        Some(Subscription::BrokerPattern(_)) | None => false,
    };
    received.partitions.iter().all(is_wanted)
}
