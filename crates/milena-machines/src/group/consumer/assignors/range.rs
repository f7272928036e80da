//! The range assignor: neighbouring partitions of each topic, as many to each subscriber.
//!
//! Partitions of the same number in topics of the same size go to the same member, so that topics can be joined. The
//! order of members follows from their ids alone: a member keeps its place, and so most of its partitions, as long as
//! no member before it joins or leaves.

use std::collections::BTreeMap;

use milena_invariant::violated;
use milena_wire::Uuid;

use super::{MemberSpec, Partitions};

struct Topic {
    partitions: i32,
    subscribers: i32,
    /// The number of subscribers that have had their share.
    served: i32,
    next: i32,
}

pub(super) fn assign(members: &[MemberSpec<'_>]) -> Vec<Partitions> {
    let mut topics: BTreeMap<Uuid, Topic> = BTreeMap::new();
    for topic in members.iter().flat_map(|member| member.topics.iter()) {
        let counted = topics.entry(topic.id).or_insert(Topic {
            partitions: topic.partitions,
            subscribers: 0,
            served: 0,
            next: 0,
        });
        counted.subscribers += 1;
    }
    let mut order: Vec<(usize, &MemberSpec<'_>)> = members.iter().enumerate().collect();
    // Static members first: their instance ids outlive restarts.
    order.sort_by_key(|(_, member)| (member.instance_id.is_none(), member.instance_id, member.member_id));
    let mut assignment = vec![Partitions::new(); members.len()];
    for (place, member) in order {
        let Some(partitions) = assignment.get_mut(place) else {
            violated!("every_member_has_an_assignment");
            continue;
        };
        for topic in member.topics.iter() {
            if let Some(share) = topics.get_mut(&topic.id).and_then(Topic::next_share) {
                partitions.insert(topic.id, share.collect());
            }
        }
    }
    assignment
}

impl Topic {
    fn next_share(&mut self) -> Option<std::ops::Range<i32>> {
        let least = self.partitions.checked_div(self.subscribers)?;
        let has_one_more = self.served < self.partitions.checked_rem(self.subscribers)?;
        self.served += 1;
        let start = self.next;
        self.next += least + i32::from(has_one_more);
        (start < self.next).then_some(start..self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{assign, test::*};

    #[test]
    fn topics_are_cut_into_neighbours_and_the_first_get_one_more() {
        let topics = [topic(1, 5), topic(2, 2)];
        let got = assign("range", &specs(&[("a", &topics), ("b", &topics), ("c", &topics)]));
        assert_eq!(
            got,
            [
                partitions(&[(1, &[0, 1]), (2, &[0])]),
                partitions(&[(1, &[2, 3]), (2, &[1])]),
                partitions(&[(1, &[4])]),
            ]
        );
    }

    #[test]
    fn only_subscribers_of_a_topic_share_it() {
        let got = assign(
            "range",
            &specs(&[
                ("a", &[topic(1, 3)]),
                ("b", &[topic(1, 3), topic(2, 3)]),
                ("c", &[topic(2, 3)]),
                ("d", &[]),
            ]),
        );
        assert_eq!(
            got,
            [
                partitions(&[(1, &[0, 1])]),
                partitions(&[(1, &[2]), (2, &[0, 1])]),
                partitions(&[(2, &[2])]),
                partitions(&[]),
            ]
        );
    }

    #[test]
    fn static_members_come_first() {
        let topics = [topic(1, 3)];
        let mut members = specs(&[("a", &topics), ("b", &topics)]);
        let instance = "instance".into();
        members[1].instance_id = Some(&instance);
        let got = assign("range", &members);
        assert_eq!(got, [partitions(&[(1, &[2])]), partitions(&[(1, &[0, 1])])]);
    }
}
