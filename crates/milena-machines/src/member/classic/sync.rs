//! `SyncGroup`.

use milena_wire::{api::ApiKey, errors::ErrorCode, messages::SyncGroupResponse};

use super::{Classic, Common, InFlight, MemberCall, MemberError, MemberRequest, Phase};
use crate::{
    assign::{MemberAssignment, decode_assignment},
    member::offsets::code,
};

impl Classic {
    pub(super) fn next_sync(&mut self, common: &mut Common) -> Option<MemberCall> {
        let request = self.sync.take()?;
        let call = common.call(MemberRequest::Sync(request), common.request_timeout_ms);
        self.join_call = Some(self.sent(&call));
        Some(call)
    }

    pub(super) fn handle_sync_response(
        &mut self,
        common: &mut Common,
        now_ms: i64,
        sent: &InFlight,
        response: &SyncGroupResponse,
    ) {
        match code(response.error_code) {
            ErrorCode::None => self.synced(common, now_ms, response),
            ErrorCode::RebalanceInProgress => self.request_rejoin("the group began another rebalance"),
            ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration if !self.is_current(sent) => {
                self.request_rejoin("the generation has changed");
            }
            ErrorCode::UnknownMemberId => self.reset(false, "encountered UNKNOWN_MEMBER_ID from SYNC_GROUP response"),
            ErrorCode::IllegalGeneration => self.reset(true, "encountered ILLEGAL_GENERATION from SYNC_GROUP response"),
            ErrorCode::FencedInstanceId => self.fenced(common),
            error => {
                self.handle_error(common, ApiKey::SyncGroup, error);
                self.join_later(common, now_ms, &format!("rebalance failed due to {}", error.name()));
            }
        }
    }

    fn synced(&mut self, common: &mut Common, now_ms: i64, response: &SyncGroupResponse) {
        let other_type = response
            .protocol_type
            .as_ref()
            .filter(|found| *found != super::PROTOCOL_TYPE);
        let other_name = response.protocol_name.as_ref().filter(|found| **found != self.assignor);
        if let Some(found) = other_type.or(other_name) {
            let found = bytestring::ByteString::from(&**found);
            common.report(MemberError::OtherProtocolType { found });
            return self.join_later(common, now_ms, "rebalance failed due to INCONSISTENT_GROUP_PROTOCOL");
        }
        // A member that the leader left out gets no bytes at all: no partitions until the next rebalance.
        let assignment = if response.assignment.is_empty() {
            Ok(MemberAssignment::default())
        } else {
            decode_assignment(&response.assignment)
        };
        match assignment {
            Ok(assignment) => {
                common.backoff.reset();
                self.phase = Phase::Stable;
                self.rejoin = None;
                self.has_revoked = false;
                self.received = Some(assignment);
            }
            Err(error) => {
                common.report(MemberError::BadAssignment(error));
                self.join_later(common, now_ms, "the assignment cannot be read");
            }
        }
    }
}
