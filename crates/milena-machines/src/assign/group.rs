//! The input of an assignor with indexes: topics and members by their index in a list, so that names are not compared.

use std::collections::BTreeMap;

use bytestring::ByteString;

use super::{ClusterLayout, GroupAssignment, MemberAssignment, MemberSubscription, TopicLayout};
use crate::TopicPartition;

/// A group with the topics that it can read.
#[derive(Debug)]
pub(super) struct Group<'a> {
    /// Static members in the order of their instance ids, then the others in the order of their ids: static members
    /// keep their index although they get new member ids.
    pub(super) members: Vec<&'a MemberSubscription>,
    /// The existing topics, in the order of their names.
    pub(super) topics: Vec<Topic<'a>>,
}

#[derive(Debug)]
pub(super) struct Topic<'a> {
    pub(super) name: &'a ByteString,
    pub(super) layout: &'a TopicLayout,
    /// Indexes in `members`, sorted.
    pub(super) subscribers: Vec<usize>,
}

/// A partition by the index of its topic.
pub(super) type PartitionIndex = (usize, usize);

impl<'a> Group<'a> {
    pub(super) fn new(cluster: &'a ClusterLayout, members: &'a [MemberSubscription]) -> Self {
        let mut members: Vec<&MemberSubscription> = members.iter().collect();
        members.sort_by_key(|member| (member.instance_id.is_none(), &member.instance_id, &member.member_id));
        let mut topics: Vec<Topic<'_>> = cluster
            .iter()
            .map(|(name, layout)| Topic {
                name,
                layout,
                subscribers: vec![],
            })
            .collect();
        // Most members have the same subscription, which is resolved once.
        let mut known: BTreeMap<&[ByteString], Vec<usize>> = BTreeMap::new();
        for (place, member) in members.iter().enumerate() {
            let places = known.entry(&member.topics).or_insert_with(|| places(&topics, member));
            for topic in places.iter() {
                if let Some(topic) = topics.get_mut(*topic) {
                    topic.subscribers.push(place);
                }
            }
        }
        Self { members, topics }
    }

    /// The index of a topic, if it exists.
    pub(super) fn topic_index(&self, topic: &ByteString) -> Option<usize> {
        self.topics.binary_search_by(|other| other.name.cmp(topic)).ok()
    }

    /// A partition of a topic, if it exists.
    pub(super) fn existing(&self, topic: usize, partition: i32) -> Option<PartitionIndex> {
        let partition = usize::try_from(partition).ok()?;
        let layout = self.topics.get(topic)?.layout;
        (partition < layout.len()).then_some((topic, partition))
    }

    /// The assignment with names in place of indexes.
    pub(super) fn assignment(&self, partitions: Vec<Vec<PartitionIndex>>) -> GroupAssignment {
        let members = self.members.iter().zip(partitions);
        members
            .map(|(member, mut places)| {
                places.sort_unstable();
                let partitions = places.into_iter().filter_map(|place| self.partition(place)).collect();
                let assignment = MemberAssignment {
                    partitions,
                    user_data: None,
                };
                (member.member_id.clone(), assignment)
            })
            .collect()
    }

    fn partition(&self, (topic, partition): PartitionIndex) -> Option<TopicPartition> {
        let topic = self.topics.get(topic)?;
        Some(TopicPartition::new(topic.name.clone(), i32::try_from(partition).ok()?))
    }
}

/// The indexes of a member's topics, each once; those that do not exist are left out.
fn places(topics: &[Topic<'_>], member: &MemberSubscription) -> Vec<usize> {
    let mut names: Vec<&ByteString> = member.topics.iter().collect();
    names.sort_unstable();
    names.dedup();
    let mut places = vec![];
    let mut start = 0;
    for name in names {
        // Both lists are sorted, so the next one is not far: search in doubling steps, then between the last two.
        let is_before = |place: usize| topics.get(place).is_some_and(|topic| topic.name < name);
        let mut step = 1;
        while is_before(start + step) {
            step *= 2;
        }
        let ahead = topics.get(start..).unwrap_or_default();
        let ahead = ahead.get(..=step).unwrap_or(ahead);
        start += ahead.partition_point(|topic| topic.name < name);
        if topics.get(start).is_some_and(|topic| topic.name == name) {
            places.push(start);
        }
    }
    places
}
