//! What can go wrong with an application as a whole.

use std::fmt;

use milena_client::{
    admin::{AdminError, NewAdminError},
    config::{ConfigError, ConfigErrors},
    consumer::{CommitError, NewConsumerError, PollError, SubscribeError},
    producer::{NewProducerError, TransactionCallError},
};
use milena_machines::app;

use crate::{handler::MissingState, outside::OutsideError, topics::TopicNameError};

/// Why an application does not start. Nothing was read.
///
/// `Debug` is the text of `Display`, so that `main` can return it and print something that reads well.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    #[error("there is no handler: add one with App::on")]
    NoHandler,
    #[error("the file declares a handler for {topic}, but the application has none: add App::on({topic:?}, …)")]
    NoHandlerFor { topic: String },
    #[error("set a group with App::group: offsets are committed for it, and it names retry topics' readers")]
    NoGroup,
    #[error(transparent)]
    TopicName(#[from] TopicNameError),
    #[error("two handlers are registered for topic {topic}; remove one")]
    TwoHandlers { topic: String },
    #[error("cannot serve metrics and health on {address}: {error}")]
    Serve { address: String, error: std::io::Error },
    #[error("{topics}: {source}")]
    State { topics: String, source: MissingState },
    #[error("{topics}: there is no bulkhead {name:?}: add App::bulkhead({name:?}, …)")]
    NoBulkhead { topics: String, name: String },
    #[error("the topic {topic} does not exist: create it, or start with App::wait_for_topics")]
    NoTopic { topic: String },
    #[error("the topic {topic} is needed for what fails of {origin}, does not exist and cannot be created: {error}")]
    NotCreated {
        topic: String,
        origin: String,
        error: AdminError,
    },
    #[error("the topic {topic} is needed for what fails of {origin}, and does not exist: create it")]
    NoLetterTopic { topic: String, origin: String },
    #[error(
        "exactly-once delivery needs App::instance: the same name when this instance starts again, another one for each"
    )]
    NoInstance,
    #[error("{key} is decided by the runtime or by the types of handlers; take it out of the settings of the clients")]
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
    #[error("the cluster does not tell its topics: {0}")]
    Topics(AdminError),
    #[error(transparent)]
    Subscribe(#[from] SubscribeError),
    #[error("what is to be replayed cannot be found out: {0}")]
    Replay(String),
    #[error("where a replay ends cannot be committed for its group {group}, which must have no members: {error}")]
    ReplayCommit { group: String, error: CommitError },
    #[error("a replay cannot be exactly once: its progress has no group; {topics} must be delivered otherwise")]
    ReplayExactlyOnce { topics: String },
    #[error("the transactions of this instance cannot begin: {0}")]
    Transactions(TransactionCallError),
    #[error(transparent)]
    Handler(#[from] OutsideError),
    #[error(transparent)]
    Settings(SettingErrors),
}

/// Settings of the clients that are wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingErrors(pub Vec<ConfigError>);

impl SettingErrors {
    /// Adds errors about keys that none is about so far.
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

/// A line for each.
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

/// Why an application ended although it was not asked to. What was done is committed as far as that was possible.
///
/// `Debug` is the text of `Display`.
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
        "what follows from {topic}-{partition}, offset {offset}, can never be written, and so no transaction can get past it: {reason}"
    )]
    Unwritable {
        topic: String,
        partition: i32,
        offset: i64,
        reason: String,
    },
    #[error("{topic}-{partition} stands still at offset {offset}: {why}")]
    Stalled {
        topic: String,
        partition: i32,
        offset: i64,
        why: String,
    },
    #[error("the consumer cannot go on: {0}")]
    Consumer(String),
    #[error("the transactions cannot go on: {0}")]
    Transactions(String),
    #[error(
        "not everything that was begun could be ended within {limit_ms} ms; it is repeated when the application starts again"
    )]
    ShutdownTimedOut { limit_ms: u64 },
    #[error("a part of the runtime panicked: this is a bug of Milena's; the panic's own message says where")]
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
