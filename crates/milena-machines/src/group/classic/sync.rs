//! SyncGroup: the leader's assignment, and its distribution to the members.

use std::collections::BTreeMap;

use bytes::Bytes;
use bytestring::ByteString;
use milena_invariant::violated;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{SyncGroupRequest, SyncGroupResponse},
};

use super::{
    Timer,
    rebalance::timer,
    replies::sync_error,
    state::{ClassicGroup, State},
    timeouts,
};
use crate::group::{Group, GroupContext, GroupCoordinator, GroupEffects, GroupRecord, GroupReply};

impl GroupCoordinator {
    /// Returns the reply, or `None` if it follows later.
    pub(in crate::group) fn sync(
        &mut self,
        context: &GroupContext,
        request: SyncGroupRequest,
        effects: &mut GroupEffects,
    ) -> Option<GroupReply> {
        let lacks_protocol = request.protocol_type.is_none() || request.protocol_name.is_none();
        if context.version >= versions::sync_group::PROTOCOL && lacks_protocol {
            return Some(sync_error(ErrorCode::InconsistentGroupProtocol));
        }
        if request.group_id.is_empty() {
            return Some(sync_error(ErrorCode::InvalidGroupId));
        }
        match self.groups.get(&request.group_id) {
            None => return Some(sync_error(ErrorCode::UnknownMemberId)),
            Some(Group::Consumer(group)) if group.is_empty() => return Some(sync_error(ErrorCode::UnknownMemberId)),
            Some(Group::Consumer(_)) => return self.consumer_classic_sync(context, request, effects),
            Some(Group::Classic(_)) => {}
        }
        let Some(group) = self.classic_group_mut(&request.group_id) else {
            violated!("a_group_found_is_there");
            return Some(sync_error(ErrorCode::UnknownServerError));
        };
        if let Err(error) = group.validate_sync(&request) {
            return Some(sync_error(error));
        }
        match group.state {
            State::Empty => Some(sync_error(ErrorCode::UnknownMemberId)),
            State::PreparingRebalance => Some(sync_error(ErrorCode::RebalanceInProgress)),
            State::CompletingRebalance => {
                let Some(member) = group.members.get_mut(&request.member_id) else {
                    violated!("a_validated_member_exists");
                    return Some(sync_error(ErrorCode::UnknownServerError));
                };
                member.wait_for_sync(context.pending_reply(), effects);
                let is_leader = group.is_leader(&request.member_id);
                self.note_sync(&request.group_id, &request.member_id);
                if is_leader {
                    self.assign(context.now_ms, request, effects);
                }
                None
            }
            State::Stable => {
                let reply = group.assignment_of(&request.member_id);
                self.note_sync(&request.group_id, &request.member_id);
                Some(GroupReply::Sync(reply))
            }
        }
    }

    /// The sync timer ends when all members have sent SyncGroup.
    fn note_sync(&mut self, group_id: &ByteString, member_id: &ByteString) {
        let Some(group) = self.classic_group_mut(group_id) else {
            violated!("a_group_found_is_there");
            return;
        };
        group.pending_sync.remove(member_id);
        if group.pending_sync.is_empty() {
            self.timers.cancel(&timer(group_id, Timer::Sync));
        }
    }

    /// Stores the generation with the leader's assignment, and replies to all waiting members. A member that the leader
    /// left out gets an empty assignment, of no bytes.
    fn assign(&mut self, now_ms: i64, request: SyncGroupRequest, effects: &mut GroupEffects) {
        let group_id = request.group_id;
        let assignments = request
            .assignments
            .into_iter()
            .map(|one| (one.member_id, one.assignment));
        let mut assignments: BTreeMap<ByteString, Bytes> = assignments.collect();
        let Some(group) = self.classic_group(&group_id) else {
            violated!("a_group_found_is_there");
            return;
        };
        let mut value = group.to_record();
        for member in &mut value.members {
            member.assignment = assignments.remove(&member.member_id).unwrap_or_default();
        }
        let record = GroupRecord::Classic {
            group_id: group_id.clone(),
            value: Some(value),
        };
        self.write(record, effects);
        let Some(Group::Classic(group)) = self.groups.get_mut(&group_id) else {
            violated!("a_written_group_is_there");
            return;
        };
        let responses: Vec<_> = group
            .members
            .keys()
            .map(|member_id| group.assignment_of(member_id))
            .collect();
        for ((member_id, member), response) in group.members.iter_mut().zip(responses) {
            if member.reply_sync(response, effects) {
                let timeout_ms = member.session_timeout_ms;
                timeouts::keep_alive(&mut self.timers, &group_id, (member_id, member), now_ms, timeout_ms);
            }
        }
    }
}

impl ClassicGroup {
    fn validate_sync(&self, request: &SyncGroupRequest) -> Result<(), ErrorCode> {
        self.validate_member(&request.member_id, request.group_instance_id.as_ref())?;
        if request.generation_id != self.generation_id {
            return Err(ErrorCode::IllegalGeneration);
        }
        if differs(&request.protocol_type, &self.protocol_type) || differs(&request.protocol_name, &self.protocol_name)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        Ok(())
    }

    fn assignment_of(&self, member_id: &str) -> SyncGroupResponse {
        let member = self.members.get(member_id);
        SyncGroupResponse {
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            assignment: member.map(|member| member.assignment.clone()).unwrap_or_default(),
            ..Default::default()
        }
    }
}

/// Whether both are known and differ.
fn differs(requested: &Option<ByteString>, own: &Option<ByteString>) -> bool {
    matches!((requested, own), (Some(requested), Some(own)) if requested != own)
}
