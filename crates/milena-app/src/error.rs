//! Errors of an application as a whole.

use std::fmt;

use milena_client::{
    admin::{AdminError, NewAdminError},
    config::{ConfigError, ConfigErrors},
    consumer::{CommitError, NewConsumerError, PollError, SubscribeError},
    producer::{NewProducerError, TransactionCallError},
};
use milena_machines::app;

use crate::{
    handler::{ArgumentError, BoxError},
    outside::OutsideError,
    topics::TopicNameError,
};

/// Error at start. No record was read.
///
/// `Debug` prints the text of `Display`, so that a `main` that returns it prints a readable message.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    #[error("no handler is registered; add one with App::on")]
    NoHandler,
    #[error("the file declares a handler for {topic}, but none is registered; add App::on({topic:?}, …)")]
    NoHandlerFor { topic: String },
    #[error("no consumer group is set; set one with App::group")]
    NoGroup,
    #[error(transparent)]
    TopicName(#[from] TopicNameError),
    #[error("two handlers are registered for topic {topic}; remove one")]
    TwoHandlers { topic: String },
    #[error("cannot serve metrics and health on {address}: {error}")]
    Serve { address: String, error: std::io::Error },
    #[error("{topics}: {source}")]
    State { topics: String, source: ArgumentError },
    #[error("{topics}: bulkhead {name:?} is not declared; add App::bulkhead({name:?}, …)")]
    NoBulkhead { topics: String, name: String },
    #[error("topic {topic} does not exist; create it, or start with App::wait_for_topics")]
    NoTopic { topic: String },
    #[error("cannot create topic {topic}, which failed records of {origin} need: {error}")]
    NotCreated {
        topic: String,
        origin: String,
        error: AdminError,
    },
    #[error("topic {topic}, which failed records of {origin} need, does not exist; create it")]
    NoLetterTopic { topic: String, origin: String },
    #[error(
        "exactly-once delivery needs App::instance: a name that is unique per instance and stays the same across restarts"
    )]
    NoInstance,
    #[error("{key} is set by the runtime or by the types of handlers; remove it from the client settings")]
    OurSetting { key: &'static str },
    #[error(transparent)]
    Policy(#[from] app::ConfigError),
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    #[error(transparent)]
    Consumer(#[from] NewConsumerError),
    #[error(transparent)]
    Producer(#[from] NewProducerError),
    #[error(transparent)]
    Admin(#[from] NewAdminError),
    #[error("listing the topics of the cluster failed: {0}")]
    Topics(AdminError),
    #[error(transparent)]
    Subscribe(#[from] SubscribeError),
    #[error("finding the offsets of the replay failed: {0}")]
    Replay(String),
    #[error("committing the end of the replay for group {group}, which must have no members, failed: {error}")]
    ReplayCommit { group: String, error: CommitError },
    #[error("a replay cannot be exactly once, because it has no group membership; change the delivery of {topics}")]
    ReplayExactlyOnce { topics: String },
    #[error(
        "a replay of {topics} would skip its records as duplicates, because their offsets are stored with processed events; \
         delete the processed events, or replay with another group"
    )]
    ReplayStoredOffsets { topics: String },
    #[error("{topics}: offsets are to be stored with effects, but there is no store; add App::offset_store(…)")]
    NoOffsetStore { topics: String },
    #[error(
        "{topics}: keep_key_order finds held keys by offsets that are committed to Kafka, so the offsets cannot be stored \
         elsewhere; remove keep_key_order or change the delivery"
    )]
    HeldKeysWithStoredOffsets { topics: String },
    #[error("the offset store cannot be used: {0}")]
    OffsetStore(BoxError),
    #[error("initialising the transactional producer of this instance failed: {0}")]
    Transactions(TransactionCallError),
    #[error(transparent)]
    Handler(#[from] OutsideError),
    #[error(transparent)]
    Settings(SettingErrors),
    #[error("cannot start {name}: {error}")]
    Background { name: String, error: BoxError },
}

/// Invalid client settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingErrors(pub Vec<ConfigError>);

impl SettingErrors {
    /// Adds errors about keys that have none yet.
    pub(crate) fn extend(&mut self, errors: &ConfigErrors) {
        for error in errors.iter() {
            let is_known = |known: &ConfigError| match (key(known), key(error)) {
                (Some(known), Some(key)) => known == key,
                _ => known == error,
            };
            if !self.0.iter().any(is_known) {
                self.0.push(error.clone());
            }
        }
    }
}

fn key(error: &ConfigError) -> Option<&str> {
    match error {
        ConfigError::UnknownKey { key, .. }
        | ConfigError::OtherOwner { key, .. }
        | ConfigError::Invalid { key, .. }
        | ConfigError::Unsupported { key, .. } => Some(key),
        ConfigError::Missing { key, .. } => Some(key),
        _ => None,
    }
}

/// One line per error.
impl fmt::Display for SettingErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, error) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingErrors {}

/// Reason why a running application ended by itself. Finished records are committed as far as that was possible.
///
/// `Debug` prints the text of `Display`.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    #[error("a handler ended the application at {topic}-{partition}, offset {offset}: {reason}")]
    Fatal {
        topic: String,
        partition: i32,
        offset: i64,
        reason: String,
    },
    #[error(
        "the output of {topic}-{partition}, offset {offset}, can never be written, so no transaction can commit it: {reason}"
    )]
    Unwritable {
        topic: String,
        partition: i32,
        offset: i64,
        reason: String,
    },
    #[error("{topic}-{partition} is stalled at offset {offset}: {why}")]
    Stalled {
        topic: String,
        partition: i32,
        offset: i64,
        why: String,
    },
    #[error("the consumer failed: {0}")]
    Consumer(String),
    #[error("the transactional producer failed: {0}")]
    Transactions(String),
    #[error("shutdown did not finish within {limit_ms} ms; unfinished records are handled again at the next start")]
    ShutdownTimedOut { limit_ms: u64 },
    #[error("the background task {name} failed: {reason}")]
    Background { name: String, reason: String },
    #[error("a task of the runtime panicked, which is a bug in Milena; see the panic's own message")]
    Panicked,
}

impl fmt::Debug for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for AppError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<&PollError> for AppError {
    fn from(error: &PollError) -> Self {
        Self::Consumer(error.to_string())
    }
}
