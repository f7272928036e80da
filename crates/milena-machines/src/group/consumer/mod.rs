//! Groups in which the broker assigns (KIP-848): ConsumerGroupHeartbeat.

use bytestring::ByteString;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, HeartbeatRequest, HeartbeatResponse,
        JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, SyncGroupRequest,
        SyncGroupResponse, consumer_group_describe_response::DescribedGroup,
    },
};

use super::{GroupContext, GroupCoordinator, GroupEffects, GroupRecord, GroupReply};
use crate::{Ticket, TopicsImage};

#[derive(Debug)]
pub(super) struct ConsumerGroup {}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Session(ByteString),
}

impl ConsumerGroup {
    pub(in crate::group) fn is_empty(&self) -> bool {
        true
    }

    pub(in crate::group) fn state_name(&self) -> &'static str {
        "Empty"
    }

    /// What removes the group from the log.
    pub(in crate::group) fn tombstones(&self, group_id: &ByteString) -> Vec<GroupRecord> {
        vec![GroupRecord::ConsumerGroup {
            group_id: group_id.clone(),
            value: None,
        }]
    }

    pub(in crate::group) fn is_subscribed_to(&self, _topic: &str) -> bool {
        false
    }

    pub(in crate::group) fn validate_offset_commit(
        &self,
        _member_id: &str,
        _instance_id: Option<&str>,
        _epoch: i32,
        _is_transactional: bool,
        _version: i16,
    ) -> Result<(), ErrorCode> {
        Err(ErrorCode::UnknownMemberId)
    }

    pub(in crate::group) fn validate_offset_fetch(
        &self,
        _member_id: Option<&str>,
        _epoch: i32,
    ) -> Result<(), ErrorCode> {
        Err(ErrorCode::UnknownMemberId)
    }
}

impl GroupCoordinator {
    pub(super) fn consumer_classic_join(
        &mut self,
        _context: &GroupContext,
        request: JoinGroupRequest,
        _effects: &mut GroupEffects,
    ) -> Option<GroupReply> {
        Some(GroupReply::Join(JoinGroupResponse {
            error_code: ErrorCode::InconsistentGroupProtocol.code(),
            member_id: request.member_id,
            ..Default::default()
        }))
    }

    pub(super) fn consumer_classic_sync(
        &mut self,
        _context: &GroupContext,
        _request: SyncGroupRequest,
        _effects: &mut GroupEffects,
    ) -> Option<GroupReply> {
        Some(GroupReply::Sync(SyncGroupResponse {
            error_code: ErrorCode::UnknownMemberId.code(),
            ..Default::default()
        }))
    }

    pub(super) fn consumer_classic_heartbeat(
        &mut self,
        _context: &GroupContext,
        _request: &HeartbeatRequest,
    ) -> GroupReply {
        GroupReply::Heartbeat(HeartbeatResponse {
            error_code: ErrorCode::UnknownMemberId.code(),
            ..Default::default()
        })
    }

    pub(super) fn consumer_classic_leave(
        &mut self,
        _context: &GroupContext,
        _request: LeaveGroupRequest,
        _effects: &mut GroupEffects,
    ) -> GroupReply {
        GroupReply::Leave(LeaveGroupResponse {
            error_code: ErrorCode::UnknownMemberId.code(),
            ..Default::default()
        })
    }

    pub(super) fn consumer_start(&mut self, _now_ms: i64, _effects: &mut GroupEffects) {}

    pub(super) fn consumer_heartbeat(
        &mut self,
        _context: &GroupContext,
        _request: ConsumerGroupHeartbeatRequest,
        _effects: &mut GroupEffects,
    ) -> GroupReply {
        GroupReply::ConsumerHeartbeat(ConsumerGroupHeartbeatResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            ..Default::default()
        })
    }

    pub(super) fn describe_consumer_group(&self, _context: &GroupContext, group_id: ByteString) -> GroupReply {
        GroupReply::ConsumerDescribe(DescribedGroup {
            error_code: ErrorCode::GroupIdNotFound.code(),
            group_id,
            ..Default::default()
        })
    }

    pub(super) fn consumer_timeout(
        &mut self,
        _now_ms: i64,
        _group: &ByteString,
        _of: Timer,
        _effects: &mut GroupEffects,
    ) {
    }

    pub(super) fn consumer_topics_changed(&mut self, _now_ms: i64, _before: &TopicsImage, _effects: &mut GroupEffects) {
    }

    pub(super) fn consumer_forget(&mut self, _ticket: Ticket) {}

    pub(super) fn replay_consumer(&mut self, _record: GroupRecord) {}
}
