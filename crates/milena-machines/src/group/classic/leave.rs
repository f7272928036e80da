//! LeaveGroup, for one or many members.

use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        LeaveGroupRequest, LeaveGroupResponse, leave_group_request::MemberIdentity,
        leave_group_response::MemberResponse,
    },
};

use super::state::State;
use crate::group::{Group, GroupContext, GroupCoordinator, GroupEffects, GroupReply};

impl GroupCoordinator {
    pub(in crate::group) fn leave(
        &mut self,
        context: &GroupContext,
        mut request: LeaveGroupRequest,
        effects: &mut GroupEffects,
    ) -> GroupReply {
        if request.group_id.is_empty() {
            return GroupReply::Leave(LeaveGroupResponse {
                error_code: ErrorCode::InvalidGroupId.code(),
                ..Default::default()
            });
        }
        if context.version < versions::leave_group::MEMBERS {
            request.members = vec![MemberIdentity {
                member_id: std::mem::take(&mut request.member_id),
                ..Default::default()
            }];
        }
        if let Some(Group::Consumer(_)) = self.groups.get(&request.group_id) {
            return self.consumer_classic_leave(context, request, effects);
        }
        let mut members = Vec::with_capacity(request.members.len());
        for member in request.members {
            let error = self.leave_one(&request.group_id, &member, effects).err();
            members.push(MemberResponse {
                member_id: member.member_id,
                group_instance_id: member.group_instance_id,
                error_code: error.unwrap_or(ErrorCode::None).code(),
                ..Default::default()
            });
        }
        if members.iter().any(|member| member.error_code == ErrorCode::None.code()) {
            match self.classic_group(&request.group_id).map(|group| group.state) {
                Some(State::Empty) | None => {}
                Some(_) => self.rebalance_or_complete_join(context.now_ms, &request.group_id, effects),
            }
        }
        leave_reply(members, context.version)
    }

    fn leave_one(
        &mut self,
        group_id: &bytestring::ByteString,
        member: &MemberIdentity,
        effects: &mut GroupEffects,
    ) -> Result<(), ErrorCode> {
        let group = self.classic_group(group_id).ok_or(ErrorCode::UnknownMemberId)?;
        let member_id = if member.member_id.is_empty() {
            // An operator removes a static member by its instance id alone.
            let instance_id = member.group_instance_id.as_ref();
            let known = instance_id.and_then(|instance_id| group.static_members.get(instance_id));
            known.ok_or(ErrorCode::UnknownMemberId)?.clone()
        } else {
            if !group.pending_members.contains(&member.member_id) {
                group.validate_member(&member.member_id, member.group_instance_id.as_ref())?;
            }
            member.member_id.clone()
        };
        self.remove_member(group_id, &member_id, effects);
        Ok(())
    }
}

/// The response in the form of its version: old ones have one error.
pub(in crate::group) fn leave_reply(members: Vec<MemberResponse>, version: i16) -> GroupReply {
    let response = if version < versions::leave_group::MEMBERS {
        LeaveGroupResponse {
            error_code: members.first().map_or(0, |member| member.error_code),
            ..Default::default()
        }
    } else {
        LeaveGroupResponse {
            members,
            ..Default::default()
        }
    };
    GroupReply::Leave(response)
}
