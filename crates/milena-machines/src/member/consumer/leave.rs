//! Leaving: a heartbeat with a special epoch.

use milena_wire::messages::ConsumerGroupHeartbeatRequest;

use super::{Common, ConsumerProtocol, LeaveCause, MemberRequest};
use crate::member::Leave;

const LEAVE_EPOCH: i32 = -1;
/// The epoch of a static member that is expected back: its partitions wait for it as long as its session.
const LEAVE_STATIC_EPOCH: i32 = -2;

impl ConsumerProtocol {
    pub(super) fn leave_request(&mut self, common: &Common, why: LeaveCause) -> Option<MemberRequest> {
        let is_static = common.instance_id.is_some();
        let epoch = match why {
            LeaveCause::Requested(Leave::Leave) => Some(LEAVE_EPOCH),
            LeaveCause::Requested(Leave::Default) | LeaveCause::PollExpired if is_static => Some(LEAVE_STATIC_EPOCH),
            LeaveCause::Requested(Leave::Default) | LeaveCause::PollExpired => Some(LEAVE_EPOCH),
            LeaveCause::Requested(Leave::Remain) => is_static.then_some(LEAVE_STATIC_EPOCH),
        };
        // A join in flight may still succeed.
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
