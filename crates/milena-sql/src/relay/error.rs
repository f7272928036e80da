//! Errors of the relay.

use std::time::Duration;

use milena_client::{config::ConfigErrors, producer::NewProducerError};

/// Reason why a relay cannot start, or why it ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    #[error("the lease of a relay is {} ms; use at least 3000 ms", lease.as_millis())]
    Lease { lease: Duration },
    #[error("{name} is 0; use at least 1")]
    Zero { name: &'static str },
    #[error("{key} is set by the relay; remove it from the producer settings")]
    OurSetting { key: &'static str },
    #[error("the tables of the outbox cannot be read: {0}; create them with `milena sql init`")]
    Tables(#[source] sqlx::Error),
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    #[error(transparent)]
    Producer(#[from] NewProducerError),
    #[error("the task of the relay panicked, which is a bug in Milena; see the panic's own message")]
    Panicked,
}
