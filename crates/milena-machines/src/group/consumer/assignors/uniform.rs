//! The uniform assignor: equal numbers of partitions, with as little change as possible.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use milena_invariant::violated;
use milena_wire::Uuid;

use super::{MemberSpec, Partitions, TopicSpec, is_homogeneous};

/// The limit of rounds over all topics in search of a better balance. Where each topic has other subscribers,
/// partitions can trickle from member to member for very long; Kafka stops there too.
const BALANCE_ROUNDS_MAX: usize = 16;

pub(super) fn assign(members: &[MemberSpec<'_>]) -> Vec<Partitions> {
    let mut builder = Builder::new(members);
    if is_homogeneous(members) {
        builder.fill_to_quota();
    } else {
        builder.assign_least_loaded_first();
        builder.balance();
    }
    builder.assignment
}

struct Builder<'a> {
    members: &'a [MemberSpec<'a>],
    assignment: Vec<Partitions>,
    /// The number of partitions of each member.
    loads: Vec<usize>,
    /// The owner of each partition of a topic, if any.
    owners: BTreeMap<Uuid, Vec<Option<usize>>>,
    subscribers: BTreeMap<Uuid, Vec<usize>>,
}

impl<'a> Builder<'a> {
    /// Begins with the previous partitions that members still subscribe to.
    fn new(members: &'a [MemberSpec<'a>]) -> Self {
        let mut builder = Self {
            members,
            assignment: vec![Partitions::new(); members.len()],
            loads: vec![0; members.len()],
            owners: BTreeMap::new(),
            subscribers: BTreeMap::new(),
        };
        for (place, member) in members.iter().enumerate() {
            for topic in member.topics.iter() {
                let count = usize::try_from(topic.partitions).unwrap_or_default();
                builder.owners.entry(topic.id).or_insert_with(|| vec![None; count]);
                builder.subscribers.entry(topic.id).or_default().push(place);
            }
        }
        for (place, member) in members.iter().enumerate() {
            for topic in member.topics.iter() {
                let previous = member.previous.get(&topic.id).into_iter().flatten();
                for partition in previous {
                    if builder.owner(topic.id, *partition) == Some(None) {
                        builder.give(topic.id, *partition, place);
                    }
                }
            }
        }
        builder
    }

    /// The owner of a partition; `None` if there is no such partition.
    fn owner(&self, topic: Uuid, partition: i32) -> Option<Option<usize>> {
        let owners = self.owners.get(&topic)?;
        owners.get(usize::try_from(partition).ok()?).copied()
    }

    fn give(&mut self, topic: Uuid, partition: i32, to: usize) {
        let place = usize::try_from(partition).unwrap_or(usize::MAX);
        if let (Some(owner), Some(partitions), Some(load)) = (
            self.owners.get_mut(&topic).and_then(|owners| owners.get_mut(place)),
            self.assignment.get_mut(to),
            self.loads.get_mut(to),
        ) {
            *owner = Some(to);
            partitions.entry(topic).or_default().insert(partition);
            *load += 1;
        }
    }

    fn take(&mut self, topic: Uuid, partition: i32, from: usize) {
        let place = usize::try_from(partition).unwrap_or(usize::MAX);
        if let (Some(owner), Some(assignment), Some(load)) = (
            self.owners.get_mut(&topic).and_then(|owners| owners.get_mut(place)),
            self.assignment.get_mut(from),
            self.loads.get_mut(from),
        ) {
            *owner = None;
            *load -= 1;
            if let Some(partitions) = assignment.get_mut(&topic) {
                partitions.remove(&partition);
                if partitions.is_empty() {
                    assignment.remove(&topic);
                }
            }
        }
    }

    fn load(&self, member: usize) -> usize {
        self.loads.get(member).copied().unwrap_or_default()
    }

    fn unassigned(&self) -> Vec<(Uuid, i32)> {
        let topics = self.owners.iter();
        let free = topics.flat_map(|(topic, owners)| {
            let partitions = (0..).zip(owners).filter(|(_, owner)| owner.is_none());
            partitions.map(|(partition, _)| (*topic, partition))
        });
        free.collect()
    }

    /// With equal subscriptions all members get the same number, some one more.
    fn fill_to_quota(&mut self) {
        let total: usize = self.owners.values().map(Vec::len).sum();
        let (Some(least), Some(extra)) = (
            total.checked_div(self.members.len()),
            total.checked_rem(self.members.len()),
        ) else {
            return; // No members.
        };
        // Members above the minimum keep one more, as long as there are enough.
        let mut order: Vec<usize> = (0..self.members.len()).collect();
        order.sort_by_key(|member| (self.load(*member) <= least, *member));
        let mut quotas = vec![least; self.members.len()];
        for member in order.into_iter().take(extra) {
            if let Some(quota) = quotas.get_mut(member) {
                *quota += 1;
            }
        }
        for (member, quota) in quotas.iter().enumerate() {
            while self.load(member) > *quota {
                let Some((topic, partition)) = self.last_of(member) else {
                    violated!("a_load_counts_partitions");
                    break;
                };
                self.take(topic, partition, member);
            }
        }
        let mut free = self.unassigned().into_iter();
        for (member, quota) in quotas.iter().enumerate() {
            let missing = quota.saturating_sub(self.load(member));
            for (topic, partition) in free.by_ref().take(missing) {
                self.give(topic, partition, member);
            }
        }
    }

    fn last_of(&self, member: usize) -> Option<(Uuid, i32)> {
        let (topic, partitions) = self.assignment.get(member)?.last_key_value()?;
        Some((*topic, *partitions.last()?))
    }

    /// With different subscriptions, topics with many partitions for few subscribers come first, and each partition
    /// goes to the member with the fewest.
    fn assign_least_loaded_first(&mut self) {
        let mut free: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
        for (topic, partition) in self.unassigned() {
            free.entry(topic).or_default().push(partition);
        }
        for topic in self.topics_by_pressure() {
            let mut by_load = self.subscribers_by_load(topic.id);
            for partition in free.remove(&topic.id).unwrap_or_default() {
                let Some((load, member)) = by_load.pop_first() else {
                    violated!("every_assigned_topic_has_a_subscriber");
                    break;
                };
                self.give(topic.id, partition, member);
                by_load.insert((load + 1, member));
            }
        }
    }

    /// All topics: those with the most partitions for each subscriber first, then those with the fewest subscribers.
    fn topics_by_pressure(&self) -> Vec<TopicSpec> {
        let all: BTreeSet<TopicSpec> = self
            .members
            .iter()
            .flat_map(|member| member.topics.iter().copied())
            .collect();
        let mut topics: Vec<TopicSpec> = all.into_iter().collect();
        topics.sort_by(|one, other| {
            let subscribers = |topic: &TopicSpec| self.subscribers.get(&topic.id).map_or(0, Vec::len);
            let (of_one, of_other) = (subscribers(one), subscribers(other));
            // one.partitions / of_one compared with other.partitions / of_other, without fractions
            let pressure = |topic: &TopicSpec, subscribers: usize| {
                i128::from(topic.partitions) * i128::try_from(subscribers).unwrap_or(i128::MAX >> 32)
            };
            let by_pressure = pressure(other, of_one).cmp(&pressure(one, of_other));
            by_pressure.then(of_one.cmp(&of_other)).then(one.id.cmp(&other.id))
        });
        topics
    }

    fn subscribers_by_load(&self, topic: Uuid) -> BTreeSet<(usize, usize)> {
        let subscribers = self.subscribers.get(&topic).into_iter().flatten();
        subscribers.map(|member| (self.load(*member), *member)).collect()
    }

    fn balance(&mut self) {
        let topics = self.topics_by_pressure();
        for _ in 0..BALANCE_ROUNDS_MAX {
            let moved: usize = topics.iter().map(|topic| self.balance_topic(topic.id)).sum();
            if moved == 0 {
                return;
            }
        }
    }

    /// Moves partitions of a topic from the member with the most to the one with the fewest, while that improves the
    /// balance.
    fn balance_topic(&mut self, topic: Uuid) -> usize {
        let mut by_load = self.subscribers_by_load(topic);
        let owns_some = |member: usize| {
            let partitions = self.assignment.get(member).and_then(|own| own.get(&topic));
            partitions.is_some()
        };
        let owners = by_load.iter().filter(|(_, member)| owns_some(*member));
        let mut givers: BTreeSet<(usize, Reverse<usize>)> =
            owners.map(|(load, member)| (*load, Reverse(*member))).collect();
        let mut moved = 0;
        while let (Some((most, Reverse(from))), Some((least, to))) = (givers.pop_last(), by_load.first().copied()) {
            if most <= least + 1 {
                break;
            }
            let partitions = self.assignment.get(from).and_then(|own| own.get(&topic));
            let Some(partition) = partitions.and_then(|partitions| partitions.last().copied()) else {
                continue; // Its load is of other topics.
            };
            self.take(topic, partition, from);
            self.give(topic, partition, to);
            moved += 1;
            by_load.remove(&(most, from));
            by_load.remove(&(least, to));
            by_load.insert((most - 1, from));
            by_load.insert((least + 1, to));
            givers.insert((most - 1, Reverse(from)));
            givers.remove(&(least, Reverse(to)));
            givers.insert((least + 1, Reverse(to)));
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::super::{assign, test::*};
    use super::*;
    use crate::Random;

    fn sizes(assignment: &[Partitions]) -> Vec<usize> {
        let size = |own: &Partitions| own.values().map(BTreeSet::len).sum();
        assignment.iter().map(size).collect()
    }

    /// The same members, with the assignment as their previous partitions.
    fn again<'a>(members: &[MemberSpec<'a>], got: &'a [Partitions]) -> Vec<MemberSpec<'a>> {
        let members = members.iter().zip(got);
        let members = members.map(|(member, previous)| MemberSpec {
            member_id: member.member_id,
            instance_id: member.instance_id,
            topics: member.topics.clone(),
            previous,
        });
        members.collect()
    }

    #[test]
    fn everybody_gets_as_many_give_or_take_one() {
        let topics = [topic(1, 5), topic(2, 3)];
        let members = specs(&[("a", &topics), ("b", &topics), ("c", &topics)]);
        let got = assign("uniform", &members);
        assert_eq!(sizes(&got), [3, 3, 2]);
        assert_eq!(
            assign("uniform", &again(&members, &got)),
            got,
            "nothing moves without need"
        );
    }

    #[test]
    fn who_comes_gets_only_what_others_have_too_much() {
        let topics = [topic(1, 6)];
        let two = specs(&[("a", &topics), ("b", &topics)]);
        let got = assign("uniform", &two);
        let mut three = again(&two, &got);
        three.extend(specs(&[("c", &topics)]));
        let got_three = assign("uniform", &three);
        assert_eq!(sizes(&got_three), [2, 2, 2]);
        for (before, after) in got.iter().zip(&got_three) {
            let (before, after) = (&before[&topic(1, 0).id], &after[&topic(1, 0).id]);
            assert!(after.is_subset(before));
        }
    }

    #[test]
    fn where_subscriptions_differ_no_member_can_pass_a_partition_to_one_with_much_less() {
        let members = specs(&[
            ("a", &[topic(1, 4)]),
            ("b", &[topic(1, 4), topic(2, 4)]),
            ("c", &[topic(2, 4), topic(3, 1)]),
            ("d", &[]),
        ]);
        let mut had = vec![Partitions::new(); 4];
        had[1] = partitions(&[(1, &[0, 1, 2, 3]), (2, &[0, 1, 2, 3])]);
        let got = assign("uniform", &again(&members, &had));
        let sizes = sizes(&got);
        assert_eq!(sizes.iter().sum::<usize>(), 9);
        for (giver, own) in got.iter().enumerate() {
            for topic in own.keys() {
                let subscribes = |member: &MemberSpec<'_>| member.topics.iter().any(|wanted| wanted.id == *topic);
                let takers = members.iter().enumerate().filter(|(_, member)| subscribes(member));
                for (taker, _) in takers {
                    assert!(sizes[giver] <= sizes[taker] + 1, "{sizes:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_longer_there_or_wanted_goes() {
        let had = partitions(&[(1, &[0, 1]), (9, &[0])]);
        let mut members = specs(&[("a", &[topic(1, 1)]), ("b", &[topic(1, 1), topic(2, 1)])]);
        members[0].previous = &had;
        let got = assign("uniform", &members);
        assert_eq!(got, [partitions(&[(1, &[0])]), partitions(&[(2, &[0])])]);
    }

    #[test]
    fn random_groups_are_assigned_whole_and_settle() {
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let all: Vec<TopicSpec> = (1..=4)
                .map(|number| topic(number, i32::try_from(random.below(7)).unwrap()))
                .collect();
            let mut members = specs(&[("a", &[]), ("b", &[]), ("c", &[]), ("d", &[])]);
            for member in &mut members {
                let wanted: Vec<TopicSpec> = all.iter().filter(|_| random.below(3) > 0).copied().collect();
                member.topics = wanted.into();
            }
            let got = assign("uniform", &members);
            for topic in &all {
                let is_wanted = members.iter().any(|member| member.topics.contains(topic));
                let owners = got.iter().filter_map(|own| own.get(&topic.id));
                let assigned: Vec<i32> = owners.flatten().copied().collect();
                let unique: BTreeSet<i32> = assigned.iter().copied().collect();
                assert_eq!(assigned.len(), unique.len(), "seed {seed}: {topic:?} has two owners");
                let expected = if is_wanted { topic.partitions } else { 0 };
                assert_eq!(i32::try_from(unique.len()).unwrap(), expected, "seed {seed}: {topic:?}");
            }
            assert_eq!(assign("uniform", &again(&members, &got)), got, "seed {seed}");
        }
    }
}
