//! Lanes: tasks that run handlers, many calls in each.
//!
//! Records come to a lane in handfuls, and what became of them goes back in handfuls, so that neither costs a wake-up or a
//! lock for each record.

mod through;

use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use milena_client::consumer::RecordRun;
use milena_machines::app::RecordId;
use tokio::sync::{OnceCell, mpsc};
use tracing::{Instrument, Span};

use crate::{
    clock::{Clock, nanos},
    handler::{BatchHandler, Cx, Done, Fault, Handler, OutRecord, Outcomes, Panicked, Scope, TimedOut, call_span},
    pool::{Pool, Started},
    route::CallLimits,
    times::ReadMark,
};
use through::Calls;
pub(crate) use through::Passed;

/// A record to be handled, or a run of them.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) record: RecordId,
    pub(crate) scope: Scope,
    pub(crate) records: RecordRun,
    pub(crate) attempt: u32,
}

impl Job {
    /// The circumstances of its only record.
    fn into_cx(self) -> Cx {
        Cx {
            scope: self.scope,
            record: self.records.into_first(),
            attempt: self.attempt,
            mark: None,
        }
    }

    fn cxs(&self) -> impl Iterator<Item = Cx> {
        self.records.iter().map(|record| Cx {
            scope: Arc::clone(&self.scope),
            record: record.to_owned(),
            attempt: self.attempt,
            mark: None,
        })
    }
}

/// What a lane is told.
#[derive(Debug)]
pub(crate) enum LaneOrder {
    Run(Vec<Job>),
    /// Nobody waits for it any more.
    Cancel(RecordId),
}

/// What became of a call.
#[derive(Debug, Clone)]
pub(crate) struct Finished {
    pub(crate) record: RecordId,
    pub(crate) part: Part,
    pub(crate) outcome: Result<Settled, Arc<Fault>>,
    /// How long the handler had it; its share, of a batch.
    pub(crate) took_ns: u64,
    /// How long the call took, at least 1; 0 for all but the first of a batch.
    pub(crate) call_ns: u64,
}

/// What of a job this is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of its records, so many.
    Whole(usize),
    /// One record of a run, each of which has an outcome of its own.
    Nth(usize),
    /// All of a run, one by one.
    Through(Passed),
}

impl Finished {
    fn records(&self) -> usize {
        match self.part {
            Part::Whole(records) => records,
            Part::Nth(_) => 1,
            Part::Through(passed) => passed.done as usize,
        }
    }

    /// Nothing more is to be done.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.outcome, Ok(Settled::Ok | Settled::Skip | Settled::Duplicate))
    }
}

/// [`Done`] in a form that all records of a batch can share.
#[derive(Debug, Clone)]
pub(crate) enum Settled {
    Ok,
    Skip,
    Duplicate,
    RetryAfter(Duration),
    Emit(Arc<Emission>),
}

/// What is to be written before a record is done, or before all of a batch are.
#[derive(Debug)]
pub(crate) struct Emission {
    pub(crate) records: Vec<OutRecord>,
    /// Several records wait for it, so it is part of no trace.
    pub(crate) is_shared: bool,
    /// Set when all of it is acknowledged.
    pub(crate) written: OnceCell<()>,
}

impl From<Done> for Settled {
    fn from(done: Done) -> Self {
        match done {
            Done::Ok => Self::Ok,
            Done::Emit(records) if records.is_empty() => Self::Ok,
            Done::Skip(why) => {
                tracing::debug!(%why, "a record was skipped");
                Self::Skip
            }
            Done::Duplicate => Self::Duplicate,
            Done::RetryAfter(time) => Self::RetryAfter(time),
            Done::Emit(records) => Self::Emit(Arc::new(Emission {
                records,
                is_shared: false,
                written: OnceCell::new(),
            })),
        }
    }
}

/// Who hears what became of records.
pub(crate) trait Report: Send + Sync {
    /// Takes all that is in the list.
    fn finished(&self, finished: &mut Vec<Finished>);

    /// So much of a run is done; the next record goes on alone, and the others are given back. Gives the number of the next
    /// one, unless nobody waits for it.
    fn interrupted(&self, record: RecordId, passed: &Passed) -> Option<RecordId>;

    /// Handlers took so long to read what a consumer gave them.
    fn decoded(&self, source: usize, took_ns: u64);
}

/// A lane's way to the driver and back.
pub(crate) struct Lane {
    pub(crate) orders: mpsc::UnboundedReceiver<LaneOrder>,
    pub(crate) report: Arc<dyn Report>,
    /// How many records it has.
    pub(crate) load: Arc<AtomicUsize>,
}

/// So many results are told at once at most; meanwhile others would wait.
const REPORT_MAX: usize = 256;

/// Calls a handler with each record.
pub(crate) async fn run_each<H: Handler<A>, A>(handler: Arc<H>, mut lane: Lane, limits: CallLimits) {
    let mut pool = Pool::new();
    let mut finished = vec![];
    let handler = &*handler;
    let (report, load) = (Arc::clone(&lane.report), Arc::clone(&lane.load));
    let clock = &limits.clock;
    let calls = Calls {
        call: |cx: Cx| {
            let span = call_span(&limits.handler, &cx, 1);
            attempt(handler.call(cx).instrument(span), &limits)
        },
        clock,
        mark: Arc::new(ReadMark::new(clock)),
        report: &*report,
        load: &load,
    };
    loop {
        let open = next_orders(&mut lane, clock, &mut pool, &mut finished, |pool, jobs, finished| {
            calls.start(pool, jobs, finished);
        })
        .await;
        tell(&lane, &mut finished);
        if !open && pool.is_empty() {
            return;
        }
    }
}

/// Tells what is finished.
fn tell(lane: &Lane, finished: &mut Vec<Finished>) {
    let records = finished.iter().map(Finished::records).sum();
    lane.load.fetch_sub(records, Ordering::Relaxed);
    lane.report.finished(finished);
}

fn result(record: RecordId, took: Duration, outcome: Result<Done, Fault>) -> Finished {
    let took_ns = nanos(took);
    Finished {
        record,
        part: Part::Whole(1),
        outcome: outcome.map(Settled::from).map_err(Arc::new),
        took_ns,
        call_ns: took_ns.max(1),
    }
}

type Owner = (RecordId, Instant);

/// Starts what is ordered and waits until something is finished; `false` when no more orders come.
async fn next_orders<F: Future<Output = Result<Done, Fault>>>(
    lane: &mut Lane,
    clock: &Clock,
    pool: &mut Pool<Owner, F>,
    finished: &mut Vec<Finished>,
    mut start: impl FnMut(&mut Pool<Owner, F>, Vec<Job>, &mut Vec<Finished>),
) -> bool {
    poll_fn(|cx| {
        let mut open = true;
        let is_through = |last: &Finished| matches!(last.part, Part::Through(_));
        while finished.len() < REPORT_MAX && !finished.last().is_some_and(is_through) {
            match lane.orders.poll_recv(cx) {
                Poll::Ready(Some(LaneOrder::Run(jobs))) => start(pool, jobs, finished),
                Poll::Ready(Some(LaneOrder::Cancel(record))) => {
                    let before = pool.len();
                    pool.cancel(|(owner, _)| *owner == record);
                    lane.load.fetch_sub(before - pool.len(), Ordering::Relaxed);
                }
                Poll::Ready(None) => {
                    open = false;
                    break;
                }
                Poll::Pending => break,
            }
        }
        let looked = pool.poll_ready(cx, |(record, began), outcome| {
            finished.push(result(record, clock.instant() - began, outcome))
        });
        if !finished.is_empty() || (!open && pool.is_empty()) {
            return Poll::Ready(open);
        }
        debug_assert!(looked.is_pending());
        Poll::Pending
    })
    .await
}

/// One call: not longer than it may be, and a panic is a failure like any other.
async fn attempt<F: Future<Output = Result<Done, Fault>>>(call: F, limits: &CallLimits) -> Result<Done, Fault> {
    match limits.clock.within(limits.timeout, caught(call)).await {
        Some(Ok(outcome)) => outcome,
        Some(Err(panicked)) => Err(Fault::retry(panicked)),
        None => Err(Fault::retry(timed_out(limits))),
    }
}

/// The same with many records.
async fn attempt_batch<H: BatchHandler<A>, A>(handler: &H, records: Vec<Cx>, limits: &CallLimits) -> Outcomes {
    let span = records
        .first()
        .map_or_else(Span::none, |first| call_span(&limits.handler, first, records.len()));
    let call = caught(handler.call(&records).instrument(span));
    match limits.clock.within(limits.timeout, call).await {
        Some(Ok(outcomes)) => outcomes,
        Some(Err(panicked)) => Outcomes::Failed(Arc::new(Fault::retry(panicked))),
        None => Outcomes::Failed(Arc::new(Fault::retry(timed_out(limits)))),
    }
}

fn timed_out(limits: &CallLimits) -> TimedOut {
    let limit = limits.timeout.unwrap_or_default();
    TimedOut {
        limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
    }
}

async fn caught<F: Future>(call: F) -> Result<F::Output, Panicked> {
    let mut call = pin!(call);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(Panicked {
            message: message(&*panic),
        })),
    })
    .await
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a message".to_owned())
}

/// The records of a batch that is being handled.
struct BatchOwner {
    /// The jobs, and how many records each has.
    jobs: Vec<(RecordId, usize)>,
    /// How many of them nobody waits for any more.
    cancelled: usize,
    began: Instant,
}

impl BatchOwner {
    /// Whether with this one the last is gone: then so is the call.
    fn cancel(&mut self, record: RecordId, load: &AtomicUsize) -> bool {
        if !self.jobs.iter().any(|(job, _)| *job == record) {
            return false;
        }
        self.cancelled += 1;
        let is_last = self.cancelled == self.jobs.len();
        if is_last {
            load.fetch_sub(self.records(), Ordering::Relaxed);
        }
        is_last
    }

    fn records(&self) -> usize {
        self.jobs.iter().map(|(_, records)| records).sum()
    }
}

/// Calls a handler with many records at once.
pub(crate) async fn run_batches<H: BatchHandler<A>, A>(handler: Arc<H>, mut lane: Lane, limits: CallLimits) {
    let mut pool = Pool::new();
    let mut finished = vec![];
    let handler = &*handler;
    let (clock, mark) = (&limits.clock, Arc::new(ReadMark::new(&limits.clock)));
    loop {
        let open = poll_fn(|cx| {
            let mut open = true;
            while finished.is_empty() {
                match lane.orders.poll_recv(cx) {
                    Poll::Ready(Some(LaneOrder::Run(jobs))) => {
                        let owner = BatchOwner {
                            jobs: jobs.iter().map(|job| (job.record, job.records.len())).collect(),
                            cancelled: 0,
                            began: clock.instant(),
                        };
                        let (began, source) = (owner.began, jobs.first().map_or(0, |job| job.scope.source));
                        let mut cxs = Vec::with_capacity(owner.records());
                        cxs.extend(jobs.iter().flat_map(Job::cxs));
                        drop(jobs);
                        if let Some(first) = cxs.first_mut() {
                            first.mark = Some(Arc::clone(&mark));
                        }
                        let started = pool.start(owner, attempt_batch(handler, cxs, &limits));
                        if let Some(took_ns) = mark.take(began) {
                            lane.report.decoded(source, took_ns);
                        }
                        if let Started::Ready(owner, outcomes) = started {
                            spread(owner, clock, outcomes, &mut finished);
                        }
                    }
                    Poll::Ready(Some(LaneOrder::Cancel(record))) => {
                        pool.cancel(|owner: &mut BatchOwner| owner.cancel(record, &lane.load));
                    }
                    Poll::Ready(None) => {
                        open = false;
                        break;
                    }
                    Poll::Pending => break,
                }
            }
            let _ = pool.poll_ready(cx, |owner, outcomes| {
                spread(owner, clock, outcomes, &mut finished);
            });
            if finished.is_empty() && (open || !pool.is_empty()) {
                return Poll::Pending;
            }
            Poll::Ready(open)
        })
        .await;
        tell(&lane, &mut finished);
        if !open && pool.is_empty() {
            return;
        }
    }
}

/// Tells each job of a batch what became of it, and each record where it does not share that with its job.
fn spread(owner: BatchOwner, clock: &Clock, outcomes: Outcomes, finished: &mut Vec<Finished>) {
    let count = u64::try_from(owner.records()).unwrap_or(u64::MAX).max(1);
    let mut call_ns = nanos(clock.instant() - owner.began).max(1);
    let each_ns = call_ns / count;
    let mut tell = |record, part, outcome| {
        let records = if let Part::Whole(records) = part {
            records as u64
        } else {
            1
        };
        finished.push(Finished {
            record,
            part,
            outcome,
            took_ns: each_ns * records,
            call_ns: std::mem::take(&mut call_ns),
        });
    };
    let same = match outcomes {
        Outcomes::All(Done::Emit(records)) if count > 1 && !records.is_empty() => {
            Ok(Settled::Emit(Arc::new(Emission {
                records,
                is_shared: true,
                written: OnceCell::new(),
            })))
        }
        Outcomes::All(done) => Ok(Settled::from(done)),
        Outcomes::Failed(fault) => Err(fault),
        Outcomes::Each(outcomes) => {
            let mut outcomes = outcomes.into_iter();
            for (record, records) in owner.jobs {
                let own: Vec<_> = outcomes.by_ref().take(records).collect();
                if own.iter().all(|outcome| matches!(outcome, Ok(Done::Ok))) {
                    tell(record, Part::Whole(records), Ok(Settled::Ok));
                    continue;
                }
                for (place, outcome) in own.into_iter().enumerate() {
                    let part = if records == 1 { Part::Whole(1) } else { Part::Nth(place) };
                    tell(record, part, outcome.map(Settled::from));
                }
            }
            return;
        }
    };
    for (record, records) in owner.jobs {
        tell(record, Part::Whole(records), same.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{
        handler::{Batch, Raw, States, TopicScope},
        testing::record_with_headers,
    };

    /// Counts what is reported.
    #[derive(Default)]
    struct Counted(Mutex<Vec<(usize, bool)>>);

    impl Report for Counted {
        fn finished(&self, finished: &mut Vec<Finished>) {
            let all_ok = finished.iter().all(|finished| finished.outcome.is_ok());
            let mut counted = self.0.lock().unwrap();
            counted.push((finished.len(), all_ok));
            finished.clear();
        }

        fn interrupted(&self, record: RecordId, _passed: &Passed) -> Option<RecordId> {
            Some(record)
        }

        fn decoded(&self, _source: usize, _took_ns: u64) {}
    }

    fn jobs(count: u32) -> Vec<Job> {
        let records = record_with_headers(&[]);
        let run = records.runs().next().unwrap();
        let scope = Arc::new(Arc::new(TopicScope {
            handler: 0,
            source: 0,
            group: Arc::from("billing"),
            states: States::default(),
            captures: vec![],
            believed: crate::letters::Believed::Nobody,
        }));
        let job = |index| Job {
            record: RecordId::new(index, 0),
            scope: scope.clone(),
            records: run.clone(),
            attempt: 1,
        };
        (0..count).map(job).collect()
    }

    /// A lane that has been sent all it will ever be sent.
    fn lane(orders: Vec<LaneOrder>) -> (Lane, Arc<Counted>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let load = orders.iter().map(|order| match order {
            LaneOrder::Run(jobs) => jobs.len(),
            LaneOrder::Cancel(_) => 0,
        });
        let load = Arc::new(AtomicUsize::new(load.sum()));
        orders.into_iter().for_each(|order| sender.send(order).unwrap());
        let report = Arc::new(Counted::default());
        let lane = Lane {
            orders: receiver,
            report: report.clone(),
            load,
        };
        (lane, report)
    }

    fn limits() -> CallLimits {
        CallLimits {
            handler: "orders".to_owned(),
            clock: Clock::real(),
            timeout: Some(Duration::from_secs(5)),
        }
    }

    #[test]
    fn calls_cost_far_less_than_an_allocation_for_each_record() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let handfuls = || (0..10).map(|_| LaneOrder::Run(jobs(256))).collect();
        let (each, each_report) = lane(handfuls());
        let one = Arc::new(|_record: Raw| async {});
        let for_each = allocation_counter::measure(|| runtime.block_on(run_each(one, each, limits())));
        let (batches, batches_report) = lane(handfuls());
        let many = Arc::new(|_batch: Batch<Raw>| async {});
        let for_batches = allocation_counter::measure(|| runtime.block_on(run_batches(many, batches, limits())));
        for (report, measured) in [(each_report, for_each), (batches_report, for_batches)] {
            let counted = report.0.lock().unwrap();
            assert_eq!(counted.iter().map(|(count, _)| count).sum::<usize>(), 2_560);
            assert!(counted.iter().all(|(_, all_ok)| *all_ok));
            assert!(measured.count_total < 256, "{measured:?}");
        }
    }

    #[tokio::test]
    async fn of_a_batch_the_call_ends_when_nobody_waits_for_any_of_it() {
        let cancel = |index| LaneOrder::Cancel(RecordId::new(index, 0));
        let (some, report) = lane(vec![LaneOrder::Run(jobs(2)), cancel(0)]);
        let handler = Arc::new(|_batch: Batch<Raw>| async { tokio::task::yield_now().await });
        run_batches(handler, some, limits()).await;
        assert_eq!(report.0.lock().unwrap().first(), Some(&(2, true)), "one still waits");
        let (all, report) = lane(vec![LaneOrder::Run(jobs(2)), cancel(0), cancel(1)]);
        let load = all.load.clone();
        let handler = Arc::new(|_batch: Batch<Raw>| std::future::pending::<()>());
        run_batches(handler, all, limits()).await;
        assert_eq!(
            report.0.lock().unwrap().iter().map(|(count, _)| count).sum::<usize>(),
            0
        );
        assert_eq!(load.load(Ordering::Relaxed), 0);
    }
}
