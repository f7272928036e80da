//! The driver: one machine, and the tasks around it.
//!
//! [`Engine`] has the machine behind a lock that nobody holds for long. Whoever tells it something (a source that has read
//! records, a lane that has finished some, the publisher, the timer) lets what follows from it happen in the same moment:
//! actions go to the tasks that can do them, records to lanes. Lanes do not wait for the lock: who has it takes their
//! results too.

mod accept;
mod availability;
mod back;
mod bounded;
mod commands;
mod emitter;
mod finish;
mod frozen;
mod held;
mod notices;
mod payload;
mod publisher;
mod quarantine;
mod refused;
mod setup;
mod shared;
mod source;
mod start;
mod status;
mod stretches;
mod timer;
mod transactions;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use bytestring::ByteString;
use milena_client::consumer::{GroupMetadata, MetricsHandle, TopicPartition, WakeupHandle};
use milena_machines::app::{
    Action, CommittedOffset, Dispatch, HandlerId, PartitionId, RecordId, Role, Scheduler, SourceId,
};
use tokio::sync::{Notify, RwLock, mpsc, watch};

pub(crate) use held::keeps_key_order;
pub(crate) use payload::{Held, Payload};
pub(crate) use setup::Setup;
pub(crate) use shared::Shared;
pub(crate) use start::{Declared, EngineParts, Started, check_policies, replay, start};

use crate::{
    clock::Clock,
    error::AppError,
    handler::TopicScope,
    metrics::HandlerMetrics,
    route::{Delivery, Route},
    routing::Routing,
    times::TimeMeter,
    worker::{CallResult, Job, WorkerCommand},
};
use bounded::Part;
use commands::SourceCommand;
use finish::Stall;
use held::HeldTopics;
use notices::Notices;
use publisher::PublishOrder;
use refused::Suspicion;

/// So many records go to lanes at once.
const DISPATCH_MAX: usize = 256;

/// One machine with all that it needs to act.
pub(crate) struct Engine {
    pub(crate) clock: Clock,
    pub(crate) group: Arc<str>,
    pub(crate) instance: Arc<str>,
    pub(crate) delivery: Delivery,
    pub(crate) routes: Vec<Route>,
    /// The readers of all topics, also those of other engines.
    pub(crate) routing: Arc<Routing>,
    pub(crate) metrics: Vec<Arc<HandlerMetrics>>,
    pub(crate) breakers: Vec<String>,
    /// Makes topics that are missing.
    setup: Arc<Setup>,
    /// Lines about records that fail.
    notices: Notices,
    is_transactional: bool,
    /// The first of the breakers, if other engines have them too.
    shared: Option<Arc<Shared>>,
    workers: Vec<Vec<WorkerLink>>,
    sources: Vec<SourceLink>,
    publisher: mpsc::UnboundedSender<PublishOrder>,
    timer: Notify,
    /// What keys need that stay in order through retries.
    held: Option<HeldTopics>,
    /// Rings when it is asked which of them are free.
    held_asked: Notify,
    /// Held by who is written, alone if it is suspected of what a batch was refused for.
    alone: RwLock<()>,
    /// Rings when a transaction may have something to do.
    transactions: Notify,
    /// Whether what handlers emit can be written now; it always can without transactions.
    transaction_open: watch::Sender<bool>,
    /// How many are about to write into the transaction that is open.
    writing: AtomicUsize,
    /// Rings when one of them has.
    written: Notify,
    /// Rings when the engine has ended, or must.
    ended: Notify,
    state: Mutex<State>,
    /// What lanes have finished and the machine does not know yet.
    results: Mutex<Vec<CallResult>>,
    /// Whether somebody is at the machine who looks for results before he goes.
    is_acting: AtomicBool,
}

/// What the machine decides, and what came of it.
struct State {
    work: Scheduler<Payload>,
    owned: BTreeMap<TopicPartition, Owned>,
    /// How the records of topics are treated that a source reads.
    topics: BTreeMap<(SourceId, ByteString), Topic>,
    /// The partitions that end for us, each for itself.
    parts: BTreeMap<TopicPartition, Part>,
    commands: Vec<Vec<SourceCommand>>,
    released: BTreeSet<PartitionId>,
    timer_at: Option<i64>,
    failure: Option<AppError>,
    /// What the last fatal error said.
    last_fatal: String,
    /// The last error of a dependency.
    last_unavailable: String,
    /// Whether there is something for the next transaction.
    has_news: bool,
    /// Whether something could not be written, so that the open transaction cannot count.
    must_abort: bool,
    /// Whether a transaction is being ended.
    is_ending: bool,
    is_barrier: bool,
    is_barrier_wanted: bool,
    /// Records whose output was refused.
    suspicions: BTreeMap<(TopicPartition, i64), Suspicion>,
    /// Of these main partitions it is asked which keys are free.
    asked_held: Vec<PartitionId>,
    /// Who we are in the group of each source, as of the last records.
    groups: Vec<Option<GroupMetadata>>,
    is_closed: bool,
    dispatched: Vec<Dispatch>,
    /// Results that are being told to the machine; the room is kept.
    finished: Vec<CallResult>,
}

/// A partition that is ours.
#[derive(Clone)]
struct Owned {
    id: PartitionId,
    source: SourceId,
    topic: Topic,
    /// Where to read again if a transaction does not count.
    begin: i64,
    committed: Option<CommittedOffset>,
}

/// How the records of a topic are treated.
#[derive(Clone)]
struct Topic {
    handler: HandlerId,
    role: Role,
    scope: Arc<TopicScope>,
}

/// The way to a lane.
struct WorkerLink {
    commands: mpsc::UnboundedSender<WorkerCommand>,
    load: Arc<AtomicUsize>,
}

/// The way to the task of a consumer.
#[derive(Default)]
struct SourceLink {
    wakeup: OnceLock<WakeupHandle>,
    metrics: OnceLock<MetricsHandle>,
    /// Rings when there are commands, for a listener that waits for them.
    commands: Notify,
    /// Where its time goes.
    times: TimeMeter,
}

impl SourceLink {
    fn new(times: TimeMeter) -> Self {
        Self {
            times,
            ..Self::default()
        }
    }
}

impl State {
    fn new(work: Scheduler<Payload>, sources: usize) -> Self {
        Self {
            work,
            owned: BTreeMap::new(),
            topics: BTreeMap::new(),
            parts: BTreeMap::new(),
            commands: (0..sources).map(|_| vec![]).collect(),
            released: BTreeSet::new(),
            timer_at: None,
            failure: None,
            last_fatal: String::new(),
            last_unavailable: String::new(),
            has_news: false,
            must_abort: false,
            is_ending: false,
            is_barrier: false,
            is_barrier_wanted: false,
            suspicions: BTreeMap::new(),
            asked_held: vec![],
            groups: vec![None; sources],
            is_closed: false,
            dispatched: vec![],
            finished: vec![],
        }
    }
}

impl Engine {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the machine something, and lets happen what follows. `caller` is the source that calls, if one does: it
    /// looks for its commands without being woken.
    fn act<R>(&self, caller: Option<SourceId>, tell: impl FnOnce(&mut State, i64) -> R) -> R {
        let told = self.act_once(caller, tell);
        // What came in when it was too late to be seen, unless the next is there already.
        while !self.is_acting.load(Ordering::SeqCst) && !self.results().is_empty() {
            self.act_once(None, |_, _| {});
        }
        told
    }

    fn act_once<R>(&self, caller: Option<SourceId>, tell: impl FnOnce(&mut State, i64) -> R) -> R {
        let now_ms = self.clock.now_ms();
        let mut guard = self.state();
        let _acting = Acting::begin(&self.is_acting);
        let state = &mut *guard;
        let shared = self.shared.as_ref().map(|shared| (shared, shared.lock()));
        if let Some((_, breakers)) = &shared {
            state.work.enter(now_ms, breakers);
        }
        let told = tell(state, now_ms);
        loop {
            let mut is_quiet = !self.take_results(state, now_ms);
            while let Some(action) = state.work.poll_action() {
                is_quiet = false;
                self.perform(state, action);
            }
            while self.dispatch(state, now_ms) {
                is_quiet = false;
            }
            // Records that are not handed out may have something done for them.
            if is_quiet && !state.work.has_action() && !state.give_back_done(now_ms) {
                break;
            }
        }
        if let Some((shared, mut breakers)) = shared
            && state.work.leave(&mut breakers)
        {
            shared.tell();
        }
        let timer_at = state.work.poll_timeout();
        if timer_at != state.timer_at {
            state.timer_at = timer_at;
            self.timer.notify_one();
        }
        for (index, commands) in state.commands.iter().enumerate() {
            if !commands.is_empty() && caller.is_none_or(|caller| usize::from(caller.0) != index) {
                self.wake_source(index);
            }
        }
        told
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

    /// Hands records to lanes; `false` when there are none to hand out.
    fn dispatch(&self, state: &mut State, now_ms: i64) -> bool {
        let State { work, dispatched, .. } = state;
        let Some(handler) = work.poll_dispatch(now_ms, DISPATCH_MAX, dispatched) else {
            return false;
        };
        let place = usize::from(handler.0);
        let (Some(workers), Some(route)) = (self.workers.get(place), self.routes.get(place)) else {
            return false;
        };
        let share = if route.handler.is_batch() {
            dispatched.len()
        } else {
            dispatched.len().div_ceil(workers.len().max(1))
        };
        for share in dispatched.chunks(share.max(1)) {
            let records = share.iter().map(|dispatched| dispatched.count as usize).sum();
            let jobs = share.iter().filter_map(|dispatched| job(work, dispatched));
            let jobs: Vec<Job> = jobs.collect();
            let Some(worker) = workers.iter().min_by_key(|worker| worker.load.load(Ordering::Relaxed)) else {
                return false;
            };
            worker.load.fetch_add(records, Ordering::Relaxed);
            // A lane ends only when the engine does.
            let _ = worker.commands.send(WorkerCommand::Run(jobs));
        }
        true
    }

    fn perform(&self, state: &mut State, action: Action) {
        match action {
            Action::Pause(id) => state.command(id, SourceCommand::Pause),
            Action::Resume(id) => state.command(id, SourceCommand::Resume),
            Action::Commit { source, offsets } => state.command_to(source, SourceCommand::Commit(offsets)),
            Action::CheckKeyHolds(ids) => {
                state.asked_held = ids;
                self.held_asked.notify_one();
            }
            Action::Publish { record, what } => self.publish(state, record, what),
            Action::Cancel(record) => self.cancel(record),
            Action::Released(id) => self.released(state, id),
            Action::Barrier => {
                state.is_barrier = true;
                self.transactions.notify_one();
            }
            Action::BarrierNeeded => {
                state.is_barrier_wanted = true;
                self.transactions.notify_one();
            }
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
                    why: reason,
                    since_ms,
                };
                self.stalled(state, &stall, action, &cancelled);
            }
            Action::Isolating {
                partition,
                offset,
                owners,
            } => state.tell_careful(partition, offset, owners),
            Action::Quarantined {
                partition,
                offset,
                owners,
            } => state.tell_quarantined(partition, offset, owners),
            Action::Skipped { partition, offset } => self.skipped(state, partition, offset),
            Action::Lost {
                partition,
                offset,
                records,
            } => tell_lost(&partition, offset, records),
            Action::BreakerChanged { breaker, state: now } => self.tell_breaker(state, breaker, now),
            Action::Closed => {
                state.is_closed = true;
                self.ended.notify_one();
                (0..self.sources.len()).for_each(|index| self.wake_source(index));
            }
        }
    }

    /// A partition can go.
    fn released(&self, state: &mut State, id: PartitionId) {
        state.released.insert(id);
        let owner = state.owned.iter().find(|(_, owned)| owned.id == id);
        if let Some((partition, source)) = owner.map(|(partition, owned)| (partition.clone(), owned.source)) {
            state.owned.remove(&partition);
            self.wake_source(usize::from(source.0));
        }
    }

    /// Which lane has it is not known; few are ever cancelled.
    fn cancel(&self, record: RecordId) {
        for worker in self.workers.iter().flatten() {
            let _ = worker.commands.send(WorkerCommand::Cancel(record));
        }
    }

    /// A task of this engine. If it panics, the engine cannot go on.
    fn watched<F: Future<Output = ()> + Send>(self: &Arc<Self>, task: F) -> impl Future<Output = ()> + Send + use<F> {
        let watch = Watch(Arc::clone(self));
        async move {
            let _watch = watch;
            task.await;
        }
    }

    /// Ends the engine because of this; the first reason counts.
    pub(crate) fn fail(&self, failure: AppError) {
        self.state().failure.get_or_insert(failure);
        self.ended.notify_one();
    }

    pub(crate) fn failure(&self) -> Option<AppError> {
        self.state().failure.clone()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Waits until all is ended, or something has failed.
    pub(crate) async fn ended(&self) {
        loop {
            {
                let state = self.state();
                if state.is_closed || state.failure.is_some() {
                    return;
                }
            }
            self.ended.notified().await;
        }
    }

    /// Waits until all is ended.
    pub(crate) async fn closed(&self) {
        while !self.is_closed() {
            self.ended.notified().await;
        }
    }

    /// Nothing new is begun, what was begun is ended and committed.
    pub(crate) fn shut_down(&self) {
        self.act(None, |state, now_ms| state.work.handle_shutdown(now_ms));
    }
}

/// Somebody is at the machine, as long as this lives.
struct Acting<'a>(&'a AtomicBool);

impl<'a> Acting<'a> {
    fn begin(is_acting: &'a AtomicBool) -> Self {
        is_acting.store(true, Ordering::SeqCst);
        Self(is_acting)
    }
}

impl Drop for Acting<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// Notices when its task panics.
struct Watch(Arc<Engine>);

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(AppError::Panicked);
        }
    }
}

fn tell_lost(partition: &TopicPartition, offset: i64, records: u64) {
    tracing::warn!(
        event = "records_lost",
        %partition,
        offset,
        records,
        "{records} records of {partition} from offset {offset} on were committed and not handled; give handlers more time \
         with App::drain"
    );
}

fn job(work: &Scheduler<Payload>, dispatched: &Dispatch) -> Option<Job> {
    let payload = work.payload(dispatched.record)?;
    Some(Job {
        record: dispatched.record,
        scope: Arc::clone(&payload.scope),
        records: payload.records.clone(),
        attempt: dispatched.attempt,
    })
}
