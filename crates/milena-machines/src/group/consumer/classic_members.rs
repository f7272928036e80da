//! Members of the classic protocol in a group of the consumer protocol.
//!
//! Their generation is their member epoch, and they rejoin for each step of their reconciliation.

use bytestring::ByteString;
use milena_invariant::violated;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        ConsumerProtocolSubscription, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse,
        LeaveGroupRequest, SyncGroupRequest, SyncGroupResponse, consumer_group_heartbeat_request::TopicPartitions,
        leave_group_response::MemberResponse,
    },
    prefixed::decode_newest,
};

use super::{
    MemberMetadata, Timer,
    checks::check_size,
    group::ConsumerGroup,
    member::{Member, MemberState, Partitions, new_metadata},
    migration::{assignment_bytes, classic_metadata},
    settle::Report,
    timeouts::timer,
};
use crate::group::{
    Group, GroupContext, GroupCoordinator, GroupEffects, GroupReply, MigrationPolicy,
    classic::{CONSUMER_PROTOCOL_TYPE, join_error, join_reply, leave_reply, sync_error},
};

impl GroupCoordinator {
    pub(in crate::group) fn consumer_classic_join(
        &mut self,
        context: &GroupContext,
        mut request: JoinGroupRequest,
        effects: &mut GroupEffects,
    ) -> Option<GroupReply> {
        let is_unknown = request.member_id.is_empty();
        if is_unknown {
            request.member_id = self.random.uuid().into();
        }
        if let Err(error) = self.check_classic_join(context, &request, is_unknown) {
            return Some(join_error(error, request.member_id, context.version));
        }
        let subscription = request
            .protocols
            .first()
            .map(|protocol| decode_newest(&protocol.metadata));
        let Some(Ok(subscription)) = subscription else {
            let error = ErrorCode::UnknownServerError;
            return Some(join_error(error, request.member_id, context.version));
        };
        if !is_unknown && self.has_expired(&request, &subscription) {
            return Some(join_error(
                ErrorCode::UnknownMemberId,
                request.member_id,
                context.version,
            ));
        }
        let downgrades = self.downgrades_by_replacing(&request);
        if is_unknown && let Some(instance_id) = &request.group_instance_id {
            self.replace_consumer_static_member(&request.group_id, instance_id, &request.member_id, effects);
        }
        let owned = self.owned_partitions(&subscription);
        let report = Report {
            now_ms: context.now_ms,
            group_id: &request.group_id,
            member_id: &request.member_id,
            owned: Some(&owned),
            visible_topics: Some(&context.visible_topics),
        };
        let metadata = self.classic_member_metadata(context, &request, subscription);
        let generation_id = if downgrades {
            self.settle_and_downgrade(&report, metadata, effects)
        } else {
            self.settle_member(&report, metadata, effects);
            self.set_classic_timers(context.now_ms, &request);
            let member = self.consumer_member(&request.group_id, &request.member_id);
            member.map_or(0, |member| member.current.epoch)
        };
        let response = JoinGroupResponse {
            generation_id,
            protocol_type: Some(CONSUMER_PROTOCOL_TYPE.into()),
            protocol_name: request.protocols.first().map(|protocol| protocol.name.clone()),
            member_id: request.member_id,
            ..Default::default()
        };
        Some(join_reply(response, context.version))
    }

    fn check_classic_join(
        &self,
        context: &GroupContext,
        request: &JoinGroupRequest,
        is_unknown: bool,
    ) -> Result<(), ErrorCode> {
        let Some(Group::Consumer(group)) = self.groups.get(&request.group_id) else {
            violated!("a_group_found_is_there");
            return Err(ErrorCode::UnknownMemberId);
        };
        if self.config.migration_policy == MigrationPolicy::Disabled {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        check_size(group, &request.member_id, self.config.consumer_size_max).map_err(|refusal| refusal.code)?;
        if !group.supports_classic(&request.protocol_type, &request.protocols) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        match &request.group_instance_id {
            None if is_unknown && context.version >= versions::join_group::MEMBER_ID_REQUIRED => {
                Err(ErrorCode::MemberIdRequired)
            }
            Some(_) if !is_unknown => {
                let instance_id = request.group_instance_id.as_ref();
                let member = group.member(&request.group_id, &request.member_id, instance_id);
                member.map(|_| ()).map_err(|refusal| refusal.code)
            }
            _ => Ok(()),
        }
    }

    /// Whether an expired member believes that it is still in the group. It must get an error: its partitions may
    /// belong to others, and as a member it could commit for them. A client that was just given its id has no
    /// generation.
    fn has_expired(&self, request: &JoinGroupRequest, subscription: &ConsumerProtocolSubscription) -> bool {
        let member = self.consumer_member(&request.group_id, &request.member_id);
        member.is_none() && subscription.generation_id >= 0
    }

    /// Whether the last member of the consumer protocol is a static one that rejoins with the classic protocol.
    fn downgrades_by_replacing(&self, request: &JoinGroupRequest) -> bool {
        let (Some(Group::Consumer(group)), Some(instance_id)) =
            (self.groups.get(&request.group_id), &request.group_instance_id)
        else {
            return false; // A dynamic member.
        };
        let Some((old_id, old)) = group.static_member(instance_id) else {
            return false; // A new static member.
        };
        let others = group.members.iter().filter(|(member_id, _)| *member_id != old_id);
        !old.uses_classic_protocol()
            && others.into_iter().all(|(_, member)| member.uses_classic_protocol())
            && self.config.migration_policy.can_downgrade()
            && group.members.len() <= self.config.classic_size_max
    }

    /// Updates the member and downgrades the group. Returns the generation of the member.
    fn settle_and_downgrade(
        &mut self,
        report: &Report<'_>,
        metadata: Option<MemberMetadata>,
        effects: &mut GroupEffects,
    ) -> i32 {
        let subscription_changed = self.write_member(report, metadata, effects);
        let is_stale = match self.groups.get(report.group_id) {
            Some(Group::Consumer(group)) => group.target_epoch < group.epoch,
            _ => false,
        };
        if !is_stale {
            self.maybe_reconcile(report, subscription_changed, effects);
        }
        let member = self.consumer_member(report.group_id, report.member_id);
        let generation_id = member.map_or(0, |member| member.current.epoch);
        self.downgrade(report.now_ms, report.group_id, effects);
        if is_stale {
            self.prepare_rebalance(report.now_ms, report.group_id, effects);
        }
        generation_id
    }

    fn owned_partitions(&self, subscription: &ConsumerProtocolSubscription) -> Vec<TopicPartitions> {
        let topics = subscription.owned_partitions.iter();
        let known = topics.filter_map(|topic| {
            Some(TopicPartitions {
                topic_id: self.topics.by_name(&topic.topic)?.id,
                partitions: topic.partitions.clone(),
                ..Default::default()
            })
        });
        known.collect()
    }

    /// The metadata updated from a request; `None` if nothing changes.
    fn classic_member_metadata(
        &self,
        context: &GroupContext,
        request: &JoinGroupRequest,
        subscription: ConsumerProtocolSubscription,
    ) -> Option<MemberMetadata> {
        let member = self.consumer_member(&request.group_id, &request.member_id);
        let old = member.map_or_else(new_metadata, |member| member.metadata.clone());
        let mut names = subscription.topics;
        names.sort_unstable();
        names.dedup();
        let metadata = MemberMetadata {
            instance_id: request.group_instance_id.clone().or_else(|| old.instance_id.clone()),
            rack_id: subscription
                .rack_id
                .filter(|rack| !rack.is_empty())
                .or_else(|| old.rack_id.clone()),
            client_id: context.client_id.clone(),
            client_host: context.client_host.clone(),
            subscribed_topic_names: names,
            subscribed_topic_regex: Some(ByteString::new()),
            rebalance_timeout_ms: if request.rebalance_timeout_ms == -1 {
                old.rebalance_timeout_ms
            } else {
                request.rebalance_timeout_ms
            },
            server_assignor: old.server_assignor.clone(),
            classic_member_metadata: Some(classic_metadata(request.session_timeout_ms, &request.protocols)),
            ..Default::default()
        };
        (member.is_none() || metadata != old).then_some(metadata)
    }

    /// It has joined; now it must send SyncGroup.
    fn set_classic_timers(&mut self, now_ms: i64, request: &JoinGroupRequest) {
        let (group_id, member_id) = (&request.group_id, &request.member_id);
        self.timers.cancel(&timer(group_id, Timer::Join(member_id.clone())));
        self.renew_session(now_ms, group_id, member_id, request.session_timeout_ms);
        let deadline_ms = now_ms.saturating_add(request.rebalance_timeout_ms.into());
        self.timers
            .set(timer(group_id, Timer::Sync(member_id.clone())), deadline_ms);
    }

    pub(in crate::group) fn consumer_classic_sync(
        &mut self,
        context: &GroupContext,
        request: SyncGroupRequest,
        _effects: &mut GroupEffects,
    ) -> Option<GroupReply> {
        let (group_id, member_id) = (&request.group_id, &request.member_id);
        let Some(Group::Consumer(group)) = self.groups.get(group_id) else {
            violated!("a_group_found_is_there");
            return Some(sync_error(ErrorCode::UnknownMemberId));
        };
        let member = match group.synced_member(&request) {
            Ok(member) => member,
            Err(error) => return Some(sync_error(error)),
        };
        let must_join = group.target_epoch > member.current.epoch;
        if must_join && member.current.state != MemberState::UnrevokedPartitions {
            let timeout_ms = member.metadata.rebalance_timeout_ms;
            self.expect_join(context.now_ms, group_id, member_id, timeout_ms);
            return Some(sync_error(ErrorCode::RebalanceInProgress));
        }
        let assigned = member.current.assigned.iter();
        let assigned: Partitions = assigned
            .map(|(topic, partitions)| (*topic, partitions.keys().copied().collect()))
            .collect();
        let classic = member.metadata.classic_member_metadata.as_ref();
        let protocol = classic.and_then(|classic| classic.supported_protocols.first());
        let subscription = protocol.map(|protocol| protocol.metadata.clone()).unwrap_or_default();
        let assignment = assignment_bytes(Some(&assigned), &subscription, &self.topics);
        self.timers.cancel(&timer(group_id, Timer::Sync(member_id.clone())));
        let timeout_ms = self.session_timeout_ms(group_id, member_id);
        self.renew_session(context.now_ms, group_id, member_id, timeout_ms);
        Some(GroupReply::Sync(SyncGroupResponse {
            protocol_type: request.protocol_type,
            protocol_name: request.protocol_name,
            assignment,
            ..Default::default()
        }))
    }

    pub(in crate::group) fn consumer_classic_heartbeat(
        &mut self,
        context: &GroupContext,
        request: &HeartbeatRequest,
    ) -> GroupReply {
        let (group_id, member_id) = (&request.group_id, &request.member_id);
        let reply = |error: ErrorCode| {
            GroupReply::Heartbeat(HeartbeatResponse {
                error_code: error.code(),
                ..Default::default()
            })
        };
        let Some(Group::Consumer(group)) = self.groups.get(group_id) else {
            violated!("a_group_found_is_there");
            return reply(ErrorCode::UnknownMemberId);
        };
        let instance_id = request.group_instance_id.as_ref();
        let member = match group.classic_member(group_id, member_id, instance_id, request.generation_id) {
            Ok(member) => member,
            Err(error) => return reply(error),
        };
        let must_join = member.current.epoch < group.target_epoch
            || match member.current.state {
                MemberState::UnrevokedPartitions => true,
                MemberState::UnreleasedPartitions => !group.waits_for_others(member_id, member),
                MemberState::Stable | MemberState::Unknown => false,
            };
        let rebalance_timeout_ms = member.metadata.rebalance_timeout_ms;
        let timeout_ms = self.session_timeout_ms(group_id, member_id);
        self.renew_session(context.now_ms, group_id, member_id, timeout_ms);
        if must_join {
            self.expect_join(context.now_ms, group_id, member_id, rebalance_timeout_ms);
            return reply(ErrorCode::RebalanceInProgress);
        }
        reply(ErrorCode::None)
    }

    pub(in crate::group) fn consumer_classic_leave(
        &mut self,
        context: &GroupContext,
        request: LeaveGroupRequest,
        effects: &mut GroupEffects,
    ) -> GroupReply {
        let mut leaving = vec![];
        let mut members = Vec::with_capacity(request.members.len());
        for member in request.members {
            let found = match self.groups.get(&request.group_id) {
                Some(Group::Consumer(group)) => {
                    group.leaving_member(&request.group_id, &member.member_id, member.group_instance_id.as_ref())
                }
                _ => Err(ErrorCode::UnknownMemberId),
            };
            let error = match found {
                Ok(member_id) => {
                    if !leaving.contains(&member_id) {
                        leaving.push(member_id);
                    }
                    ErrorCode::None
                }
                Err(error) => error,
            };
            members.push(MemberResponse {
                member_id: member.member_id,
                group_instance_id: member.group_instance_id,
                error_code: error.code(),
                ..Default::default()
            });
        }
        self.fence_members(context.now_ms, &request.group_id, &leaving, effects);
        leave_reply(members, context.version)
    }

    /// Starts the rebalance timeout when a member is first told to rejoin.
    fn expect_join(&mut self, now_ms: i64, group_id: &ByteString, member_id: &ByteString, timeout_ms: i32) {
        let deadline_ms = now_ms.saturating_add(timeout_ms.into());
        self.timers
            .set_no_later(timer(group_id, Timer::Join(member_id.clone())), deadline_ms);
    }
}

impl ConsumerGroup {
    /// The member that a request of the classic protocol comes from.
    fn classic_member(
        &self,
        group_id: &str,
        member_id: &str,
        instance_id: Option<&ByteString>,
        generation_id: i32,
    ) -> Result<&Member, ErrorCode> {
        let member = self
            .member(group_id, member_id, instance_id)
            .map_err(|refusal| refusal.code)?;
        if !member.uses_classic_protocol() {
            return Err(ErrorCode::UnknownMemberId);
        }
        if member.current.epoch != generation_id {
            return Err(ErrorCode::IllegalGeneration);
        }
        Ok(member)
    }

    fn synced_member(&self, request: &SyncGroupRequest) -> Result<&Member, ErrorCode> {
        let instance_id = request.group_instance_id.as_ref();
        let member = self.classic_member(
            &request.group_id,
            &request.member_id,
            instance_id,
            request.generation_id,
        )?;
        let classic = member.metadata.classic_member_metadata.as_ref();
        let own = classic.and_then(|classic| classic.supported_protocols.first());
        let is_other_type = request
            .protocol_type
            .as_ref()
            .is_some_and(|own| own != CONSUMER_PROTOCOL_TYPE);
        let is_other_name =
            request.protocol_name.is_some() && request.protocol_name.as_ref() != own.map(|own| &own.name);
        if is_other_type || is_other_name {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        Ok(member)
    }

    /// An operator removes a static member by its instance id alone.
    fn leaving_member(
        &self,
        group_id: &str,
        member_id: &ByteString,
        instance_id: Option<&ByteString>,
    ) -> Result<ByteString, ErrorCode> {
        match instance_id {
            Some(instance_id) if member_id.is_empty() => {
                let member = self.static_member(instance_id);
                member
                    .map(|(member_id, _)| member_id.clone())
                    .ok_or(ErrorCode::UnknownMemberId)
            }
            _ => {
                let member = self.member(group_id, member_id, instance_id);
                member.map(|_| member_id.clone()).map_err(|refusal| refusal.code)
            }
        }
    }

    /// Whether a partition of the member's target still has another owner: then rejoining brings it nothing.
    fn waits_for_others(&self, member_id: &ByteString, member: &Member) -> bool {
        let mut target = self.target.get(member_id).into_iter().flatten();
        target.any(|(topic, partitions)| {
            let assigned = member.current.assigned.get(topic);
            partitions.iter().any(|partition| {
                let has_it = assigned.is_some_and(|assigned| assigned.contains_key(partition));
                !has_it && self.owner(*topic, *partition).is_some()
            })
        })
    }
}
