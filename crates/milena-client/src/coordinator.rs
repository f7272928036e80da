//! Who coordinates a group or a transactional id.
//!
//! [`Finder`] decides when to look; it knows no socket and no clock. [`Coordinator`] does what it wants on the io thread.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bytestring::ByteString;
use milena_machines::Random;
use milena_wire::{
    errors::ErrorCode,
    messages::{FindCoordinatorRequest, FindCoordinatorResponse},
};
use tokio::sync::Notify;

use crate::{
    io::{instant, now_ms},
    metadata::{Broker, Metadata},
    net::{Backoff, CallError, Connection, Role, SendOptions},
};

/// From this version on the request has a list of keys.
const KEYS_SINCE: i16 = 4;

/// What is coordinated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CoordinatorKind {
    Group,
    Transaction,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CoordinatorEvent {
    Found(Broker),
    /// Looking again would not help. It is done when somebody asks for the coordinator again.
    Failed(FindCoordinatorError),
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum FindCoordinatorError {
    #[error("the coordinator of {key} cannot be found: {code}{}", or_nothing(message))]
    Refused {
        key: ByteString,
        code: ErrorCode,
        message: Option<String>,
    },
    #[error(transparent)]
    Call(#[from] CallError),
}

fn or_nothing(message: &Option<String>) -> String {
    message
        .as_ref()
        .map_or_else(String::new, |message| format!(": {message}"))
}

/// Decides when to look for the coordinator. One look-up is in flight at most.
#[derive(Debug)]
pub(crate) struct Finder {
    key: ByteString,
    kind: CoordinatorKind,
    backoff: Backoff,
    random: Random,
    state: State,
    failures: u32,
    not_before_ms: i64,
    calls: u64,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    /// Nobody has asked.
    Unknown,
    Wanted,
    Looking {
        id: u64,
    },
    Known(Broker),
}

impl Finder {
    pub(crate) fn new(kind: CoordinatorKind, key: ByteString, backoff: Backoff, seed: u64) -> Self {
        Self {
            key,
            kind,
            backoff,
            random: Random::new(seed),
            state: State::Unknown,
            failures: 0,
            not_before_ms: i64::MIN,
            calls: 0,
        }
    }

    /// The coordinator, if it is known. Otherwise it will be looked for.
    pub(crate) fn find(&mut self) -> Option<&Broker> {
        if self.state == State::Unknown {
            self.state = State::Wanted;
        }
        match &self.state {
            State::Known(broker) => Some(broker),
            _ => None,
        }
    }

    /// The node was told or proved not to be the coordinator. Whether it was taken for it until now; if so it is looked
    /// for again.
    pub(crate) fn mark_unknown(&mut self, node_id: i32) -> bool {
        let known = matches!(&self.state, State::Known(broker) if broker.id == node_id);
        if known {
            self.state = State::Wanted;
        }
        known
    }

    /// Whether to send a request now; its fate comes back with this id.
    pub(crate) fn poll_request(&mut self, now_ms: i64) -> Option<u64> {
        if self.poll_timeout()? > now_ms {
            return None;
        }
        self.calls += 1;
        self.state = State::Looking { id: self.calls };
        Some(self.calls)
    }

    pub(crate) fn poll_timeout(&self) -> Option<i64> {
        (self.state == State::Wanted).then_some(self.not_before_ms)
    }

    pub(crate) fn handle_response(
        &mut self,
        now_ms: i64,
        id: u64,
        result: Result<(i16, FindCoordinatorResponse), CallError>,
    ) -> Option<CoordinatorEvent> {
        if self.state != (State::Looking { id }) {
            return None;
        }
        match result.map(|(version, response)| self.found(version, &response)) {
            Ok(Found::Broker(broker)) => {
                self.failures = 0;
                self.not_before_ms = i64::MIN;
                self.state = State::Known(broker.clone());
                return Some(CoordinatorEvent::Found(broker));
            }
            Ok(Found::Refused(code, message)) => {
                self.state = State::Unknown;
                let key = self.key.clone();
                return Some(CoordinatorEvent::Failed(FindCoordinatorError::Refused {
                    key,
                    code,
                    message,
                }));
            }
            Err(error @ (CallError::UnsupportedVersion { .. } | CallError::BadRequest { .. } | CallError::Closed)) => {
                self.state = State::Unknown;
                return Some(CoordinatorEvent::Failed(error.into()));
            }
            Ok(Found::NotYet) | Err(_) => {}
        }
        self.failures = self.failures.saturating_add(1);
        self.not_before_ms = now_ms.saturating_add(self.backoff.after(self.failures, &mut self.random));
        self.state = State::Wanted;
        None
    }

    fn found(&self, version: i16, response: &FindCoordinatorResponse) -> Found {
        let (code, message, broker) = if version >= KEYS_SINCE {
            let Some(found) = response.coordinators.iter().find(|found| found.key == self.key) else {
                return Found::NotYet;
            };
            let broker = Broker::new(found.node_id, &found.host, found.port, None);
            (found.error_code, &found.error_message, broker)
        } else {
            let broker = Broker::new(response.node_id, &response.host, response.port, None);
            (response.error_code, &response.error_message, broker)
        };
        let code = ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError);
        match (code, broker) {
            (ErrorCode::None, Some(broker)) => Found::Broker(broker),
            (ErrorCode::None, None) => Found::NotYet,
            (code, _) if code.is_retriable() => Found::NotYet,
            (code, _) => Found::Refused(code, message.as_ref().map(ToString::to_string)),
        }
    }

    /// The request in the form of its version.
    fn request(kind: CoordinatorKind, key: ByteString, version: i16) -> FindCoordinatorRequest {
        let key_type = match kind {
            CoordinatorKind::Group => 0,
            CoordinatorKind::Transaction => 1,
        };
        let (key, coordinator_keys) = match version >= KEYS_SINCE {
            true => (ByteString::new(), vec![key]),
            false => (key, vec![]),
        };
        FindCoordinatorRequest {
            key,
            key_type,
            coordinator_keys,
            ..FindCoordinatorRequest::default()
        }
    }
}

enum Found {
    Broker(Broker),
    NotYet,
    Refused(ErrorCode, Option<String>),
}

/// The coordinator of one group or transactional id, looked for on the io thread. Clones are the same; it ends with the
/// last.
#[derive(Debug, Clone)]
pub(crate) struct Coordinator {
    guard: Arc<Guard>,
}

#[derive(Debug)]
struct Guard {
    shared: Arc<Shared>,
}

struct Shared {
    metadata: Metadata,
    kind: CoordinatorKind,
    key: ByteString,
    core: Mutex<Core>,
    wake: Notify,
    observers: Mutex<Vec<Arc<Observer>>>,
}

type Observer = dyn Fn(&CoordinatorEvent) + Send + Sync;

#[derive(Debug)]
struct Core {
    finder: Finder,
    closed: bool,
}

impl Coordinator {
    /// Nothing is looked for before somebody asks.
    pub(crate) fn start(metadata: Metadata, kind: CoordinatorKind, key: ByteString) -> Self {
        let settings = metadata.connections().settings();
        let backoff = Backoff::new(settings.retry_backoff_ms, settings.retry_backoff_max_ms);
        let finder = Finder::new(kind, key.clone(), backoff, RandomState::new().hash_one(&key));
        let io = metadata.connections().io().clone();
        let shared = Arc::new(Shared {
            metadata,
            kind,
            key,
            core: Mutex::new(Core { finder, closed: false }),
            wake: Notify::new(),
            observers: Mutex::default(),
        });
        io.spawn(run(Arc::clone(&shared)));
        Self {
            guard: Arc::new(Guard { shared }),
        }
    }

    /// The coordinator's own connection. `None` if it is not known: then it is being looked for.
    pub(crate) fn connection(&self) -> Option<Connection> {
        let shared = &self.guard.shared;
        let found = shared.core().finder.find().cloned();
        if found.is_none() {
            shared.wake.notify_one();
        }
        let broker = found?;
        let connections = shared.metadata.connections();
        Some(connections.node(broker.id, Role::Coordinator, &broker.endpoint()))
    }

    /// The node said that it is not the coordinator, or cannot be reached. It is looked for again, unless another one
    /// has been found since.
    pub(crate) fn mark_unknown(&self, node_id: i32) {
        if self.guard.shared.core().finder.mark_unknown(node_id) {
            self.guard.shared.wake.notify_one();
        }
    }

    /// Calls `observer` on the io thread when the coordinator was found or cannot be; no lock is held.
    pub(crate) fn on_change(&self, observer: impl Fn(&CoordinatorEvent) + Send + Sync + 'static) {
        self.guard.shared.observers().push(Arc::new(observer));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.core().closed = true;
        self.shared.wake.notify_one();
    }
}

async fn run(shared: Arc<Shared>) {
    loop {
        let due_ms = match shared.next() {
            Next::Closed => return,
            Next::Look(id) => {
                shared.look(id);
                continue;
            }
            Next::Until(due_ms) => due_ms,
        };
        // Either way there may be something to do.
        let _ = tokio::time::timeout_at(instant(due_ms), shared.wake.notified()).await;
    }
}

enum Next {
    Look(u64),
    Until(i64),
    Closed,
}

impl Shared {
    fn next(&self) -> Next {
        let mut core = self.core();
        if core.closed {
            return Next::Closed;
        }
        match core.finder.poll_request(now_ms()) {
            Some(id) => Next::Look(id),
            None => Next::Until(core.finder.poll_timeout().unwrap_or(i64::MAX)),
        }
    }

    fn look(self: &Arc<Self>, id: u64) {
        let Some(connection) = self.metadata.any_broker() else {
            self.handle(id, Err(CallError::Closed));
            return;
        };
        let (kind, key) = (self.kind, self.key.clone());
        // Whoever waits for an answer must not keep this alive.
        let shared = Arc::downgrade(self);
        connection.send_built(
            move |version| Finder::request(kind, key, version),
            SendOptions::default(),
            move |result| {
                if let Some(shared) = Weak::upgrade(&shared) {
                    shared.handle(id, result.map(|answer| (answer.version, answer.response)));
                }
            },
        );
    }

    fn handle(&self, id: u64, result: Result<(i16, FindCoordinatorResponse), CallError>) {
        if let Err(error) = &result {
            tracing::debug!(key = %self.key, %error, "no coordinator");
        }
        let event = self.core().finder.handle_response(now_ms(), id, result);
        self.wake.notify_one();
        let Some(event) = event else { return };
        let observers = self.observers().clone();
        for observer in observers {
            observer(&event);
        }
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observers(&self) -> MutexGuard<'_, Vec<Arc<Observer>>> {
        self.observers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("core", &self.core)
            .finish_non_exhaustive()
    }
}
