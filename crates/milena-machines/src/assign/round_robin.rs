//! One partition after the other, one member after the other.

use super::{Assignor, ClusterLayout, GroupAssignment, MemberSubscription, group::Group};

/// Kafka's `roundrobin`: deals all partitions of all topics to the members in turn; who does not subscribe to a topic is
/// passed over. Where all subscribe to the same, nobody has more than one partition more than another.
#[derive(Debug, Clone, Copy, Default)]
pub struct RoundRobinAssignor;

impl Assignor for RoundRobinAssignor {
    fn name(&self) -> &'static str {
        "roundrobin"
    }

    fn assign(&mut self, cluster: &ClusterLayout, members: &[MemberSubscription]) -> GroupAssignment {
        let group = Group::new(cluster, members);
        let mut assigned = vec![vec![]; group.members.len()];
        // The member whose turn it is.
        let mut turn = 0;
        for (place, topic) in group.topics.iter().enumerate() {
            let passed_over = topic.subscribers.partition_point(|member| *member < turn);
            let round = topic.subscribers.iter().cycle().skip(passed_over);
            for (partition, member) in (0..topic.layout.len()).zip(round) {
                if let Some(partitions) = assigned.get_mut(*member) {
                    partitions.push((place, partition));
                }
                turn = member + 1;
            }
        }
        group.assignment(assigned)
    }
}
