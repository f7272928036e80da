//! The round-robin assignor: one partition after the other, one member after the other.

use super::{Assignor, ClusterLayout, GroupAssignment, MemberSubscription, group::Group};

/// Kafka's `roundrobin`: deals all partitions of all topics to the members in turn; members that do not subscribe to a
/// topic are skipped. With equal subscriptions no member has more than one partition more than another.
#[derive(Debug, Clone, Copy, Default)]
pub struct RoundRobinAssignor;

impl Assignor for RoundRobinAssignor {
    fn name(&self) -> &'static str {
        "roundrobin"
    }

    fn assign(&mut self, cluster: &ClusterLayout, members: &[MemberSubscription]) -> GroupAssignment {
        let group = Group::new(cluster, members);
        let mut assigned = vec![vec![]; group.members.len()];
        // The index of the next member.
        let mut next = 0;
        for (place, topic) in group.topics.iter().enumerate() {
            let passed_over = topic.subscribers.partition_point(|member| *member < next);
            let round = topic.subscribers.iter().cycle().skip(passed_over);
            for (partition, member) in (0..topic.layout.len()).zip(round) {
                if let Some(partitions) = assigned.get_mut(*member) {
                    partitions.push((place, partition));
                }
                next = member + 1;
            }
        }
        group.assignment(assigned)
    }
}
