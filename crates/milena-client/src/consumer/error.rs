//! What the calls of a consumer can fail with. One type for each kind of call; a variant is a fact, and says what to do.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_machines::{
    TopicPartition,
    fetch::FetchError,
    member::{MemberConfigError, MemberError, OffsetError},
};
use milena_wire::{errors::ErrorCode, records::BatchError};

use super::listener::ListenerError;
use crate::{config::ConfigErrors, metadata::MetadataCache, net::CallError};

/// Why a consumer cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum NewConsumerError {
    #[error("{0}")]
    Config(#[from] ConfigErrors),
    #[error("{0}")]
    Group(#[from] MemberConfigError),
    #[error("{0}")]
    Io(String),
}

/// Why a subscription is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    #[error(
        "subscriptions to topics, by pattern, and partitions assigned by hand exclude each other: unsubscribe first"
    )]
    Exclusive,
    #[error("a subscription needs a group: set group.id, or assign partitions by hand")]
    NoGroup,
    #[error("a topic's name is empty")]
    EmptyTopic,
    #[error("partition {partition} of {topic} has a negative number")]
    NegativePartition { topic: String, partition: i32 },
    #[error("the pattern {pattern:?} is not a regular expression: {reason}")]
    BadPattern { pattern: String, reason: String },
    #[error("a pattern that the broker matches needs group.protocol=consumer")]
    NeedsConsumerProtocol,
}

/// What goes wrong with the group.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GroupError {
    /// The membership failed. Unless it is fatal, the consumer tries again by itself.
    #[error(transparent)]
    Member(#[from] MemberError),
    #[error("the coordinator of the group cannot be found: {0}")]
    Coordinator(String),
}

/// Why `poll` returns no records. After every one of these `poll` can be called again.
#[derive(Debug, thiserror::Error)]
pub enum PollError {
    /// [`WakeupHandle::wakeup`](super::WakeupHandle::wakeup) was called.
    #[error("somebody has woken the consumer up")]
    Wakeup,
    #[error("nothing is subscribed and nothing is assigned: subscribe or assign first")]
    NotSubscribed,
    /// The application must decide where to read on.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The position stands before the batch that cannot be read. The next `poll` reads it again; seek to go past it.
    #[error("{partition} cannot be read at offset {offset}: {problem}; seek to offset {next_offset} to go past it")]
    Unreadable {
        partition: TopicPartition,
        offset: i64,
        /// The first offset behind the batch, by its header. If that is damaged too, the offset after `offset`.
        next_offset: i64,
        problem: String,
    },
    #[error(transparent)]
    Group(#[from] GroupError),
    #[error("the topic {topic} cannot be used: {code}")]
    Topic { topic: String, code: ErrorCode },
    /// What the rebalance listener returned. The change itself stands.
    #[error("the rebalance listener failed: {0}")]
    Listener(ListenerError),
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

/// Why offsets were not committed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CommitError {
    #[error("there is no group to commit to: set group.id")]
    NoGroup,
    /// Each partition that failed, and why. Those that are not here were committed.
    #[error("{}", describe(.0))]
    Partitions(BTreeMap<TopicPartition, OffsetError>),
    #[error("offset {offset} of {partition} is negative")]
    NegativeOffset { partition: TopicPartition, offset: i64 },
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

    /// What is left of it if it does not matter that topics are gone.
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

    /// Whether it failed because the group was in the middle of a rebalance.
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

/// A partition that the consumer does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SeekError {
    #[error("{0} is not assigned to this consumer")]
    NotAssigned(TopicPartition),
    #[error("offset {offset} of {partition} is negative")]
    NegativeOffset { partition: TopicPartition, offset: i64 },
}

/// Why offsets cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OffsetsError {
    #[error("{0} is not assigned to this consumer")]
    NotAssigned(TopicPartition),
    #[error("there is no group whose offsets could be told: set group.id")]
    NoGroup,
    #[error("a time before 1970 was asked for: {timestamp}")]
    NegativeTime { timestamp: i64 },
    #[error("there was no answer in time about {partitions}{}", because(.cause))]
    TimedOut { partitions: String, cause: Option<String> },
    #[error("{partition} has no leader at the moment{}", because(.cause))]
    NoLeader {
        partition: TopicPartition,
        cause: Option<String>,
    },
    #[error("the broker refused to tell the offsets of {partition}: {code}")]
    Broker { partition: TopicPartition, code: ErrorCode },
    #[error("the offset of {partition} cannot be told: {error}")]
    Committed {
        partition: TopicPartition,
        error: OffsetError,
    },
    #[error(transparent)]
    Position(#[from] FetchError),
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

/// Why topics cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopicsError {
    #[error("no broker has told the topics within {timeout_ms} ms (default.api.timeout.ms): {cause}")]
    TimedOut { timeout_ms: i32, cause: String },
    #[error("the topic {topic} cannot be used: {code}")]
    Topic { topic: ByteString, code: ErrorCode },
    #[error("{0}")]
    Connection(String),
    #[error("the consumer is closed")]
    Closed,
}

impl From<CallError> for OffsetsError {
    fn from(error: CallError) -> Self {
        Self::Connection {
            reason: error.to_string(),
            is_retriable: error.is_retriable(),
        }
    }
}
