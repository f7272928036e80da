//! The task of a relay: statements and deliveries for the machine that decides.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use milena_client::producer::{Producer, RecordMetadata, SendError, TrySendError};
use milena_machines::outbox::{GrantedLeases, RefusedScope, Relay, RelayConfig};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use super::{
    event::StoredEvent,
    listener::{ListenerCommand, ListenerEvent},
    metrics::{Peer, RelayView},
    refusal::{Reaction, reaction},
    store::{ReadRows, Store},
    table::{self, Backlog},
};

/// Time between two counts of the backlog; a count that takes long is repeated less often.
const BACKLOG_INTERVAL: Duration = Duration::from_secs(5);
const BACKLOG_FACTOR: u32 = 20;

/// Result of a statement.
enum Call {
    Leases(Result<GrantedLeases, sqlx::Error>),
    Rows(Result<ReadRows, sqlx::Error>),
    Marked(Result<(), sqlx::Error>),
    Noted(i64, Result<(), sqlx::Error>),
    Rechecked(Result<Vec<i64>, sqlx::Error>),
    Cleaned(Result<u64, sqlx::Error>),
    Backlog(Result<Backlog, sqlx::Error>, Duration),
}

/// Link to the task that listens for commits.
pub(super) struct ListenerLink {
    pub(super) commands: mpsc::UnboundedSender<ListenerCommand>,
    pub(super) events: mpsc::UnboundedReceiver<ListenerEvent>,
}

pub(super) struct Driver {
    relay: Relay<Arc<StoredEvent>>,
    store: Arc<Store>,
    producer: Producer,
    /// Makes a new producer if the present one can send no more.
    new_producer: Box<dyn Fn() -> Option<Producer> + Send>,
    view: Arc<RelayView>,
    clock: RelayClock,
    call_timeout: Duration,
    keep_published: Option<Duration>,
    calls: JoinSet<Call>,
    deliveries: JoinSet<(i64, Result<RecordMetadata, SendError>)>,
    listener: Option<ListenerLink>,
    backlog_at: Option<Instant>,
}

pub(super) struct DriverParts {
    pub(super) config: RelayConfig,
    pub(super) store: Arc<Store>,
    pub(super) producer: Producer,
    pub(super) new_producer: Box<dyn Fn() -> Option<Producer> + Send>,
    pub(super) view: Arc<RelayView>,
    pub(super) keep_published: Option<Duration>,
    pub(super) listener: Option<ListenerLink>,
}

impl Driver {
    pub(super) fn new(parts: DriverParts) -> Self {
        let mut clock = RelayClock::new();
        let seed = u64::from(std::process::id()) ^ uuid::Uuid::new_v4().as_u64_pair().0;
        let delivery_ms = u64::try_from(parts.config.delivery_ms()).unwrap_or(0);
        Self {
            relay: Relay::new(parts.config, clock.now_ms(), seed),
            clock,
            store: parts.store,
            producer: parts.producer,
            new_producer: parts.new_producer,
            view: parts.view,
            call_timeout: Duration::from_millis(delivery_ms),
            keep_published: parts.keep_published,
            calls: JoinSet::new(),
            deliveries: JoinSet::new(),
            listener: parts.listener,
            backlog_at: Some(Instant::now()),
        }
    }

    /// Runs until `stop` is set and all is done.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut is_stopping = false;
        loop {
            let now_ms = self.clock.now_ms();
            self.relay.handle_timeout(now_ms);
            self.start_calls(now_ms);
            self.publish(now_ms);
            self.sleep_or_wake();
            self.view.update(&self.relay);
            if self.relay.is_ended() {
                break;
            }
            let timeout = self.timeout(now_ms);
            tokio::select! {
                Some(call) = self.calls.join_next() => self.finish_call(call),
                Some(delivery) = self.deliveries.join_next() => self.finish_delivery(delivery),
                event = next_event(&mut self.listener) => self.listened(event),
                stopped = stop.wait_for(|is_stopped| *is_stopped), if !is_stopping => {
                    // The handle is gone, so the relay ends as well.
                    drop(stopped);
                    is_stopping = true;
                    self.relay.handle_stop();
                }
                () = tokio::time::sleep(timeout) => {}
            }
            while let Some(delivery) = self.deliveries.try_join_next() {
                self.finish_delivery(delivery);
            }
        }
        self.close().await;
    }

    async fn close(mut self) {
        self.calls.abort_all();
        if let Err(error) = self.producer.clone().close_within(self.call_timeout).await {
            tracing::warn!(event = "producer_close_failed", %error, "the producer of the relay did not close: {error}");
        }
        tracing::info!(
            event = "outbox_relay_stopped",
            relay = self.store.owner,
            published = self.relay.published(),
            "outbox relay stopped; its leases are released"
        );
    }

    fn timeout(&self, now_ms: i64) -> Duration {
        let at_ms = self.relay.poll_timeout(now_ms).unwrap_or(i64::MAX);
        let wait_ms = u64::try_from(at_ms.saturating_sub(now_ms)).unwrap_or(0);
        let wait = Duration::from_millis(wait_ms.min(60_000));
        match self.backlog_at {
            Some(at) => wait.min(at.saturating_duration_since(Instant::now())),
            None => wait,
        }
    }

    fn start_calls(&mut self, now_ms: i64) {
        if let Some(call) = self.relay.poll_lease(now_ms) {
            self.start(move |store, limit| async move { Call::Leases(limited(limit, store.leases(&call)).await) });
        }
        if let Some(call) = self.relay.poll_read(now_ms) {
            self.start(move |store, limit| async move { Call::Rows(limited(limit, store.read(&call)).await) });
        }
        if let Some(sequences) = self.relay.poll_mark(now_ms) {
            self.start(move |store, limit| async move { Call::Marked(limited(limit, store.mark(&sequences)).await) });
        }
        while let Some(note) = self.relay.poll_note() {
            self.start(move |store, limit| async move {
                let noted = limited(limit, store.note(note.sequence, &note.reason)).await;
                Call::Noted(note.sequence, noted)
            });
        }
        if let Some(sequences) = self.relay.poll_recheck(now_ms) {
            self.start(
                move |store, limit| async move { Call::Rechecked(limited(limit, store.recheck(&sequences)).await) },
            );
        }
        if let Some(age) = self.keep_published
            && self.relay.poll_clean(now_ms)
        {
            // Without a bound of time: the first deletion of a large table takes long.
            let store = Arc::clone(&self.store);
            let clean = async move { Call::Cleaned(table::clean_published(&store.database, age).await) };
            self.calls.spawn(clean);
        }
        if self.backlog_at.is_some_and(|at| at <= Instant::now()) {
            self.backlog_at = None;
            let store = Arc::clone(&self.store);
            self.calls.spawn(async move {
                let began = Instant::now();
                Call::Backlog(table::backlog(&store.database).await, began.elapsed())
            });
        }
    }

    fn start<F>(&mut self, call: impl FnOnce(Arc<Store>, Duration) -> F)
    where
        F: Future<Output = Call> + Send + 'static,
    {
        let call = call(Arc::clone(&self.store), self.call_timeout);
        self.calls.spawn(call);
    }

    fn finish_call(&mut self, call: Result<Call, tokio::task::JoinError>) {
        let now_ms = self.clock.now_ms();
        // A statement panics only by a bug; the error ends the task, which is reported.
        let call = match call {
            Ok(call) => call,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => return,
        };
        let relay = &mut self.relay;
        let error = match call {
            Call::Leases(Ok(granted)) => {
                relay.handle_leases(now_ms, &granted);
                None
            }
            Call::Leases(Err(error)) => {
                relay.handle_lease_failed(now_ms);
                Some(error)
            }
            Call::Rows(Ok((rows, is_cut))) => {
                relay.handle_rows(now_ms, rows, is_cut);
                None
            }
            Call::Rows(Err(error)) => {
                relay.handle_read_failed(now_ms);
                Some(error)
            }
            Call::Marked(Ok(())) => {
                relay.handle_marked();
                None
            }
            Call::Marked(Err(error)) => {
                relay.handle_mark_failed(now_ms);
                Some(error)
            }
            other => return self.finish_minor(now_ms, other),
        };
        self.view.database(error.as_ref());
    }

    /// Statements whose failure delays nothing.
    fn finish_minor(&mut self, now_ms: i64, call: Call) {
        match call {
            Call::Noted(sequence, noted) => self.relay.handle_noted(sequence, noted.is_ok()),
            Call::Rechecked(reset) => self.relay.handle_rechecked(now_ms, &reset.unwrap_or_default()),
            Call::Cleaned(cleaned) => {
                self.relay.handle_cleaned(now_ms);
                log_cleaned(&cleaned);
            }
            Call::Backlog(backlog, took) => {
                self.backlog_at = Some(Instant::now() + BACKLOG_INTERVAL.max(took * BACKLOG_FACTOR));
                if let Ok(backlog) = backlog {
                    self.view.set_backlog(backlog);
                }
            }
            _ => {}
        }
    }

    fn publish(&mut self, now_ms: i64) {
        while let Some(sequence) = self.relay.poll_publish(now_ms) {
            let Some(event) = self.relay.payload(sequence).map(Arc::clone) else {
                continue;
            };
            if let Some(problem) = &event.problem {
                let problem = problem.clone();
                self.refuse(sequence, RefusedScope::Event, problem);
                continue;
            }
            let enqueued = event.with_record(|record| self.producer.try_enqueue(record));
            match enqueued {
                Ok(delivery) => {
                    self.deliveries.spawn(async move { (sequence, delivery.await) });
                }
                Err(TrySendError::Refused(error)) => self.failed(sequence, &error),
                Err(_) => {
                    let producer = self.producer.clone();
                    self.deliveries.spawn(async move {
                        let delivery = event.enqueue(&producer).await;
                        match delivery {
                            Ok(delivery) => (sequence, delivery.await),
                            Err(error) => (sequence, Err(error)),
                        }
                    });
                }
            }
        }
    }

    fn finish_delivery(&mut self, delivery: Result<(i64, Result<RecordMetadata, SendError>), tokio::task::JoinError>) {
        match delivery {
            Ok((sequence, Ok(_))) => {
                self.relay.handle_published(sequence);
                self.view.recovered(Peer::Cluster);
            }
            Ok((sequence, Err(error))) => self.failed(sequence, &error),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => {}
        }
    }

    fn failed(&mut self, sequence: i64, error: &SendError) {
        let topic = self.relay.payload(sequence).map(|event| Arc::clone(&event.topic));
        let missing = self.producer.unavailable_topics();
        let is_missing = topic.is_some_and(|topic| missing.iter().any(|missing| missing.topic == *topic));
        match reaction(error, is_missing) {
            Reaction::Stop(scope) => return self.refuse(sequence, scope, error.to_string()),
            Reaction::Wait => {}
            Reaction::Replace => {
                if let Some(producer) = (self.new_producer)() {
                    self.producer = producer;
                }
            }
        }
        self.view.failed(Peer::Cluster, &error.to_string());
        let now_ms = self.clock.now_ms();
        self.relay.handle_unavailable(now_ms, sequence);
    }

    fn refuse(&mut self, sequence: i64, scope: RefusedScope, reason: String) {
        tracing::warn!(
            event = "outbox_event_refused",
            sequence,
            ?scope,
            reason,
            "event {sequence} of the outbox cannot be published, and the events behind it wait: {reason}"
        );
        let now_ms = self.clock.now_ms();
        self.relay.handle_refused(now_ms, sequence, scope, reason);
    }

    fn sleep_or_wake(&mut self) {
        let Some(listener) = &self.listener else { return };
        // If the listener has ended, the channel of its events says so.
        if self.relay.poll_wake() {
            let _ = listener.commands.send(ListenerCommand::Wake);
        }
        if let Some(slots) = self.relay.poll_sleep() {
            let slots = slots.into_iter().map(i32::from).collect();
            let _ = listener.commands.send(ListenerCommand::Sleep(slots));
        }
    }

    fn listened(&mut self, event: Option<ListenerEvent>) {
        let now_ms = self.clock.now_ms();
        match event {
            Some(ListenerEvent::Listening(can_sleep)) => self.relay.handle_listening(now_ms, can_sleep),
            Some(ListenerEvent::Slept(is_asleep)) => self.relay.handle_sleep(now_ms, is_asleep),
            Some(ListenerEvent::Notified) => self.relay.handle_wake(now_ms),
            None => {
                self.listener = None;
                self.relay.handle_listening(now_ms, false);
            }
        }
    }
}

/// Fails a statement that hangs, so that the leases can be renewed on another connection.
async fn limited<T>(limit: Duration, call: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    match tokio::time::timeout(limit, call).await {
        Ok(result) => result,
        Err(_) => Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())),
    }
}

async fn next_event(listener: &mut Option<ListenerLink>) -> Option<ListenerEvent> {
    match listener {
        Some(listener) => listener.events.recv().await,
        None => std::future::pending().await,
    }
}

fn log_cleaned(cleaned: &Result<u64, sqlx::Error>) {
    match cleaned {
        Ok(0) => {}
        Ok(rows) => tracing::info!(
            event = "outbox_cleaned",
            rows,
            "deleted {rows} published rows of the outbox"
        ),
        Err(error) => tracing::warn!(
            event = "outbox_clean_failed",
            %error,
            "deleting published rows of the outbox failed and is repeated: {error}"
        ),
    }
}

/// Milliseconds that never go back, and also count the time for which the machine was suspended: the leases go on.
struct RelayClock {
    start: Instant,
    suspended: Duration,
    last: (Instant, SystemTime),
}

impl RelayClock {
    /// A smaller difference of the two clocks is an adjustment of the system clock.
    const SUSPENDED_MIN: Duration = Duration::from_millis(500);

    fn new() -> Self {
        let now = Instant::now();
        Self {
            start: now,
            suspended: Duration::ZERO,
            last: (now, SystemTime::now()),
        }
    }

    fn now_ms(&mut self) -> i64 {
        let (instant, wall) = (Instant::now(), SystemTime::now());
        let passed = instant.duration_since(self.last.0);
        let by_wall = wall.duration_since(self.last.1).unwrap_or_default();
        if by_wall > passed + Self::SUSPENDED_MIN {
            self.suspended += by_wall - passed;
        }
        self.last = (instant, wall);
        let passed = instant.duration_since(self.start) + self.suspended;
        i64::try_from(passed.as_millis()).unwrap_or(i64::MAX)
    }
}
