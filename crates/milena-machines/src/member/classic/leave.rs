//! `LeaveGroup`.

use milena_wire::messages::{LeaveGroupRequest, leave_group_request::MemberIdentity};

use super::{Classic, Common, MemberRequest, Phase, Why};
use crate::member::Leave;

impl Classic {
    /// A static member only leaves if it is told to: otherwise it may come back and find its partitions.
    pub(super) fn farewell(&mut self, common: &Common, why: Why) -> Option<MemberRequest> {
        let (leaves, reason) = match why {
            Why::Asked(Leave::Default) => (common.instance_id.is_none(), "the consumer leaves the group"),
            Why::Asked(Leave::Leave) => (true, "the consumer leaves the group"),
            Why::Asked(Leave::Remain) => (false, ""),
            Why::PollExpired => (common.instance_id.is_none(), "consumer poll timeout has expired."),
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
