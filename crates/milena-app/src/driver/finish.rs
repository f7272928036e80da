//! Results of handlers, and the records that are published for them.

use std::{
    borrow::Cow,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use milena_machines::app::{
    Failure, Keyed, Outcome, PartitionId, Publish, PublishResult, RecordId, StallReason, StopReason, WhenStalled,
};

use super::{
    Engine, Payload, PendingOutput, State,
    notices::{Cause, Notice},
    publisher::PublishOrder,
    stored_offsets::FencedCall,
};
use crate::{
    clock::millis,
    error::AppError,
    handler::{Fault, Intent, TimedOut},
    metrics::HandlerMetrics,
    replay::UnfinishedReason,
    route::Delivery,
    worker::{CallResult, HandlerOutcome, JobPart, Report, RunTotals},
};

/// Delay of records that are handled again because of another record of their batch.
const AGAIN: Duration = Duration::from_millis(1);

/// A partition that does not move.
pub(super) struct Stall {
    pub(super) partition: PartitionId,
    pub(super) offset: i64,
    pub(super) reason: StallReason,
    pub(super) since_ms: i64,
}

/// Results of workers that the scheduler does not know yet.
#[derive(Default)]
pub(super) struct ResultInbox {
    results: Mutex<Vec<CallResult>>,
    /// A task has the lock of the scheduler, and takes all results before it leaves.
    has_taker: AtomicBool,
}

/// The task that takes results, as long as this lives.
pub(super) struct Taker<'a>(&'a AtomicBool);

impl Drop for Taker<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl ResultInbox {
    pub(super) fn begin_taking(&self) -> Taker<'_> {
        self.has_taker.store(true, Ordering::SeqCst);
        Taker(&self.has_taker)
    }

    /// Whether there are results that no task is about to take.
    pub(super) fn needs_taker(&self) -> bool {
        !self.has_taker.load(Ordering::SeqCst) && !self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<CallResult>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last errors of their kinds, for log lines about their consequences.
#[derive(Default)]
pub(super) struct LastErrors {
    fatal: String,
    /// Of a dependency that failed.
    pub(super) dependency: String,
}

impl Report for Engine {
    fn finished(&self, finished: &mut Vec<CallResult>) {
        if finished.is_empty() {
            return;
        }
        self.inbox.lock().append(finished);
        // A task at the scheduler takes these results too, and the worker goes on.
        if self.inbox.needs_taker() {
            self.act(None, |_, _| {});
        }
    }

    fn interrupted(&self, record: RecordId, totals: &RunTotals) -> Option<RecordId> {
        self.act(None, |state, now_ms| {
            self.count_run(state.scheduler.payload(record)?, totals);
            state.scheduler.interrupt(now_ms, record, totals.done)
        })
    }

    fn decoded(&self, source: usize, took_ns: u64) {
        if let Some(link) = self.sources.get(source) {
            link.times.decoded(took_ns);
        }
    }
}

impl Engine {
    /// Feeds the results of workers to the scheduler; `false` if there are none.
    pub(super) fn take_results(&self, state: &mut State, now_ms: i64) -> bool {
        let mut results = std::mem::take(&mut state.buffers.results);
        std::mem::swap(&mut *self.inbox.lock(), &mut results);
        let is_any = !results.is_empty();
        let mut singles = vec![];
        for mut finished in results.drain(..) {
            match &finished.outcome {
                Err(fault) if *fault.intent() == Intent::Fatal => state.last_errors.fatal = fault.chain(),
                Err(fault) if matches!(fault.intent(), Intent::Dependency(_)) => {
                    state.last_errors.dependency = fault.to_string();
                }
                _ => {}
            }
            if let Err(fault) = &finished.outcome {
                let fault = Arc::clone(fault);
                match self.take_fenced(state, now_ms, finished.record, &fault) {
                    FencedCall::No => {}
                    FencedCall::Own => continue,
                    FencedCall::Other => finished.outcome = Ok(HandlerOutcome::RetryAfter(AGAIN)),
                }
            }
            match finished.part {
                JobPart::All(2..) if !finished.is_done() => {
                    for record in state.scheduler.split_run(finished.record) {
                        let single = CallResult {
                            record,
                            ..finished.clone()
                        };
                        self.finish(state, now_ms, single);
                        (finished.took_ns, finished.call_ns) = (0, 0);
                    }
                    continue;
                }
                JobPart::All(_) | JobPart::Run(_) => {}
                JobPart::Record(index) => {
                    if index == 0 {
                        singles = state.scheduler.split_run(finished.record);
                    }
                    let Some(single) = singles.get(index) else { continue };
                    finished.record = *single;
                }
            }
            self.finish(state, now_ms, finished);
        }
        state.buffers.results = results;
        is_any
    }

    fn finish(&self, state: &mut State, now_ms: i64, finished: CallResult) {
        let record = finished.record;
        let outcome = self.outcome(state, finished);
        state.scheduler.handle_finished(now_ms, record, outcome);
        // The failure record will have the last error. Thousands of records may wait until then.
        if matches!(outcome, Outcome::Failed(_))
            && state.scheduler.is_parked(record)
            && let Some(payload) = state.scheduler.payload(record)
        {
            payload.pending.replace(None);
        }
    }

    /// Keeps the pending output, counts the result, and translates it for the scheduler.
    fn outcome(&self, state: &State, finished: CallResult) -> Outcome {
        // The record was cancelled; the scheduler ignores the outcome.
        let Some(payload) = state.scheduler.payload(finished.record) else {
            return Outcome::Done;
        };
        let metrics = self.metrics.get(payload.scope.handler);
        if let JobPart::Run(passed) = finished.part {
            self.count_run(payload, &passed);
            return Outcome::Done;
        }
        let (took_ns, call_ns) = (finished.took_ns, finished.call_ns);
        if let Some(link) = self.sources.get(payload.scope.source) {
            link.times.called(took_ns);
        }
        // A failed call is reported as failed, however long it took.
        if metrics.is_some_and(|metrics| metrics.called(took_ns, call_ns)) && finished.outcome.is_ok() {
            let (first, took_ms) = (payload.first(), call_ns / 1_000_000);
            let (partition, offset) = (first.topic_partition(), first.offset());
            let handler = self.handler_name(payload.scope.handler);
            tracing::warn!(
                event = "handler_slow",
                %partition,
                offset,
                handler,
                took_ms,
                "{partition}@{offset}: the handler of {handler} took {took_ms} ms"
            );
        }
        let records = u64::from(payload.records());
        let count = |counter: fn(&HandlerMetrics) -> &std::sync::atomic::AtomicU64| {
            if let Some(metrics) = metrics {
                counter(metrics).fetch_add(records, Ordering::Relaxed);
            }
        };
        match finished.outcome {
            Ok(settled) => {
                let settled = self.address_reply(payload, settled);
                let (outcome, counter): (Outcome, fn(&HandlerMetrics) -> &_) = match settled {
                    HandlerOutcome::Ok | HandlerOutcome::Reply(_) => (Outcome::Done, |metrics| &metrics.success),
                    HandlerOutcome::Skip => (Outcome::Skipped, |metrics| &metrics.skipped),
                    HandlerOutcome::Duplicate => (Outcome::Duplicate, |metrics| &metrics.duplicates),
                    HandlerOutcome::RetryAfter(time) => {
                        let ms = millis(time).max(1);
                        (Outcome::RetryAfter { ms }, |metrics| &metrics.deferred)
                    }
                    HandlerOutcome::Emit(emission) => match state.refusals.confirmed(&payload.first()) {
                        Some(fault) => {
                            payload.pending.replace(Some(PendingOutput::Fault(Arc::clone(fault))));
                            (Outcome::Failed(Failure::Poison), |metrics| &metrics.failed)
                        }
                        None => {
                            payload.pending.replace(Some(PendingOutput::Emission(emission)));
                            (Outcome::Emit, |metrics| &metrics.success)
                        }
                    },
                };
                count(counter);
                outcome
            }
            Err(fault) => {
                count(|metrics| &metrics.failed);
                if fault.is_decode_error() {
                    count(|metrics| &metrics.undecoded);
                }
                self.report_failed(payload, &fault);
                let failure = self.failure_of(payload.scope.handler, &fault);
                payload.pending.replace(Some(PendingOutput::Fault(fault)));
                Outcome::Failed(failure)
            }
        }
    }

    fn report_failed(&self, payload: &Payload, fault: &Fault) {
        let handler = payload.scope.handler;
        let event = "handler_failed";
        let cause = Cause {
            event,
            handler,
            class: fault.shared_class(),
        };
        self.notices.report(cause, || {
            let first = payload.first();
            Notice {
                event,
                handler: self.handler_name(handler).to_owned(),
                partition: first.topic_partition().clone(),
                offset: first.offset(),
                to: None,
                attempts: None,
                error: fault.to_string(),
            }
        });
    }

    pub(super) fn is_at_most_once(&self, handler: usize) -> bool {
        let route = self.routes.get(handler);
        route.is_some_and(|route| route.delivery == Delivery::AtMostOnce)
    }

    /// The name or pattern of the topics of a handler.
    pub(super) fn handler_name(&self, handler: usize) -> &str {
        self.routes.get(handler).map_or("", |route| route.topics.text())
    }

    /// Reports a record that was skipped because the bulkhead of its handler is full.
    pub(super) fn skipped(&self, state: &State, partition: PartitionId, offset: i64) {
        let Some(partition) = state.scheduler.partition(partition) else {
            return;
        };
        let Some(handler) = state
            .owned
            .get(partition)
            .map(|owned| usize::from(owned.topic.handler.0))
        else {
            return;
        };
        if let Some(metrics) = self.metrics.get(handler) {
            metrics.skipped.fetch_add(1, Ordering::Relaxed);
        }
        let bulkhead = self.routes.get(handler).and_then(|route| route.policy.bulkhead.clone());
        let cause = Cause {
            event: "bulkhead_full",
            handler,
            class: Cow::Borrowed(""),
        };
        self.notices.report(cause, || Notice {
            event: "bulkhead_full",
            handler: self.handler_name(handler).to_owned(),
            partition: partition.clone(),
            offset,
            to: Some("skipped".to_owned()),
            attempts: None,
            error: format!("no permit was left in the bulkhead {}", bulkhead.unwrap_or_default()),
        });
    }

    fn count_run(&self, payload: &Payload, totals: &RunTotals) {
        if let Some(metrics) = self.metrics.get(payload.scope.handler) {
            metrics.run_finished(totals);
        }
        if let Some(link) = self.sources.get(payload.scope.source) {
            link.times.called(totals.took_ns);
        }
    }

    fn failure_of(&self, handler: usize, fault: &Fault) -> Failure {
        let policy = self.routes.get(handler).map(|route| &route.policy);
        if policy.is_some_and(|policy| policy.timeout_is_final) && fault.error().is::<TimedOut>() {
            return Failure::Poison;
        }
        match fault.intent() {
            Intent::Retry => Failure::Retry,
            Intent::Poison => Failure::Poison,
            Intent::Fatal => Failure::Fatal,
            Intent::Dependency(name) => {
                let index = self.breakers.iter().position(|breaker| breaker == name);
                let id = index.and_then(|index| u16::try_from(index).ok());
                // Without a breaker of this name it is an error like any other.
                id.map_or(Failure::Retry, |id| {
                    Failure::Dependency(milena_machines::app::BreakerId(id))
                })
            }
        }
    }

    /// Whether the scheduler still has a record.
    pub(super) fn is_pending(&self, record: RecordId) -> bool {
        self.state().scheduler.payload(record).is_some()
    }

    /// Hands an order to the publisher.
    pub(super) fn publish(&self, state: &State, record: RecordId, what: Publish) {
        let Some(payload) = state.scheduler.payload(record) else {
            return;
        };
        let source = payload.first();
        let order = PublishOrder {
            record,
            what,
            isolation: state.refusals.isolation(&source),
            source,
            scope: Arc::clone(&payload.scope),
            pending: payload.pending.borrow().clone(),
        };
        // The publisher ends only with the engine.
        let _ = self.publisher.orders.send(order);
    }

    /// Notes that a producer that keeps order has taken the outputs of these records: the next ones of their keys need not
    /// wait for the acknowledgement.
    pub(super) fn taken(&self, taken: &mut Vec<RecordId>) {
        if taken.is_empty() {
            return;
        }
        self.act(None, |state, _| {
            taken.drain(..).for_each(|record| state.scheduler.handle_taken(record));
        });
    }

    /// Feeds the results of the publisher to the scheduler. A failed output aborts the transaction that it was for.
    pub(super) fn published(&self, published: &mut Vec<(RecordId, PublishResult)>) {
        self.act(None, |state, now_ms| {
            for (record, result) in published.drain(..) {
                let has_failed = matches!(result, PublishResult::Failed | PublishResult::Refused);
                if has_failed && self.is_transactional() && state.scheduler.payload(record).is_some() {
                    state.scheduler.handle_transaction_failed();
                    state.scheduler.handle_published(now_ms, record, PublishResult::Failed);
                    continue;
                }
                if !self.is_transactional() && result != PublishResult::Failed {
                    state.forget_refusal(record);
                }
                state.scheduler.handle_published(now_ms, record, result);
            }
        });
    }

    /// Reports a partition that does not move, and fails the engine if the policy says so.
    pub(super) fn stalled(&self, state: &mut State, stall: &Stall, action: WhenStalled, cancelled: &[RecordId]) {
        let Some(partition) = state.scheduler.partition(stall.partition).cloned() else {
            return;
        };
        let handler = state
            .owned
            .get(&partition)
            .and_then(|owned| self.routes.get(usize::from(owned.topic.handler.0)));
        let handler = handler.map_or("", |route| route.topics.text());
        let (offset, why, since_ms) = (stall.offset, stall.reason, stall.since_ms);
        tracing::warn!(event = "partition_stalled", %partition, offset, handler, ?why, since_ms, ?action,
            "{partition} has not moved from offset {offset}: {why:?}");
        for record in cancelled {
            if let Some(payload) = state.scheduler.payload(*record) {
                let fault = Fault::retry("the handler did not return in time");
                payload.pending.replace(Some(PendingOutput::Fault(Arc::new(fault))));
            }
        }
        let reason = || format!("the handler of {handler} does not return");
        if action == WhenStalled::End {
            let why = UnfinishedReason::Stopped {
                offset,
                why: StopReason::Stalled,
                reason: reason(),
            };
            if state.give_up(self.clock.now_ms(), &partition, why) {
                return;
            }
            state.failure.get_or_insert_with(|| AppError::Stalled {
                topic: partition.topic.to_string(),
                partition: partition.partition,
                offset,
                why: reason(),
            });
            self.ended.notify_one();
        }
    }

    /// Reports a partition that has stopped. After a fatal error the engine fails.
    pub(super) fn stopped(&self, state: &mut State, id: PartitionId, offset: i64, why: StopReason) {
        let Some(partition) = state.scheduler.partition(id).cloned() else {
            return;
        };
        tracing::error!(event = "partition_stopped", %partition, offset, ?why,
            "{partition} stopped at offset {offset}: {why:?}; restart it with Running::restart_partition, or restart the application");
        let reason = if why == StopReason::Fatal {
            state.last_errors.fatal.clone()
        } else {
            String::new()
        };
        let unfinished = UnfinishedReason::Stopped {
            offset,
            why,
            reason: reason.clone(),
        };
        if state.give_up(self.clock.now_ms(), &partition, unfinished) || why != StopReason::Fatal {
            return;
        }
        state.failure.get_or_insert_with(|| AppError::Fatal {
            topic: partition.topic.to_string(),
            partition: partition.partition,
            offset,
            reason,
        });
        self.ended.notify_one();
    }
}
