//! Groups in which the broker assigns (KIP-848): ConsumerGroupHeartbeat.

use bytestring::ByteString;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, consumer_group_describe_response::DescribedGroup,
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

impl GroupCoordinator {
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
