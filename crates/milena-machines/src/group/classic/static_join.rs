//! A static member that rejoins under a new member id.

use bytestring::ByteString;
use milena_invariant::violated;
use milena_wire::{api::versions, errors::ErrorCode, messages::JoinGroupRequest};

use super::{
    join::no_group,
    replies::join_reply,
    state::{ClassicGroup, State},
    timeouts,
};
use crate::group::{Group, GroupContext, GroupCoordinator, GroupEffects, GroupRecord, GroupReply};

impl GroupCoordinator {
    /// Replaces the member of an instance id, which is fenced. If the group is stable and its protocol stays the same,
    /// there is no rebalance.
    pub(super) fn replace_static_member(
        &mut self,
        context: &GroupContext,
        request: JoinGroupRequest,
        (old_id, new_id): (&ByteString, ByteString),
        effects: &mut GroupEffects,
    ) -> Option<GroupReply> {
        let Some(Group::Classic(group)) = self.groups.get_mut(&request.group_id) else {
            return Some(no_group(new_id, context.version));
        };
        let old_leader = group.leader_id.clone().unwrap_or_default();
        timeouts::cancel_session(&mut self.timers, &request.group_id, old_id);
        group.rename_static_member(old_id, &new_id, effects);
        if let Some(member) = group.members.get_mut(&new_id) {
            let timeout_ms = member.session_timeout_ms;
            let session = (&new_id, member);
            timeouts::keep_alive(&mut self.timers, &request.group_id, session, context.now_ms, timeout_ms);
        }
        self.update_member(context, &request, &new_id, effects);
        let Some(group) = self.classic_group(&request.group_id) else {
            return Some(no_group(new_id, context.version));
        };
        match group.state {
            State::Stable if group.select_protocol() == group.protocol_name => {
                let persisted = self.persist_static_member(context, &request.group_id, (old_leader, &new_id), effects);
                Some(persisted.unwrap_or_else(|| no_group(new_id, context.version)))
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

    /// Returns `None` if there is no such group or member, which cannot be.
    fn persist_static_member(
        &mut self,
        context: &GroupContext,
        group_id: &ByteString,
        (old_leader, member_id): (ByteString, &ByteString),
        effects: &mut GroupEffects,
    ) -> Option<GroupReply> {
        let group = self.classic_group_mut(group_id)?;
        // The reply is sent now.
        group.members.get_mut(member_id)?.joining = None;
        let record = GroupRecord::Classic {
            group_id: group_id.clone(),
            value: Some(group.to_record()),
        };
        self.write(record, effects);
        let group = self.classic_group(group_id)?;
        let is_leader = group.is_leader(member_id);
        let mut response = group.joined(member_id.clone());
        if context.version >= versions::join_group::SKIP_ASSIGNMENT {
            response.skip_assignment = is_leader;
        } else {
            // With the old id of the leader, an old client does not see itself as the leader, and does not assign.
            response.leader = old_leader;
            response.members = vec![];
        }
        Some(join_reply(response, context.version))
    }
}

impl ClassicGroup {
    fn rename_static_member(&mut self, old_id: &ByteString, new_id: &ByteString, effects: &mut GroupEffects) {
        let Some(mut member) = self.members.remove(old_id) else {
            violated!("static_members_are_members");
            return;
        };
        member.reply_error(ErrorCode::FencedInstanceId, old_id, effects);
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
