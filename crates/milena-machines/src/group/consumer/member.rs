//! A member of a group of the consumer protocol, as it is stored.

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;
use milena_wire::{
    Uuid,
    messages::{
        ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupMemberMetadataValue,
        consumer_group_current_member_assignment_value::TopicPartitions,
    },
};

/// Partitions by topic id.
pub(super) type Partitions = BTreeMap<Uuid, BTreeSet<i32>>;

/// As [`Partitions`], each with the epoch in which the member got it: a commit with an older epoch is from a former
/// owner.
pub(super) type EpochPartitions = BTreeMap<Uuid, BTreeMap<i32, i32>>;

/// The member epoch in a heartbeat of a member that leaves for good.
pub(super) const LEAVE_EPOCH: i32 = -1;
/// The member epoch in a heartbeat of a static member that leaves temporarily.
pub(super) const LEAVE_STATIC_EPOCH: i32 = -2;

#[derive(Debug)]
pub(super) struct Member {
    /// Identity and subscription. The topic names are sorted and unique.
    pub(super) metadata: ConsumerGroupMemberMetadataValue,
    pub(super) current: CurrentAssignment,
    /// The end of the session. Not in the log: after a restart every session is new.
    pub(super) session_deadline_ms: i64,
    /// The time of the session timer: never after the deadline.
    pub(super) session_timer_ms: i64,
}

/// The current assignment of a member, on its way to its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CurrentAssignment {
    pub(super) epoch: i32,
    pub(super) previous_epoch: i32,
    pub(super) state: MemberState,
    pub(super) assigned: EpochPartitions,
    /// Partitions that the member must revoke and may still own.
    pub(super) revoking: EpochPartitions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberState {
    /// It has all partitions of its epoch's target.
    Stable,
    /// It has yet to revoke partitions.
    UnrevokedPartitions,
    /// It waits for partitions that their owners have yet to give up.
    UnreleasedPartitions,
    /// Written by a newer Kafka: the member must rejoin.
    Unknown,
}

impl MemberState {
    fn code(self) -> i8 {
        match self {
            Self::Stable => 0,
            Self::UnrevokedPartitions => 1,
            Self::UnreleasedPartitions => 2,
            Self::Unknown => 127,
        }
    }

    fn from_code(code: i8) -> Self {
        match code {
            0 => Self::Stable,
            1 => Self::UnrevokedPartitions,
            2 => Self::UnreleasedPartitions,
            _ => Self::Unknown,
        }
    }
}

impl Default for Member {
    fn default() -> Self {
        Self {
            metadata: new_metadata(),
            current: CurrentAssignment::default(),
            session_deadline_ms: i64::MAX,
            session_timer_ms: i64::MAX,
        }
    }
}

impl Default for CurrentAssignment {
    fn default() -> Self {
        Self {
            epoch: 0,
            previous_epoch: -1,
            state: MemberState::Stable,
            assigned: BTreeMap::new(),
            revoking: BTreeMap::new(),
        }
    }
}

/// The metadata of a member before its first report.
pub(super) fn new_metadata() -> ConsumerGroupMemberMetadataValue {
    ConsumerGroupMemberMetadataValue {
        instance_id: None,
        rack_id: None,
        server_assignor: None,
        subscribed_topic_regex: Some(ByteString::new()),
        rebalance_timeout_ms: -1,
        ..Default::default()
    }
}

/// The regular expression of a subscription; an empty one means none.
pub(super) fn regex_of(metadata: &ConsumerGroupMemberMetadataValue) -> Option<&ByteString> {
    metadata
        .subscribed_topic_regex
        .as_ref()
        .filter(|regex| !regex.is_empty())
}

impl Member {
    pub(super) fn regex(&self) -> Option<&ByteString> {
        regex_of(&self.metadata)
    }

    pub(super) fn uses_classic_protocol(&self) -> bool {
        self.metadata.classic_member_metadata.is_some()
    }

    pub(super) fn is_reconciled_to(&self, target_epoch: i32) -> bool {
        self.current.state == MemberState::Stable && self.current.epoch == target_epoch
    }
}

impl CurrentAssignment {
    /// All partitions that no other member may have.
    pub(super) fn owned(&self) -> impl Iterator<Item = (Uuid, i32)> {
        let all = self.assigned.iter().chain(&self.revoking);
        all.flat_map(|(topic, partitions)| partitions.keys().map(|partition| (*topic, *partition)))
    }

    /// The epoch in which the member got a partition that it owns or has yet to revoke.
    pub(super) fn assignment_epoch(&self, topic: Uuid, partition: i32) -> Option<i32> {
        let epoch_in = |partitions: &EpochPartitions| partitions.get(&topic)?.get(&partition).copied();
        epoch_in(&self.assigned).or_else(|| epoch_in(&self.revoking))
    }

    pub(super) fn to_record(&self) -> ConsumerGroupCurrentMemberAssignmentValue {
        ConsumerGroupCurrentMemberAssignmentValue {
            member_epoch: self.epoch,
            previous_member_epoch: self.previous_epoch,
            state: self.state.code(),
            assigned_partitions: to_topic_partitions(&self.assigned),
            partitions_pending_revocation: to_topic_partitions(&self.revoking),
            ..Default::default()
        }
    }

    pub(super) fn from_record(value: &ConsumerGroupCurrentMemberAssignmentValue) -> Self {
        Self {
            epoch: value.member_epoch,
            previous_epoch: value.previous_member_epoch,
            state: MemberState::from_code(value.state),
            assigned: from_topic_partitions(&value.assigned_partitions, value.member_epoch),
            revoking: from_topic_partitions(&value.partitions_pending_revocation, value.member_epoch),
        }
    }
}

fn to_topic_partitions(assignment: &EpochPartitions) -> Vec<TopicPartitions> {
    let topics = assignment.iter().map(|(topic_id, partitions)| TopicPartitions {
        topic_id: *topic_id,
        partitions: partitions.keys().copied().collect(),
        assignment_epochs: Some(partitions.values().copied().collect()),
        ..Default::default()
    });
    topics.collect()
}

/// A record from before Kafka 4.3 has no epochs for partitions: the member's epoch counts for all.
fn from_topic_partitions(topics: &[TopicPartitions], member_epoch: i32) -> EpochPartitions {
    let mut assignment = EpochPartitions::new();
    for topic in topics {
        let epochs = topic.assignment_epochs.as_deref().unwrap_or_default();
        let epochs = if epochs.len() == topic.partitions.len() {
            epochs
        } else {
            &[]
        };
        let partitions = assignment.entry(topic.topic_id).or_default();
        for (place, partition) in topic.partitions.iter().enumerate() {
            let epoch = epochs.get(place).copied().unwrap_or_else(|| member_epoch.max(0));
            partitions.insert(*partition, epoch);
        }
    }
    assignment
}
