//! As many partitions for everybody, and as little change as that allows.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use milena_wire::Uuid;

use super::{MemberSpec, Partitions, TopicSpec, is_homogeneous};

/// How often all topics are gone through in search of a better balance. Where each topic has other subscribers, partitions
/// can trickle from member to member for very long; Kafka stops there too.
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
    /// How many partitions each member has.
    loads: Vec<usize>,
    /// Which member has a partition of a topic, if any.
    owners: BTreeMap<Uuid, Vec<Option<usize>>>,
    subscribers: BTreeMap<Uuid, Vec<usize>>,
}

impl<'a> Builder<'a> {
    /// Begins with what members have and still subscribe to.
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

    /// Who has a partition; `None` if there is no such partition.
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

    /// Where all subscribe to the same: everybody gets as many, some one more.
    fn fill_to_quota(&mut self) {
        let total: usize = self.owners.values().map(Vec::len).sum();
        let (Some(least), Some(extra)) = (
            total.checked_div(self.members.len()),
            total.checked_rem(self.members.len()),
        ) else {
            return;
        };
        // Those who have more than the least keep one more, if there is one for them.
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

    /// Where subscriptions differ: topics with much for few come first, each partition goes to who has least.
    fn assign_least_loaded_first(&mut self) {
        let mut free: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
        for (topic, partition) in self.unassigned() {
            free.entry(topic).or_default().push(partition);
        }
        for topic in self.topics_by_pressure() {
            let mut by_load = self.subscribers_by_load(topic.id);
            for partition in free.remove(&topic.id).unwrap_or_default() {
                let Some((load, member)) = by_load.pop_first() else {
                    break;
                };
                self.give(topic.id, partition, member);
                by_load.insert((load + 1, member));
            }
        }
    }

    /// All topics: those with most partitions for each subscriber first, then those with the fewest subscribers.
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
            // one.partitions / of_one against other.partitions / of_other, without fractions
            let pressure = |topic: &TopicSpec, subscribers: usize| {
                i128::from(topic.partitions) * i128::try_from(subscribers).unwrap_or(i128::from(i64::MAX))
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

    /// Moves partitions of a topic from who has most to who has least, while that makes it more even.
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
                continue;
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
