//! The handle of a connection, and what it shares with the connection's task.

use std::{
    collections::VecDeque,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
};

use milena_wire::{message::Request, pool::BufferPool};
use tokio::sync::oneshot;

use super::{
    ApiResponse, CallError, ClientSettings, Endpoint, SendOptions, Throttled,
    call::{self, Call},
    counters::Counters,
    failures::Failures,
    versions::Features,
};
use crate::io::{self, Io};

/// Requests that may wait for a connection at once.
const WAITING_MAX: usize = 1000;

/// What a connection is for. The same node has one for each, so that a heartbeat never waits behind a long Fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Data,
    Coordinator,
    /// Records alone, on the application's own runtime (`milena.io`).
    Records,
}

/// Whether a request would be sent at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// There is no connection; a request opens it.
    Unconnected,
    Connecting,
    Ready,
    /// The last connection or attempt failed; the next one begins not before then, and only if it is needed.
    BackingOff {
        until_ms: i64,
    },
    Closed,
}

/// A connection to one node in one role. It opens when it is needed, and again after it was lost. Clones are the same
/// connection.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub(super) link: Arc<Link>,
    pub(super) common: Arc<Common>,
}

impl Connection {
    /// Sends a request. This never blocks.
    ///
    /// `done` runs exactly once, on the thread of the connection, never inside this call: the caller may hold locks that
    /// `done` takes. It may send again, on this connection too; that goes out before anything else is read.
    pub(crate) fn send<R>(
        &self,
        request: R,
        options: SendOptions,
        done: impl FnOnce(Result<ApiResponse<R::Response>, CallError>) + Send + 'static,
    ) where
        R: Request + Send + 'static,
        R::Response: Throttled,
    {
        self.send_built(move |_| request, options, done);
    }

    /// As [`Connection::send`], for a request whose form depends on the version: `build` gets it. It runs where `done`
    /// runs, when the request is written.
    pub(crate) fn send_built<R>(
        &self,
        build: impl FnOnce(i16) -> R + Send + 'static,
        options: SendOptions,
        done: impl FnOnce(Result<ApiResponse<R::Response>, CallError>) + Send + 'static,
    ) where
        R: Request + 'static,
        R::Response: Throttled,
    {
        self.queue(options, call::call::<R, _, _>(options, build, done));
    }

    /// Sends a request that brokers do not answer. `done` hears when it is on its way, or why it is not.
    pub(crate) fn send_one_way<R: Request + Send + 'static>(
        &self,
        request: R,
        options: SendOptions,
        done: impl FnOnce(Result<(), CallError>) + Send + 'static,
    ) {
        self.queue(options, call::one_way(options, request, done));
    }

    fn queue(&self, options: SendOptions, call: Box<dyn Call>) {
        let timeout_ms = options.timeout_ms.unwrap_or(self.common.settings.request_timeout_ms);
        let queued = QueuedCall {
            call,
            timeout_ms,
            deadline_ms: io::now_ms().saturating_add(timeout_ms),
        };
        if let Err((queued, error)) = self.link.push(queued) {
            self.common.io.spawn(async move { queued.call.fail(error) });
        }
    }

    /// As [`Connection::send`], for whoever can wait. When this is dropped the request goes its way, and its answer is
    /// thrown away.
    pub(crate) fn call<R>(
        &self,
        request: R,
        options: SendOptions,
    ) -> impl Future<Output = Result<ApiResponse<R::Response>, CallError>> + Send + use<R>
    where
        R: Request + Send + 'static,
        R::Response: Throttled + Send,
    {
        let (done, response) = oneshot::channel();
        self.send(request, options, move |result| {
            // Whoever asked may not want it any more.
            let _ = done.send(result);
        });
        async move { response.await.unwrap_or(Err(CallError::Closed)) }
    }

    pub(crate) fn node_id(&self) -> i32 {
        self.link.node_id
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.link.endpoint
    }

    pub(crate) fn status(&self) -> Status {
        self.link.inbox().status
    }

    /// Requests that wait or have no answer yet.
    pub(crate) fn load(&self) -> usize {
        self.link.in_flight.load(Relaxed) + self.link.inbox().queued.len()
    }
}

/// What all connections of a client share.
pub(super) struct Common {
    pub(super) io: Io,
    /// Where connections for records live, if not on the io thread.
    pub(super) runtime: Option<Io>,
    /// It has ended before the client.
    pub(super) is_runtime_gone: AtomicBool,
    pub(super) settings: Arc<ClientSettings>,
    pub(super) buffers: BufferPool,
    pub(super) totals: Counters,
    pub(super) features: Mutex<Features>,
    /// Brokers that cannot be reached now.
    pub(super) failures: Failures,
    /// Told the node whose connection was lost or could not be made.
    pub(super) on_lost: OnceLock<Box<dyn Fn(i32) + Send + Sync>>,
}

impl std::fmt::Debug for Common {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Common")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// What the handles and the task of one connection share.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) node_id: i32,
    pub(super) role: Role,
    pub(super) endpoint: Endpoint,
    pub(super) counters: Counters,
    pub(super) in_flight: AtomicUsize,
    inbox: Mutex<Inbox>,
}

#[derive(Debug)]
struct Inbox {
    queued: VecDeque<QueuedCall>,
    /// Wakes the task.
    waker: Option<Waker>,
    /// While it is awake it need not be woken: it looks here before it sleeps.
    asleep: bool,
    status: Status,
    /// Why, when it is closed.
    closed: Option<CallError>,
}

impl Inbox {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.as_ref().filter(|_| self.asleep) {
            waker.wake_by_ref();
        }
        self.asleep = false;
    }
}

pub(super) struct QueuedCall {
    pub(super) call: Box<dyn Call>,
    pub(super) timeout_ms: i64,
    pub(super) deadline_ms: i64,
}

impl std::fmt::Debug for QueuedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} until {}", self.call.api(), self.deadline_ms)
    }
}

/// Whether the task may sleep.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParkOutcome {
    /// It may; the first request that waits does so until then.
    Asleep {
        deadline_ms: Option<i64>,
    },
    /// There are requests to send.
    Work,
    Closed(CallError),
}

impl Link {
    pub(super) fn new(node_id: i32, role: Role, endpoint: Endpoint) -> Self {
        Self {
            node_id,
            role,
            endpoint,
            counters: Counters::default(),
            in_flight: AtomicUsize::new(0),
            inbox: Mutex::new(Inbox {
                queued: VecDeque::new(),
                waker: None,
                asleep: false,
                status: Status::Unconnected,
                closed: None,
            }),
        }
    }

    fn push(&self, queued: QueuedCall) -> Result<(), (QueuedCall, CallError)> {
        let mut inbox = self.inbox();
        if let Some(error) = &inbox.closed {
            let error = error.clone();
            return Err((queued, error));
        }
        let waiting = inbox.queued.len();
        if waiting >= WAITING_MAX {
            let address = self.endpoint.clone();
            return Err((queued, CallError::TooManyWaiting { address, waiting }));
        }
        inbox.queued.push_back(queued);
        inbox.wake();
        Ok(())
    }

    /// The first request that waits. Whoever takes it is awake.
    pub(super) fn pop(&self) -> Option<QueuedCall> {
        let mut inbox = self.inbox();
        inbox.asleep = false;
        inbox.queued.pop_front()
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.inbox().queued.is_empty()
    }

    /// Whether there is nothing to do, and to be woken when there is. `can_send`: a waiting request is something to do.
    pub(super) fn park(&self, cx: &Context<'_>, can_send: bool) -> ParkOutcome {
        let mut inbox = self.inbox();
        if let Some(error) = &inbox.closed {
            return ParkOutcome::Closed(error.clone());
        }
        if can_send && !inbox.queued.is_empty() {
            return ParkOutcome::Work;
        }
        match &mut inbox.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => inbox.waker = Some(cx.waker().clone()),
        }
        inbox.asleep = true;
        let deadline_ms = inbox.queued.iter().map(|queued| queued.deadline_ms).min();
        ParkOutcome::Asleep { deadline_ms }
    }

    /// Waits until there is a request to send.
    pub(super) async fn work(&self) -> Result<(), CallError> {
        std::future::poll_fn(|cx| match self.park(cx, true) {
            ParkOutcome::Asleep { .. } => Poll::Pending,
            ParkOutcome::Work => Poll::Ready(Ok(())),
            ParkOutcome::Closed(error) => Poll::Ready(Err(error)),
        })
        .await
    }

    /// Fails the requests that have waited too long.
    pub(super) fn expire(&self, now_ms: i64) {
        let mut late = Vec::new();
        let mut inbox = self.inbox();
        let mut at = 0;
        while let Some(queued) = inbox.queued.get(at) {
            if queued.deadline_ms <= now_ms {
                late.extend(inbox.queued.remove(at));
            } else {
                at += 1;
            }
        }
        drop(inbox);
        for queued in late {
            let error = self.timed_out(queued.call.api(), queued.timeout_ms);
            queued.call.fail(error);
        }
    }

    pub(super) fn timed_out(&self, api: milena_wire::api::ApiKey, timeout_ms: i64) -> CallError {
        CallError::TimedOut {
            address: self.endpoint.clone(),
            api,
            timeout_ms,
        }
    }

    /// Fails all requests that wait.
    pub(super) fn fail_waiting(&self, error: &CallError) {
        let waiting = std::mem::take(&mut self.inbox().queued);
        for queued in waiting {
            queued.call.fail(error.clone());
        }
    }

    pub(super) fn set_status(&self, status: Status) {
        let mut inbox = self.inbox();
        if inbox.closed.is_none() {
            inbox.status = status;
        }
    }

    /// Whether nothing is connected and nothing waits.
    pub(super) fn is_unused(&self) -> bool {
        let inbox = self.inbox();
        !matches!(inbox.status, Status::Connecting | Status::Ready) && inbox.queued.is_empty()
    }

    /// Ends the task. What waits or is in flight fails with `error`, where the task runs. Says whether it was open.
    pub(super) fn close(&self, error: CallError) -> bool {
        let mut inbox = self.inbox();
        if inbox.closed.is_some() {
            return false;
        }
        inbox.closed = Some(error);
        inbox.status = Status::Closed;
        inbox.wake();
        true
    }

    pub(super) fn is_closed(&self) -> bool {
        self.inbox().closed.is_some()
    }

    /// Nothing is left half done by a panic while the lock is held.
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
