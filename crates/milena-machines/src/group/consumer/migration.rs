//! Upgrades and downgrades of groups with members between the two protocols.

use std::collections::BTreeSet;

use bytes::Bytes;
use bytestring::ByteString;
use milena_invariant::violated;
use milena_wire::{
    errors::ErrorCode,
    message::Message,
    messages::{
        ConsumerGroupHeartbeatRequest, ConsumerGroupMetadataValue, ConsumerGroupTargetAssignmentMetadataValue,
        ConsumerProtocolAssignment, ConsumerProtocolSubscription,
        consumer_group_member_metadata_value::{ClassicMemberMetadata, ClassicProtocol},
        consumer_protocol_assignment::TopicPartition,
        join_group_request::JoinGroupRequestProtocol,
    },
    prefixed::{decode_newest, encode_versioned, record_type},
};

use super::{
    MemberMetadata, Refusal,
    group::ConsumerGroup,
    member::{CurrentAssignment, EpochPartitions, Member, MemberState, Partitions, new_metadata},
    refuse,
    target::hash_topics,
};
use crate::{
    TopicsImage,
    group::{
        Group, GroupCoordinator, GroupEffects, GroupRecord,
        classic::{CONSUMER_PROTOCOL_TYPE, ClassicGroup, ClassicMember, State, keep_alive},
    },
};

/// A member of a classic group that is upgraded.
struct UpgradedMember {
    member_id: ByteString,
    metadata: MemberMetadata,
    assigned: Partitions,
    /// Partitions that it owned when it last joined and must give up. It may read them until it rejoins.
    revoking: Partitions,
}

impl GroupCoordinator {
    /// Checks that a member of the consumer protocol may join a classic group. An empty group is always replaced.
    pub(super) fn check_upgrade(
        &self,
        request: &ConsumerGroupHeartbeatRequest,
        group: &ClassicGroup,
    ) -> Result<(), Refusal> {
        if group.is_empty() {
            return Ok(());
        }
        let size_max = self.config.consumer_size_max;
        let cannot = |why: &str| Err(cannot_upgrade(&request.group_id, why));
        if !self.config.migration_policy.can_upgrade() {
            return cannot("online upgrade is disabled");
        }
        if !group.uses_consumer_protocol() {
            return cannot("the group does not use the consumer embedded protocol");
        }
        if group.members.len() > size_max {
            return cannot("the group size exceeds the consumer group maximum size");
        }
        if group.members.len() == size_max && !group.members.contains_key(&request.member_id) {
            let message = format!("The consumer group has reached its maximum capacity of {size_max} members.");
            return Err(refuse(ErrorCode::GroupMaxSizeReached, message));
        }
        Ok(())
    }

    /// Turns a classic group into one of the consumer protocol. Its members keep their partitions.
    pub(super) fn upgrade(
        &mut self,
        now_ms: i64,
        group_id: &ByteString,
        effects: &mut GroupEffects,
    ) -> Result<(), Refusal> {
        let Some(Group::Classic(group)) = self.groups.get_mut(group_id) else {
            violated!("an_upgraded_group_was_classic");
            return Ok(());
        };
        let generation_id = group.generation_id;
        let members = if group.is_empty() {
            vec![]
        } else {
            upgraded_members(group_id, group, &self.topics)?
        };
        for (member_id, member) in &mut group.members {
            member.reply_error(ErrorCode::RebalanceInProgress, member_id, effects);
        }
        let tombstone = GroupRecord::Classic {
            group_id: group_id.clone(),
            value: None,
        };
        self.write(tombstone, effects);
        if !members.is_empty() {
            self.write_upgraded(group_id, generation_id, &members, effects);
        }
        for member in members {
            let timeout_ms = self.session_timeout_ms(group_id, &member.member_id);
            self.renew_session(now_ms, group_id, &member.member_id, timeout_ms);
        }
        Ok(())
    }

    fn write_upgraded(
        &mut self,
        group_id: &ByteString,
        generation_id: i32,
        members: &[UpgradedMember],
        effects: &mut GroupEffects,
    ) {
        for member in members {
            let record = GroupRecord::Member {
                group_id: group_id.clone(),
                member_id: member.member_id.clone(),
                value: Some(member.metadata.clone()),
            };
            self.write(record, effects);
        }
        let metadata_hash = match self.groups.get(group_id) {
            Some(Group::Consumer(group)) => hash_topics(group, &self.topics),
            _ => 0,
        };
        let value = ConsumerGroupMetadataValue {
            epoch: generation_id,
            metadata_hash,
            ..Default::default()
        };
        let record = GroupRecord::ConsumerGroup {
            group_id: group_id.clone(),
            value: Some(value),
        };
        self.write(record, effects);
        for member in members {
            self.write_target(group_id, member.member_id.clone(), &member.assigned, effects);
        }
        let value = ConsumerGroupTargetAssignmentMetadataValue {
            assignment_epoch: generation_id,
            ..Default::default()
        };
        let record = GroupRecord::TargetEpoch {
            group_id: group_id.clone(),
            value: Some(value),
        };
        self.write(record, effects);
        for member in members {
            let record = GroupRecord::CurrentAssignment {
                group_id: group_id.clone(),
                member_id: member.member_id.clone(),
                value: Some(upgraded_assignment(member, generation_id).to_record()),
            };
            self.write(record, effects);
        }
    }

    /// Whether only members of the classic protocol remain without these.
    pub(super) fn can_downgrade_without(&self, group_id: &str, leaving: &[ByteString]) -> bool {
        let Some(Group::Consumer(group)) = self.groups.get(group_id) else {
            violated!("a_fenced_member_is_in_a_consumer_group");
            return false;
        };
        let mut left = group
            .members
            .iter()
            .filter(|(member_id, _)| !leaving.contains(member_id));
        let count = left.clone().count();
        self.config.migration_policy.can_downgrade()
            && count > 0
            && count <= self.config.classic_size_max
            && left.all(|(_, member)| member.uses_classic_protocol())
    }

    /// Turns a group whose members all use the classic protocol into a classic one.
    pub(super) fn downgrade(&mut self, now_ms: i64, group_id: &ByteString, effects: &mut GroupEffects) {
        let Some(Group::Consumer(group)) = self.groups.get(group_id) else {
            violated!("a_downgraded_group_used_the_consumer_protocol");
            return;
        };
        let mut classic = ClassicGroup::new();
        classic.generation_id = group.epoch;
        for (member_id, member) in &group.members {
            classic.add(member_id.clone(), downgraded_member(member));
        }
        classic.protocol_name = classic.select_protocol();
        classic.enter(State::Stable, now_ms);
        let protocol = classic.protocol_name.clone().unwrap_or_default();
        for (member_id, member) in &mut classic.members {
            let subscription = member.metadata(&protocol);
            // The partitions it owns. Kafka writes the target, which others may still own: an upgrade before the
            // rebalance would trust it, and give away partitions of this member.
            let mut owned = Partitions::new();
            for (topic, partition) in group
                .members
                .get(member_id)
                .into_iter()
                .flat_map(|member| member.current.owned())
            {
                owned.entry(topic).or_default().insert(partition);
            }
            member.assignment = assignment_bytes([&owned], &subscription, &self.topics);
        }
        let tombstones = group.tombstones(group_id);
        let member_ids: Vec<ByteString> = group.members.keys().cloned().collect();
        for member_id in &member_ids {
            self.cancel_member_timers(group_id, member_id);
        }
        for tombstone in tombstones {
            self.write(tombstone, effects);
        }
        let record = GroupRecord::Classic {
            group_id: group_id.clone(),
            value: Some(classic.to_record()),
        };
        self.write(record, effects);
        // The log has only the selected protocol; the members support more.
        let Some(Group::Classic(group)) = self.groups.get_mut(group_id) else {
            violated!("a_written_group_is_there");
            return;
        };
        for (member_id, member) in &mut group.members {
            if let Some(known) = classic.members.remove(member_id) {
                member.protocols = known.protocols;
            }
            let timeout_ms = member.session_timeout_ms;
            keep_alive(&mut self.timers, group_id, (member_id, member), now_ms, timeout_ms);
        }
    }
}

fn cannot_upgrade(group_id: &str, why: &str) -> Refusal {
    let message = format!("Cannot upgrade classic group {group_id} to consumer group because {why}.");
    refuse(ErrorCode::GroupIdNotFound, message)
}

fn upgraded_members(
    group_id: &str,
    group: &ClassicGroup,
    topics: &TopicsImage,
) -> Result<Vec<UpgradedMember>, Refusal> {
    let malformed = || cannot_upgrade(group_id, "the embedded consumer protocol is malformed");
    let protocol = group.protocol_name.clone().or_else(|| group.select_protocol());
    let protocol = protocol.ok_or_else(malformed)?;
    let mut taken = BTreeSet::new();
    let mut upgraded = vec![];
    for (member_id, member) in &group.members {
        let subscription: ConsumerProtocolSubscription =
            decode_newest(&member.metadata(&protocol)).map_err(|_| malformed())?;
        let assigned = assigned_partitions(group_id, &member.assignment, topics)?;
        for (topic, partitions) in &assigned {
            // Members that read the same partition cannot continue to do so.
            if !partitions.iter().all(|partition| taken.insert((*topic, *partition))) {
                return Err(cannot_upgrade(group_id, "a partition is assigned to several members"));
            }
        }
        let revoking = owned_partitions(&subscription, topics);
        upgraded.push(UpgradedMember {
            member_id: member_id.clone(),
            metadata: upgraded_metadata(member, subscription),
            assigned,
            revoking,
        });
    }
    for member in &mut upgraded {
        for (topic, partitions) in &mut member.revoking {
            // An assigned partition belongs to this member, or to another that reads it already.
            partitions.retain(|partition| !taken.contains(&(*topic, *partition)));
        }
        member.revoking.retain(|_, partitions| !partitions.is_empty());
    }
    Ok(upgraded)
}

fn owned_partitions(subscription: &ConsumerProtocolSubscription, topics: &TopicsImage) -> Partitions {
    let mut owned = Partitions::new();
    for topic in &subscription.owned_partitions {
        if let Some(image) = topics.by_name(&topic.topic) {
            owned
                .entry(image.id)
                .or_default()
                .extend(topic.partitions.iter().copied());
        }
    }
    owned
}

fn assigned_partitions(group_id: &str, assignment: &Bytes, topics: &TopicsImage) -> Result<Partitions, Refusal> {
    let mut partitions = Partitions::new();
    if assignment.is_empty() {
        return Ok(partitions);
    }
    let assignment: ConsumerProtocolAssignment = decode_newest(assignment)
        .map_err(|_| cannot_upgrade(group_id, "the embedded consumer protocol is malformed"))?;
    if assignment.user_data.is_some_and(|data| !data.is_empty()) {
        let why = "an unsupported custom assignor is in use, whose data would be lost";
        return Err(cannot_upgrade(group_id, why));
    }
    for topic in assignment.assigned_partitions {
        if let Some(image) = topics.by_name(&topic.topic) {
            partitions.entry(image.id).or_default().extend(topic.partitions);
        }
    }
    Ok(partitions)
}

fn upgraded_metadata(member: &ClassicMember, subscription: ConsumerProtocolSubscription) -> MemberMetadata {
    MemberMetadata {
        instance_id: member.instance_id.clone(),
        rack_id: subscription.rack_id.filter(|rack| !rack.is_empty()),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        subscribed_topic_names: subscription.topics,
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        classic_member_metadata: Some(classic_metadata(member.session_timeout_ms, &member.protocols)),
        ..new_metadata()
    }
}

pub(super) fn classic_metadata(
    session_timeout_ms: i32,
    protocols: &[JoinGroupRequestProtocol],
) -> ClassicMemberMetadata {
    let protocols = protocols.iter().map(|protocol| ClassicProtocol {
        name: protocol.name.clone(),
        metadata: protocol.metadata.clone(),
        ..Default::default()
    });
    ClassicMemberMetadata {
        session_timeout_ms,
        supported_protocols: protocols.collect(),
        ..Default::default()
    }
}

fn upgraded_assignment(member: &UpgradedMember, generation_id: i32) -> CurrentAssignment {
    let with_epochs = |partitions: &Partitions| -> EpochPartitions {
        let topics = partitions.iter().map(|(topic, partitions)| {
            let partitions = partitions.iter().map(|partition| (*partition, generation_id));
            (*topic, partitions.collect())
        });
        topics.collect()
    };
    let state = if member.revoking.is_empty() {
        MemberState::Stable
    } else {
        MemberState::UnrevokedPartitions
    };
    CurrentAssignment {
        epoch: generation_id,
        previous_epoch: generation_id,
        state,
        assigned: with_epochs(&member.assigned),
        revoking: with_epochs(&member.revoking),
    }
}

fn downgraded_member(member: &Member) -> ClassicMember {
    let metadata = &member.metadata;
    let classic = metadata.classic_member_metadata.as_ref();
    let protocols = classic
        .map(|classic| classic.supported_protocols.as_slice())
        .unwrap_or_default();
    let protocols = protocols.iter().map(|protocol| JoinGroupRequestProtocol {
        name: protocol.name.clone(),
        metadata: protocol.metadata.clone(),
        ..Default::default()
    });
    ClassicMember {
        instance_id: metadata.instance_id.clone(),
        client_id: metadata.client_id.clone(),
        client_host: metadata.client_host.clone(),
        rebalance_timeout_ms: metadata.rebalance_timeout_ms,
        session_timeout_ms: classic.map_or(0, |classic| classic.session_timeout_ms),
        protocol_type: CONSUMER_PROTOCOL_TYPE.into(),
        protocols: protocols.collect(),
        assignment: Bytes::new(),
        joining: None,
        syncing: None,
        is_new: false,
        session_deadline_ms: None,
    }
}

/// An assignment in the version in which the client subscribed.
pub(super) fn assignment_bytes<'a, P>(
    partitions: impl IntoIterator<Item = P>,
    subscription: &Bytes,
    topics: &TopicsImage,
) -> Bytes
where
    P: IntoIterator<Item = (&'a milena_wire::Uuid, &'a BTreeSet<i32>)>,
{
    let named = partitions.into_iter().flatten().filter_map(|(topic_id, partitions)| {
        let (name, _) = topics.by_id(*topic_id)?;
        Some(TopicPartition {
            topic: name.clone(),
            partitions: partitions.iter().copied().collect(),
        })
    });
    let assignment = ConsumerProtocolAssignment {
        assigned_partitions: named.collect(),
        user_data: None,
    };
    let versions = ConsumerProtocolAssignment::VERSIONS;
    let version = record_type(subscription).unwrap_or(versions.min);
    let version = version.clamp(versions.min, versions.max);
    encode_versioned(&assignment, version).unwrap_or_default()
}

impl ConsumerGroup {
    /// Whether a client of the classic protocol can join: one of its protocols must be supported by all members that
    /// use it.
    pub(super) fn supports_classic(&self, protocol_type: &str, protocols: &[JoinGroupRequestProtocol]) -> bool {
        let all_know = |name: &ByteString| {
            let classic = self
                .members
                .values()
                .filter_map(|member| member.metadata.classic_member_metadata.as_ref());
            let mut known = classic.map(|classic| classic.supported_protocols.iter().any(|own| own.name == *name));
            known.all(|knows| knows)
        };
        protocol_type == CONSUMER_PROTOCOL_TYPE && protocols.iter().any(|protocol| all_know(&protocol.name))
    }
}
