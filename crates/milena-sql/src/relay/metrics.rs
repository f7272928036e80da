//! Counters and problems of a relay, shared with its handle.

use std::{
    fmt::Write,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use milena_client::producer::Producer;
use milena_machines::outbox::{Relay, Scope};

use super::{
    status::{RelayStatus, StoppedEvents},
    table::Backlog,
};

/// Time after which an outage is a problem of the relay's health.
const PROBLEM_AFTER: Duration = Duration::from_secs(5);

/// A part that the relay depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Database,
    Cluster,
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Database => "the database",
            Self::Cluster => "the Kafka cluster",
        }
    }
}

/// Outage of a peer: its beginning and its last error.
type Outage = Option<(Instant, String)>;

#[derive(Debug, Default)]
pub(super) struct RelayView {
    slots: AtomicU64,
    in_flight: AtomicU64,
    held: AtomicU64,
    published: AtomicU64,
    failures: AtomicU64,
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    backlog: Option<Backlog>,
    stopped: Vec<StoppedEvents>,
    database: Outage,
    cluster: Outage,
    has_ended: bool,
}

impl Shared {
    fn outage(&mut self, peer: Peer) -> &mut Outage {
        match peer {
            Peer::Database => &mut self.database,
            Peer::Cluster => &mut self.cluster,
        }
    }
}

impl RelayView {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn update<P>(&self, relay: &Relay<P>) {
        let store = |counter: &AtomicU64, value: usize| {
            counter.store(u64::try_from(value).unwrap_or(u64::MAX), Ordering::Relaxed);
        };
        store(&self.slots, relay.slots());
        store(&self.in_flight, relay.in_flight());
        store(&self.held, relay.held());
        self.published.store(relay.published(), Ordering::Relaxed);
        // Stops change only with these two counters or with a retry, which is one or the other.
        let is_changed = self.failures.swap(relay.failures(), Ordering::Relaxed) != relay.failures();
        if is_changed || relay.stops().next().is_some() || !self.shared().stopped.is_empty() {
            self.shared().stopped = relay.stops().map(stopped).collect();
        }
    }

    pub(super) fn set_backlog(&self, backlog: Backlog) {
        self.shared().backlog = Some(backlog);
    }

    pub(super) fn set_started(&self) {
        *self.shared() = Shared::default();
    }

    pub(super) fn set_ended(&self) {
        self.shared().has_ended = true;
    }

    /// Notes the result of a statement.
    pub(super) fn database(&self, error: Option<&sqlx::Error>) {
        match error {
            Some(error) => self.failed(Peer::Database, &error.to_string()),
            None => self.recovered(Peer::Database),
        }
    }

    /// Notes a failure. The first one of an outage is logged.
    pub(super) fn failed(&self, peer: Peer, error: &str) {
        let mut shared = self.shared();
        match shared.outage(peer) {
            Some((_, last)) => error.clone_into(last),
            outage => {
                *outage = Some((Instant::now(), error.to_owned()));
                let name = peer.name();
                tracing::warn!(
                    event = "outbox_relay_waits",
                    peer = name,
                    error,
                    "the outbox relay waits for {name}: {error}"
                );
            }
        }
    }

    pub(super) fn recovered(&self, peer: Peer) {
        if let Some((since, _)) = self.shared().outage(peer).take() {
            let (name, waited_ms) = (peer.name(), since.elapsed().as_millis());
            tracing::info!(
                event = "outbox_relay_continues",
                peer = name,
                waited_ms,
                "{name} is available again after {waited_ms} ms"
            );
        }
    }

    /// Reason why the relay publishes nothing, if it lasts.
    pub(super) fn problem(&self) -> Option<String> {
        let shared = self.shared();
        if shared.has_ended {
            return Some("the outbox relay has ended".to_owned());
        }
        let outages = [(Peer::Database, &shared.database), (Peer::Cluster, &shared.cluster)];
        outages.into_iter().find_map(|(peer, outage)| {
            let (since, error) = outage.as_ref()?;
            (since.elapsed() >= PROBLEM_AFTER).then(|| format!("the outbox relay waits for {}: {error}", peer.name()))
        })
    }

    pub(super) fn status(&self) -> RelayStatus {
        let problem = self.problem();
        let shared = self.shared();
        RelayStatus {
            slots: u32::try_from(self.slots.load(Ordering::Relaxed)).unwrap_or(u32::MAX),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            published: self.published.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            backlog: shared.backlog,
            stopped: shared.stopped.clone(),
            problem,
        }
    }

    pub(super) fn to_prometheus(&self) -> String {
        let status = self.status();
        let backlog = status.backlog.unwrap_or_default();
        let count = |list: &[StoppedEvents]| u64::try_from(list.len()).unwrap_or(u64::MAX);
        let oldest_ms = backlog.oldest.map_or(0, |oldest| oldest.as_millis());
        let families: [(&str, &str, &str, String); 8] = [
            (
                "milena_outbox_backlog",
                "gauge",
                "Unpublished rows of the outbox.",
                backlog.rows.to_string(),
            ),
            (
                "milena_outbox_oldest_seconds",
                "gauge",
                "Age of the oldest unpublished row.",
                format!("{}.{:03}", oldest_ms / 1000, oldest_ms % 1000),
            ),
            (
                "milena_outbox_published_total",
                "counter",
                "Events that were acknowledged.",
                status.published.to_string(),
            ),
            (
                "milena_outbox_failures_total",
                "counter",
                "Attempts to publish an event that were refused.",
                status.failures.to_string(),
            ),
            (
                "milena_outbox_in_flight",
                "gauge",
                "Events that are sent and not acknowledged.",
                status.in_flight.to_string(),
            ),
            (
                "milena_outbox_stopped",
                "gauge",
                "Aggregates and topics that wait for a retry.",
                count(&status.stopped).to_string(),
            ),
            (
                "milena_outbox_slots",
                "gauge",
                "Slots whose lease the relay has.",
                status.slots.to_string(),
            ),
            (
                "milena_outbox_relay_healthy",
                "gauge",
                "0 while the database or the cluster is unavailable for 5 s, otherwise 1.",
                u64::from(status.problem.is_none()).to_string(),
            ),
        ];
        let mut text = String::new();
        for (name, kind, help, value) in families {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        }
        text
    }
}

fn stopped((scope, stop): (&Scope, &milena_machines::outbox::Stop)) -> StoppedEvents {
    let name = match scope {
        Scope::Aggregate(aggregate) => format!("{}/{}", aggregate.kind, aggregate.id),
        Scope::Topic(topic) => format!("topic {topic}"),
    };
    StoppedEvents {
        name,
        attempts: stop.attempts,
        reason: stop.reason.clone(),
    }
}

/// Metrics of the producer, under Kafka's names.
pub(super) fn producer_metrics(producer: &Producer) -> String {
    let mut metrics = producer.metrics();
    metrics.add_tag("group", "outbox-relay");
    metrics.to_prometheus()
}
