//! Routes: a handler behind a pointer, with its topics and policy.

use std::{
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use milena_machines::request_reply::{AnswerConfig, is_expired};

use crate::{
    clock::Clock,
    handler::{ArgumentError, Available, BatchHandler, Cx, Handler},
    metrics::HandlerMetrics,
    policy::Policy,
    request_reply,
    topics::TopicName,
    worker::{self, Worker},
};

/// Delivery guarantee of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum Delivery {
    /// Commits the offset before the handler is called. A crash loses the records being handled: at most the handler's
    /// concurrency, or 256 records. No record is handled twice.
    AtMostOnce,
    /// Commits the offset after the handler is done. A crash repeats handled records whose offsets were not committed.
    /// No record is lost.
    #[default]
    AtLeastOnce,
    /// Writes the handler's output and the offset in one transaction. Other effects of the handler may happen twice.
    ExactlyOnce,
    /// Stores the offset in the database of the handler's effects, and the effects with their processed-event row in
    /// transactions that a newer owner of the partition shuts out. The effects in the database happen exactly once. See
    /// [`offset_store`](crate::offset_store).
    StoredOffsets,
}

/// Settings of a handler that its workers need.
#[derive(Debug, Clone)]
pub(crate) struct CallLimits {
    /// Name or pattern of the handler's topics.
    pub(crate) handler: String,
    pub(crate) clock: Clock,
    pub(crate) timeout: Option<Duration>,
    /// Set if expired requests are skipped.
    pub(crate) expiry: Option<Expiry>,
}

/// Finds requests whose requesters have given up, and counts them.
#[derive(Debug, Clone)]
pub(crate) struct Expiry {
    pub(crate) answer: AnswerConfig,
    pub(crate) metrics: Arc<HandlerMetrics>,
}

impl Expiry {
    pub(crate) fn is_expired(&self, cx: &Cx, clock: &Clock) -> bool {
        let Some(deadline_ms) = request_reply::deadline_ms(cx.record.headers()) else {
            return false;
        };
        let is_expired = is_expired(self.answer, Some(deadline_ms), clock.now_ms());
        if is_expired {
            self.metrics.requests_expired.fetch_add(1, Ordering::Relaxed);
        }
        is_expired
    }
}

pub(crate) type WorkerFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A handler of either kind. Only the worker is behind a pointer; calls within it are direct.
pub(crate) trait AnyHandler: Send + Sync {
    fn check(&self, available: &Available<'_>) -> Result<(), ArgumentError>;

    fn is_batch(&self) -> bool;

    /// Runs a worker until its command channel is closed.
    fn run_worker(&self, worker: Worker, limits: CallLimits) -> WorkerFuture;
}

pub(crate) struct One<H, A> {
    handler: Arc<H>,
    arguments: PhantomData<fn(A)>,
}

pub(crate) struct Many<H, A> {
    handler: Arc<H>,
    arguments: PhantomData<fn(A)>,
}

impl<H: Handler<A>, A: 'static> One<H, A> {
    pub(crate) fn new(handler: H) -> Self {
        Self {
            handler: Arc::new(handler),
            arguments: PhantomData,
        }
    }
}

impl<H: BatchHandler<A>, A: 'static> Many<H, A> {
    pub(crate) fn new(handler: H) -> Self {
        Self {
            handler: Arc::new(handler),
            arguments: PhantomData,
        }
    }
}

impl<H: Handler<A>, A: 'static> AnyHandler for One<H, A> {
    fn check(&self, available: &Available<'_>) -> Result<(), ArgumentError> {
        H::check(available)
    }

    fn is_batch(&self) -> bool {
        false
    }

    fn run_worker(&self, worker: Worker, limits: CallLimits) -> WorkerFuture {
        Box::pin(worker::run_each(Arc::clone(&self.handler), worker, limits))
    }
}

impl<H: BatchHandler<A>, A: 'static> AnyHandler for Many<H, A> {
    fn check(&self, available: &Available<'_>) -> Result<(), ArgumentError> {
        H::check(available)
    }

    fn is_batch(&self) -> bool {
        true
    }

    fn run_worker(&self, worker: Worker, limits: CallLimits) -> WorkerFuture {
        Box::pin(worker::run_batches(Arc::clone(&self.handler), worker, limits))
    }
}

/// A handler with its topics, policy and delivery guarantee.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) topics: TopicName,
    pub(crate) policy: Policy,
    pub(crate) delivery: Delivery,
    pub(crate) handler: Arc<dyn AnyHandler>,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Route")
            .field("topics", &self.topics.text())
            .field("policy", &self.policy)
            .field("delivery", &self.delivery)
            .finish_non_exhaustive()
    }
}
