//! Errors of the consumer: one type per kind of call.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_machines::{
    TopicPartition,
    fetch::FetchError,
    member::{MemberConfigError, MemberError, OffsetError},
};
use milena_wire::{errors::ErrorCode, records::BatchError};

use super::listener::ListenerError;
use crate::{auth::AuthenticationError, config::ConfigErrors, metadata::MetadataCache, net::CallError};

/// The reason why a consumer cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum NewConsumerError {
    #[error("{0}")]
    Config(#[from] ConfigErrors),
    #[error("{0}")]
    Group(#[from] MemberConfigError),
    #[error("{0}")]
    Io(String),
}

/// The reason why a subscription is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    #[error("subscriptions by topic, by pattern, and manual assignment exclude each other; unsubscribe first")]
    Exclusive,
    #[error("a subscription needs a group; set group.id, or assign partitions manually")]
    NoGroup,
    #[error("a topic name is empty")]
    EmptyTopic,
    #[error("partition {partition} of {topic} is negative")]
    NegativePartition { topic: String, partition: i32 },
    #[error("the pattern {pattern:?} is not a regular expression: {reason}")]
    BadPattern { pattern: String, reason: String },
    #[error("a broker pattern needs group.protocol=consumer")]
    NeedsConsumerProtocol,
}

/// An error of the group.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GroupError {
    /// The membership failed. Unless it is fatal, the consumer retries.
    #[error(transparent)]
    Member(#[from] MemberError),
    #[error("the coordinator of the group cannot be found: {0}")]
    Coordinator(String),
}

/// The reason why `poll` returns no records. After any of these, `poll` can be called again.
#[derive(Debug, thiserror::Error)]
pub enum PollError {
    /// [`WakeupHandle::wakeup`](super::WakeupHandle::wakeup) was called.
    #[error("poll interrupted by wakeup()")]
    Wakeup,
    #[error("no subscription and no assignment; subscribe or assign first")]
    NotSubscribed,
    /// The application must choose a position, or fix access rights.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The position is before the unreadable batch. The next `poll` reads it again; seek to skip it.
    #[error("{partition} cannot be read at offset {offset}: {problem}; seek to offset {next_offset} to skip it")]
    Unreadable {
        partition: TopicPartition,
        offset: i64,
        /// The offset after the batch, from its header. If the header is damaged too, `offset + 1`.
        next_offset: i64,
        problem: String,
    },
    #[error(transparent)]
    Group(#[from] GroupError),
    #[error("topic {topic} is unavailable: {code}")]
    Topic { topic: String, code: ErrorCode },
    /// The error of the rebalance listener. The assignment has changed nevertheless.
    #[error("the rebalance listener failed: {0}")]
    Listener(ListenerError),
    /// A broker refuses the client. The next `poll` tries again.
    #[error(transparent)]
    Authentication(AuthenticationError),
    #[error("the consumer is closed")]
    Closed,
}

impl PollError {
    pub(super) fn unreadable(partition: &TopicPartition, error: &BatchError, next_offset: Option<i64>) -> Self {
        Self::Unreadable {
            partition: partition.clone(),
            offset: error.base_offset,
            next_offset: next_offset.unwrap_or_else(|| error.base_offset.saturating_add(1)),
            problem: error.problem.to_string(),
        }
    }
}

/// The reason why offsets were not committed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CommitError {
    #[error("no group to commit to; set group.id")]
    NoGroup,
    /// The partitions that failed. The other offsets were committed.
    #[error("{}", describe(.0))]
    Partitions(BTreeMap<TopicPartition, OffsetError>),
    #[error("offset {offset} of {partition} is negative")]
    NegativeOffset { partition: TopicPartition, offset: i64 },
    /// A broker refuses the client.
    #[error(transparent)]
    Authentication(AuthenticationError),
    #[error("the consumer is closed")]
    Closed,
}

impl CommitError {
    /// Whether the same commit may succeed later.
    pub fn is_retriable(&self) -> bool {
        let retriable = |error: &OffsetError| {
            matches!(
                error,
                OffsetError::Retriable(_) | OffsetError::TimedOut { .. } | OffsetError::RebalanceInProgress
            )
        };
        matches!(self, Self::Partitions(failed) if failed.values().all(retriable))
    }

    /// Ignores partitions of deleted topics.
    pub(super) fn without_gone_topics(self) -> Result<(), Self> {
        let Self::Partitions(mut failed) = self else {
            return Err(self);
        };
        let gone = [ErrorCode::UnknownTopicOrPartition, ErrorCode::UnknownTopicId];
        failed.retain(|_, error| !matches!(error, OffsetError::Refused(code) if gone.contains(code)));
        if failed.is_empty() {
            Ok(())
        } else {
            Err(Self::Partitions(failed))
        }
    }

    /// Whether it failed because of a rebalance.
    pub(super) fn is_rebalance(&self) -> bool {
        let is_rebalance = |error: &OffsetError| matches!(error, OffsetError::RebalanceInProgress);
        matches!(self, Self::Partitions(failed) if failed.values().any(is_rebalance))
    }
}

fn describe(failed: &BTreeMap<TopicPartition, OffsetError>) -> String {
    let Some((partition, error)) = failed.first_key_value() else {
        return "nothing was committed".to_owned();
    };
    match failed.len() {
        1 => format!("the offset of {partition} was not committed: {error}"),
        more => format!(
            "the offsets of {partition} and {} more were not committed: {error}",
            more - 1
        ),
    }
}

/// The reason why a position cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SeekError {
    #[error("{0} is not assigned to this consumer")]
    NotAssigned(TopicPartition),
    #[error("offset {offset} of {partition} is negative")]
    NegativeOffset { partition: TopicPartition, offset: i64 },
}

/// The reason why offsets cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OffsetsError {
    #[error("{0} is not assigned to this consumer")]
    NotAssigned(TopicPartition),
    #[error("no group, so there are no committed offsets; set group.id")]
    NoGroup,
    #[error("timestamp {timestamp} is negative")]
    NegativeTime { timestamp: i64 },
    #[error("offset query for {partitions} timed out{}", because(.cause))]
    TimedOut { partitions: String, cause: Option<String> },
    #[error("{partition} has no leader{}", because(.cause))]
    NoLeader {
        partition: TopicPartition,
        cause: Option<String>,
    },
    #[error("offset query for {partition} failed: {code}")]
    Broker { partition: TopicPartition, code: ErrorCode },
    #[error("the committed offset of {partition} is unavailable: {error}")]
    Committed {
        partition: TopicPartition,
        error: OffsetError,
    },
    #[error(transparent)]
    Position(#[from] FetchError),
    /// A broker refuses the client.
    #[error(transparent)]
    Authentication(AuthenticationError),
    #[error("{reason}")]
    Connection { reason: String, is_retriable: bool },
    #[error("the consumer is closed")]
    Closed,
}

fn because(cause: &Option<String>) -> String {
    cause.as_ref().map_or_else(String::new, |cause| format!(": {cause}"))
}

impl OffsetsError {
    pub(super) fn timed_out<'a>(partitions: impl Iterator<Item = &'a TopicPartition>, cause: Option<String>) -> Self {
        let partitions: Vec<String> = partitions.map(ToString::to_string).collect();
        Self::TimedOut {
            partitions: partitions.join(", "),
            cause,
        }
    }

    pub(super) fn no_leader(cluster: &MetadataCache, partition: &TopicPartition) -> Self {
        let code = cluster.topic_error(&partition.topic);
        Self::NoLeader {
            partition: partition.clone(),
            cause: code.map(|code| code.to_string()),
        }
    }

    pub(super) fn is_retriable(&self) -> bool {
        match self {
            Self::NoLeader { .. } => true,
            Self::Broker { code, .. } => code.is_retriable(),
            Self::Connection { is_retriable, .. } => *is_retriable,
            _ => false,
        }
    }
}

/// The reason why topics cannot be listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopicsError {
    #[error("topic query timed out after {timeout_ms} ms (default.api.timeout.ms): {cause}")]
    TimedOut { timeout_ms: i32, cause: String },
    #[error("topic {topic} is unavailable: {code}")]
    Topic { topic: ByteString, code: ErrorCode },
    /// A broker refuses the client.
    #[error(transparent)]
    Authentication(AuthenticationError),
    #[error("{0}")]
    Connection(String),
    #[error("the consumer is closed")]
    Closed,
}

impl From<CallError> for OffsetsError {
    fn from(error: CallError) -> Self {
        if let Some(error) = error.authentication() {
            return Self::Authentication(error.clone());
        }
        Self::Connection {
            reason: error.to_string(),
            is_retriable: error.is_retriable(),
        }
    }
}
