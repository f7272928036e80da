//! Configuration of a member.

use bytestring::ByteString;

use crate::assign::Assignor;

#[derive(Debug)]
pub struct MemberConfig {
    /// `group.id`
    pub group_id: ByteString,
    /// `group.instance.id`: set for a static member, which may be away for a while without a rebalance.
    pub instance_id: Option<ByteString>,
    /// `client.rack`; an empty one counts as none.
    pub rack: Option<ByteString>,
    /// `max.poll.interval.ms`: the longest time between polls, and the time that a rebalance waits for the member.
    pub rebalance_timeout_ms: i32,
    /// `request.timeout.ms`
    pub request_timeout_ms: i64,
    /// `retry.backoff.ms`
    pub retry_backoff_ms: i64,
    /// `retry.backoff.max.ms`
    pub retry_backoff_max_ms: i64,
    pub protocol: GroupProtocol,
}

/// `group.protocol`
#[derive(Debug)]
pub enum GroupProtocol {
    /// One of the members assigns.
    Classic {
        /// `session.timeout.ms`
        session_timeout_ms: i32,
        /// `heartbeat.interval.ms`
        heartbeat_interval_ms: i32,
        /// `partition.assignment.strategy`, the preferred one first.
        assignors: Vec<Box<dyn Assignor>>,
    },
    /// The broker assigns (KIP-848).
    Consumer {
        /// `group.remote.assignor`: the broker's choice if not set.
        remote_assignor: Option<ByteString>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemberConfigError {
    #[error("partition.assignment.strategy is empty: name at least one assignor, such as range")]
    NoAssignor,
    #[error(
        "the assignors {names} have no rebalance protocol in common: all must be eager, or all must be cooperative; \
         change partition.assignment.strategy"
    )]
    NoCommonProtocol { names: String },
    #[error("{name} is listed twice in partition.assignment.strategy")]
    AssignorTwice { name: String },
}
