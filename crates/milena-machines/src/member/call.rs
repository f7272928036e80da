//! Requests of a member, and their failures.

use bytestring::ByteString;
use milena_wire::{
    api::{ApiKey, versions},
    messages::{
        ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, HeartbeatRequest, HeartbeatResponse,
        JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, SyncGroupRequest,
        SyncGroupResponse,
    },
};

/// Id of a request, for its response. Never used twice by one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(crate) u64);

/// A request for the group's coordinator. The driver sends it once and reports the response or the failure, also if
/// there is no coordinator; retries are the machine's decision.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberCall {
    pub id: CallId,
    pub request: MemberRequest,
    /// The time until it fails without a response.
    pub timeout_ms: i64,
    /// A broker without this version cannot serve the request: [`CallFailure::Unsupported`].
    pub min_version: i16,
}

#[derive(Debug, Clone, PartialEq)]
pub enum MemberRequest {
    Join(JoinGroupRequest),
    Sync(SyncGroupRequest),
    Heartbeat(HeartbeatRequest),
    Leave(LeaveGroupRequest),
    ConsumerHeartbeat(ConsumerGroupHeartbeatRequest),
}

impl MemberRequest {
    pub fn api(&self) -> ApiKey {
        match self {
            Self::Join(_) => ApiKey::JoinGroup,
            Self::Sync(_) => ApiKey::SyncGroup,
            Self::Heartbeat(_) => ApiKey::Heartbeat,
            Self::Leave(_) => ApiKey::LeaveGroup,
            Self::ConsumerHeartbeat(_) => ApiKey::ConsumerGroupHeartbeat,
        }
    }

    /// The first version with all fields that this request uses.
    pub(super) fn min_version(&self) -> i16 {
        let has_instance = |instance: &Option<ByteString>| instance.is_some();
        match self {
            Self::Join(request) if has_instance(&request.group_instance_id) => 5,
            Self::Sync(request) if has_instance(&request.group_instance_id) => 3,
            Self::Heartbeat(request) if has_instance(&request.group_instance_id) => 3,
            Self::Leave(request) if request.members.iter().any(|member| member.group_instance_id.is_some()) => 3,
            Self::ConsumerHeartbeat(request) if request.subscribed_topic_regex.is_some() => 1,
            _ => 0,
        }
    }
}

/// Requests that older versions write with other fields. The machines fill in the fields of the newest version.
pub trait ForVersion {
    /// The same request with the fields that `version` has.
    #[must_use]
    fn for_version(self, version: i16) -> Self;
}

/// Before version 3 a request names one member, in a field of its own.
impl ForVersion for LeaveGroupRequest {
    fn for_version(mut self, version: i16) -> Self {
        if version < versions::leave_group::MEMBERS {
            if let Some(member) = self.members.pop() {
                self.member_id = member.member_id;
            }
            self.members.clear();
        }
        self
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum MemberResponse {
    Join(JoinGroupResponse),
    Sync(SyncGroupResponse),
    Heartbeat(HeartbeatResponse),
    Leave(LeaveGroupResponse),
    ConsumerHeartbeat(ConsumerGroupHeartbeatResponse),
}

/// The reason for a missing response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// It was never sent: no broker can have seen it.
    #[error("there was no connection to send it over")]
    NotSent,
    /// It was never sent: the broker refuses the client, and will again.
    #[error("the broker refused the log-in")]
    NotAuthenticated,
    #[error("the connection to the coordinator broke")]
    Disconnected,
    #[error("the coordinator did not respond in time")]
    TimedOut,
    #[error("the coordinator of the group was not found")]
    CoordinatorUnknown,
    #[error("the broker does not support this version of {api:?}")]
    Unsupported { api: ApiKey },
}
