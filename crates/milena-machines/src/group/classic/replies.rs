//! Replies to JoinGroup and SyncGroup, immediate or deferred.

use bytestring::ByteString;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{JoinGroupResponse, SyncGroupResponse},
};

use super::member::{Member, PendingReply};
use crate::group::{GroupEffects, GroupReply};

pub(in crate::group) fn join_error(error: ErrorCode, member_id: ByteString, version: i16) -> GroupReply {
    let response = JoinGroupResponse {
        error_code: error.code(),
        member_id,
        ..Default::default()
    };
    join_reply(response, version)
}

/// Before version 7 a protocol name cannot be null, and from then on it is not empty.
pub(in crate::group) fn join_reply(mut response: JoinGroupResponse, version: i16) -> GroupReply {
    let name = response.protocol_name.take().filter(|name| !name.is_empty());
    response.protocol_name = if version < versions::join_group::NULLABLE_PROTOCOL {
        Some(name.unwrap_or_default())
    } else {
        name
    };
    GroupReply::Join(response)
}

pub(in crate::group) fn sync_error(error: ErrorCode) -> GroupReply {
    GroupReply::Sync(SyncGroupResponse {
        error_code: error.code(),
        ..Default::default()
    })
}

impl Member {
    /// Lets a JoinGroup wait. An older one of the same member came over a connection that is gone or will soon be.
    pub(super) fn wait_for_join(&mut self, waiting: PendingReply, effects: &mut GroupEffects) {
        if let Some(older) = self.joining.replace(waiting) {
            let reply = join_error(ErrorCode::RebalanceInProgress, ByteString::new(), older.version);
            effects.replies.push((older.ticket, reply));
        }
    }

    /// As [`Self::wait_for_join`], for a SyncGroup.
    pub(super) fn wait_for_sync(&mut self, waiting: PendingReply, effects: &mut GroupEffects) {
        if let Some(older) = self.syncing.replace(waiting) {
            effects
                .replies
                .push((older.ticket, sync_error(ErrorCode::RebalanceInProgress)));
        }
    }

    pub(super) fn reply_join(&mut self, response: JoinGroupResponse, effects: &mut GroupEffects) {
        if let Some(waiting) = self.joining.take() {
            effects
                .replies
                .push((waiting.ticket, join_reply(response, waiting.version)));
        }
    }

    /// Returns whether a request was waiting.
    pub(super) fn reply_sync(&mut self, response: SyncGroupResponse, effects: &mut GroupEffects) -> bool {
        match self.syncing.take() {
            Some(waiting) => {
                effects.replies.push((waiting.ticket, GroupReply::Sync(response)));
                true
            }
            None => false,
        }
    }

    /// Replies to all waiting requests with an error: the member is removed.
    pub(in crate::group) fn reply_error(
        &mut self,
        error: ErrorCode,
        member_id: &ByteString,
        effects: &mut GroupEffects,
    ) {
        if let Some(waiting) = self.joining.take() {
            let reply = join_error(error, member_id.clone(), waiting.version);
            effects.replies.push((waiting.ticket, reply));
        }
        if let Some(waiting) = self.syncing.take() {
            effects.replies.push((waiting.ticket, sync_error(error)));
        }
    }
}
