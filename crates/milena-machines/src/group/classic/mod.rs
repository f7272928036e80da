//! Groups in which a member assigns: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

use bytestring::ByteString;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        GroupMetadataValue, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse,
        LeaveGroupRequest, LeaveGroupResponse, SyncGroupRequest, SyncGroupResponse,
    },
};

use super::{GroupContext, GroupCoordinator, GroupEffects, GroupReply};
use crate::Ticket;

#[derive(Debug)]
pub(super) struct ClassicGroup {}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Join,
}

impl GroupCoordinator {
    pub(super) fn classic_start(&mut self, _now_ms: i64, _effects: &mut GroupEffects) {}

    /// The answer, unless it comes later.
    pub(super) fn join(
        &mut self,
        _context: &GroupContext,
        _request: JoinGroupRequest,
        _effects: &mut GroupEffects,
    ) -> Option<GroupReply> {
        Some(GroupReply::Join(JoinGroupResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            ..Default::default()
        }))
    }

    /// The answer, unless it comes later.
    pub(super) fn sync(
        &mut self,
        _context: &GroupContext,
        _request: SyncGroupRequest,
        _effects: &mut GroupEffects,
    ) -> Option<GroupReply> {
        Some(GroupReply::Sync(SyncGroupResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            ..Default::default()
        }))
    }

    pub(super) fn heartbeat(&mut self, _context: &GroupContext, _request: &HeartbeatRequest) -> GroupReply {
        GroupReply::Heartbeat(HeartbeatResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            ..Default::default()
        })
    }

    pub(super) fn leave(
        &mut self,
        _context: &GroupContext,
        _request: LeaveGroupRequest,
        _effects: &mut GroupEffects,
    ) -> GroupReply {
        GroupReply::Leave(LeaveGroupResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            ..Default::default()
        })
    }

    pub(super) fn classic_timeout(
        &mut self,
        _now_ms: i64,
        _group: &ByteString,
        _of: Timer,
        _effects: &mut GroupEffects,
    ) {
    }

    pub(super) fn classic_forget(&mut self, _ticket: Ticket) {}

    pub(super) fn replay_classic(&mut self, _group_id: ByteString, _value: Option<GroupMetadataValue>) {}
}
