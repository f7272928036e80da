//! `Heartbeat`, and the session that it renews.

use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    messages::{HeartbeatRequest, HeartbeatResponse},
};

use super::{CallFailure, Classic, Common, InFlight, MemberCall, MemberRequest, Phase};
use crate::member::offsets::code;

impl Classic {
    /// From the `JoinGroup` response on, the coordinator expects heartbeats.
    fn has_session(&self) -> bool {
        matches!(self.phase, Phase::Assigning | Phase::Syncing | Phase::Stable)
    }

    pub(super) fn begin_session(&mut self, now_ms: i64) {
        self.heartbeat_call = None;
        self.heartbeat_at = now_ms.saturating_add(self.heartbeat_interval_ms);
        self.session_deadline = now_ms.saturating_add(self.session_timeout_ms);
    }

    pub(super) fn heartbeat_deadline(&self) -> Option<i64> {
        let next = if self.heartbeat_call.is_some() {
            self.session_deadline
        } else {
            self.heartbeat_at.min(self.session_deadline)
        };
        self.has_session().then_some(next)
    }

    pub(super) fn next_heartbeat(&mut self, common: &mut Common, now_ms: i64) -> Option<MemberCall> {
        if !self.has_session() || self.heartbeat_call.is_some() || self.heartbeat_at > now_ms {
            return None;
        }
        let request = HeartbeatRequest {
            group_id: common.group_id.clone(),
            generation_id: self.generation.id,
            member_id: self.generation.member_id.clone(),
            group_instance_id: common.instance_id.clone(),
            ..Default::default()
        };
        let call = common.call(MemberRequest::Heartbeat(request), common.request_timeout_ms);
        self.heartbeat_at = now_ms.saturating_add(self.heartbeat_interval_ms);
        self.heartbeat_call = Some(self.sent(&call));
        Some(call)
    }

    pub(super) fn heartbeat_failed(&mut self, common: &mut Common, now_ms: i64, failure: CallFailure) {
        self.check_supported(common, failure);
        self.heartbeat_at = now_ms.saturating_add(common.next_backoff());
    }

    pub(super) fn handle_heartbeat_response(
        &mut self,
        common: &mut Common,
        now_ms: i64,
        sent: &InFlight,
        response: &HeartbeatResponse,
    ) {
        let error = code(response.error_code);
        match error {
            ErrorCode::None => self.renew_session(common, now_ms),
            // The coordinator renews the session with this response too.
            ErrorCode::RebalanceInProgress => {
                self.renew_session(common, now_ms);
                if self.phase == Phase::Stable && self.is_current(sent) {
                    self.request_rejoin("group is already rebalancing");
                }
            }
            ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration | ErrorCode::FencedInstanceId
                if !self.is_current(sent) => {}
            ErrorCode::UnknownMemberId => self.reset(false, "encountered UNKNOWN_MEMBER_ID from HEARTBEAT response"),
            ErrorCode::IllegalGeneration => self.reset(true, "encountered ILLEGAL_GENERATION from HEARTBEAT response"),
            ErrorCode::FencedInstanceId => self.fenced(common),
            error => {
                self.handle_error(common, ApiKey::Heartbeat, error);
                self.heartbeat_at = now_ms.saturating_add(common.next_backoff());
            }
        }
    }

    fn renew_session(&mut self, common: &mut Common, now_ms: i64) {
        common.backoff.reset();
        self.session_deadline = now_ms.saturating_add(self.session_timeout_ms);
    }

    /// Looks up the coordinator again after a whole session without a response. Only the coordinator can tell whether
    /// the member is still in the group.
    pub(super) fn check_session(&mut self, common: &mut Common, now_ms: i64) {
        if self.has_session() && self.session_deadline <= now_ms {
            common.coordinator_moved = true;
            self.heartbeat_call = None;
            self.heartbeat_at = now_ms;
            self.session_deadline = now_ms.saturating_add(self.session_timeout_ms);
        }
    }
}
