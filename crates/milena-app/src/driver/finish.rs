//! What became of records, and what is published for them.

use std::{
    borrow::Cow,
    sync::{Arc, MutexGuard, PoisonError, atomic::Ordering},
};

use milena_machines::app::{
    Failure, Keyed, Outcome, PartitionId, Publish, PublishResult, RecordId, StallReason, StopReason, WhenStalled,
};

use super::{
    Engine, Held, Payload, State,
    notices::{Cause, Notice},
    publisher::PublishOrder,
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

/// A partition that does not move.
pub(super) struct Stall {
    pub(super) partition: PartitionId,
    pub(super) offset: i64,
    pub(super) why: StallReason,
    pub(super) since_ms: i64,
}

impl Report for Engine {
    fn finished(&self, finished: &mut Vec<CallResult>) {
        if finished.is_empty() {
            return;
        }
        self.results().append(finished);
        // Who is at the machine now takes these too, and lanes go on.
        if !self.is_acting.load(Ordering::SeqCst) {
            self.act(None, |_, _| {});
        }
    }

    fn interrupted(&self, record: RecordId, passed: &RunTotals) -> Option<RecordId> {
        self.act(None, |state, now_ms| {
            self.count_passed(state.work.payload(record)?, passed);
            state.work.interrupt(now_ms, record, passed.done)
        })
    }

    fn decoded(&self, source: usize, took_ns: u64) {
        if let Some(link) = self.sources.get(source) {
            link.times.decoded(took_ns);
        }
    }
}

impl Engine {
    pub(super) fn results(&self) -> MutexGuard<'_, Vec<CallResult>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the machine what lanes have finished; `false` if that is nothing.
    pub(super) fn take_results(&self, state: &mut State, now_ms: i64) -> bool {
        let mut results = std::mem::take(&mut state.finished);
        std::mem::swap(&mut *self.results(), &mut results);
        let is_any = !results.is_empty();
        let mut singles = vec![];
        for mut finished in results.drain(..) {
            match &finished.outcome {
                Err(fault) if *fault.intent() == Intent::Fatal => state.last_fatal = fault.chain(),
                Err(fault) if matches!(fault.intent(), Intent::Dependency(_)) => {
                    state.last_unavailable = fault.to_string();
                }
                _ => {}
            }
            match finished.part {
                JobPart::All(2..) if !finished.is_done() => {
                    for record in state.work.split_run(finished.record) {
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
                JobPart::Record(place) => {
                    if place == 0 {
                        singles = state.work.split_run(finished.record);
                    }
                    let Some(single) = singles.get(place) else { continue };
                    finished.record = *single;
                }
            }
            self.finish(state, now_ms, finished);
        }
        state.finished = results;
        if is_any && !state.has_news {
            state.has_news = true;
            self.transactions.notify_one();
        }
        is_any
    }

    fn finish(&self, state: &mut State, now_ms: i64, finished: CallResult) {
        let record = finished.record;
        let outcome = self.judge(state, finished);
        state.work.handle_finished(now_ms, record, outcome);
        // What is told in the end is why it failed the last time. Thousands may wait until then.
        if matches!(outcome, Outcome::Failed(_))
            && state.work.is_parked(record)
            && let Some(payload) = state.work.payload(record)
        {
            payload.held.replace(None);
        }
    }

    /// Keeps what may be published later, counts, and translates for the machine.
    fn judge(&self, state: &State, finished: CallResult) -> Outcome {
        // Nobody waits any more for one that is not there.
        let Some(payload) = state.work.payload(finished.record) else {
            return Outcome::Done;
        };
        let metrics = self.metrics.get(payload.scope.handler);
        if let JobPart::Run(passed) = finished.part {
            self.count_passed(payload, &passed);
            return Outcome::Done;
        }
        let (took_ns, call_ns) = (finished.took_ns, finished.call_ns);
        if let Some(link) = self.sources.get(payload.scope.source) {
            link.times.called(took_ns);
        }
        // A call that failed is reported as failed, whatever it took.
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
                let (outcome, counter): (Outcome, fn(&HandlerMetrics) -> &_) = match settled {
                    HandlerOutcome::Ok => (Outcome::Done, |metrics| &metrics.success),
                    HandlerOutcome::Skip => (Outcome::Skipped, |metrics| &metrics.skipped),
                    HandlerOutcome::Duplicate => (Outcome::Duplicate, |metrics| &metrics.duplicates),
                    HandlerOutcome::RetryAfter(time) => {
                        let ms = millis(time).max(1);
                        (Outcome::RetryAfter { ms }, |metrics| &metrics.deferred)
                    }
                    HandlerOutcome::Emit(emission) => match state.refusal(&payload.first()) {
                        Some(fault) => {
                            payload.held.replace(Some(Held::Fault(Arc::clone(fault))));
                            (Outcome::Failed(Failure::Poison), |metrics| &metrics.failed)
                        }
                        None => {
                            payload.held.replace(Some(Held::Emission(emission)));
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
                self.tell_failed(payload, &fault);
                let failure = self.failure_of(payload.scope.handler, &fault);
                payload.held.replace(Some(Held::Fault(fault)));
                Outcome::Failed(failure)
            }
        }
    }

    fn tell_failed(&self, payload: &Payload, fault: &Fault) {
        let handler = payload.scope.handler;
        let event = "handler_failed";
        let cause = Cause {
            event,
            handler,
            class: fault.shared_class(),
        };
        self.notices.tell(cause, || {
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

    /// A record was skipped because the bulkhead of its handler is full.
    pub(super) fn skipped(&self, state: &State, partition: PartitionId, offset: i64) {
        let Some(partition) = state.work.partition(partition) else {
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
        self.notices.tell(cause, || Notice {
            event: "bulkhead_full",
            handler: self.handler_name(handler).to_owned(),
            partition: partition.clone(),
            offset,
            to: Some("skipped".to_owned()),
            attempts: None,
            error: format!("no permit was left in the bulkhead {}", bulkhead.unwrap_or_default()),
        });
    }

    fn count_passed(&self, payload: &Payload, passed: &RunTotals) {
        if let Some(metrics) = self.metrics.get(payload.scope.handler) {
            metrics.run_finished(passed);
        }
        if let Some(link) = self.sources.get(payload.scope.source) {
            link.times.called(passed.took_ns);
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
                let place = self.breakers.iter().position(|breaker| breaker == name);
                let id = place.and_then(|place| u16::try_from(place).ok());
                // Without a breaker of this name it is an error like others.
                id.map_or(Failure::Retry, |id| {
                    Failure::Dependency(milena_machines::app::BreakerId(id))
                })
            }
        }
    }

    /// Whether somebody waits for what is written for a record.
    pub(super) fn is_wanted(&self, record: RecordId) -> bool {
        self.state().work.payload(record).is_some()
    }

    /// Hands something to the publisher.
    pub(super) fn publish(&self, state: &State, record: RecordId, what: Publish) {
        let Some(payload) = state.work.payload(record) else {
            return;
        };
        let source = payload.first();
        let order = PublishOrder {
            record,
            what,
            beside: state.beside(&source),
            source,
            scope: Arc::clone(&payload.scope),
            held: payload.held.borrow().clone(),
        };
        // The publisher ends only when the engine does.
        let _ = self.publisher.send(order);
    }

    /// A producer that keeps order has taken what the handlers of these records emitted: the next ones of their keys need
    /// not wait for what becomes of it.
    pub(super) fn taken(&self, taken: &mut Vec<RecordId>) {
        if taken.is_empty() {
            return;
        }
        self.act(None, |state, _| {
            taken.drain(..).for_each(|record| state.work.handle_taken(record));
        });
    }

    pub(super) fn published(&self, published: &mut Vec<(RecordId, PublishResult)>) {
        self.act(None, |state, now_ms| {
            for (record, result) in published.drain(..) {
                let counts = state.work.payload(record).is_some();
                let has_failed = matches!(result, PublishResult::Failed | PublishResult::Refused);
                if has_failed && self.is_transactional && counts {
                    state.must_abort = true;
                    self.transactions.notify_one();
                    state.work.handle_published(now_ms, record, PublishResult::Failed);
                    continue;
                }
                if !self.is_transactional && result != PublishResult::Failed {
                    state.forget_suspicion(record);
                }
                state.work.handle_published(now_ms, record, result);
            }
        });
    }

    /// A partition does not move. Says which record it is and whose, and what is done about it.
    pub(super) fn stalled(&self, state: &mut State, stall: &Stall, action: WhenStalled, cancelled: &[RecordId]) {
        let Some(partition) = state.work.partition(stall.partition).cloned() else {
            return;
        };
        let handler = state
            .owned
            .get(&partition)
            .and_then(|owned| self.routes.get(usize::from(owned.topic.handler.0)));
        let handler = handler.map_or("", |route| route.topics.text());
        let (offset, why, since_ms) = (stall.offset, stall.why, stall.since_ms);
        tracing::warn!(event = "partition_stalled", %partition, offset, handler, ?why, since_ms, ?action,
            "{partition} has not moved from offset {offset}: {why:?}");
        for record in cancelled {
            if let Some(payload) = state.work.payload(*record) {
                let fault = Fault::retry("the handler did not return, and its partition stood still");
                payload.held.replace(Some(Held::Fault(Arc::new(fault))));
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

    /// A partition stands still. If its handler said that nothing can go on, nothing does.
    pub(super) fn stopped(&self, state: &mut State, id: PartitionId, offset: i64, why: StopReason) {
        let Some(partition) = state.work.partition(id).cloned() else {
            return;
        };
        tracing::error!(event = "partition_stopped", %partition, offset, ?why,
            "{partition} stopped at offset {offset}: {why:?}; it goes on with Running::restart_partition or a restart");
        let reason = if why == StopReason::Fatal {
            state.last_fatal.clone()
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
