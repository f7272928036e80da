//! Kinds of partitions: their topics have the same subscribers, and their replicas are in the same racks.
//!
//! For the balance it does not matter which of them a member gets, only how many.

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;

use super::{
    super::group::{Group, PartitionIndex},
    claims::Claims,
};

#[derive(Debug)]
pub(super) struct Kind<'a> {
    /// The subscribers, by index in the group.
    pub(super) subscribers: &'a [usize],
    /// The racks with replicas, by index among the racks of the members, sorted.
    pub(super) racks: Vec<usize>,
    pub(super) units: Vec<Unit>,
}

/// A partition with its owners.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    pub(super) place: PartitionIndex,
    pub(super) owner: Option<usize>,
    /// The owner before the current one.
    pub(super) earlier: Option<usize>,
}

/// The racks of the members, sorted, if they make a difference; none otherwise.
pub(super) fn racks<'a>(group: &Group<'a>) -> Vec<&'a ByteString> {
    let racks = group.members.iter().filter_map(|member| member.rack.as_ref());
    let of_members: BTreeSet<&ByteString> = racks.filter(|rack| !rack.is_empty()).collect();
    if of_members.is_empty() {
        return vec![];
    }
    let topics = group.topics.iter().filter(|topic| !topic.subscribers.is_empty());
    let partitions: Vec<&Vec<ByteString>> = topics.flat_map(|topic| &topic.layout.racks).collect();
    let of_partitions: BTreeSet<&ByteString> = partitions.iter().copied().flatten().collect();
    let in_all = |racks: &&Vec<ByteString>| of_partitions.iter().all(|rack| racks.contains(rack));
    if of_members.is_disjoint(&of_partitions) || partitions.iter().all(in_all) {
        return vec![];
    }
    of_members.into_iter().collect()
}

/// All partitions with a subscriber, by kind.
pub(super) fn kinds<'a>(group: &'a Group<'_>, racks: &[&ByteString], claims: &Claims) -> Vec<Kind<'a>> {
    let mut audiences: BTreeMap<&[usize], usize> = BTreeMap::new();
    let mut kinds: BTreeMap<(usize, Vec<usize>), Kind<'_>> = BTreeMap::new();
    for (topic_place, topic) in group.topics.iter().enumerate() {
        let subscribers = topic.subscribers.as_slice();
        if subscribers.is_empty() {
            continue;
        }
        let next = audiences.len();
        let audience = *audiences.entry(subscribers).or_insert(next);
        for (partition, replicas) in topic.layout.racks.iter().enumerate() {
            let mut racks: Vec<usize> = replicas
                .iter()
                .filter_map(|rack| racks.binary_search(&rack).ok())
                .collect();
            racks.sort_unstable();
            racks.dedup();
            let kind = kinds.entry((audience, racks)).or_insert_with_key(|(_, racks)| Kind {
                subscribers,
                racks: racks.clone(),
                units: vec![],
            });
            kind.units.push(unit((topic_place, partition), subscribers, claims));
        }
    }
    kinds.into_values().collect()
}

/// The owner is the member with the newest claim, if that is one member and it still subscribes.
fn unit(place: PartitionIndex, subscribers: &[usize], claims: &Claims) -> Unit {
    let claims = claims.to(place).iter();
    let mut valid = claims.filter(|claim| subscribers.binary_search(&claim.member).is_ok());
    let newest = valid.next();
    let rest: Vec<_> = valid.collect();
    let is_disputed = |generation: i32| rest.first().is_some_and(|other| other.generation == generation);
    let owner = newest.filter(|claim| !is_disputed(claim.generation));
    Unit {
        place,
        owner: owner.map(|claim| claim.member),
        earlier: owner.and_then(|_| rest.first()).map(|claim| claim.member),
    }
}
