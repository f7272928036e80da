//! Heartbeat: renews the session of a member, and tells it to rejoin.

use milena_invariant::violated;
use milena_wire::{
    errors::ErrorCode,
    messages::{HeartbeatRequest, HeartbeatResponse},
};

use super::{state::State, timeouts};
use crate::group::{Group, GroupContext, GroupCoordinator, GroupReply};

impl GroupCoordinator {
    pub(in crate::group) fn heartbeat(&mut self, context: &GroupContext, request: &HeartbeatRequest) -> GroupReply {
        if let Some(Group::Consumer(_)) = self.groups.get(&request.group_id) {
            return self.consumer_classic_heartbeat(context, request);
        }
        let error = self.classic_heartbeat(context, request).err();
        GroupReply::Heartbeat(HeartbeatResponse {
            error_code: error.unwrap_or(ErrorCode::None).code(),
            ..Default::default()
        })
    }

    fn classic_heartbeat(&mut self, context: &GroupContext, request: &HeartbeatRequest) -> Result<(), ErrorCode> {
        if request.group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let Some(Group::Classic(group)) = self.groups.get_mut(&request.group_id) else {
            return Err(ErrorCode::UnknownMemberId);
        };
        group.validate_member(&request.member_id, request.group_instance_id.as_ref())?;
        if request.generation_id != group.generation_id {
            return Err(ErrorCode::IllegalGeneration);
        }
        let state = group.state;
        let Some(member) = group.members.get_mut(&request.member_id) else {
            violated!("a_validated_member_exists");
            return Err(ErrorCode::UnknownMemberId);
        };
        let timeout_ms = member.session_timeout_ms;
        let member = (&request.member_id, member);
        timeouts::keep_alive(&mut self.timers, &request.group_id, member, context.now_ms, timeout_ms);
        match state {
            State::Empty => Err(ErrorCode::UnknownMemberId),
            State::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            State::CompletingRebalance | State::Stable => Ok(()),
        }
    }
}
