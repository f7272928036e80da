//! Who says that it owns what.

use std::borrow::Cow;

use bytestring::ByteString;

use super::super::group::{Group, Place};
use crate::TopicPartition;

/// What a member says that it owns, and since which generation; -1 if it does not say.
#[derive(Debug)]
pub(super) struct Held<'a> {
    pub(super) partitions: Cow<'a, [TopicPartition]>,
    pub(super) generation: i32,
}

/// One partition that one member says it owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    place: Place,
    pub(super) generation: i32,
    /// Its place in the group.
    pub(super) member: usize,
}

/// All claims to partitions that exist, sorted by partition, the newest generation of each first.
#[derive(Debug)]
pub(super) struct Claims(Vec<Claim>);

impl Claims {
    /// `held` has what each member says, in the order of the group.
    pub(super) fn new(group: &Group<'_>, held: &[Held<'_>]) -> Self {
        let mut claims = vec![];
        for (member, held) in held.iter().enumerate() {
            let mut topic: Option<(&ByteString, Option<usize>)> = None;
            for partition in held.partitions.iter() {
                // Partitions of one topic stand together, so it is looked up once.
                let known = topic.filter(|(name, _)| **name == partition.topic);
                let (name, place) = known.unwrap_or_else(|| (&partition.topic, group.place_of(&partition.topic)));
                topic = Some((name, place));
                let claim = place.and_then(|topic| group.existing(topic, partition.partition));
                claims.extend(claim.map(|place| Claim {
                    place,
                    generation: held.generation,
                    member,
                }));
            }
        }
        claims.sort_unstable_by_key(|claim| (claim.place, std::cmp::Reverse(claim.generation), claim.member));
        claims.dedup();
        Self(claims)
    }

    /// The claims to one partition, the newest generation first.
    pub(super) fn to(&self, place: Place) -> &[Claim] {
        let start = self.0.partition_point(|claim| claim.place < place);
        let claims = self.0.get(start..).unwrap_or_default();
        let end = claims.partition_point(|claim| claim.place == place);
        claims.get(..end).unwrap_or_default()
    }

    /// Whether a member other than `member` may still read a partition: it says so, and of no older generation.
    pub(super) fn is_held_by_another(&self, place: Place, member: usize) -> bool {
        let claims = self.to(place);
        let own = claims.iter().find(|claim| claim.member == member);
        let mut others = claims.iter().filter(|claim| claim.member != member);
        others.any(|other| own.is_none_or(|own| own.generation <= other.generation))
    }
}
