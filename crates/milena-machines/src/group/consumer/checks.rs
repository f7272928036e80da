//! Validation of heartbeats. No record is written before all of these checks have passed.

use bytestring::ByteString;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{ConsumerGroupHeartbeatRequest, consumer_group_heartbeat_request::TopicPartitions as Owned},
};

use super::{
    MemberMetadata, Refusal,
    group::ConsumerGroup,
    member::{EpochPartitions, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, Member, MemberState, regex_of},
    refuse,
    regex::check_regex,
};

/// Checks that do not depend on the group.
pub(super) fn check_request(
    request: &ConsumerGroupHeartbeatRequest,
    version: i16,
    assignors: &[ByteString],
) -> Result<(), Refusal> {
    let invalid = |message: &str| Err(refuse(ErrorCode::InvalidRequest, message));
    let is_blank = |text: &ByteString| text.trim().is_empty();
    let epoch = request.member_epoch;
    if (version >= versions::consumer_group_heartbeat::CLIENT_MEMBER_ID || epoch > 0 || epoch == LEAVE_EPOCH)
        && is_blank(&request.member_id)
    {
        return invalid("MemberId can't be empty.");
    }
    if is_blank(&request.group_id) {
        return invalid("GroupId can't be empty.");
    }
    if request.instance_id.as_ref().is_some_and(is_blank) {
        return invalid("InstanceId can't be empty.");
    }
    if request.rack_id.as_ref().is_some_and(is_blank) {
        return invalid("RackId can't be empty.");
    }
    if epoch == 0 {
        if request.rebalance_timeout_ms == -1 {
            return invalid("RebalanceTimeoutMs must be provided in first request.");
        }
        if request.topic_partitions.as_ref().is_none_or(|owned| !owned.is_empty()) {
            return invalid("TopicPartitions must be empty when (re-)joining.");
        }
        if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() {
            return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.");
        }
    } else if epoch == LEAVE_STATIC_EPOCH && request.instance_id.is_none() {
        return invalid("InstanceId can't be null.");
    } else if epoch < LEAVE_STATIC_EPOCH {
        return invalid("MemberEpoch is invalid.");
    }
    match &request.server_assignor {
        Some(assignor) if !assignors.contains(assignor) => {
            let message = format!(
                "ServerAssignor {assignor} is not supported. Supported assignors: {}.",
                assignors.join(", ")
            );
            Err(refuse(ErrorCode::UnsupportedAssignor, message))
        }
        _ => Ok(()),
    }
}

pub(super) fn not_a_consumer_group(group_id: &str, is_there: bool) -> Refusal {
    let message = if is_there {
        format!("Group {group_id} is not a consumer group.")
    } else {
        format!("Consumer group {group_id} not found.")
    };
    refuse(ErrorCode::GroupIdNotFound, message)
}

pub(super) fn check_size(group: &ConsumerGroup, member_id: &str, size_max: usize) -> Result<(), Refusal> {
    if group.members.len() < size_max || group.members.contains_key(member_id) {
        return Ok(());
    }
    let message = format!("The consumer group has reached its maximum capacity of {size_max} members.");
    Err(refuse(ErrorCode::GroupMaxSizeReached, message))
}

impl ConsumerGroup {
    /// The member with this id; if an instance id is given too, it must belong to this member.
    pub(super) fn member(
        &self,
        group_id: &str,
        member_id: &str,
        instance_id: Option<&ByteString>,
    ) -> Result<&Member, Refusal> {
        let Some(instance_id) = instance_id else {
            return self.members.get(member_id).ok_or_else(|| {
                let message = format!("Member {member_id} is not a member of group {group_id}.");
                refuse(ErrorCode::UnknownMemberId, message)
            });
        };
        let Some((owner_id, owner)) = self.static_member(instance_id) else {
            let message = format!("Instance id {instance_id} is unknown.");
            return Err(refuse(ErrorCode::UnknownMemberId, message));
        };
        if *owner_id != member_id {
            let message =
                format!("Static member {member_id} with instance id {instance_id} was fenced by member {owner_id}.");
            return Err(refuse(ErrorCode::FencedInstanceId, message));
        }
        Ok(owner)
    }
}

/// Accepts the previous epoch too if the response with the new one may have been lost: then the member owns no more
/// than its assignment.
pub(super) fn check_epoch(member: &Member, request: &ConsumerGroupHeartbeatRequest) -> Result<(), Refusal> {
    let (got, known) = (request.member_epoch, member.current.epoch);
    let owned = request.topic_partitions.as_deref();
    if got > known {
        return Err(fenced(&format!(
            "The consumer group member has a greater member epoch ({got}) than the one known by the group coordinator \
             ({known})."
        )));
    }
    let is_retry =
        got == member.current.previous_epoch && owned.is_some_and(|owned| is_subset(owned, &member.current.assigned));
    if got < known && !is_retry {
        return Err(fenced(&format!(
            "The consumer group member has a smaller member epoch ({got}) than the one known by the group coordinator \
             ({known})."
        )));
    }
    if member.current.state == MemberState::Unknown && owned.is_none_or(|owned| !owned.is_empty()) {
        return Err(fenced("The consumer group member is in a unknown state."));
    }
    Ok(())
}

fn fenced(message: &str) -> Refusal {
    let message = format!("{message} The member must abandon all its partitions and rejoin.");
    refuse(ErrorCode::FencedMemberEpoch, message)
}

fn is_subset(owned: &[Owned], assigned: &EpochPartitions) -> bool {
    owned.iter().all(|topic| {
        let assigned = assigned.get(&topic.topic_id);
        assigned.is_some_and(|assigned| {
            topic
                .partitions
                .iter()
                .all(|partition| assigned.contains_key(partition))
        })
    })
}

/// An instance id is free if its member has left temporarily, or is of the classic protocol, where the newer member
/// wins.
pub(super) fn check_released(instance_id: &str, old_id: &str, old: &Member, member_id: &str) -> Result<(), Refusal> {
    if old.current.epoch == LEAVE_STATIC_EPOCH || old.uses_classic_protocol() {
        return Ok(());
    }
    let message = format!(
        "Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is owned by \
         {old_id} member."
    );
    Err(refuse(ErrorCode::UnreleasedInstanceId, message))
}

pub(super) fn check_own_regex(request: &ConsumerGroupHeartbeatRequest) -> Result<(), Refusal> {
    match request
        .subscribed_topic_regex
        .as_ref()
        .filter(|regex| !regex.is_empty())
    {
        Some(regex) => check_regex(regex),
        None => Ok(()),
    }
}

/// A pattern that other members use has been checked before.
pub(super) fn check_new_regex(
    group: &ConsumerGroup,
    old: &MemberMetadata,
    new: Option<&MemberMetadata>,
) -> Result<(), Refusal> {
    match new.and_then(regex_of) {
        Some(regex) if regex_of(old) != Some(regex) && group.regex_members(regex) == 0 => check_regex(regex),
        _ => Ok(()),
    }
}
