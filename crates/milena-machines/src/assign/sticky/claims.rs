//! Claims of members to partitions.

use std::borrow::Cow;

use bytestring::ByteString;

use super::super::group::{Group, PartitionIndex};
use crate::TopicPartition;

/// The partitions that a member claims, and the generation of the claim; -1 if it is not known.
#[derive(Debug)]
pub(super) struct ClaimedPartitions<'a> {
    pub(super) partitions: Cow<'a, [TopicPartition]>,
    pub(super) generation: i32,
}

/// The claim of one member to one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    place: PartitionIndex,
    pub(super) generation: i32,
    /// The index of the member in the group.
    pub(super) member: usize,
}

/// All claims to existing partitions, sorted by partition, the newest generation of each first.
#[derive(Debug)]
pub(super) struct Claims(Vec<Claim>);

impl Claims {
    /// `claimed` has the claims of each member, in the order of the group.
    pub(super) fn new(group: &Group<'_>, claimed: &[ClaimedPartitions<'_>]) -> Self {
        let mut claims = vec![];
        for (member, claimed) in claimed.iter().enumerate() {
            let mut topic: Option<(&ByteString, Option<usize>)> = None;
            for partition in claimed.partitions.iter() {
                // Partitions of one topic are adjacent, so it is looked up once.
                let known = topic.filter(|(name, _)| **name == partition.topic);
                let (name, place) = known.unwrap_or_else(|| (&partition.topic, group.topic_index(&partition.topic)));
                topic = Some((name, place));
                let claim = place.and_then(|topic| group.existing(topic, partition.partition));
                claims.extend(claim.map(|place| Claim {
                    place,
                    generation: claimed.generation,
                    member,
                }));
            }
        }
        claims.sort_unstable_by_key(|claim| (claim.place, std::cmp::Reverse(claim.generation), claim.member));
        claims.dedup();
        Self(claims)
    }

    /// The claims to one partition, the newest generation first.
    pub(super) fn to(&self, place: PartitionIndex) -> &[Claim] {
        let start = self.0.partition_point(|claim| claim.place < place);
        let claims = self.0.get(start..).unwrap_or_default();
        let end = claims.partition_point(|claim| claim.place == place);
        claims.get(..end).unwrap_or_default()
    }

    /// Whether a member other than `member` may still read a partition: it claims it with a generation that is not
    /// older.
    pub(super) fn is_claimed_by_another(&self, place: PartitionIndex, member: usize) -> bool {
        let claims = self.to(place);
        let own = claims.iter().find(|claim| claim.member == member);
        let mut others = claims.iter().filter(|claim| claim.member != member);
        others.any(|other| own.is_none_or(|own| own.generation <= other.generation))
    }
}
