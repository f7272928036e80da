//! How far groups have come: commit, fetch, expiry, deletion, and offsets that a transaction has yet to commit.

use milena_wire::{
    errors::ErrorCode,
    messages::{
        OffsetCommitRequest, OffsetCommitResponse, OffsetCommitValue, OffsetDeleteRequest, OffsetDeleteResponse,
        TxnOffsetCommitRequest, TxnOffsetCommitResponse, offset_fetch_request::OffsetFetchRequestGroup,
        offset_fetch_response::OffsetFetchResponseGroup,
    },
};

use super::{GroupContext, GroupCoordinator, GroupEffects, GroupReply, OffsetKey};
use crate::{TopicsImage, transaction::ProducerEpoch};

#[derive(Debug, Default)]
pub(super) struct Offsets {}

impl GroupCoordinator {
    pub(super) fn offsets_start(&mut self, _now_ms: i64) {}

    pub(super) fn commit_offsets(
        &mut self,
        _context: &GroupContext,
        _request: OffsetCommitRequest,
        _effects: &mut GroupEffects,
    ) -> GroupReply {
        GroupReply::OffsetCommit(OffsetCommitResponse::default())
    }

    pub(super) fn commit_txn_offsets(
        &mut self,
        _context: &GroupContext,
        _request: TxnOffsetCommitRequest,
        _effects: &mut GroupEffects,
    ) -> GroupReply {
        GroupReply::TxnOffsetCommit(TxnOffsetCommitResponse::default())
    }

    pub(super) fn fetch_offsets(
        &mut self,
        _context: &GroupContext,
        group: OffsetFetchRequestGroup,
        _require_stable: bool,
    ) -> GroupReply {
        GroupReply::OffsetFetch(OffsetFetchResponseGroup {
            group_id: group.group_id,
            error_code: ErrorCode::UnsupportedVersion.code(),
            ..Default::default()
        })
    }

    pub(super) fn delete_offsets(
        &mut self,
        _context: &GroupContext,
        _request: OffsetDeleteRequest,
        _effects: &mut GroupEffects,
    ) -> GroupReply {
        GroupReply::OffsetDelete(OffsetDeleteResponse::default())
    }

    pub(super) fn expire_offsets(&mut self, _now_ms: i64, _effects: &mut GroupEffects) {}

    pub(super) fn offsets_topics_changed(&mut self, _before: &TopicsImage, _effects: &mut GroupEffects) {}

    pub(super) fn replay_offset(
        &mut self,
        _producer: Option<ProducerEpoch>,
        _key: OffsetKey,
        _value: Option<OffsetCommitValue>,
    ) {
    }

    pub(super) fn end_txn_offsets(&mut self, _producer: ProducerEpoch, _committed: bool) {}
}
