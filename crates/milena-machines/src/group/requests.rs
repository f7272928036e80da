//! Requests and replies of the group coordinator.

use bytestring::ByteString;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, HeartbeatRequest, HeartbeatResponse,
        JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, OffsetCommitRequest,
        OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse, SyncGroupRequest, SyncGroupResponse,
        TxnOffsetCommitRequest, TxnOffsetCommitResponse,
        consumer_group_describe_response::DescribedGroup as DescribedConsumerGroup,
        describe_groups_response::DescribedGroup, list_groups_response::ListedGroup,
        offset_fetch_request::OffsetFetchRequestGroup, offset_fetch_response::OffsetFetchResponseGroup,
    },
};

/// A request for one group. The driver splits requests for several groups, and resolves topic ids to names (both are
/// set where the version has both): topics that do not exist never come here.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupRequest {
    Join(JoinGroupRequest),
    Sync(SyncGroupRequest),
    Heartbeat(HeartbeatRequest),
    Leave(LeaveGroupRequest),
    ConsumerHeartbeat(ConsumerGroupHeartbeatRequest),
    OffsetCommit(OffsetCommitRequest),
    TxnOffsetCommit(TxnOffsetCommitRequest),
    OffsetFetch {
        group: OffsetFetchRequestGroup,
        require_stable: bool,
    },
    OffsetDelete(OffsetDeleteRequest),
    Delete {
        group_id: ByteString,
    },
    Describe {
        group_id: ByteString,
    },
    ConsumerDescribe {
        group_id: ByteString,
    },
    /// All groups in one of these states and of one of these types; an empty list matches all.
    List {
        states: Vec<ByteString>,
        types: Vec<ByteString>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum GroupReply {
    Join(JoinGroupResponse),
    Sync(SyncGroupResponse),
    Heartbeat(HeartbeatResponse),
    Leave(LeaveGroupResponse),
    ConsumerHeartbeat(ConsumerGroupHeartbeatResponse),
    OffsetCommit(OffsetCommitResponse),
    TxnOffsetCommit(TxnOffsetCommitResponse),
    OffsetFetch(OffsetFetchResponseGroup),
    OffsetDelete(OffsetDeleteResponse),
    Delete(ErrorCode),
    Describe(DescribedGroup),
    ConsumerDescribe(DescribedConsumerGroup),
    List(Vec<ListedGroup>),
}
