//! Replay of records of the consumer protocol.
//!
//! A compacted log may have lost earlier records: each record is applied as it is.

use bytestring::ByteString;
use milena_wire::messages::ConsumerGroupTargetAssignmentMemberValue;

use super::{
    group::ConsumerGroup,
    member::{CurrentAssignment, Partitions},
    regex::ResolvedRegex,
};
use crate::group::{Group, GroupCoordinator, GroupRecord};

impl GroupCoordinator {
    pub(in crate::group) fn replay_consumer(&mut self, record: GroupRecord) {
        match record {
            // These two are replayed elsewhere.
            GroupRecord::Offset { .. } | GroupRecord::Classic { .. } => {}
            GroupRecord::ConsumerGroup { group_id, value: None } => {
                if matches!(self.groups.get(&group_id), Some(Group::Consumer(_))) {
                    self.groups.remove(&group_id);
                }
            }
            GroupRecord::ConsumerGroup {
                group_id,
                value: Some(value),
            } => {
                if let Some(group) = self.group_of_record(group_id, true) {
                    (group.epoch, group.metadata_hash) = (value.epoch, value.metadata_hash);
                }
            }
            GroupRecord::TargetEpoch { group_id, value } => {
                if let Some(group) = self.group_of_record(group_id, value.is_some()) {
                    group.target_epoch = value.map_or(-1, |value| value.assignment_epoch);
                }
            }
            GroupRecord::Member {
                group_id,
                member_id,
                value,
            } => {
                let group = self.group_of_record(group_id, value.is_some());
                match (group, value) {
                    (Some(group), Some(value)) => group.put_metadata(member_id, value),
                    (Some(group), None) => group.remove_member(&member_id),
                    (None, _) => {}
                }
            }
            GroupRecord::TargetAssignment {
                group_id,
                member_id,
                value,
            } => {
                let group = self.group_of_record(group_id, value.is_some());
                match (group, value) {
                    (Some(group), Some(value)) => {
                        group.target.insert(member_id, partitions_of(&value));
                    }
                    (Some(group), None) => {
                        group.target.remove(&member_id);
                    }
                    (None, _) => {}
                }
            }
            GroupRecord::CurrentAssignment {
                group_id,
                member_id,
                value,
            } => {
                let group = self.group_of_record(group_id, value.is_some());
                match (group, value) {
                    (Some(group), Some(value)) => group.put_current(&member_id, CurrentAssignment::from_record(&value)),
                    (Some(group), None) => group.forget_current(&member_id),
                    (None, _) => {}
                }
            }
            GroupRecord::Regex { group_id, regex, value } => {
                if let Some(group) = self.group_of_record(group_id, value.is_some()) {
                    let resolved = value.map(|value| ResolvedRegex {
                        topics: value.topics.into_iter().collect(),
                    });
                    group.put_regex(regex, resolved);
                }
            }
        }
    }

    /// The group of a record. A tombstone creates none; any other record does, also in place of a classic group.
    fn group_of_record(&mut self, group_id: ByteString, has_value: bool) -> Option<&mut ConsumerGroup> {
        if has_value && !matches!(self.groups.get(&group_id), Some(Group::Consumer(_))) {
            let group = Group::Consumer(ConsumerGroup::default());
            self.groups.insert(group_id.clone(), group);
        }
        match self.groups.get_mut(&group_id) {
            Some(Group::Consumer(group)) => Some(group),
            _ => None,
        }
    }
}

impl ConsumerGroup {
    /// The first half of a member's removal: the tombstone of the member itself follows.
    fn forget_current(&mut self, member_id: &ByteString) {
        if self.members.contains_key(member_id) {
            let gone = CurrentAssignment {
                epoch: -1,
                ..CurrentAssignment::default()
            };
            self.put_current(member_id, gone);
        }
    }
}

fn partitions_of(value: &ConsumerGroupTargetAssignmentMemberValue) -> Partitions {
    let mut partitions = Partitions::new();
    for topic in &value.topic_partitions {
        partitions.entry(topic.topic_id).or_default().extend(&topic.partitions);
    }
    partitions
}
