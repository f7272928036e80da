//! Errors of requesters.

use std::time::Duration;

use milena_client::{
    admin::{AdminError, NewAdminError},
    consumer::{NewConsumerError, OffsetsError, SeekError, SubscribeError},
    producer::{NewProducerError, SendError},
};

use super::Reply;

/// The reason why a requester cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequesterError {
    #[error(transparent)]
    Consumer(#[from] NewConsumerError),
    #[error(transparent)]
    Producer(#[from] NewProducerError),
    #[error(transparent)]
    Admin(#[from] NewAdminError),
    #[error("a requester needs room for at least one pending request; raise pending_max")]
    NoRoom,
    #[error("{topic:?} is not a legal topic name; it has letters, digits, dots, dashes and underscores")]
    TopicName { topic: String },
    #[error("{key} cannot be set for a requester: it reads one partition, without a group")]
    OurSetting { key: &'static str },
    #[error("reply topic {topic} does not exist; create it, or remove existing_topic_only")]
    NoTopic { topic: String },
    #[error("cannot create reply topic {topic}: {error}")]
    NotCreated { topic: String, error: AdminError },
    #[error("reply topic {topic} cannot be described: {error}")]
    Topic { topic: String, error: AdminError },
    #[error("reply topic {topic} has {count} partitions, so there is no partition {partition}")]
    NoPartition { topic: String, partition: i32, count: i32 },
    #[error("the end of the reply partition is unknown: {0}")]
    Position(#[from] OffsetsError),
    #[error("cannot read the reply partition: {0}")]
    Assign(#[from] SubscribeError),
    #[error("cannot read the reply partition: {0}")]
    Seek(#[from] SeekError),
}

/// The reason why a request has no reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The request may be handled, now or later. Its reply is ignored.
    #[error("no reply within {} ms{}", waited.as_millis(), problem.as_deref().map(|problem| format!("; {problem}")).unwrap_or_default())]
    TimedOut {
        waited: Duration,
        /// A problem of the requester that may be the reason.
        problem: Option<String>,
    },
    /// The service reports a failure.
    #[error("the service failed: {message}")]
    Failed {
        class: String,
        message: String,
        reply: Reply,
    },
    #[error("the request cannot be sent: {0}")]
    Send(#[from] SendError),
    #[error("{pending_max} requests are pending already; wait for replies, or raise pending_max")]
    Full { pending_max: u32 },
    #[error("the value cannot be written as JSON: {0}")]
    Encode(serde_json::Error),
    #[error("the reply is not the expected JSON: {error}")]
    Decode { error: serde_json::Error, reply: Reply },
    #[error("the requester is closed")]
    Closed,
}
