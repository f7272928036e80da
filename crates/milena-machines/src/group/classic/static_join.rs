//! A static member that comes back under a new member id.

use bytestring::ByteString;
use milena_wire::{api::versions, errors::ErrorCode, messages::JoinGroupRequest};

use super::{
    answers::join_reply,
    state::{ClassicGroup, State},
    timeouts,
};
use crate::group::{Group, GroupContext, GroupCoordinator, GroupEffects, GroupRecord, GroupReply};

impl GroupCoordinator {
    /// The new one takes the place of the old one, which is fenced. If the group is stable and stays with its protocol,
    /// that is all: there is no rebalance.
    pub(super) fn replace_static_member(
        &mut self,
        context: &GroupContext,
        request: JoinGroupRequest,
        (old_id, new_id): (&ByteString, ByteString),
        effects: &mut GroupEffects,
    ) -> Option<GroupReply> {
        let Some(Group::Classic(group)) = self.groups.get_mut(&request.group_id) else {
            return None;
        };
        let old_leader = group.leader_id.clone().unwrap_or_default();
        timeouts::cancel_session(&mut self.timers, &request.group_id, old_id);
        group.rename_static_member(old_id, &new_id, effects);
        if let Some(member) = group.members.get_mut(&new_id) {
            let timeout_ms = member.session_timeout_ms;
            let whose = (&new_id, member);
            timeouts::keep_alive(&mut self.timers, &request.group_id, whose, context.now_ms, timeout_ms);
        }
        self.update_member(context, &request, &new_id, effects);
        let group = self.classic_group(&request.group_id)?;
        match group.state {
            State::Stable if group.select_protocol() == group.protocol_name => {
                self.persist_static_member(context, &request.group_id, (old_leader, new_id), effects)
            }
            State::Stable | State::CompletingRebalance => {
                self.prepare_rebalance(context.now_ms, &request.group_id, effects);
                None
            }
            State::PreparingRebalance | State::Empty => {
                self.maybe_complete_join(context.now_ms, &request.group_id, effects);
                None
            }
        }
    }

    fn persist_static_member(
        &mut self,
        context: &GroupContext,
        group_id: &ByteString,
        (old_leader, member_id): (ByteString, ByteString),
        effects: &mut GroupEffects,
    ) -> Option<GroupReply> {
        let group = self.classic_group_mut(group_id)?;
        // It is answered here and now.
        group.members.get_mut(&member_id)?.joining = None;
        let record = GroupRecord::Classic {
            group_id: group_id.clone(),
            value: Some(group.to_record()),
        };
        self.write(record, effects);
        let group = self.classic_group(group_id)?;
        let is_leader = group.is_leader(&member_id);
        let mut response = group.joined(member_id);
        if context.version >= versions::join_group::SKIP_ASSIGNMENT {
            response.skip_assignment = is_leader;
        } else {
            // Under the old id of the leader, an old client does not take itself for it, and does not assign.
            response.leader = old_leader;
            response.members = vec![];
        }
        Some(join_reply(response, context.version))
    }
}

impl ClassicGroup {
    fn rename_static_member(&mut self, old_id: &ByteString, new_id: &ByteString, effects: &mut GroupEffects) {
        let Some(mut member) = self.members.remove(old_id) else {
            return;
        };
        member.dismiss(ErrorCode::FencedInstanceId, old_id, effects);
        member.session_deadline_ms = None;
        member.is_new = false;
        if let Some(instance_id) = &member.instance_id {
            self.static_members.insert(instance_id.clone(), new_id.clone());
        }
        if self.is_leader(old_id) {
            self.leader_id = Some(new_id.clone());
        }
        if self.pending_sync.remove(old_id) {
            self.pending_sync.insert(new_id.clone());
        }
        self.members.insert(new_id.clone(), member);
    }
}
