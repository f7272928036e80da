//! The sticky assignors: the most even balance, with the fewest moves that allow it.

mod balance;
mod claims;
mod deal;
mod kinds;
mod network;
mod paths;
mod user_data;

use std::borrow::Cow;

use bytes::Bytes;
use bytestring::ByteString;

use self::{
    claims::{ClaimedPartitions, Claims},
    network::Network,
};
use super::{
    Assignor, ClusterLayout, GroupAssignment, MemberAssignment, MemberSubscription, RebalanceProtocol,
    group::{Group, PartitionIndex},
};
use crate::TopicPartition;

/// Kafka's `sticky`: every member gets as many partitions as subscriptions allow, and keeps as many of its own as
/// possible.
///
/// It serves the eager protocol, in which members own nothing while they join. Therefore each reports its last
/// assignment with its subscription.
#[derive(Debug, Clone, Default)]
pub struct StickyAssignor {
    /// The last assignment of this member, and its generation.
    last: Option<(Vec<TopicPartition>, i32)>,
}

impl Assignor for StickyAssignor {
    fn name(&self) -> &'static str {
        "sticky"
    }

    fn user_data(&self, _: &[ByteString]) -> Option<Bytes> {
        let (partitions, generation) = self.last.as_ref()?;
        user_data::encode_assignment(partitions, *generation)
    }

    fn assign(&mut self, cluster: &ClusterLayout, members: &[MemberSubscription]) -> GroupAssignment {
        let group = Group::new(cluster, members);
        let claimed = group.members.iter().map(|member| {
            let (partitions, generation) = member.user_data.as_ref().map(user_data::decode_assignment).unzip();
            ClaimedPartitions {
                partitions: Cow::Owned(partitions.unwrap_or_default()),
                generation: generation.unwrap_or(-1),
            }
        });
        let claims = Claims::new(&group, &claimed.collect::<Vec<_>>());
        group.assignment(assign(&group, &claims))
    }

    fn on_assignment(&mut self, assignment: &MemberAssignment, generation: i32) {
        self.last = Some((assignment.partitions.clone(), generation));
    }
}

/// Kafka's `cooperative-sticky`: as [`StickyAssignor`], but members keep their partitions while they join.
///
/// A partition that moves is not assigned at first. Its owner rejoins when it has revoked it, and then it is assigned.
#[derive(Debug, Clone)]
pub struct CooperativeStickyAssignor {
    generation: i32,
}

impl Default for CooperativeStickyAssignor {
    fn default() -> Self {
        Self { generation: -1 }
    }
}

impl Assignor for CooperativeStickyAssignor {
    fn name(&self) -> &'static str {
        "cooperative-sticky"
    }

    fn protocols(&self) -> &[RebalanceProtocol] {
        &[RebalanceProtocol::Cooperative, RebalanceProtocol::Eager]
    }

    fn user_data(&self, _: &[ByteString]) -> Option<Bytes> {
        Some(user_data::encode_generation(self.generation))
    }

    fn assign(&mut self, cluster: &ClusterLayout, members: &[MemberSubscription]) -> GroupAssignment {
        let group = Group::new(cluster, members);
        let claimed = group.members.iter().map(|member| {
            // Subscriptions of older versions have no generation.
            let generation = member.user_data.as_ref().map_or(-1, user_data::decode_generation);
            ClaimedPartitions {
                partitions: Cow::Borrowed(&member.owned),
                generation: if member.generation >= 0 {
                    member.generation
                } else {
                    generation
                },
            }
        });
        let claims = Claims::new(&group, &claimed.collect::<Vec<_>>());
        let mut assigned = assign(&group, &claims);
        for (member, places) in assigned.iter_mut().enumerate() {
            places.retain(|place| !claims.is_claimed_by_another(*place, member));
        }
        group.assignment(assigned)
    }

    fn on_assignment(&mut self, _: &MemberAssignment, generation: i32) {
        self.generation = generation;
    }
}

/// The partitions of each member, if all members revoke the rest.
fn assign(group: &Group<'_>, claims: &Claims) -> Vec<Vec<PartitionIndex>> {
    let racks = kinds::racks(group);
    let kinds = kinds::kinds(group, &racks, claims);
    let mut network = Network::new(group, &racks, &kinds);
    balance::balance(&mut network);
    let mut assigned = vec![vec![]; group.members.len()];
    for (kind, seats) in kinds.iter().zip(&network.kinds) {
        deal::deal(kind, &seats.seats, &mut assigned);
    }
    assigned
}
