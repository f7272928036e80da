//! The driver: one scheduler, and the tasks around it.
//!
//! [`Engine`] has the scheduler behind a lock that is never held across an await. A task with an event (a source that has
//! read records, a worker that has finished some, the publisher, the timer) calls [`Engine::act`]: it feeds the event to
//! the scheduler and drains the actions that follow under the same lock. Actions go to the tasks that perform them, records
//! to workers. Workers do not wait for the lock: they leave their results in the [`ResultInbox`], and the task that has the
//! lock takes them.

mod accept;
mod breakers;
mod commands;
mod emitter;
mod fetch_stalls;
mod finish;
mod key_holds;
mod notices;
mod payload;
mod publisher;
mod quarantine;
mod refusals;
mod replay_ranges;
mod replay_source;
mod replies;
mod returns;
mod setup;
mod shared_breakers;
mod source;
mod start;
mod status;
mod stored_offsets;
mod timer;
mod transactions;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytestring::ByteString;
use milena_client::consumer::{GroupMetadata, MetricsHandle, TopicPartition, WakeupHandle};
use milena_machines::app::{
    Action, CommittedOffset, Dispatch, HandlerId, PartitionId, RecordId, Role, Scheduler, SourceId, Stage,
};
use tokio::sync::{Notify, mpsc};

pub(crate) use key_holds::keeps_key_order;
pub(crate) use payload::{Payload, PendingOutput};
pub(crate) use setup::Setup;
pub(crate) use shared_breakers::BreakerExchange;
pub(crate) use start::{Declared, EngineParts, Started, check_policies, replay, start};

use crate::{
    clock::Clock,
    error::AppError,
    handler::TopicScope,
    metrics::HandlerMetrics,
    offset_store::{OffsetStore, PartitionOwner},
    policy::Order,
    request_reply::ReplyRules,
    route::{Delivery, Route},
    routing::Routing,
    times::TimeMeter,
    worker::{CallResult, Job, WorkerCommand},
};
use commands::SourceCommand;
use finish::{LastErrors, ResultInbox, Stall};
use key_holds::HeldTopics;
use notices::Notices;
use publisher::PublisherLink;
use refusals::Refusals;
use replay_source::ReplayPart;
use stored_offsets::FencedPartition;
use transactions::TransactionLink;

/// The most records that go to the workers of a handler at once.
const DISPATCH_MAX: usize = 256;

/// One scheduler, and links to the tasks that act for it.
pub(crate) struct Engine {
    pub(crate) clock: Clock,
    pub(crate) group: Arc<str>,
    pub(crate) instance: Arc<str>,
    pub(crate) delivery: Delivery,
    pub(crate) routes: Vec<Route>,
    /// The handlers of all topics, also those of other engines.
    pub(crate) routing: Arc<Routing>,
    pub(crate) metrics: Vec<Arc<HandlerMetrics>>,
    /// The names of breakers, by their ids.
    pub(crate) breakers: Vec<String>,
    setup: Arc<Setup>,
    notices: Notices,
    /// Breakers that other engines have too: the first ones.
    exchange: Option<Arc<BreakerExchange>>,
    /// The workers of each handler.
    workers: Vec<Vec<WorkerLink>>,
    sources: Vec<SourceLink>,
    publisher: PublisherLink,
    transaction: TransactionLink,
    key_holds: Option<HeldTopics>,
    /// The store of offsets, if they are stored with effects.
    offset_store: Option<Arc<dyn OffsetStore>>,
    /// How each handler answers requests.
    reply_rules: Vec<ReplyRules>,
    /// Notified when the time of the next timeout has changed.
    timer: Notify,
    /// Notified when the engine has ended, or must end.
    ended: Notify,
    inbox: ResultInbox,
    state: Mutex<State>,
}

/// The scheduler, and everything that must change together with it.
struct State {
    scheduler: Scheduler<Payload>,
    /// The assigned partitions.
    owned: BTreeMap<TopicPartition, OwnedPartition>,
    /// Handler and role of the topics that sources have met.
    topics: BTreeMap<(SourceId, ByteString), TopicBinding>,
    /// The partitions of a replay.
    parts: BTreeMap<TopicPartition, ReplayPart>,
    /// Assigned partitions that have a newer owner in the offset store, and those that had.
    fenced: BTreeMap<TopicPartition, FencedPartition>,
    /// Partitions that the scheduler has released and the rebalance listener has not asked for.
    released: BTreeSet<PartitionId>,
    /// Commands for each source.
    commands: Vec<Vec<SourceCommand>>,
    /// The group membership of each source, as of its last records.
    groups: Vec<Option<GroupMetadata>>,
    /// Main partitions whose held keys are to be checked.
    key_hold_checks: Vec<PartitionId>,
    refusals: Refusals,
    last_errors: LastErrors,
    timer_at: Option<i64>,
    failure: Option<AppError>,
    buffers: Buffers,
}

/// Vectors whose allocations are kept.
#[derive(Default)]
struct Buffers {
    dispatched: Vec<Dispatch>,
    results: Vec<CallResult>,
}

/// An assigned partition.
#[derive(Clone)]
struct OwnedPartition {
    id: PartitionId,
    source: SourceId,
    topic: TopicBinding,
    /// The offset to read again from if a transaction is aborted.
    begin: i64,
    committed: Option<CommittedOffset>,
    /// Its ownership in the offset store.
    owner: Option<PartitionOwner>,
}

/// Handler and role of a topic.
#[derive(Clone)]
struct TopicBinding {
    handler: HandlerId,
    role: Role,
    scope: Arc<TopicScope>,
}

struct WorkerLink {
    commands: mpsc::UnboundedSender<WorkerCommand>,
    /// The number of records that the worker has.
    load: Arc<AtomicUsize>,
}

/// The link to the task of a consumer.
struct SourceLink {
    group: Arc<str>,
    wakeup: OnceLock<WakeupHandle>,
    metrics: OnceLock<MetricsHandle>,
    /// Notified when there are commands, for a listener that waits for them.
    commands: Notify,
    times: TimeMeter,
}

impl SourceLink {
    fn new(group: &str, times: TimeMeter) -> Self {
        Self {
            group: Arc::from(group),
            wakeup: OnceLock::new(),
            metrics: OnceLock::new(),
            commands: Notify::new(),
            times,
        }
    }
}

impl State {
    fn new(scheduler: Scheduler<Payload>, sources: usize) -> Self {
        Self {
            scheduler,
            owned: BTreeMap::new(),
            topics: BTreeMap::new(),
            parts: BTreeMap::new(),
            fenced: BTreeMap::new(),
            released: BTreeSet::new(),
            commands: (0..sources).map(|_| vec![]).collect(),
            groups: vec![None; sources],
            key_hold_checks: vec![],
            refusals: Refusals::default(),
            last_errors: LastErrors::default(),
            timer_at: None,
            failure: None,
            buffers: Buffers::default(),
        }
    }

    fn is_closed(&self) -> bool {
        self.scheduler.stage() == Stage::Closed
    }
}

impl Engine {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_transactional(&self) -> bool {
        self.delivery == Delivery::ExactlyOnce
    }

    /// Feeds an event to the scheduler, then performs its actions and dispatches records. `caller` is the source that calls,
    /// if one does: it looks for its commands without a wakeup.
    fn act<R>(&self, caller: Option<SourceId>, feed: impl FnOnce(&mut State, i64) -> R) -> R {
        let fed = self.act_once(caller, feed);
        // Results that came too late to be seen, unless the next task is at the scheduler already.
        while self.inbox.needs_taker() {
            self.act_once(None, |_, _| {});
        }
        fed
    }

    fn act_once<R>(&self, caller: Option<SourceId>, feed: impl FnOnce(&mut State, i64) -> R) -> R {
        let now_ms = self.clock.now_ms();
        let mut guard = self.state();
        let _taker = self.inbox.begin_taking();
        let state = &mut *guard;
        let exchange = self.exchange.as_ref().map(|exchange| (exchange, exchange.lock()));
        if let Some((_, breakers)) = &exchange {
            state.scheduler.enter(now_ms, breakers);
        }
        let phase = state.scheduler.transaction_phase();
        let fed = feed(state, now_ms);
        loop {
            let mut is_quiet = !self.take_results(state, now_ms);
            while let Some(action) = state.scheduler.poll_action() {
                is_quiet = false;
                self.perform(state, action);
            }
            while self.dispatch(state, now_ms) {
                is_quiet = false;
            }
            // A diverted record leaves an action behind, although nothing was dispatched.
            if is_quiet && !state.scheduler.has_action() && !state.give_back_done(now_ms) {
                break;
            }
        }
        if let Some((exchange, mut breakers)) = exchange
            && state.scheduler.leave(&mut breakers)
        {
            exchange.notify();
        }
        if state.scheduler.transaction_phase() != phase {
            self.transaction.notify();
        }
        let timer_at = state.scheduler.poll_timeout();
        if timer_at != state.timer_at {
            state.timer_at = timer_at;
            self.timer.notify_one();
        }
        for (index, commands) in state.commands.iter().enumerate() {
            if !commands.is_empty() && caller.is_none_or(|caller| usize::from(caller.0) != index) {
                self.wake_source(index);
            }
        }
        fed
    }

    fn wake_source(&self, index: usize) {
        let Some(link) = self.sources.get(index) else { return };
        link.commands.notify_one();
        if let Some(wakeup) = link.wakeup.get() {
            wakeup.wakeup();
        }
    }

    fn times(&self, source: SourceId) -> Option<&TimeMeter> {
        self.sources.get(usize::from(source.0)).map(|link| &link.times)
    }

    /// Hands records to workers; `false` when there are none.
    fn dispatch(&self, state: &mut State, now_ms: i64) -> bool {
        let State { scheduler, buffers, .. } = state;
        let dispatched = &mut buffers.dispatched;
        let Some(handler) = scheduler.poll_dispatch(now_ms, DISPATCH_MAX, dispatched) else {
            return false;
        };
        let index = usize::from(handler.0);
        let (Some(workers), Some(route)) = (self.workers.get(index), self.routes.get(index)) else {
            return false;
        };
        let share = if route.handler.is_batch() {
            dispatched.len()
        } else {
            dispatched.len().div_ceil(workers.len().max(1))
        };
        for share in dispatched.chunks(share.max(1)) {
            let records = share.iter().map(|dispatch| dispatch.count as usize).sum();
            let stores = self.stores_offsets_of(route);
            let jobs = share.iter().filter_map(|dispatch| job(scheduler, dispatch, stores));
            let jobs: Vec<Job> = jobs.collect();
            let Some(worker) = workers.iter().min_by_key(|worker| worker.load.load(Ordering::Relaxed)) else {
                return false;
            };
            worker.load.fetch_add(records, Ordering::Relaxed);
            // A worker ends only with the engine.
            let _ = worker.commands.send(WorkerCommand::Run(jobs));
        }
        true
    }

    /// Whether the offsets of a handler's records are stored in their transactions. Records that are handled at the same
    /// time would wait for each other there.
    fn stores_offsets_of(&self, route: &Route) -> bool {
        self.offset_store.is_some() && route.policy.order == Order::Partition && !route.handler.is_batch()
    }

    fn perform(&self, state: &mut State, action: Action) {
        match action {
            Action::Pause(id) => state.command(id, SourceCommand::Pause),
            Action::Resume(id) => state.command(id, SourceCommand::Resume),
            Action::Commit { source, offsets } => state.command_to(source, SourceCommand::Commit(offsets)),
            Action::CheckKeyHolds(ids) => {
                state.key_hold_checks = ids;
                if let Some(topics) = &self.key_holds {
                    topics.request_check();
                }
            }
            Action::Publish { record, what } => self.publish(state, record, what),
            Action::Cancel(record) => self.cancel(record),
            Action::Released(id) => self.released(state, id),
            // The transaction task waits for the phase, which says the same.
            Action::Barrier | Action::BarrierNeeded => {}
            Action::Stopped {
                partition,
                offset,
                reason,
            } => self.stopped(state, partition, offset, reason),
            Action::Stalled {
                partition,
                offset,
                reason,
                since_ms,
                action,
                cancelled,
            } => {
                let stall = Stall {
                    partition,
                    offset,
                    reason,
                    since_ms,
                };
                self.stalled(state, &stall, action, &cancelled);
            }
            Action::Isolating {
                partition,
                offset,
                owners,
            } => state.log_isolating(partition, offset, owners),
            Action::Quarantined {
                partition,
                offset,
                owners,
            } => state.log_quarantined(partition, offset, owners),
            Action::Skipped { partition, offset } => self.skipped(state, partition, offset),
            Action::Lost {
                partition,
                offset,
                records,
            } => log_lost(&partition, offset, records),
            Action::BreakerChanged { breaker, state: now } => self.log_breaker(state, breaker, now),
            Action::Closed => {
                self.ended.notify_one();
                (0..self.sources.len()).for_each(|index| self.wake_source(index));
            }
        }
    }

    /// Notes that a partition is drained and committed.
    fn released(&self, state: &mut State, id: PartitionId) {
        state.released.insert(id);
        let owner = state.owned.iter().find(|(_, owned)| owned.id == id);
        if let Some((partition, source)) = owner.map(|(partition, owned)| (partition.clone(), owned.source)) {
            state.owned.remove(&partition);
            self.wake_source(usize::from(source.0));
        }
    }

    /// Tells all workers: which of them has the record is not known, and few are ever cancelled.
    fn cancel(&self, record: RecordId) {
        for worker in self.workers.iter().flatten() {
            let _ = worker.commands.send(WorkerCommand::Cancel(record));
        }
    }

    /// Wraps a task of this engine: if it panics, the engine fails.
    fn watched<F: Future<Output = ()> + Send>(self: &Arc<Self>, task: F) -> impl Future<Output = ()> + Send + use<F> {
        let watch = Watch(Arc::clone(self));
        async move {
            let _watch = watch;
            task.await;
        }
    }

    /// Ends the engine because of a failure; the first one counts.
    pub(crate) fn fail(&self, failure: AppError) {
        self.state().failure.get_or_insert(failure);
        self.ended.notify_one();
    }

    pub(crate) fn failure(&self) -> Option<AppError> {
        self.state().failure.clone()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().is_closed()
    }

    /// Waits until the engine has ended or failed.
    pub(crate) async fn ended(&self) {
        loop {
            {
                let state = self.state();
                if state.is_closed() || state.failure.is_some() {
                    return;
                }
            }
            self.ended.notified().await;
        }
    }

    /// Waits until the engine has ended.
    pub(crate) async fn closed(&self) {
        while !self.is_closed() {
            self.ended.notified().await;
        }
    }

    /// Begins the shutdown: records in flight are finished and committed.
    pub(crate) fn shut_down(&self) {
        self.act(None, |state, now_ms| state.scheduler.handle_shutdown(now_ms));
    }
}

/// Fails the engine when its task panics.
struct Watch(Arc<Engine>);

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(AppError::Panicked);
        }
    }
}

fn log_lost(partition: &TopicPartition, offset: i64, records: u64) {
    tracing::warn!(
        event = "records_lost",
        %partition,
        offset,
        records,
        "{records} records of {partition} from offset {offset} on were committed and not handled; give handlers more time \
         with App::drain"
    );
}

/// The job of a record or run; `stores_offset` is whether its offset may be stored with its effect.
fn job(scheduler: &Scheduler<Payload>, dispatch: &Dispatch, stores_offset: bool) -> Option<Job> {
    let payload = scheduler.payload(dispatch.record)?;
    Some(Job {
        record: dispatch.record,
        scope: Arc::clone(&payload.scope),
        records: payload.records.clone(),
        attempt: dispatch.attempt,
        is_lowest: stores_offset && scheduler.frontier(dispatch.partition) == Some(dispatch.offset),
    })
}
