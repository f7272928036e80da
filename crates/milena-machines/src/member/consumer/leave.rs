//! Leaving: a heartbeat with a special epoch.

use milena_wire::messages::ConsumerGroupHeartbeatRequest;

use super::{Common, ConsumerProtocol, MemberRequest, Why};
use crate::member::Leave;

const LEAVE: i32 = -1;
/// A static member that is expected back: its partitions wait for it as long as its session.
const LEAVE_FOR_NOW: i32 = -2;

impl ConsumerProtocol {
    pub(super) fn farewell(&mut self, common: &Common, why: Why) -> Option<MemberRequest> {
        let is_static = common.instance_id.is_some();
        let epoch = match why {
            Why::Asked(Leave::Leave) => Some(LEAVE),
            Why::Asked(Leave::Default) | Why::PollExpired if is_static => Some(LEAVE_FOR_NOW),
            Why::Asked(Leave::Default) | Why::PollExpired => Some(LEAVE),
            Why::Asked(Leave::Remain) => is_static.then_some(LEAVE_FOR_NOW),
        };
        // A request to join that is under way may still make us a member.
        let may_be_member = self.is_in_group() || self.call.is_some();
        self.reset();
        let member_epoch = epoch.filter(|_| may_be_member)?;
        Some(MemberRequest::ConsumerHeartbeat(ConsumerGroupHeartbeatRequest {
            group_id: common.group_id.clone(),
            member_id: self.member_id.clone(),
            member_epoch,
            instance_id: common.instance_id.clone(),
            rebalance_timeout_ms: -1,
            ..Default::default()
        }))
    }
}
