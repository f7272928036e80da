//! Coordinators of groups and transactional ids.
//!
//! [`Finder`] decides when to look one up; it has no socket and no clock. [`Coordinator`] runs it on the io thread.

mod finder;
mod notices;

#[cfg(test)]
mod tests;

pub(crate) use finder::{FindFailure, Finder};

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bytestring::ByteString;
use milena_machines::backoff::Backoff;
use milena_wire::{errors::ErrorCode, messages::FindCoordinatorResponse};
use notices::{CoordinatorNotices, Subject};
use tokio::sync::Notify;

use crate::{
    io::{instant, now_ms},
    metadata::{Broker, Metadata},
    net::{CallError, Connection, Role, SendOptions},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CoordinatorKind {
    Group,
    Transaction,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CoordinatorEvent {
    Found(Broker),
    /// A retry would not help. The next call of [`Coordinator::connection`] looks it up again.
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

/// The coordinator of one group or transactional id, looked up on the io thread. Clones share it; it ends with the last
/// clone.
#[derive(Debug, Clone)]
pub(crate) struct Coordinator {
    guard: Arc<Guard>,
}

#[derive(Debug)]
struct Guard {
    shared: Arc<CoordinatorShared>,
}

struct CoordinatorShared {
    metadata: Metadata,
    kind: CoordinatorKind,
    key: ByteString,
    core: Mutex<CoordinatorCore>,
    wake: Notify,
    observers: Mutex<Vec<Arc<Observer>>>,
    notices: CoordinatorNotices,
}

type Observer = dyn Fn(&CoordinatorEvent) + Send + Sync;

#[derive(Debug)]
struct CoordinatorCore {
    finder: Finder,
    closed: bool,
}

impl Coordinator {
    /// The first look-up starts with the first call of [`Self::connection`].
    pub(crate) fn start(metadata: Metadata, kind: CoordinatorKind, key: ByteString) -> Self {
        let settings = metadata.connections().settings();
        let backoff = Backoff::new(settings.retry_backoff_ms, settings.retry_backoff_max_ms);
        let finder = Finder::new(key.clone(), backoff, RandomState::new().hash_one(&key));
        let io = metadata.connections().io().clone();
        let shared = Arc::new(CoordinatorShared {
            metadata,
            kind,
            key,
            core: Mutex::new(CoordinatorCore { finder, closed: false }),
            wake: Notify::new(),
            observers: Mutex::default(),
            notices: CoordinatorNotices::default(),
        });
        io.spawn(run(Arc::clone(&shared)));
        Self {
            guard: Arc::new(Guard { shared }),
        }
    }

    /// Returns the connection to the coordinator. `None` while it is not known; then it is being looked up.
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

    /// Handles that the node is not the coordinator, or cannot be reached. Another look-up starts, unless a different
    /// node has been found since.
    pub(crate) fn mark_unknown(&self, node_id: i32) {
        if self.guard.shared.core().finder.mark_unknown(node_id) {
            self.guard.shared.wake.notify_one();
        }
    }

    /// Calls `observer` on the io thread when a look-up has succeeded or failed for good, without holding a lock.
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

async fn run(shared: Arc<CoordinatorShared>) {
    loop {
        let due_ms = match shared.next() {
            Next::Closed => return,
            Next::Find(id) => {
                shared.send_find(id);
                continue;
            }
            Next::Until(due_ms) => due_ms,
        };
        // A wake-up and a timeout are handled alike.
        let _ = tokio::time::timeout_at(instant(due_ms), shared.wake.notified()).await;
    }
}

enum Next {
    Find(u64),
    Until(i64),
    Closed,
}

impl CoordinatorShared {
    fn next(&self) -> Next {
        let mut core = self.core();
        if core.closed {
            return Next::Closed;
        }
        match core.finder.poll_request(now_ms()) {
            Some(id) => Next::Find(id),
            None => Next::Until(core.finder.poll_timeout().unwrap_or(i64::MAX)),
        }
    }

    fn send_find(self: &Arc<Self>, id: u64) {
        let Some(connection) = self.metadata.any_broker() else {
            self.handle(id, Err(CallError::Closed));
            return;
        };
        let (kind, key) = (self.kind, self.key.clone());
        // A request in flight must not keep this alive.
        let shared = Arc::downgrade(self);
        connection.send_built(
            move |version| Finder::request(kind, key, version),
            SendOptions::default(),
            move |result| {
                if let Some(shared) = Weak::upgrade(&shared) {
                    shared.handle(id, result.map(|response| (response.version, response.body)));
                }
            },
        );
    }

    fn handle(&self, id: u64, result: Result<(i16, FindCoordinatorResponse), CallError>) {
        if let Err(error) = &result {
            tracing::debug!(event = "find_coordinator_failed", key = %self.key, %error, "coordinator look-up failed");
        }
        let now_ms = now_ms();
        let mut core = self.core();
        let event = core.finder.handle_response(now_ms, id, result);
        let failure = core.finder.take_failure();
        drop(core);
        self.notice(now_ms, failure, event.as_ref());
        self.wake.notify_one();
        let Some(event) = event else { return };
        let observers = self.observers().clone();
        for observer in observers {
            observer(&event);
        }
    }

    fn notice(&self, now_ms: i64, failure: Option<FindFailure>, event: Option<&CoordinatorEvent>) {
        let client = &self.metadata.connections().settings().client_id;
        let of = Subject {
            client,
            kind: self.kind,
            key: &self.key,
        };
        match (failure, event) {
            (Some(failure), _) => self.notices.handle_failure(now_ms, &of, &failure),
            (None, Some(CoordinatorEvent::Found(broker))) => self.notices.handle_found(now_ms, &of, broker),
            (None, Some(CoordinatorEvent::Failed(error))) => self.notices.handle_refusal(now_ms, &of, error),
            (None, None) => {}
        }
    }

    fn core(&self) -> MutexGuard<'_, CoordinatorCore> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observers(&self) -> MutexGuard<'_, Vec<Arc<Observer>>> {
        self.observers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for CoordinatorShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CoordinatorShared")
            .field("core", &self.core)
            .finish_non_exhaustive()
    }
}
