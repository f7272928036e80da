//! The input of an assignor as numbers: topics and members by their place in a list, so that the work is done without
//! comparing names.

use std::{collections::BTreeMap, rc::Rc};

use bytestring::ByteString;

use super::{ClusterLayout, GroupAssignment, MemberAssignment, MemberSubscription, TopicLayout};
use crate::TopicPartition;

/// A group with the topics that it can read.
#[derive(Debug)]
pub(super) struct Group<'a> {
    /// Static members in the order of their instance ids, then the others in the order of their ids: so static members
    /// keep their places although they get new member ids.
    pub(super) members: Vec<&'a MemberSubscription>,
    /// What each member subscribes to, as places in `topics`, sorted. Equal ones are shared.
    pub(super) subscriptions: Vec<Rc<[usize]>>,
    /// The topics that exist, in the order of their names.
    pub(super) topics: Vec<Topic<'a>>,
}

#[derive(Debug)]
pub(super) struct Topic<'a> {
    pub(super) name: &'a ByteString,
    pub(super) layout: &'a TopicLayout,
    /// Places in `members`, in their order.
    pub(super) subscribers: Vec<usize>,
}

/// A partition by the place of its topic.
pub(super) type Place = (usize, usize);

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
        let mut known: BTreeMap<&[ByteString], Rc<[usize]>> = BTreeMap::new();
        let mut subscriptions = vec![];
        for (place, member) in members.iter().enumerate() {
            let places = known.entry(&member.topics).or_insert_with(|| places(&topics, member));
            for topic in places.iter() {
                if let Some(topic) = topics.get_mut(*topic) {
                    topic.subscribers.push(place);
                }
            }
            subscriptions.push(Rc::clone(places));
        }
        Self {
            members,
            subscriptions,
            topics,
        }
    }

    /// Says with names what was decided by places.
    pub(super) fn assignment(&self, partitions: Vec<Vec<Place>>) -> GroupAssignment {
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

    fn partition(&self, (topic, partition): Place) -> Option<TopicPartition> {
        let topic = self.topics.get(topic)?;
        Some(TopicPartition::new(topic.name.clone(), i32::try_from(partition).ok()?))
    }
}

/// Where the topics of a member stand in the list, each once; those that do not exist are left out.
fn places(topics: &[Topic<'_>], member: &MemberSubscription) -> Rc<[usize]> {
    let place = |name: &ByteString| topics.binary_search_by(|topic| topic.name.cmp(name)).ok();
    let mut places: Vec<usize> = member.topics.iter().filter_map(place).collect();
    places.sort_unstable();
    places.dedup();
    places.into()
}
