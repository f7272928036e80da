//! `LeaveGroup`.

use milena_wire::messages::{LeaveGroupRequest, leave_group_request::MemberIdentity};

use super::{Classic, Common, LeaveCause, MemberRequest, Phase};
use crate::member::Leave;

impl Classic {
    /// A static member only leaves if requested: otherwise it may come back and find its partitions.
    pub(super) fn leave_request(&mut self, common: &Common, why: LeaveCause) -> Option<MemberRequest> {
        let (leaves, reason) = match why {
            LeaveCause::Requested(Leave::Default) => (common.instance_id.is_none(), "the consumer leaves the group"),
            LeaveCause::Requested(Leave::Leave) => (true, "the consumer leaves the group"),
            LeaveCause::Requested(Leave::Remain) => (false, ""),
            LeaveCause::PollExpired => (common.instance_id.is_none(), "consumer poll timeout has expired."),
        };
        let member_id = self.generation.member_id.clone();
        let is_member = self.phase != Phase::Unjoined && !member_id.is_empty();
        self.reset(false, "consumer pro-actively leaving the group");
        (leaves && is_member).then(|| {
            let member = MemberIdentity {
                member_id,
                group_instance_id: common.instance_id.clone(),
                reason: Some(reason.into()),
                ..Default::default()
            };
            MemberRequest::Leave(LeaveGroupRequest {
                group_id: common.group_id.clone(),
                members: vec![member],
                ..Default::default()
            })
        })
    }
}
