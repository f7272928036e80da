//! The handle of a connection, and the state that it shares with the connection's task.

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
    auth::Authenticator,
    authentication::AuthenticationFailures,
    call::{self, Call},
    counters::Counters,
    failures::Failures,
    versions::Features,
};
use crate::io::{self, Io};

/// Most requests in the queue of one connection.
const WAITING_MAX: usize = 1000;

/// The purpose of a connection. A node has one connection per role, so that a heartbeat never waits behind a long
/// Fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Data,
    Coordinator,
    /// Records only, on the application's own runtime (`milena.io=runtime`).
    Records,
}

/// The state of a connection: whether a request would be sent at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Not connected; the next request connects.
    Unconnected,
    Connecting,
    Ready,
    /// The last connection or attempt failed. The next attempt starts at `until_ms` at the earliest, and only for a
    /// request.
    BackingOff {
        until_ms: i64,
    },
    Closed,
}

/// A connection to one node in one role. It connects on demand, also after a loss. Clones share the connection.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub(super) link: Arc<Link>,
    pub(super) common: Arc<Common>,
}

impl Connection {
    /// Sends a request. This never blocks.
    ///
    /// `done` runs exactly once, on the thread of the connection, never inside this call: the caller may hold locks
    /// that `done` takes. It may send again, also on this connection; that request is written before the next response
    /// is read.
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

    /// As [`Connection::send`], for a request whose fields depend on the version. `build` receives the version; it runs
    /// on the thread of the connection when the request is encoded.
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

    /// Sends a request that has no response. `done` runs when it is queued for writing, or with the error.
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

    /// As [`Connection::send`], as a future. Dropping it does not cancel the request; the response is discarded then.
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
            // The caller may have dropped the future.
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

    /// The number of requests in the queue and in flight.
    pub(crate) fn load(&self) -> usize {
        self.link.in_flight.load(Relaxed) + self.link.inbox().queued.len()
    }
}

/// State that all connections of a client share.
pub(super) struct Common {
    pub(super) io: Io,
    /// The runtime of the connections that carry records, if not the io thread.
    pub(super) runtime: Option<Io>,
    /// Whether that runtime ended before the client.
    pub(super) is_runtime_gone: AtomicBool,
    pub(super) settings: Arc<ClientSettings>,
    pub(super) buffers: BufferPool,
    pub(super) totals: Counters,
    pub(super) features: Mutex<Features>,
    /// Logs in to brokers; `None` without SASL.
    pub(super) authenticator: Option<Authenticator>,
    /// The brokers that refuse the log-in now.
    pub(super) authentication: AuthenticationFailures,
    /// The brokers that cannot be reached now.
    pub(super) failures: Failures,
    /// Called with the id of a node whose connection was lost or could not be established.
    pub(super) on_lost: OnceLock<Box<dyn Fn(i32) + Send + Sync>>,
}

impl std::fmt::Debug for Common {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Common")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// State that the handles and the task of one connection share.
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
    waker: Option<Waker>,
    /// Whether the task must be woken. While it runs it checks the queue before it sleeps.
    asleep: bool,
    status: Status,
    /// The error for new requests once the connection is closed.
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
    /// It may; the first request in the queue expires then.
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

    /// Removes the first request of the queue. The caller is the task, which is awake.
    pub(super) fn pop(&self) -> Option<QueuedCall> {
        let mut inbox = self.inbox();
        inbox.asleep = false;
        inbox.queued.pop_front()
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.inbox().queued.is_empty()
    }

    /// Registers the task to be woken, unless there is work. With `can_send`, a queued request is work.
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

    /// Fails the queued requests whose time is over.
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

    /// Fails all queued requests.
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

    /// Whether nothing is connected and the queue is empty.
    pub(super) fn is_unused(&self) -> bool {
        let inbox = self.inbox();
        !matches!(inbox.status, Status::Connecting | Status::Ready) && inbox.queued.is_empty()
    }

    /// Ends the task, which fails all requests with `error`. Returns whether the connection was open.
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

    /// Poisoning is ignored: no change under the lock can be left half done by a panic.
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
