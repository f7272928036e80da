//! JoinGroup of the classic protocol.

use bytes::Bytes;
use bytestring::ByteString;
use milena_invariant::violated;
use milena_wire::{api::versions, errors::ErrorCode, messages::JoinGroupRequest};

use super::{
    Timer,
    member::{Member, PendingReply},
    replies::{join_error, join_reply},
    state::{ClassicGroup, State},
    timeouts,
};
use crate::group::{self, Group, GroupContext, GroupCoordinator, GroupEffects, GroupRecord, GroupReply};

/// The session timeout of a member that has never been in a generation.
const NEW_MEMBER_TIMEOUT_MS: i32 = 300_000;

impl GroupCoordinator {
    /// Returns the reply, or `None` if it follows later.
    pub(in crate::group) fn join(
        &mut self,
        context: &GroupContext,
        mut request: JoinGroupRequest,
        effects: &mut GroupEffects,
    ) -> Option<GroupReply> {
        if let Err(error) = self.check_join(&request) {
            return Some(join_error(error, request.member_id, context.version));
        }
        if context.version == 0 {
            request.rebalance_timeout_ms = request.session_timeout_ms;
        }
        if let Some(Group::Consumer(group)) = self.groups.get(&request.group_id)
            && !group.is_empty()
        {
            return self.consumer_classic_join(context, request, effects);
        }
        if self.classic_group(&request.group_id).is_none() {
            if !request.member_id.is_empty() {
                return Some(join_error(
                    ErrorCode::UnknownMemberId,
                    request.member_id,
                    context.version,
                ));
            }
            self.create_classic_group(context.now_ms, &request.group_id, effects);
        }
        if !self.has_room_for(&request) {
            self.remove_member(&request.group_id, &request.member_id, effects);
            return Some(join_error(
                ErrorCode::GroupMaxSizeReached,
                ByteString::new(),
                context.version,
            ));
        }
        let Some(group) = self.classic_group(&request.group_id) else {
            return Some(no_group(request.member_id, context.version));
        };
        if !group.supports(&request.protocol_type, &request.protocols) {
            let error = ErrorCode::InconsistentGroupProtocol;
            return Some(join_error(error, request.member_id, context.version));
        }
        if request.member_id.is_empty() {
            self.join_new_member(context, request, effects)
        } else {
            self.join_known_member(context, request, effects)
        }
    }

    fn check_join(&self, request: &JoinGroupRequest) -> Result<(), ErrorCode> {
        let session_timeouts = self.config.session_timeout_ms_min..=self.config.session_timeout_ms_max;
        if request.group_id.is_empty() {
            Err(ErrorCode::InvalidGroupId)
        } else if !session_timeouts.contains(&request.session_timeout_ms) {
            Err(ErrorCode::InvalidSessionTimeout)
        } else {
            Ok(())
        }
    }

    /// A group is in the log from its first join on. An empty group of the consumer protocol is replaced.
    fn create_classic_group(&mut self, now_ms: i64, group_id: &ByteString, effects: &mut GroupEffects) {
        if let Some(Group::Consumer(group)) = self.groups.get(group_id) {
            for tombstone in group.tombstones(group_id) {
                self.write(tombstone, effects);
            }
        }
        let mut group = ClassicGroup::new();
        group.enter(State::Empty, now_ms);
        let record = GroupRecord::Classic {
            group_id: group_id.clone(),
            value: Some(group.to_record()),
        };
        self.write(record, effects);
    }

    fn has_room_for(&self, request: &JoinGroupRequest) -> bool {
        let size_max = self.config.classic_size_max;
        let Some(group) = self.classic_group(&request.group_id) else {
            violated!("a_joined_group_exists");
            return true;
        };
        let known = group.members.get(&request.member_id);
        match group.state {
            State::Empty => true,
            State::PreparingRebalance => {
                group.members.len() < size_max
                    || known.is_some_and(|member| member.joining.is_some())
                    || group.awaiting_join() < size_max
            }
            State::CompletingRebalance | State::Stable => known.is_some() || group.members.len() < size_max,
        }
    }

    fn join_new_member(
        &mut self,
        context: &GroupContext,
        request: JoinGroupRequest,
        effects: &mut GroupEffects,
    ) -> Option<GroupReply> {
        let name = request.group_instance_id.as_ref().unwrap_or(&context.client_id);
        let member_id = ByteString::from(format!("{name}-{}", self.random.uuid()));
        let Some(group) = self.classic_group_mut(&request.group_id) else {
            return Some(no_group(member_id, context.version));
        };
        if let Some(instance_id) = &request.group_instance_id {
            return match group.static_members.get(instance_id).cloned() {
                Some(old_id) => self.replace_static_member(context, request, (&old_id, member_id), effects),
                None => self.add_member(context, request, member_id, effects),
            };
        }
        if context.version < versions::join_group::MEMBER_ID_REQUIRED {
            return self.add_member(context, request, member_id, effects);
        }
        group.pending_members.insert(member_id.clone());
        // It rejoins in a moment: the first generation should not begin without it.
        group.extend_initial_delay();
        let timer = group::Timer::Classic {
            group: request.group_id,
            of: Timer::Session(member_id.clone()),
        };
        let deadline_ms = context.now_ms + i64::from(request.session_timeout_ms);
        self.timers.set(timer, deadline_ms);
        Some(join_error(ErrorCode::MemberIdRequired, member_id, context.version))
    }

    fn join_known_member(
        &mut self,
        context: &GroupContext,
        request: JoinGroupRequest,
        effects: &mut GroupEffects,
    ) -> Option<GroupReply> {
        let member_id = request.member_id.clone();
        let Some(group) = self.classic_group(&request.group_id) else {
            return Some(no_group(member_id, context.version));
        };
        if group.pending_members.contains(&member_id) {
            if request.group_instance_id.is_some() {
                // Only members without an instance id are ever given an id to rejoin with.
                let error = ErrorCode::UnknownServerError;
                return Some(join_error(error, ByteString::new(), context.version));
            }
            return self.add_member(context, request, member_id, effects);
        }
        if let Err(error) = group.validate_member(&member_id, request.group_instance_id.as_ref()) {
            return Some(join_error(error, member_id, context.version));
        }
        let is_unchanged = group
            .members
            .get(&member_id)
            .is_some_and(|member| member.protocols == request.protocols);
        let is_replied_at_once = match group.state {
            State::Empty => return Some(join_error(ErrorCode::UnknownMemberId, member_id, context.version)),
            State::PreparingRebalance => false,
            // The response got lost.
            State::CompletingRebalance => is_unchanged,
            // The leader requests a new assignment.
            State::Stable => is_unchanged && !group.is_leader(&member_id),
        };
        if is_replied_at_once {
            return Some(join_reply(group.joined(member_id), context.version));
        }
        self.update_member(context, &request, &member_id, effects);
        self.rebalance_or_complete_join(context.now_ms, &request.group_id, effects);
        None
    }

    /// Updates the member from its request, and lets the request wait for the generation.
    pub(super) fn update_member(
        &mut self,
        context: &GroupContext,
        request: &JoinGroupRequest,
        member_id: &ByteString,
        effects: &mut GroupEffects,
    ) {
        let group = self.classic_group_mut(&request.group_id);
        let Some(member) = group.and_then(|group| group.members.get_mut(member_id)) else {
            violated!("a_validated_member_exists");
            return;
        };
        member.protocols.clone_from(&request.protocols);
        member.rebalance_timeout_ms = request.rebalance_timeout_ms;
        member.session_timeout_ms = request.session_timeout_ms;
        member.wait_for_join(context.pending_reply(), effects);
    }

    fn add_member(
        &mut self,
        context: &GroupContext,
        request: JoinGroupRequest,
        member_id: ByteString,
        effects: &mut GroupEffects,
    ) -> Option<GroupReply> {
        let Some(Group::Classic(group)) = self.groups.get_mut(&request.group_id) else {
            return Some(no_group(member_id, context.version));
        };
        let mut member = Member {
            instance_id: request.group_instance_id,
            client_id: context.client_id.clone(),
            client_host: context.client_host.clone(),
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            session_timeout_ms: request.session_timeout_ms,
            protocol_type: request.protocol_type,
            protocols: request.protocols,
            assignment: Bytes::new(),
            joining: Some(context.pending_reply()),
            syncing: None,
            is_new: true,
            session_deadline_ms: None,
        };
        group.extend_initial_delay();
        let session = (&member_id, &mut member);
        timeouts::keep_alive(
            &mut self.timers,
            &request.group_id,
            session,
            context.now_ms,
            NEW_MEMBER_TIMEOUT_MS,
        );
        group.add(member_id, member);
        self.rebalance_or_complete_join(context.now_ms, &request.group_id, effects);
        None
    }
}

/// The way out of a violated invariant: without a reply the client would wait until its timeout.
pub(super) fn no_group(member_id: ByteString, version: i16) -> GroupReply {
    violated!("a_joined_group_exists");
    join_error(ErrorCode::UnknownServerError, member_id, version)
}

impl GroupContext {
    pub(super) fn pending_reply(&self) -> PendingReply {
        PendingReply {
            ticket: self.ticket,
            version: self.version,
        }
    }
}
