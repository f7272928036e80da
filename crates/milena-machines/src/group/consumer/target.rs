//! The group's epoch, and its target assignment.

use std::{collections::BTreeMap, rc::Rc};

use bytestring::ByteString;
use milena_invariant::violated;
use milena_wire::{
    Uuid,
    messages::{
        ConsumerGroupMetadataValue, ConsumerGroupTargetAssignmentMemberValue,
        ConsumerGroupTargetAssignmentMetadataValue, consumer_group_target_assignment_member_value::TopicPartition,
    },
};

use super::{
    assignors::{MemberSpec, TopicSpec, assign},
    group::ConsumerGroup,
    member::{Member, Partitions},
};
use crate::{
    TopicsImage,
    group::{Group, GroupCoordinator, GroupEffects, GroupRecord},
};

impl GroupCoordinator {
    /// Bumps the epoch if `must`, or if the group's topics have changed.
    pub(super) fn maybe_bump_epoch(&mut self, group_id: &ByteString, must: bool, effects: &mut GroupEffects) {
        let Some(Group::Consumer(group)) = self.groups.get_mut(group_id) else {
            violated!("a_group_with_an_epoch_is_there");
            return;
        };
        if !must && !group.topics_changed {
            return;
        }
        group.topics_changed = false;
        let metadata_hash = hash_topics(group, &self.topics);
        if must || metadata_hash != group.metadata_hash {
            let value = ConsumerGroupMetadataValue {
                epoch: group.epoch.saturating_add(1),
                metadata_hash,
                ..Default::default()
            };
            let group_id = group_id.clone();
            let value = Some(value);
            self.write(GroupRecord::ConsumerGroup { group_id, value }, effects);
        }
    }

    /// Computes the target of the group's epoch unless it is up to date.
    pub(super) fn maybe_update_target(&mut self, now_ms: i64, group_id: &ByteString, effects: &mut GroupEffects) {
        let Some(Group::Consumer(group)) = self.groups.get(group_id) else {
            violated!("a_group_with_a_target_is_there");
            return;
        };
        if group.target_epoch >= group.epoch {
            return;
        }
        let assignment_epoch = group.epoch;
        let assignor = group.preferred_assignor(&self.config.consumer_assignors);
        let target = new_target(group, &self.topics, assignor.map_or("uniform", |name| name));
        for (member_id, partitions) in target {
            self.write_target(group_id, member_id, &partitions, effects);
        }
        let value = ConsumerGroupTargetAssignmentMetadataValue {
            assignment_epoch,
            assignment_timestamp: now_ms,
            ..Default::default()
        };
        let (group_id, value) = (group_id.clone(), Some(value));
        self.write(GroupRecord::TargetEpoch { group_id, value }, effects);
    }

    pub(super) fn write_target(
        &mut self,
        group_id: &ByteString,
        member_id: ByteString,
        partitions: &Partitions,
        effects: &mut GroupEffects,
    ) {
        let topics = partitions.iter().map(|(topic_id, partitions)| TopicPartition {
            topic_id: *topic_id,
            partitions: partitions.iter().copied().collect(),
            ..Default::default()
        });
        let value = ConsumerGroupTargetAssignmentMemberValue {
            topic_partitions: topics.collect(),
            ..Default::default()
        };
        let record = GroupRecord::TargetAssignment {
            group_id: group_id.clone(),
            member_id,
            value: Some(value),
        };
        self.write(record, effects);
    }
}

/// Topic names and regular expression.
type Subscription<'a> = (&'a [ByteString], Option<&'a ByteString>);

/// The targets that change, by member.
fn new_target(group: &ConsumerGroup, topics: &TopicsImage, assignor: &str) -> Vec<(ByteString, Partitions)> {
    let nothing = Partitions::new();
    let mut subscriptions: BTreeMap<Subscription<'_>, Rc<[TopicSpec]>> = BTreeMap::new();
    let specs: Vec<MemberSpec<'_>> = group
        .members
        .iter()
        .map(|(member_id, member)| {
            let subscription = (member.metadata.subscribed_topic_names.as_slice(), member.regex());
            let topics = subscriptions
                .entry(subscription)
                .or_insert_with(|| topics_of(group, member, topics));
            MemberSpec {
                member_id,
                instance_id: member.metadata.instance_id.as_ref(),
                topics: Rc::clone(topics),
                previous: group.target.get(member_id).unwrap_or(&nothing),
            }
        })
        .collect();
    let assignment = assign(assignor, &specs);
    let targets = group.members.keys().zip(assignment);
    let changed = targets.filter(|(member_id, partitions)| group.target.get(*member_id) != Some(partitions));
    changed
        .map(|(member_id, partitions)| (member_id.clone(), partitions))
        .collect()
}

/// The existing topics that a member subscribes to, in the order of their ids.
fn topics_of(group: &ConsumerGroup, member: &Member, topics: &TopicsImage) -> Rc<[TopicSpec]> {
    let names = member.metadata.subscribed_topic_names.iter();
    let matches = group.matches_of(member).into_iter().flatten();
    let found = names.chain(matches).filter_map(|name| topics.by_name(name));
    let mut found: Vec<TopicSpec> = found
        .map(|topic| TopicSpec {
            id: topic.id,
            partitions: topic.partitions,
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into()
}

/// Hash of the existing topics that the group subscribes to; zero without any.
///
/// Kafka's differs (XXH3, with racks): a group from its log is assigned anew once.
pub(super) fn hash_topics(group: &ConsumerGroup, topics: &TopicsImage) -> i64 {
    let mut hash = Fnv::default();
    let mut is_empty = true;
    for name in group.subscribed_topics() {
        if let Some(topic) = topics.by_name(name) {
            is_empty = false;
            hash.add(name.as_bytes());
            hash.add(Uuid::as_bytes(&topic.id));
            hash.add(&topic.partitions.to_be_bytes());
        }
    }
    if is_empty { 0 } else { hash.0.cast_signed() }
}

/// FNV-1a with 64 bits.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
