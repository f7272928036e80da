//! Properties of assignments, counted by rules that know nothing of how they were made.

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;
use milena_machines::{
    TopicPartition,
    assign::{Assignor, ClusterLayout, GroupAssignment, MemberAssignment, MemberSubscription, StickyAssignor},
};

use super::vectors::Facts;

pub(super) fn facts(cluster: &ClusterLayout, members: &[MemberSubscription], assignment: &GroupAssignment) -> Facts {
    let owners = owners(members);
    let mut facts = Facts::default();
    for member in members {
        let partitions = &assignment[&member.member_id].partitions;
        let moved =
            |partition: &&TopicPartition| owners.get(*partition).is_some_and(|owner| **owner != member.member_id);
        facts.moved += partitions.iter().filter(moved).count();
        let is_far = |partition: &&TopicPartition| {
            let racks = &cluster[&partition.topic].racks[usize::try_from(partition.partition).unwrap()];
            member.rack.as_ref().is_some_and(|rack| !racks.contains(rack))
        };
        facts.far += partitions.iter().filter(is_far).count();
        facts.counts.push(partitions.len());
    }
    facts
}

/// The owners: the member with the newest claim of those that may have a partition; none if there are two.
fn owners(members: &[MemberSubscription]) -> BTreeMap<&TopicPartition, &ByteString> {
    let mut claims: BTreeMap<&TopicPartition, BTreeSet<(i32, &ByteString)>> = BTreeMap::new();
    for member in members {
        let wanted = member.owned.iter().filter(|owned| member.topics.contains(&owned.topic));
        for partition in wanted {
            let claim = (member.generation, &member.member_id);
            claims.entry(partition).or_default().insert(claim);
        }
    }
    let claims = claims.into_iter();
    claims
        .filter_map(|(partition, claims)| Some((partition, newest(&claims)?)))
        .collect()
}

fn newest<'a>(claims: &BTreeSet<(i32, &'a ByteString)>) -> Option<&'a ByteString> {
    let mut newest_first = claims.iter().rev();
    let (generation, owner) = newest_first.next()?;
    let is_disputed = newest_first.next().is_some_and(|(other, _)| other == generation);
    (!is_disputed).then_some(*owner)
}

/// The same members with `sticky`: their user data has their partitions.
pub(super) fn with_user_data(members: &[MemberSubscription]) -> Vec<MemberSubscription> {
    let mut members = members.to_vec();
    for member in &mut members {
        let mut assignor = StickyAssignor::default();
        let partitions = member.owned.clone();
        assignor.on_assignment(
            &MemberAssignment {
                partitions,
                user_data: None,
            },
            member.generation,
        );
        member.user_data = assignor.user_data(&member.topics);
    }
    members
}

/// The imbalance as Kafka counts it: the sum of the differences of all pairs.
pub(super) fn unevenness(counts: &[usize]) -> usize {
    let pairs = counts.iter().enumerate().flat_map(|(place, one)| {
        let others = &counts[place + 1..];
        others.iter().map(move |other| one.abs_diff(*other))
    });
    pairs.sum()
}

/// Kafka looks at racks only if some member is in one, and it makes a difference there.
pub(super) fn racks_matter(cluster: &ClusterLayout, members: &[MemberSubscription]) -> bool {
    let wanted = cluster
        .iter()
        .filter(|(topic, _)| members.iter().any(|member| member.topics.contains(topic)));
    let partitions: Vec<BTreeSet<_>> = wanted
        .flat_map(|(_, layout)| layout.racks.iter().map(|racks| racks.iter().collect()))
        .collect();
    let all: BTreeSet<_> = partitions.iter().flatten().copied().collect();
    let mut racks = members.iter().filter_map(|member| member.rack.as_ref());
    racks.any(|rack| all.contains(rack)) && partitions.iter().any(|racks| *racks != all)
}
