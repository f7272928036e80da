//! The range assignor: consecutive partitions of each topic for each member.

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;

use super::{
    Assignor, ClusterLayout, GroupAssignment, MemberSubscription,
    group::{Group, PartitionIndex, Topic},
};

/// Kafka's `range`: splits each topic into ranges of equal length, for its subscribers in order. Partition 3 of two
/// topics goes to the same member if both have as many partitions and the same subscribers.
///
/// Where racks are known and make a difference, members first get partitions with a replica in their rack, as far as
/// the lengths allow (KIP-881).
#[derive(Debug, Clone, Copy, Default)]
pub struct RangeAssignor;

impl Assignor for RangeAssignor {
    fn name(&self) -> &'static str {
        "range"
    }

    fn assign(&mut self, cluster: &ClusterLayout, members: &[MemberSubscription]) -> GroupAssignment {
        let group = Group::new(cluster, members);
        let mut runs: Vec<Runs<'_>> = group.topics.iter().map(|topic| Runs::new(&group, topic)).collect();
        if runs.iter().any(Runs::racks_matter) {
            assign_in_racks(&mut runs);
        }
        let mut assigned = vec![vec![]; group.members.len()];
        for (place, runs) in runs.iter_mut().enumerate() {
            runs.assign_rest();
            runs.collect(place, &mut assigned);
        }
        group.assignment(assigned)
    }
}

/// Assigns partitions to members in the rack of a replica. Topics that are joined by partition number stay
/// co-partitioned.
fn assign_in_racks(runs: &mut [Runs<'_>]) {
    let mut alike: BTreeMap<(&[usize], usize), Vec<&mut Runs<'_>>> = BTreeMap::new();
    for runs in runs {
        let key = (runs.topic.subscribers.as_slice(), runs.owners.len());
        alike.entry(key).or_default().push(runs);
    }
    for mut alike in alike.into_values() {
        match alike.as_mut_slice() {
            [one] if one.racks_matter() => one.assign_matching(),
            [_] => {}
            several => assign_matching_together(several),
        }
    }
}

/// Assigns several topics at once, partition by partition: the first member with room whose rack has a replica of that
/// partition of all topics gets it of all topics.
fn assign_matching_together(topics: &mut [&mut Runs<'_>]) {
    let Some(first) = topics.first() else {
        return; // Nothing to assign.
    };
    // Members with room, by rack, the next one last.
    let mut waiting: BTreeMap<Option<&ByteString>, Vec<usize>> = BTreeMap::new();
    for (member, rack) in first.racks.iter().enumerate().rev() {
        waiting.entry(*rack).or_default().push(member);
    }
    if waiting.keys().all(Option::is_none) {
        return;
    }
    for partition in 0..first_len(topics) {
        let Some(first) = topics.first() else {
            return; // Nothing to assign.
        };
        let common = first.racks_of(partition).filter(|rack| {
            let others = topics.iter().skip(1);
            others.into_iter().all(|topic| topic.has_replica_in(partition, rack))
        });
        let racks: Vec<Option<&ByteString>> = common.map(Some).chain([None]).collect();
        let mut next: Option<usize> = None;
        for rack in racks {
            let Some(members) = waiting.get_mut(&rack) else {
                continue; // No member is in this rack.
            };
            while members.last().is_some_and(|member| first.room(*member) == 0) {
                members.pop();
            }
            next = next.into_iter().chain(members.last().copied()).min();
        }
        if let Some(member) = next {
            for topic in topics.iter_mut() {
                topic.give(member, partition);
            }
        }
    }
}

fn first_len(topics: &[&mut Runs<'_>]) -> usize {
    topics.first().map_or(0, |topic| topic.owners.len())
}

/// One topic that is being assigned. Members are indexes among its subscribers here.
#[derive(Debug)]
struct Runs<'a> {
    topic: &'a Topic<'a>,
    /// The rack of each subscriber.
    racks: Vec<Option<&'a ByteString>>,
    /// The owner of each partition.
    owners: Vec<Option<usize>>,
    /// The number of partitions of each subscriber.
    counts: Vec<usize>,
    /// The minimum for each subscriber.
    length: usize,
    /// The number of subscribers that may still get one more.
    longer: usize,
}

impl<'a> Runs<'a> {
    fn new(group: &Group<'a>, topic: &'a Topic<'a>) -> Self {
        let partitions = topic.layout.len();
        let subscribers = topic.subscribers.len();
        let rack = |member: &usize| {
            let member = group.members.get(*member)?;
            member.rack.as_ref().filter(|rack| !rack.is_empty())
        };
        Self {
            topic,
            racks: topic.subscribers.iter().map(rack).collect(),
            owners: vec![None; partitions],
            counts: vec![0; subscribers],
            length: partitions.checked_div(subscribers).unwrap_or(0),
            longer: partitions.checked_rem(subscribers).unwrap_or(0),
        }
    }

    /// Whether members have racks with replicas, and the partitions differ in their racks.
    fn racks_matter(&self) -> bool {
        let of_members: BTreeSet<&ByteString> = self.racks.iter().flatten().copied().collect();
        if of_members.is_empty() {
            return false;
        }
        let of_partitions: BTreeSet<&ByteString> = self.topic.layout.racks.iter().flatten().collect();
        if of_members.is_disjoint(&of_partitions) {
            return false;
        }
        let has_all = |racks: &Vec<ByteString>| racks.iter().collect::<BTreeSet<_>>() == of_partitions;
        !self.topic.layout.racks.iter().all(has_all)
    }

    fn racks_of(&self, partition: usize) -> impl Iterator<Item = &'a ByteString> {
        self.topic.layout.racks.get(partition).into_iter().flatten()
    }

    fn has_replica_in(&self, partition: usize, rack: &ByteString) -> bool {
        self.racks_of(partition).any(|other| other == rack)
    }

    /// The number of partitions that a subscriber may still get.
    fn room(&self, member: usize) -> usize {
        let quota = self.length + usize::from(self.longer > 0);
        quota.saturating_sub(self.counts.get(member).copied().unwrap_or(quota))
    }

    fn give(&mut self, member: usize, partition: usize) {
        if let (Some(owner), Some(count)) = (self.owners.get_mut(partition), self.counts.get_mut(member)) {
            *owner = Some(member);
            *count += 1;
            if *count > self.length {
                self.longer = self.longer.saturating_sub(1);
            }
        }
    }

    /// Each subscriber in order takes partitions with a replica in its rack, up to its length; without a rack it takes
    /// any.
    fn assign_matching(&mut self) {
        let mut by_rack: BTreeMap<Option<&ByteString>, Vec<usize>> = BTreeMap::new();
        for partition in (0..self.owners.len()).rev() {
            for rack in self.racks_of(partition).map(Some).chain([None]) {
                by_rack.entry(rack).or_default().push(partition);
            }
        }
        for member in 0..self.racks.len() {
            let rack = self.racks.get(member).copied().flatten();
            let Some(partitions) = by_rack.get_mut(&rack) else {
                continue; // No replica is in its rack.
            };
            for _ in 0..self.room(member) {
                let free = |partition: &usize| self.owners.get(*partition) == Some(&None);
                let Some(partition) = std::iter::from_fn(|| partitions.pop()).find(free) else {
                    break; // No free partition in its rack is left.
                };
                self.give(member, partition);
            }
        }
    }

    /// Each subscriber in order takes remaining partitions, up to its length.
    fn assign_rest(&mut self) {
        let mut next = 0;
        for member in 0..self.racks.len() {
            for _ in 0..self.room(member) {
                let free = |partition: &usize| self.owners.get(*partition) == Some(&None);
                let Some(partition) = (next..self.owners.len()).find(free) else {
                    return; // All partitions are assigned.
                };
                next = partition + 1;
                self.give(member, partition);
            }
        }
    }

    fn collect(&self, place: usize, assigned: &mut [Vec<PartitionIndex>]) {
        for (partition, owner) in self.owners.iter().enumerate() {
            let member = owner.and_then(|owner| self.topic.subscribers.get(owner));
            if let Some(partitions) = member.and_then(|member| assigned.get_mut(*member)) {
                partitions.push((place, partition));
            }
        }
    }
}
