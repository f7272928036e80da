//! A member of a group, as the log tells of it.

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;
use milena_wire::{
    Uuid,
    messages::{
        ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupMemberMetadataValue,
        consumer_group_current_member_assignment_value::TopicPartitions,
    },
};

/// Partitions by the id of their topic.
pub(super) type Partitions = BTreeMap<Uuid, BTreeSet<i32>>;

/// As [`Partitions`], each with the epoch in which the member got it: a commit of an older epoch is of a former owner.
pub(super) type EpochPartitions = BTreeMap<Uuid, BTreeMap<i32, i32>>;

/// What a member is called by a heartbeat that takes it out for good.
pub(super) const LEAVE_EPOCH: i32 = -1;
/// What a static member is called by a heartbeat after which it comes back.
pub(super) const LEAVE_STATIC_EPOCH: i32 = -2;

#[derive(Debug)]
pub(super) struct Member {
    /// Who it is and what it wants. The topic names are sorted, each there once.
    pub(super) metadata: ConsumerGroupMemberMetadataValue,
    pub(super) current: Current,
    /// When the session ends if nothing is heard. Not in the log: after a restart every session is fresh.
    pub(super) session_deadline_ms: i64,
    /// Where the timer stands that looks at the deadline: never after it.
    pub(super) session_timer_ms: i64,
}

/// How far a member has come on its way to its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Current {
    pub(super) epoch: i32,
    pub(super) previous_epoch: i32,
    pub(super) state: MemberState,
    pub(super) assigned: EpochPartitions,
    /// What the member must give up, and may still hold.
    pub(super) revoking: EpochPartitions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberState {
    /// It has all that its epoch's target gives it.
    Stable,
    /// It has yet to give up partitions.
    UnrevokedPartitions,
    /// It waits for partitions that others have yet to give up.
    UnreleasedPartitions,
    /// Written by a newer Kafka: the member must start again.
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
            current: Current::default(),
            session_deadline_ms: i64::MAX,
            session_timer_ms: i64::MAX,
        }
    }
}

impl Default for Current {
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

/// What is said of a member that has said nothing of itself yet.
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

/// The regular expression of a subscription: an empty one stands for none.
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

impl Current {
    /// All partitions that nobody else may have.
    pub(super) fn held(&self) -> impl Iterator<Item = (Uuid, i32)> {
        let all = self.assigned.iter().chain(&self.revoking);
        all.flat_map(|(topic, partitions)| partitions.keys().map(|partition| (*topic, *partition)))
    }

    /// In which epoch the member got a partition that it has, or has yet to give up.
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

/// A record of before Kafka 4.3 has no epochs for partitions: the member's stands in for all.
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
