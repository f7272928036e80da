//! A handler with its topics and its policy, behind a pointer.

use std::{marker::PhantomData, pin::Pin, sync::Arc, time::Duration};

use crate::{
    clock::Clock,
    handler::{Available, BatchHandler, Handler, MissingState},
    policy::Policy,
    topics::TopicName,
    worker::{self, Worker},
};

/// How often an effect may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum Delivery {
    /// The offset is committed before the handler is called. A crash loses what was being handled, or was about to be: at most
    /// the handler's concurrency, or 256 records. Nothing comes twice.
    AtMostOnce,
    /// The offset is committed when the handler is done. A crash repeats what was done and not committed; nothing is lost.
    #[default]
    AtLeastOnce,
    /// What the handler emits and the offset are one transaction. Both count, or none; what the handler does elsewhere may
    /// happen again.
    ExactlyOnce,
}

/// What the lanes of a handler know of its policy.
#[derive(Debug, Clone)]
pub(crate) struct CallLimits {
    /// The name or pattern of its topics.
    pub(crate) handler: String,
    pub(crate) clock: Clock,
    pub(crate) timeout: Option<Duration>,
}

pub(crate) type WorkerFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A handler of either kind. Only lanes are behind a pointer: within one, calls are direct.
pub(crate) trait AnyHandler: Send + Sync {
    fn check(&self, available: &Available<'_>) -> Result<(), MissingState>;

    fn is_batch(&self) -> bool;

    /// A task that runs what it is sent, until it is sent nothing any more.
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
    fn check(&self, available: &Available<'_>) -> Result<(), MissingState> {
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
    fn check(&self, available: &Available<'_>) -> Result<(), MissingState> {
        H::check(available)
    }

    fn is_batch(&self) -> bool {
        true
    }

    fn run_worker(&self, worker: Worker, limits: CallLimits) -> WorkerFuture {
        Box::pin(worker::run_batches(Arc::clone(&self.handler), worker, limits))
    }
}

/// A handler, what it reads, and how.
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
