//! The relay of the outbox: publishes committed rows of `milena_outbox` to Kafka.
//!
//! A row is claimed by its state (`published_at IS NULL`), never by a position in the table: sequence numbers are drawn
//! before the commit, so a position would skip the rows of slower transactions. Events of an aggregate are published in
//! the order of their commits, one at a time; aggregates are independent of each other.
//!
//! Several relays share the table by leases on its slots. A relay that dies is replaced when its leases expire. A crash
//! between the acknowledgement and the mark in the table repeats events; the header `id` stays the same.

mod driver;
mod error;
mod event;
mod listener;
mod metrics;
mod refusal;
mod running;
mod status;
mod store;
mod table;

use std::{future::Future, sync::Arc, time::Duration};

use milena_app::background::{Background, BackgroundContext, BackgroundFuture};
use milena_client::{config::ConfigMap, producer::Producer};
use milena_machines::outbox::RelayConfig;
use tokio::sync::mpsc;

pub use error::RelayError;
pub use running::RunningRelay;
pub use status::{RelayStatus, StoppedEvents};
pub use table::{Backlog, FailedEvent, backlog, clean_published, failed_events, retry_failed};

use crate::Database;
use driver::{Driver, DriverParts, ListenerLink};
use metrics::RelayView;
use store::Store;

const LEASE_MIN: Duration = Duration::from_secs(3);
/// Producer settings that follow from the guarantees of the relay.
const OURS: [&str; 6] = [
    "acks",
    "enable.idempotence",
    "transactional.id",
    "delivery.timeout.ms",
    "request.timeout.ms",
    "max.block.ms",
];

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
    /// Of the relay inside an application.
    view: Arc<RelayView>,
}

#[derive(Debug, Clone)]
struct Settings {
    name: String,
    poll_interval: Duration,
    batch: u32,
    in_flight: u32,
    lease: Duration,
    keep_published: Option<Duration>,
    clean_interval: Duration,
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
            view: Arc::default(),
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
        self.start_with(Arc::default()).await
    }

    async fn start_with(self, view: Arc<RelayView>) -> Result<RunningRelay, RelayError> {
        let Self {
            database,
            producer: settings,
            settings: ours,
            ..
        } = self;
        ours.check()?;
        let config = producer_settings(settings, ours.lease)?;
        let producer = Producer::new(config.clone())?;
        let owner = format!("{}/{}", ours.name, uuid::Uuid::new_v4());
        let store = Store::open(database, owner, millis(ours.lease)).await;
        let store = Arc::new(store.map_err(RelayError::Tables)?);
        tracing::info!(
            event = "outbox_relay_started",
            relay = store.owner,
            dialect = %store.database.dialect(),
            "outbox relay started"
        );
        view.set_started();
        let listener = listen(&store.database);
        let driver = Driver::new(DriverParts {
            config: ours.machine(store.slots),
            store,
            producer: producer.clone(),
            new_producer: Box::new(move || Producer::new(config.clone()).ok()),
            view: Arc::clone(&view),
            keep_published: ours.keep_published,
            listener,
        });
        Ok(RunningRelay::spawn(driver, view, producer, ours.lease))
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

/// A relay inside an application, for [`App::background`](milena_app::App::background). Its metrics are part of the
/// application's, and a database or cluster that is away for 5 s makes the application unhealthy.
impl Background for Relay {
    fn name(&self) -> &str {
        "outbox-relay"
    }

    fn check(&self) -> BackgroundFuture {
        let relay = self.clone();
        Box::pin(async move {
            relay.settings.check()?;
            producer_settings(relay.producer, relay.settings.lease)?;
            let opened = Store::open(relay.database, relay.settings.name, millis(relay.settings.lease)).await;
            opened.map_err(RelayError::Tables)?;
            Ok(())
        })
    }

    fn run(&self, mut context: BackgroundContext) -> BackgroundFuture {
        let (relay, view) = (self.clone(), Arc::clone(&self.view));
        Box::pin(async move {
            let running = relay.start_with(view).await?;
            tokio::select! {
                () = context.stop.requested() => {}
                () = running.ended() => {}
            }
            Ok(running.stop().await?)
        })
    }

    fn problem(&self) -> Option<String> {
        self.view.problem()
    }

    fn write_metrics(&self, text: &mut String) {
        text.push_str(&self.view.to_prometheus());
    }
}

impl Settings {
    fn check(&self) -> Result<(), RelayError> {
        if self.lease < LEASE_MIN {
            return Err(RelayError::Lease { lease: self.lease });
        }
        let numbers = [
            ("batch", u64::from(self.batch)),
            ("in_flight", u64::from(self.in_flight)),
        ];
        let intervals = [
            ("poll_interval", self.poll_interval),
            ("clean_interval", self.clean_interval),
        ];
        let intervals =
            intervals.map(|(name, interval)| (name, u64::try_from(interval.as_millis()).unwrap_or(u64::MAX)));
        match numbers.into_iter().chain(intervals).find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(RelayError::Zero { name }),
            None => Ok(()),
        }
    }

    fn machine(&self, slots: u16) -> RelayConfig {
        let rows = |rows: u32| usize::try_from(rows).unwrap_or(usize::MAX);
        RelayConfig {
            slots,
            batch_rows: rows(self.batch),
            window_rows: rows(self.in_flight),
            poll_ms: millis(self.poll_interval),
            lease_ms: millis(self.lease),
            clean_ms: self.keep_published.map(|_| millis(self.clean_interval)),
            ..RelayConfig::default()
        }
    }
}

/// Settings of the producer. Waiting for metadata and the delivery together take at most a third of the lease.
fn producer_settings(given: ConfigMap, lease: Duration) -> Result<ConfigMap, RelayError> {
    if let Some(key) = OURS.into_iter().find(|key| given.get(key).is_some()) {
        return Err(RelayError::OurSetting { key });
    }
    let delivery = lease / 3;
    let block = delivery * 2 / 5;
    let mut settings = ConfigMap::new();
    // Events that are read together are batched anyway, and waiting delays the next event of the same aggregate.
    settings.set("linger.ms", 0);
    settings.merge(given);
    settings.set("acks", "all").set("enable.idempotence", true);
    settings.set("max.block.ms", block.as_millis());
    settings.set("delivery.timeout.ms", (delivery - block).as_millis());
    // Leaves room for linger.ms, which the sum of both must not exceed.
    settings.set("request.timeout.ms", (delivery - block).as_millis() * 4 / 5);
    Ok(settings)
}

/// Starts the listener, if commits can wake the relay.
fn listen(database: &Database) -> Option<ListenerLink> {
    let Database::Postgres(pool) = database else {
        return None;
    };
    let (commands, receiver) = mpsc::unbounded_channel();
    let (sender, events) = mpsc::unbounded_channel();
    tokio::spawn(listener::run(pool.clone(), receiver, sender));
    Some(ListenerLink { commands, events })
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
