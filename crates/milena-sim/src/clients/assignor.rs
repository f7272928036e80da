//! The assignor of the leader of a classic group.

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;
use milena_machines::TopicsImage;

use crate::checks::TopicPartition;

pub(super) type Assignments = BTreeMap<ByteString, BTreeSet<TopicPartition>>;

/// A member as the leader sees it.
#[derive(Debug, Clone)]
pub(super) struct Subscriber {
    pub(super) member_id: ByteString,
    pub(super) instance: Option<ByteString>,
    pub(super) topics: Vec<ByteString>,
    /// What it says it owns, and since which generation. Always empty in an eager group.
    pub(super) owned: BTreeSet<TopicPartition>,
    pub(super) generation: i32,
}

/// Everyone keeps what it has up to its share; the rest goes to whoever has least. With `cooperative`, what changes
/// hands is given to nobody for now: its owner lets go, and the next generation gives it out.
pub(super) fn assign(subscribers: &[Subscriber], topics: &TopicsImage, cooperative: bool) -> Assignments {
    let owners = owners(subscribers);
    let mut assignments: Assignments = subscribers
        .iter()
        .map(|subscriber| (subscriber.member_id.clone(), BTreeSet::new()))
        .collect();
    let wanted: BTreeSet<TopicPartition> = subscribers
        .iter()
        .flat_map(|subscriber| &subscriber.topics)
        .filter_map(|topic| Some((topic, topics.by_name(topic)?)))
        .flat_map(|(topic, image)| {
            (0..image.partitions).map(move |partition| TopicPartition {
                topic: topic.clone(),
                partition,
            })
        })
        .collect();
    let share = wanted.len().div_ceil(subscribers.len().max(1));
    let mut left = vec![];
    for place in wanted {
        let owner = owners.get(&place).filter(|owner| owner.topics.contains(&place.topic));
        let owned = owner.and_then(|owner| assignments.get_mut(&owner.member_id));
        match owned.filter(|owned| owned.len() < share) {
            Some(owned) => {
                owned.insert(place);
            }
            None => left.push(place),
        }
    }
    for place in left {
        let wanting = subscribers
            .iter()
            .filter(|subscriber| subscriber.topics.contains(&place.topic));
        let load = |subscriber: &&Subscriber| assignments.get(&subscriber.member_id).map(BTreeSet::len);
        if let Some(next) = wanting.min_by_key(load).map(|subscriber| subscriber.member_id.clone()) {
            assignments.entry(next).or_default().insert(place);
        }
    }
    if cooperative {
        for (member_id, places) in &mut assignments {
            places.retain(|place| owners.get(place).is_none_or(|owner| owner.member_id == *member_id));
        }
    }
    assignments
}

/// Of several that say they own a partition, the one of the newest generation does.
fn owners(subscribers: &[Subscriber]) -> BTreeMap<TopicPartition, &Subscriber> {
    let mut owners: BTreeMap<TopicPartition, &Subscriber> = BTreeMap::new();
    for subscriber in subscribers {
        for place in &subscriber.owned {
            let owner = owners.entry(place.clone()).or_insert(subscriber);
            if owner.generation < subscriber.generation {
                *owner = subscriber;
            }
        }
    }
    owners
}
