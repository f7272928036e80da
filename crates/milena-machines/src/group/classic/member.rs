//! A member of a classic group.

use bytes::Bytes;
use bytestring::ByteString;
use milena_wire::messages::join_group_request::JoinGroupRequestProtocol;

use crate::Ticket;

#[derive(Debug, Clone)]
pub(in crate::group) struct Member {
    pub(in crate::group) instance_id: Option<ByteString>,
    pub(in crate::group) client_id: ByteString,
    pub(in crate::group) client_host: ByteString,
    pub(in crate::group) rebalance_timeout_ms: i32,
    pub(in crate::group) session_timeout_ms: i32,
    pub(in crate::group) protocol_type: ByteString,
    /// In the order of preference. A member loaded from the log has only the selected one.
    pub(in crate::group) protocols: Vec<JoinGroupRequestProtocol>,
    pub(in crate::group) assignment: Bytes,
    /// Its JoinGroup and SyncGroup that wait for a reply.
    pub(in crate::group) joining: Option<PendingReply>,
    pub(in crate::group) syncing: Option<PendingReply>,
    /// It waits for its first generation: waiting does not keep it alive for ever.
    pub(in crate::group) is_new: bool,
    /// The end of its session. Its timer may be earlier, never later; without a deadline there is none.
    pub(in crate::group) session_deadline_ms: Option<i64>,
}

/// A request whose reply follows later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::group) struct PendingReply {
    pub(in crate::group) ticket: Ticket,
    pub(in crate::group) version: i16,
}

impl Member {
    pub(in crate::group) fn is_static(&self) -> bool {
        self.instance_id.is_some()
    }

    pub(super) fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|own| own.name == protocol)
    }

    /// The metadata that it sent for a protocol; empty if it does not support the protocol.
    pub(in crate::group) fn metadata(&self, protocol: &str) -> Bytes {
        let own = self.protocols.iter().find(|own| own.name == protocol);
        own.map(|own| own.metadata.clone()).unwrap_or_default()
    }

    /// A member that waits for a reply cannot send heartbeats.
    pub(super) fn waits_for_reply(&self) -> bool {
        !self.is_new && (self.joining.is_some() || self.syncing.is_some())
    }
}
