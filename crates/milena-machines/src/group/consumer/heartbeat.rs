//! ConsumerGroupHeartbeat: joins, says what it wants and owns, and learns what it has.

use bytestring::ByteString;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
        consumer_group_heartbeat_request::TopicPartitions as Owned,
        consumer_group_heartbeat_response::{Assignment, TopicPartitions},
    },
};

use super::{
    MemberMetadata, Refusal,
    group::ConsumerGroup,
    member::{EpochPartitions, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, Member, MemberState, new_metadata, regex_of},
    reconcile::Reconciliation,
    refuse,
    regex::check_regex,
};
use crate::group::{Group, GroupContext, GroupCoordinator, GroupEffects, GroupRecord, GroupReply};

/// A member that has reported.
pub(super) struct Report<'a> {
    pub(super) now_ms: i64,
    pub(super) group_id: &'a ByteString,
    pub(super) member_id: &'a ByteString,
    /// What it says that it owns.
    pub(super) owned: Option<&'a [Owned]>,
}

impl GroupCoordinator {
    pub(in crate::group) fn consumer_heartbeat(
        &mut self,
        context: &GroupContext,
        request: ConsumerGroupHeartbeatRequest,
        effects: &mut GroupEffects,
    ) -> GroupReply {
        let answer = self.answer_heartbeat(context, request, effects);
        GroupReply::ConsumerHeartbeat(answer.unwrap_or_else(|refusal| ConsumerGroupHeartbeatResponse {
            error_code: refusal.code.code(),
            error_message: Some(refusal.message.into()),
            ..Default::default()
        }))
    }

    fn answer_heartbeat(
        &mut self,
        context: &GroupContext,
        mut request: ConsumerGroupHeartbeatRequest,
        effects: &mut GroupEffects,
    ) -> Result<ConsumerGroupHeartbeatResponse, Refusal> {
        if !self.config.consumer_protocol_enabled {
            let message = "The consumer group protocol is not enabled on this broker.";
            return Err(refuse(ErrorCode::UnsupportedVersion, message));
        }
        check_request(&request, context.version, &self.config.consumer_assignors)?;
        if request.member_epoch < 0 {
            return self.leave_by_heartbeat(context, &request, effects);
        }
        if let Some(names) = &mut request.subscribed_topic_names {
            names.sort_unstable();
            names.dedup();
        }
        if request.member_epoch == 0 {
            return self.join_by_heartbeat(context, request, effects);
        }
        let group = match self.groups.get_mut(&request.group_id) {
            Some(Group::Consumer(group)) => group,
            group => return Err(not_a_consumer_group(&request.group_id, group.is_some())),
        };
        check_size(group, &request.member_id, self.config.consumer_size_max)?;
        let member = known_member(group, &request)?;
        check_epoch(member, &request)?;
        let metadata = updated_metadata(&member.metadata, context, &request);
        let is_quiet = metadata.is_none()
            && !group.topics_changed
            && !group.regexes_are_due(context.now_ms, self.config.regex_refresh_interval_ms)
            && group.target_epoch >= group.epoch
            && member.is_reconciled_to(group.target_epoch);
        let mut is_news = false;
        if !is_quiet {
            check_new_regex(group, &member.metadata, metadata.as_ref())?;
            is_news = self.settle_member(&report_of(context, &request), metadata, effects);
        }
        Ok(self.heartbeat_answer(context, &request, is_news))
    }

    fn join_by_heartbeat(
        &mut self,
        context: &GroupContext,
        mut request: ConsumerGroupHeartbeatRequest,
        effects: &mut GroupEffects,
    ) -> Result<ConsumerGroupHeartbeatResponse, Refusal> {
        let instance_id = request.instance_id.clone();
        match self.groups.get(&request.group_id) {
            None => check_own_regex(&request)?,
            Some(Group::Classic(group)) => {
                self.check_upgrade(&request, group)?;
                check_own_regex(&request)?;
                self.upgrade(context.now_ms, &request.group_id, effects)?;
            }
            Some(Group::Consumer(group)) => {
                check_size(group, &request.member_id, self.config.consumer_size_max)?;
                let old = match &instance_id {
                    Some(instance_id) => group.static_member(instance_id),
                    None => group.members.get_key_value(&request.member_id),
                };
                if let (Some(instance_id), Some((old_id, old))) = (&instance_id, old) {
                    check_released(instance_id, old_id, old, &request.member_id)?;
                }
                let new = new_metadata();
                let old = old.map_or(&new, |(_, old)| &old.metadata);
                let metadata = updated_metadata(old, context, &request);
                check_new_regex(group, old, metadata.as_ref())?;
            }
        }
        if request.member_id.is_empty() {
            request.member_id = self.random.uuid().into();
        }
        if let Some(instance_id) = &instance_id {
            self.take_static_place(&request.group_id, instance_id, &request.member_id, effects);
        }
        let member = self.consumer_member(&request.group_id, &request.member_id);
        let metadata = match member {
            Some(member) => updated_metadata(&member.metadata, context, &request),
            None => {
                let new = new_metadata();
                Some(updated_metadata(&new, context, &request).unwrap_or(new))
            }
        };
        self.settle_member(&report_of(context, &request), metadata, effects);
        Ok(self.heartbeat_answer(context, &request, true))
    }

    pub(super) fn consumer_member(&self, group_id: &str, member_id: &str) -> Option<&Member> {
        match self.groups.get(group_id)? {
            Group::Consumer(group) => group.members.get(member_id),
            Group::Classic(_) => None,
        }
    }

    /// Writes what is new of a member, and what follows from it for the group and for the member itself. True if the
    /// member has other partitions than before.
    pub(super) fn settle_member(
        &mut self,
        report: &Report<'_>,
        metadata: Option<MemberMetadata>,
        effects: &mut GroupEffects,
    ) -> bool {
        let subscription_changed = self.note_member(report, metadata, effects);
        self.maybe_update_target(report.now_ms, report.group_id, effects);
        self.maybe_reconcile(report, subscription_changed, effects)
    }

    /// Writes what is new of a member, and bumps the epoch if that matters to others. True if it subscribes to something
    /// else than before.
    pub(super) fn note_member(
        &mut self,
        report: &Report<'_>,
        metadata: Option<MemberMetadata>,
        effects: &mut GroupEffects,
    ) -> bool {
        let Report { now_ms, group_id, .. } = *report;
        let old = self.consumer_member(group_id, report.member_id);
        let had_regex = old.and_then(Member::regex).cloned();
        let (mut names_changed, mut regex_changed) = (false, false);
        if let Some(metadata) = metadata {
            let old_names = old.map(|old| old.metadata.subscribed_topic_names.as_slice());
            names_changed = old_names.unwrap_or_default() != metadata.subscribed_topic_names;
            regex_changed = had_regex.as_ref() != regex_of(&metadata);
            let record = GroupRecord::Member {
                group_id: group_id.clone(),
                member_id: report.member_id.clone(),
                value: Some(metadata),
            };
            self.write(record, effects);
        }
        let subscription_changed = names_changed || regex_changed;
        let matches_changed = self.refresh_regexes(now_ms, group_id, had_regex.as_ref(), effects);
        self.maybe_bump_epoch(group_id, subscription_changed || matches_changed, effects);
        subscription_changed
    }

    /// True if the member has other partitions than before.
    pub(super) fn maybe_reconcile(
        &mut self,
        report: &Report<'_>,
        subscription_changed: bool,
        effects: &mut GroupEffects,
    ) -> bool {
        let (group_id, member_id) = (report.group_id, report.member_id);
        let Some(Group::Consumer(group)) = self.groups.get(group_id) else {
            return false;
        };
        let Some(member) = group.members.get(member_id) else {
            return false;
        };
        if !subscription_changed && member.is_reconciled_to(group.target_epoch) {
            return false;
        }
        let reconciliation = Reconciliation {
            group,
            topics: &self.topics,
            member_id,
            member,
            subscription_changed,
            owned: report.owned,
        };
        let next = reconciliation.next();
        if next == member.current {
            return false;
        }
        let is_news = next.assigned != member.current.assigned;
        // A member of the classic protocol has a time of its own in which to join again.
        if !member.uses_classic_protocol() {
            let timeout_ms = member.metadata.rebalance_timeout_ms;
            let must_revoke = next.state == MemberState::UnrevokedPartitions;
            self.set_rebalance_timer(report, must_revoke.then_some(timeout_ms));
        }
        let record = GroupRecord::CurrentAssignment {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            value: Some(next.to_record()),
        };
        self.write(record, effects);
        is_news
    }

    /// Answers a member that was heard of.
    fn heartbeat_answer(
        &mut self,
        context: &GroupContext,
        request: &ConsumerGroupHeartbeatRequest,
        is_news: bool,
    ) -> ConsumerGroupHeartbeatResponse {
        let timeout_ms = self.config.consumer_session_timeout_ms(&request.group_id);
        self.renew_session(context.now_ms, &request.group_id, &request.member_id, timeout_ms);
        let is_full = request.rebalance_timeout_ms != -1
            && (request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some())
            && request.topic_partitions.is_some();
        let member = self.consumer_member(&request.group_id, &request.member_id);
        let current = member.map(|member| &member.current);
        ConsumerGroupHeartbeatResponse {
            member_id: Some(request.member_id.clone()),
            member_epoch: current.map_or(0, |current| current.epoch),
            heartbeat_interval_ms: self.config.consumer_heartbeat_interval_ms(&request.group_id),
            assignment: current
                .filter(|_| is_news || is_full)
                .map(|current| assignment_of(&current.assigned)),
            ..Default::default()
        }
    }

    /// A static member that comes back takes the place of the one that it was.
    pub(super) fn take_static_place(
        &mut self,
        group_id: &ByteString,
        instance_id: &ByteString,
        member_id: &ByteString,
        effects: &mut GroupEffects,
    ) {
        let Some(Group::Consumer(group)) = self.groups.get(group_id) else {
            return;
        };
        let Some((old_id, old)) = group.static_member(instance_id) else {
            return;
        };
        let (old_id, metadata, mut current) = (old_id.clone(), old.metadata.clone(), old.current.clone());
        (current.epoch, current.previous_epoch) = (0, 0);
        let target = group.target.get(&old_id).cloned().unwrap_or_default();
        self.write_member_tombstones(group_id, &old_id, effects);
        let record = GroupRecord::Member {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            value: Some(metadata),
        };
        self.write(record, effects);
        self.write_target(group_id, member_id.clone(), &target, effects);
        let record = GroupRecord::CurrentAssignment {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            value: Some(current.to_record()),
        };
        self.write(record, effects);
    }
}

fn report_of<'a>(context: &GroupContext, request: &'a ConsumerGroupHeartbeatRequest) -> Report<'a> {
    Report {
        now_ms: context.now_ms,
        group_id: &request.group_id,
        member_id: &request.member_id,
        owned: request.topic_partitions.as_deref(),
    }
}

fn assignment_of(assigned: &EpochPartitions) -> Assignment {
    let topics = assigned.iter().map(|(topic_id, partitions)| TopicPartitions {
        topic_id: *topic_id,
        partitions: partitions.keys().copied().collect(),
        ..Default::default()
    });
    Assignment {
        topic_partitions: topics.collect(),
        ..Default::default()
    }
}

/// The metadata with what a request says anew; `None` if it says nothing new.
fn updated_metadata(
    old: &MemberMetadata,
    context: &GroupContext,
    request: &ConsumerGroupHeartbeatRequest,
) -> Option<MemberMetadata> {
    let says_new = |new: &Option<ByteString>, old: &Option<ByteString>| new.is_some() && new != old;
    let names = request.subscribed_topic_names.as_ref();
    let timeout_ms = request.rebalance_timeout_ms;
    let is_new = says_new(&request.instance_id, &old.instance_id)
        || says_new(&request.rack_id, &old.rack_id)
        || (timeout_ms != -1 && timeout_ms != old.rebalance_timeout_ms)
        || says_new(&request.server_assignor, &old.server_assignor)
        || names.is_some_and(|names| *names != old.subscribed_topic_names)
        || says_new(&request.subscribed_topic_regex, &old.subscribed_topic_regex)
        || context.client_id != old.client_id
        || context.client_host != old.client_host
        || old.classic_member_metadata.is_some();
    if !is_new {
        return None;
    }
    let newer = |new: &Option<ByteString>, old: &Option<ByteString>| new.clone().or_else(|| old.clone());
    Some(MemberMetadata {
        instance_id: newer(&request.instance_id, &old.instance_id),
        rack_id: newer(&request.rack_id, &old.rack_id),
        client_id: context.client_id.clone(),
        client_host: context.client_host.clone(),
        subscribed_topic_names: names.unwrap_or(&old.subscribed_topic_names).clone(),
        subscribed_topic_regex: newer(&request.subscribed_topic_regex, &old.subscribed_topic_regex),
        rebalance_timeout_ms: if timeout_ms == -1 {
            old.rebalance_timeout_ms
        } else {
            timeout_ms
        },
        server_assignor: newer(&request.server_assignor, &old.server_assignor),
        classic_member_metadata: None,
        ..Default::default()
    })
}

/// What is wrong with a request whatever the group is like.
fn check_request(
    request: &ConsumerGroupHeartbeatRequest,
    version: i16,
    assignors: &[ByteString],
) -> Result<(), Refusal> {
    let invalid = |message: &str| Err(refuse(ErrorCode::InvalidRequest, message));
    let is_blank = |text: &ByteString| text.trim().is_empty();
    let epoch = request.member_epoch;
    if (version >= 1 || epoch > 0 || epoch == LEAVE_EPOCH) && is_blank(&request.member_id) {
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

/// The member that a heartbeat after the first is from.
fn known_member<'a>(group: &'a ConsumerGroup, request: &ConsumerGroupHeartbeatRequest) -> Result<&'a Member, Refusal> {
    let (group_id, member_id) = (&request.group_id, &request.member_id);
    group.member(group_id, member_id, request.instance_id.as_ref())
}

impl ConsumerGroup {
    /// The member of this id; if an instance id is given too, it must be this member's.
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

/// The epoch before is fine too, if the answer that told of the new one may have been lost: then the member owns no more
/// than it has.
fn check_epoch(member: &Member, request: &ConsumerGroupHeartbeatRequest) -> Result<(), Refusal> {
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

/// An instance id is free if its member said that it comes back, or is of the classic protocol, where the newer one wins.
fn check_released(instance_id: &str, old_id: &str, old: &Member, member_id: &str) -> Result<(), Refusal> {
    if old.current.epoch == LEAVE_STATIC_EPOCH || old.uses_classic_protocol() {
        return Ok(());
    }
    let message = format!(
        "Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is owned by \
         {old_id} member."
    );
    Err(refuse(ErrorCode::UnreleasedInstanceId, message))
}

fn check_own_regex(request: &ConsumerGroupHeartbeatRequest) -> Result<(), Refusal> {
    match request
        .subscribed_topic_regex
        .as_ref()
        .filter(|regex| !regex.is_empty())
    {
        Some(regex) => check_regex(regex),
        None => Ok(()),
    }
}

/// A pattern that others of the group use was found good already.
fn check_new_regex(group: &ConsumerGroup, old: &MemberMetadata, new: Option<&MemberMetadata>) -> Result<(), Refusal> {
    match new.and_then(regex_of) {
        Some(regex) if regex_of(old) != Some(regex) && group.regex_members(regex) == 0 => check_regex(regex),
        _ => Ok(()),
    }
}
