//! Workers: tasks that run handlers, many calls in each.
//!
//! Jobs and results travel in batches, so that a record costs neither a wakeup nor a lock of its own.

mod run;

use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
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
    pool::{FirstPoll, Pool},
    request_reply::OutReply,
    route::CallLimits,
    times::ReadMark,
};
use run::Calls;
pub(crate) use run::RunTotals;

/// A record, or a run of records, to be handled.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) record: RecordId,
    pub(crate) scope: Scope,
    pub(crate) records: RecordRun,
    pub(crate) attempt: u32,
    /// All records below are done; see [`Cx::offset_to_store`].
    pub(crate) is_lowest: bool,
}

impl Job {
    /// Call context of the only record.
    fn into_cx(self) -> Cx {
        Cx {
            scope: self.scope,
            record: self.records.into_first(),
            attempt: self.attempt,
            is_lowest: self.is_lowest,
            mark: None,
        }
    }

    fn cxs(&self) -> impl Iterator<Item = Cx> {
        self.records.iter().map(|record| Cx {
            scope: Arc::clone(&self.scope),
            record: record.to_owned(),
            attempt: self.attempt,
            is_lowest: self.is_lowest,
            mark: None,
        })
    }
}

/// Command from the driver to a worker.
#[derive(Debug)]
pub(crate) enum WorkerCommand {
    Run(Vec<Job>),
    /// Drops the call of a record that is no longer owned or has timed out.
    Cancel(RecordId),
}

/// Result of a handler call for one part of a job.
#[derive(Debug, Clone)]
pub(crate) struct CallResult {
    pub(crate) record: RecordId,
    pub(crate) part: JobPart,
    pub(crate) outcome: Result<HandlerOutcome, Arc<Fault>>,
    /// Time in the handler; for a batch, the share of this part.
    pub(crate) took_ns: u64,
    /// Duration of the call, at least 1; 0 for every result of a batch but the first.
    pub(crate) call_ns: u64,
}

/// The part of a job that a result covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobPart {
    /// The whole job, with its number of records.
    All(usize),
    /// One record of a run, by its index; the records have different outcomes.
    Record(usize),
    /// A whole run whose records were handled in separate calls.
    Run(RunTotals),
}

impl CallResult {
    fn records(&self) -> usize {
        match self.part {
            JobPart::All(records) => records,
            JobPart::Record(_) => 1,
            JobPart::Run(totals) => totals.done as usize,
        }
    }

    /// Returns whether the record needs no retry and no output.
    pub(crate) fn is_done(&self) -> bool {
        matches!(
            self.outcome,
            Ok(HandlerOutcome::Ok | HandlerOutcome::Skip | HandlerOutcome::Duplicate)
        )
    }
}

/// [`Done`] in a form that all records of a batch can share.
#[derive(Debug, Clone)]
pub(crate) enum HandlerOutcome {
    Ok,
    Skip,
    Duplicate,
    RetryAfter(Duration),
    Emit(Arc<Emission>),
    /// Where the reply goes is known from the record.
    Reply(Arc<OutReply>),
}

/// Output of a handler, written before its records are done.
#[derive(Debug)]
pub(crate) struct Emission {
    pub(crate) records: Vec<OutRecord>,
    /// The reply to the record, written after the others.
    pub(crate) reply: Option<AddressedReply>,
    /// Several records wait for this output, so it belongs to no single trace.
    pub(crate) is_shared: bool,
    /// Set when every record of the output is acknowledged.
    pub(crate) written: OnceCell<()>,
}

/// A reply and its bound.
#[derive(Debug)]
pub(crate) struct AddressedReply {
    pub(crate) record: OutRecord,
    /// Time at which the write is given up.
    pub(crate) give_up_ms: i64,
    /// Set when the reply is not written after all, for the counters.
    pub(crate) is_dropped: AtomicBool,
}

impl Emission {
    fn new(records: Vec<OutRecord>, is_shared: bool) -> Self {
        Self {
            records,
            reply: None,
            is_shared,
            written: OnceCell::new(),
        }
    }
}

impl From<Done> for HandlerOutcome {
    fn from(done: Done) -> Self {
        match done {
            Done::Ok => Self::Ok,
            Done::Emit(records) if records.is_empty() => Self::Ok,
            Done::Skip(why) => {
                tracing::debug!(event = "record_skipped", %why, "record skipped: {why}");
                Self::Skip
            }
            Done::Duplicate => Self::Duplicate,
            Done::RetryAfter(time) => Self::RetryAfter(time),
            Done::Emit(records) => Self::Emit(Arc::new(Emission::new(records, false))),
            Done::Reply(reply) => Self::Reply(Arc::from(reply)),
        }
    }
}

/// Receiver of handler results.
pub(crate) trait Report: Send + Sync {
    /// Takes all results from the list.
    fn finished(&self, finished: &mut Vec<CallResult>);

    /// Reports the finished part of a run that is interrupted. The next record continues alone and the rest returns to
    /// its queue. Returns the id of the next record, or `None` if it was released meanwhile.
    fn interrupted(&self, record: RecordId, totals: &RunTotals) -> Option<RecordId>;

    /// Adds the time that handlers took to decode records of a source.
    fn decoded(&self, source: usize, took_ns: u64);
}

/// A worker's end of the channels to the driver.
pub(crate) struct Worker {
    pub(crate) commands: mpsc::UnboundedReceiver<WorkerCommand>,
    pub(crate) report: Arc<dyn Report>,
    /// Number of records that the worker has.
    pub(crate) load: Arc<AtomicUsize>,
}

/// Bound of results per report; a longer list would delay other workers.
const REPORT_MAX: usize = 256;

/// Runs a handler that takes one record per call.
pub(crate) async fn run_each<H: Handler<A>, A>(handler: Arc<H>, mut worker: Worker, limits: CallLimits) {
    let mut pool = Pool::new();
    let mut finished = vec![];
    let handler = &*handler;
    let (report, load) = (Arc::clone(&worker.report), Arc::clone(&worker.load));
    let clock = &limits.clock;
    let calls = Calls {
        call: |cx: Cx| {
            let span = call_span(&limits.handler, &cx, 1);
            attempt(handler.call(cx).instrument(span), &limits)
        },
        clock,
        expiry: limits.expiry.as_ref(),
        mark: Arc::new(ReadMark::new(clock)),
        report: &*report,
        load: &load,
    };
    loop {
        let open = next_commands(&mut worker, clock, &mut pool, &mut finished, |pool, jobs, finished| {
            calls.start(pool, jobs, finished);
        })
        .await;
        report_results(&worker, &mut finished);
        if !open && pool.is_empty() {
            return;
        }
    }
}

/// Reports results and updates the load.
fn report_results(worker: &Worker, finished: &mut Vec<CallResult>) {
    let records = finished.iter().map(CallResult::records).sum();
    worker.load.fetch_sub(records, Ordering::Relaxed);
    worker.report.finished(finished);
}

fn result(record: RecordId, took: Duration, outcome: Result<Done, Fault>) -> CallResult {
    let took_ns = nanos(took);
    CallResult {
        record,
        part: JobPart::All(1),
        outcome: outcome.map(HandlerOutcome::from).map_err(Arc::new),
        took_ns,
        call_ns: took_ns.max(1),
    }
}

type Owner = (RecordId, Instant);

/// Starts commanded jobs and waits for results. Returns `false` when the command channel is closed.
async fn next_commands<F: Future<Output = Result<Done, Fault>>>(
    worker: &mut Worker,
    clock: &Clock,
    pool: &mut Pool<Owner, F>,
    finished: &mut Vec<CallResult>,
    mut start: impl FnMut(&mut Pool<Owner, F>, Vec<Job>, &mut Vec<CallResult>),
) -> bool {
    poll_fn(|cx| {
        let mut open = true;
        let is_run = |last: &CallResult| matches!(last.part, JobPart::Run(_));
        while finished.len() < REPORT_MAX && !finished.last().is_some_and(is_run) {
            match worker.commands.poll_recv(cx) {
                Poll::Ready(Some(WorkerCommand::Run(jobs))) => start(pool, jobs, finished),
                Poll::Ready(Some(WorkerCommand::Cancel(record))) => {
                    let before = pool.len();
                    pool.cancel(|(owner, _)| *owner == record);
                    worker.load.fetch_sub(before - pool.len(), Ordering::Relaxed);
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

/// Runs one call within its timeout. A panic is a failure like any other.
async fn attempt<F: Future<Output = Result<Done, Fault>>>(call: F, limits: &CallLimits) -> Result<Done, Fault> {
    match limits.clock.within(limits.timeout, caught(call)).await {
        Some(Ok(outcome)) => outcome,
        Some(Err(panicked)) => Err(Fault::retry(panicked)),
        None => Err(Fault::retry(timed_out(limits))),
    }
}

/// Runs one call of a batch handler within its timeout.
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
    text.unwrap_or_else(|| "no message".to_owned())
}

/// The jobs of a batch in the handler.
struct BatchOwner {
    /// The jobs with their number of records.
    jobs: Vec<(RecordId, usize)>,
    /// Number of cancelled jobs.
    cancelled: usize,
    began: Instant,
}

impl BatchOwner {
    /// Cancels one job. Returns whether it was the last one, so that the call can be dropped.
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

/// Runs a handler that takes batches.
pub(crate) async fn run_batches<H: BatchHandler<A>, A>(handler: Arc<H>, mut worker: Worker, limits: CallLimits) {
    let mut pool = Pool::new();
    let mut finished = vec![];
    let handler = &*handler;
    let (clock, mark) = (&limits.clock, Arc::new(ReadMark::new(&limits.clock)));
    loop {
        let open = poll_fn(|cx| {
            let mut open = true;
            while finished.is_empty() {
                match worker.commands.poll_recv(cx) {
                    Poll::Ready(Some(WorkerCommand::Run(jobs))) => {
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
                            worker.report.decoded(source, took_ns);
                        }
                        if let FirstPoll::Ready(owner, outcomes) = started {
                            split_outcomes(owner, clock, outcomes, &mut finished);
                        }
                    }
                    Poll::Ready(Some(WorkerCommand::Cancel(record))) => {
                        pool.cancel(|owner: &mut BatchOwner| owner.cancel(record, &worker.load));
                    }
                    Poll::Ready(None) => {
                        open = false;
                        break;
                    }
                    Poll::Pending => break,
                }
            }
            let _ = pool.poll_ready(cx, |owner, outcomes| {
                split_outcomes(owner, clock, outcomes, &mut finished);
            });
            if finished.is_empty() && (open || !pool.is_empty()) {
                return Poll::Pending;
            }
            Poll::Ready(open)
        })
        .await;
        report_results(&worker, &mut finished);
        if !open && pool.is_empty() {
            return;
        }
    }
}

/// A batch handler returned one reply for several requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the handler returned one reply for {records} records; return a Vec with one outcome per record")]
struct OneReplyForAll {
    records: u64,
}

/// Splits the outcome of a batch into one result per job, or per record where outcomes within a job differ.
fn split_outcomes(owner: BatchOwner, clock: &Clock, outcomes: Outcomes, finished: &mut Vec<CallResult>) {
    let count = u64::try_from(owner.records()).unwrap_or(u64::MAX).max(1);
    let mut call_ns = nanos(clock.instant() - owner.began).max(1);
    let each_ns = call_ns / count;
    let mut push = |record, part, outcome| {
        let records = if let JobPart::All(records) = part {
            records as u64
        } else {
            1
        };
        finished.push(CallResult {
            record,
            part,
            outcome,
            took_ns: each_ns * records,
            call_ns: std::mem::take(&mut call_ns),
        });
    };
    let same = match outcomes {
        Outcomes::All(Done::Emit(records)) if count > 1 && !records.is_empty() => {
            Ok(HandlerOutcome::Emit(Arc::new(Emission::new(records, true))))
        }
        Outcomes::All(Done::Reply(_)) if count > 1 => Err(Arc::new(Fault::fatal(OneReplyForAll { records: count }))),
        Outcomes::All(done) => Ok(HandlerOutcome::from(done)),
        Outcomes::Failed(fault) => Err(fault),
        Outcomes::Each(outcomes) => {
            let mut outcomes = outcomes.into_iter();
            for (record, records) in owner.jobs {
                let own: Vec<_> = outcomes.by_ref().take(records).collect();
                if own.iter().all(|outcome| matches!(outcome, Ok(Done::Ok))) {
                    push(record, JobPart::All(records), Ok(HandlerOutcome::Ok));
                    continue;
                }
                for (place, outcome) in own.into_iter().enumerate() {
                    let part = if records == 1 {
                        JobPart::All(1)
                    } else {
                        JobPart::Record(place)
                    };
                    push(record, part, outcome.map(HandlerOutcome::from));
                }
            }
            return;
        }
    };
    for (record, records) in owner.jobs {
        push(record, JobPart::All(records), same.clone());
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

    /// Counts reported results.
    #[derive(Default)]
    struct Counted(Mutex<Vec<(usize, bool)>>);

    impl Report for Counted {
        fn finished(&self, finished: &mut Vec<CallResult>) {
            let all_ok = finished.iter().all(|finished| finished.outcome.is_ok());
            let mut counted = self.0.lock().unwrap();
            counted.push((finished.len(), all_ok));
            finished.clear();
        }

        fn interrupted(&self, record: RecordId, _passed: &RunTotals) -> Option<RecordId> {
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
            handler_name: Arc::from("orders"),
            clock: Clock::real(),
            states: States::default(),
            captures: vec![],
            header_trust: crate::failure::HeaderTrust::None,
            owner: None,
        }));
        let job = |index| Job {
            record: RecordId::new(index, 0),
            scope: scope.clone(),
            records: run.clone(),
            attempt: 1,
            is_lowest: false,
        };
        (0..count).map(job).collect()
    }

    /// A worker with all its commands queued and the channel closed.
    fn worker(commands: Vec<WorkerCommand>) -> (Worker, Arc<Counted>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let load = commands.iter().map(|command| match command {
            WorkerCommand::Run(jobs) => jobs.len(),
            WorkerCommand::Cancel(_) => 0,
        });
        let load = Arc::new(AtomicUsize::new(load.sum()));
        commands.into_iter().for_each(|command| sender.send(command).unwrap());
        let report = Arc::new(Counted::default());
        let worker = Worker {
            commands: receiver,
            report: report.clone(),
            load,
        };
        (worker, report)
    }

    fn limits() -> CallLimits {
        CallLimits {
            handler: "orders".to_owned(),
            clock: Clock::real(),
            timeout: Some(Duration::from_secs(5)),
            expiry: None,
        }
    }

    #[test]
    fn calls_cost_far_less_than_an_allocation_for_each_record() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let commands = || (0..10).map(|_| WorkerCommand::Run(jobs(256))).collect();
        let (each, each_report) = worker(commands());
        let one = Arc::new(|_record: Raw| async {});
        let for_each = allocation_counter::measure(|| runtime.block_on(run_each(one, each, limits())));
        let (batches, batches_report) = worker(commands());
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
    async fn a_batch_call_is_dropped_when_all_its_jobs_are_cancelled() {
        let cancel = |index| WorkerCommand::Cancel(RecordId::new(index, 0));
        let (some, report) = worker(vec![WorkerCommand::Run(jobs(2)), cancel(0)]);
        let handler = Arc::new(|_batch: Batch<Raw>| async { tokio::task::yield_now().await });
        run_batches(handler, some, limits()).await;
        assert_eq!(report.0.lock().unwrap().first(), Some(&(2, true)), "one still waits");
        let (all, report) = worker(vec![WorkerCommand::Run(jobs(2)), cancel(0), cancel(1)]);
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
