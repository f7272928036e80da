//! `JoinGroup`.

use bytestring::ByteString;
use milena_wire::{
    api::ApiKey,
    encode::EncodeError,
    errors::ErrorCode,
    messages::{JoinGroupRequest, JoinGroupResponse, SyncGroupRequest, join_group_request::JoinGroupRequestProtocol},
};

use super::{
    CallFailure, Classic, Common, Generation, InFlight, Leader, MemberCall, MemberError, MemberRequest, PROTOCOL_TYPE,
    Phase, topics,
};
use crate::{
    assign::{MemberSubscription, RebalanceProtocol, encode_subscription},
    member::offsets::code,
};

/// The time that the coordinator may need beyond the rebalance timeout.
const JOIN_LAPSE_MS: i64 = 5_000;

impl Classic {
    pub(super) fn next_join(&mut self, common: &mut Common, now_ms: i64) -> Option<MemberCall> {
        if !self.wants_join(common) || self.retry_at > now_ms {
            return None;
        }
        let request = match self.join_request(common) {
            Ok(request) => request,
            Err(error) => {
                common.fail(MemberError::Unwritable(error));
                return None;
            }
        };
        let waits = i64::from(common.rebalance_timeout_ms).saturating_add(JOIN_LAPSE_MS);
        let call = common.call(MemberRequest::Join(request), common.request_timeout_ms.max(waits));
        self.phase = Phase::Joining;
        // Should this join fail, the partitions are not revoked a second time.
        self.has_revoked = true;
        self.leader = None;
        self.heartbeat_call = None;
        self.retry_at = i64::MIN;
        self.join_call = Some(self.sent(&call));
        Some(call)
    }

    /// Whether to send `JoinGroup` as soon as `retry_at` has come.
    pub(super) fn wants_join(&self, common: &Common) -> bool {
        let is_free = common.pending_event.is_none() && common.errors.is_empty() && self.join_call.is_none();
        let is_waiting = self.sync.is_some() || self.received.is_some();
        common.wants_group()
            && is_free
            && !is_waiting
            && self.must_join(common)
            && (self.generation.is_valid() || common.owned.is_empty())
            && self.to_revoke(common).is_none()
    }

    /// Whether the member must join, or rejoin because of a change.
    pub(super) fn must_join(&self, common: &Common) -> bool {
        match self.phase {
            Phase::Unjoined => true,
            Phase::Joining | Phase::Assigning | Phase::Syncing => self.rejoin.is_some(),
            Phase::Stable => self.rejoin.is_some() || self.change(common).is_some(),
        }
    }

    /// The change since the last join that requires another.
    pub(super) fn change(&self, common: &Common) -> Option<&'static str> {
        if self.leader.as_ref().is_some_and(Leader::has_changed) {
            return Some("cached metadata has changed");
        }
        let has_changed = topics(common).is_some_and(|topics| *topics != self.joined_topics);
        has_changed.then_some("subscription has changed")
    }

    pub(super) fn sent(&self, call: &MemberCall) -> InFlight {
        InFlight {
            id: call.id,
            generation: self.generation.clone(),
        }
    }

    fn join_request(&mut self, common: &Common) -> Result<JoinGroupRequest, EncodeError> {
        let change = self.change(common).filter(|_| self.phase == Phase::Stable);
        let reason = self.rejoin.clone().or_else(|| change.map(ByteString::from_static));
        self.joined_topics = topics(common).cloned().unwrap_or_default();
        let topics: Vec<ByteString> = self.joined_topics.iter().cloned().collect();
        let owned = common.owned_list();
        let mut protocols = vec![];
        for assignor in &self.assignors {
            // Sorted throughout: other bytes would look like another subscription and cause a rebalance.
            let subscription = MemberSubscription {
                owned: owned.clone(),
                generation: self.generation.id,
                rack: common.rack.clone(),
                user_data: assignor.user_data(&topics),
                ..MemberSubscription::new("", topics.clone())
            };
            protocols.push(JoinGroupRequestProtocol {
                name: assignor.name().into(),
                metadata: encode_subscription(&subscription)?,
                ..Default::default()
            });
        }
        Ok(JoinGroupRequest {
            group_id: common.group_id.clone(),
            session_timeout_ms: i32::try_from(self.session_timeout_ms).unwrap_or(i32::MAX),
            rebalance_timeout_ms: common.rebalance_timeout_ms,
            member_id: self.generation.member_id.clone(),
            group_instance_id: common.instance_id.clone(),
            protocol_type: PROTOCOL_TYPE.into(),
            protocols,
            reason,
            ..Default::default()
        })
    }

    /// Handles a `JoinGroup` or `SyncGroup` without a response: the group may have moved on, so the rebalance starts
    /// over.
    pub(super) fn join_failed(&mut self, common: &mut Common, now_ms: i64, failure: CallFailure) {
        self.check_supported(common, failure);
        self.join_later(common, now_ms, "rebalance failed due to a lost connection");
    }

    pub(super) fn join_later(&mut self, common: &mut Common, now_ms: i64, reason: &str) {
        if self.rejoin.is_none() {
            self.request_rejoin(reason);
        }
        self.retry_at = now_ms.saturating_add(common.next_backoff());
    }

    pub(super) fn handle_join_response(
        &mut self,
        common: &mut Common,
        now_ms: i64,
        sent: &InFlight,
        response: JoinGroupResponse,
    ) {
        match code(response.error_code) {
            ErrorCode::None => self.joined(common, now_ms, response),
            ErrorCode::MemberIdRequired => {
                self.generation = Generation {
                    id: super::NO_GENERATION,
                    member_id: ByteString::from(&*response.member_id),
                };
                self.request_rejoin("need to re-join with the given member-id");
            }
            ErrorCode::UnknownMemberId => {
                if self.is_current(sent) {
                    self.reset(false, "encountered UNKNOWN_MEMBER_ID from JOIN_GROUP response");
                }
                self.request_rejoin("encountered UNKNOWN_MEMBER_ID from JOIN_GROUP response");
            }
            ErrorCode::FencedInstanceId => self.fenced(common),
            error => {
                self.handle_error(common, ApiKey::JoinGroup, error);
                self.join_later(common, now_ms, &format!("rebalance failed due to {}", error.name()));
            }
        }
    }

    fn joined(&mut self, common: &mut Common, now_ms: i64, response: JoinGroupResponse) {
        if let Some(found) = response.protocol_type.as_ref().filter(|found| *found != PROTOCOL_TYPE) {
            let found = ByteString::from(&**found);
            common.report(MemberError::OtherProtocolType { found });
            return self.join_later(common, now_ms, "rebalance failed due to INCONSISTENT_GROUP_PROTOCOL");
        }
        common.backoff.reset();
        let copy = |text: &ByteString| ByteString::from(&**text);
        self.generation = Generation {
            id: response.generation_id,
            member_id: copy(&response.member_id),
        };
        self.assignor = response.protocol_name.as_ref().map(copy).unwrap_or_default();
        self.rejoin = None;
        self.begin_session(now_ms);
        if response.leader == self.generation.member_id {
            self.lead(common, now_ms, &response.members, response.skip_assignment);
        } else {
            self.sync_with(common, vec![]);
        }
    }

    pub(super) fn sync_with(
        &mut self,
        common: &Common,
        assignments: Vec<milena_wire::messages::sync_group_request::SyncGroupRequestAssignment>,
    ) {
        self.phase = Phase::Syncing;
        self.sync = Some(SyncGroupRequest {
            group_id: common.group_id.clone(),
            generation_id: self.generation.id,
            member_id: self.generation.member_id.clone(),
            group_instance_id: common.instance_id.clone(),
            protocol_type: Some(PROTOCOL_TYPE.into()),
            protocol_name: Some(self.assignor.clone()),
            assignments,
            ..Default::default()
        });
    }

    pub(super) fn is_cooperative(&self) -> bool {
        self.protocol == RebalanceProtocol::Cooperative
    }
}
