//! Check of the cooperative protocol's rule.

use std::collections::BTreeMap;

use super::{GroupAssignment, MemberSubscription};
use crate::TopicPartition;

/// The partitions that `assignment` gives to one member while another may still read them, sorted.
///
/// In the cooperative protocol there must be none: such a partition is not assigned until its owner has rejoined
/// without it. [`CooperativeStickyAssignor`](super::CooperativeStickyAssignor) never makes one; an assignor of an
/// application may be wrong. A member that claims a partition with an older generation than its new owner has lost it
/// already.
pub fn in_transfer(members: &[MemberSubscription], assignment: &GroupAssignment) -> Vec<TopicPartition> {
    let mut claims: BTreeMap<&TopicPartition, Vec<&MemberSubscription>> = BTreeMap::new();
    for member in members {
        for partition in &member.owned {
            claims.entry(partition).or_default().push(member);
        }
    }
    let given = assignment.iter().flat_map(|(member_id, assignment)| {
        let partitions = assignment.partitions.iter();
        partitions.map(move |partition| (member_id, partition))
    });
    let mut found: Vec<TopicPartition> = given
        .filter(|(member_id, partition)| {
            let claims = claims.get(partition).map(Vec::as_slice).unwrap_or_default();
            let own = claims.iter().find(|member| member.member_id == **member_id);
            let mut others = claims.iter().filter(|member| member.member_id != **member_id);
            others.any(|other| own.is_none_or(|own| own.generation <= other.generation))
        })
        .map(|(_, partition)| partition.clone())
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}
