//! Groups of the classic protocol, in which a member assigns: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.
//!
//! A generation begins when all members have joined or the rebalance timeout is over (`join`, `rebalance`). Its leader
//! sends the assignment (`sync`), which is when the generation goes to the log. `heartbeat`, `leave` and `timeouts`
//! decide about membership; `replay` encodes groups and applies stored ones.

mod heartbeat;
mod join;
pub(super) mod leave;
pub(super) mod member;
mod rebalance;
mod replay;
pub(super) mod replies;
mod state;
mod static_join;
mod sync;
mod timeouts;

use bytestring::ByteString;

use super::{Group, GroupCoordinator, GroupEffects};

pub(in crate::group) use leave::leave_reply;
pub(in crate::group) use member::Member as ClassicMember;
pub(in crate::group) use replies::{join_error, join_reply, sync_error};
pub(in crate::group) use state::{CONSUMER_PROTOCOL_TYPE, ClassicGroup, State};
pub(in crate::group) use timeouts::keep_alive;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The rebalance timeout for joining.
    Join,
    /// The rebalance timeout for SyncGroup.
    Sync,
    /// The session of a member, or of a client that was given a member id and has not joined with it.
    Session(ByteString),
}

impl GroupCoordinator {
    /// Starts a new session for each member of loaded groups. A group above the size limit must rebalance.
    pub(super) fn classic_start(&mut self, now_ms: i64, effects: &mut GroupEffects) {
        let mut oversized = vec![];
        for (group_id, group) in &mut self.groups {
            let Group::Classic(group) = group else { continue };
            for (member_id, member) in &mut group.members {
                let timeout_ms = member.session_timeout_ms;
                keep_alive(&mut self.timers, group_id, (member_id, member), now_ms, timeout_ms);
            }
            if group.members.len() > self.config.classic_size_max {
                oversized.push(group_id.clone());
            }
        }
        for group_id in oversized {
            self.prepare_rebalance(now_ms, &group_id, effects);
        }
    }

    pub(in crate::group) fn classic_group(&self, group_id: &str) -> Option<&ClassicGroup> {
        match self.groups.get(group_id) {
            Some(Group::Classic(group)) => Some(group),
            Some(Group::Consumer(_)) | None => None,
        }
    }

    pub(in crate::group) fn classic_group_mut(&mut self, group_id: &str) -> Option<&mut ClassicGroup> {
        match self.groups.get_mut(group_id) {
            Some(Group::Classic(group)) => Some(group),
            Some(Group::Consumer(_)) | None => None,
        }
    }
}
