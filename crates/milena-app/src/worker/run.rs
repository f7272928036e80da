//! Runs in handlers of single records.
//!
//! Many handlers finish without waiting: they count, filter, or update memory. Then the records of a run are handled in
//! a row and reported as one result, so that the scheduler is called once. The first record that waits, fails or emits
//! interrupts the run: it continues alone, and the scheduler queues the rest by key.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use super::{CallResult, HandlerOutcome, Job, JobPart, Owner, Report, result};
use crate::{
    clock::{Clock, nanos},
    handler::{Cx, Done, Fault},
    pool::{FirstPoll, Pool},
    route::Expiry,
    times::ReadMark,
};

/// Time limit of a run; afterwards other workers share the rest of it.
const RUN_MAX: Duration = Duration::from_millis(5);

/// Counts and duration of the finished part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RunTotals {
    pub(crate) done: u32,
    /// Records of `done` without an effect.
    pub(crate) skipped: u32,
    pub(crate) duplicates: u32,
    pub(crate) took_ns: u64,
}

impl RunTotals {
    /// Counts an outcome. Returns `false` if the record needs more than being counted.
    fn count(&mut self, outcome: &Result<Done, Fault>) -> bool {
        match outcome {
            Ok(Done::Ok) => {}
            Ok(Done::Emit(records)) if records.is_empty() => {}
            Ok(Done::Skip(why)) => {
                tracing::debug!(event = "record_skipped", %why, "record skipped: {why}");
                self.skipped += 1;
            }
            Ok(Done::Duplicate) => self.duplicates += 1,
            _ => return false,
        }
        self.done += 1;
        true
    }
}

/// Context of the calls of one worker.
pub(super) struct Calls<'a, C> {
    pub(super) call: C,
    pub(super) clock: &'a Clock,
    /// Set if the handler answers requests.
    pub(super) expiry: Option<&'a Expiry>,
    pub(super) mark: Arc<ReadMark>,
    pub(super) report: &'a dyn Report,
    pub(super) load: &'a AtomicUsize,
}

/// Decode time of the first call, extrapolated to all calls of a command. Reading the clock costs as much as handling a
/// record.
#[derive(Default)]
struct DecodeSample {
    calls: u64,
    read_ns: Option<u64>,
}

impl<C, F> Calls<'_, C>
where
    C: Fn(Cx) -> F,
    F: Future<Output = Result<Done, Fault>>,
{
    /// Runs the calls of all jobs. The end of one call is the start of the next, which saves clock reads.
    pub(super) fn start(&self, pool: &mut Pool<Owner, F>, jobs: Vec<Job>, finished: &mut Vec<CallResult>) {
        let mut began = self.clock.instant();
        let source = jobs.first().map_or(0, |job| job.scope.source);
        let mut sample = DecodeSample::default();
        for job in jobs {
            if job.records.len() > 1 {
                began = self.handle_run(pool, &job, began, &mut sample, finished);
                continue;
            }
            let record = job.record;
            let started = self.call(pool, (record, began), job.into_cx(), &mut sample);
            let now = self.clock.instant();
            if let FirstPoll::Ready(_, outcome) = started {
                finished.push(result(record, now - began, outcome));
            }
            began = now;
        }
        if let Some(read_ns) = sample.read_ns {
            self.report.decoded(source, read_ns.saturating_mul(sample.calls));
        }
    }

    fn call(
        &self,
        pool: &mut Pool<Owner, F>,
        owner: Owner,
        mut cx: Cx,
        sample: &mut DecodeSample,
    ) -> FirstPoll<Owner, Result<Done, Fault>> {
        if let Some(expiry) = self.expiry
            && expiry.is_expired(&cx, self.clock)
        {
            return FirstPoll::Ready(owner, Ok(Done::Skip("its requester has given up".into())));
        }
        let (is_first, (_, began)) = (sample.calls == 0, owner);
        cx.mark = is_first.then(|| Arc::clone(&self.mark));
        let started = pool.start(owner, (self.call)(cx));
        if is_first {
            sample.read_ns = self.mark.take(began);
        }
        sample.calls += 1;
        started
    }

    fn handle_run(
        &self,
        pool: &mut Pool<Owner, F>,
        job: &Job,
        first: Instant,
        sample: &mut DecodeSample,
        finished: &mut Vec<CallResult>,
    ) -> Instant {
        let mut totals = RunTotals::default();
        let mut began = first;
        for cx in job.cxs() {
            let started = self.call(pool, (job.record, began), cx, sample);
            let now = self.clock.instant();
            // A slow record gets a result of its own, so that it can be identified.
            let is_late = now - first > RUN_MAX;
            let is_done = match &started {
                FirstPoll::Ready(_, outcome) => !is_late && totals.count(outcome),
                FirstPoll::Pending(_) => false,
            };
            if !is_done {
                totals.took_ns = nanos(began - first);
                self.interrupt(pool, job, &totals, (now - began, started), finished);
                return now;
            }
            began = now;
        }
        totals.took_ns = nanos(began - first);
        finished.push(CallResult {
            record: job.record,
            part: JobPart::Run(totals),
            outcome: Ok(HandlerOutcome::Ok),
            took_ns: totals.took_ns,
            call_ns: 0,
        });
        began
    }

    /// Interrupts the run: the next record continues alone and the rest is no longer ours.
    fn interrupt(
        &self,
        pool: &mut Pool<Owner, F>,
        job: &Job,
        totals: &RunTotals,
        (took, started): (Duration, FirstPoll<Owner, Result<Done, Fault>>),
        finished: &mut Vec<CallResult>,
    ) {
        let next = self.report.interrupted(job.record, totals);
        let gone = job.records.len() - usize::from(next.is_some());
        self.load.fetch_sub(gone, Ordering::Relaxed);
        match (started, next) {
            (FirstPoll::Pending(place), next) => pool.hand_over(place, |(_, began)| Some((next?, began))),
            (FirstPoll::Ready(_, outcome), Some(record)) => finished.push(result(record, took, outcome)),
            // The record was released meanwhile; its result is stale.
            (FirstPoll::Ready(..), None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use milena_machines::app::RecordId;
    use tokio::sync::{Notify, mpsc};

    use super::*;
    use crate::{
        failure::HeaderTrust,
        handler::{States, TopicScope, Value},
        route::CallLimits,
        testing::records_with_values,
        worker::{Worker, WorkerCommand, run_each},
    };

    const RUN: RecordId = RecordId::new(0, 0);
    const NEXT: RecordId = RecordId::new(1, 0);

    /// Keeps reported results; lets the next record of a run continue unless `is_lost`.
    #[derive(Default)]
    struct Reports {
        finished: Mutex<Vec<(RecordId, JobPart, bool)>>,
        interrupted: Mutex<Vec<RunTotals>>,
        is_lost: bool,
    }

    impl Report for Reports {
        fn finished(&self, finished: &mut Vec<CallResult>) {
            let reports = finished
                .drain(..)
                .map(|one| (one.record, one.part, one.outcome.is_ok()));
            self.finished.lock().unwrap().extend(reports);
        }

        fn interrupted(&self, record: RecordId, totals: &RunTotals) -> Option<RecordId> {
            assert_eq!(record, RUN);
            self.interrupted.lock().unwrap().push(*totals);
            (!self.is_lost).then_some(NEXT)
        }

        fn decoded(&self, _source: usize, _took_ns: u64) {}
    }

    /// Handles a run and returns the values that the handler saw: `wait` waits for a notification, `fail` fails, `skip`
    /// and `again` have no effect.
    async fn go(values: &[&str], reports: &Arc<Reports>) -> Vec<String> {
        let seen = Arc::new(Mutex::new(vec![]));
        let go_on = Arc::new(Notify::new());
        let (commands, receiver) = mpsc::unbounded_channel();
        let scope = TopicScope {
            handler: 0,
            source: 0,
            group: Arc::from("billing"),
            handler_name: Arc::from("orders"),
            clock: Clock::real(),
            states: States::default(),
            captures: vec![],
            header_trust: HeaderTrust::None,
            owner: None,
        };
        let job = Job {
            record: RUN,
            scope: Arc::new(Arc::new(scope)),
            records: records_with_values(values).runs().next().unwrap(),
            attempt: 1,
            is_lowest: false,
        };
        commands.send(WorkerCommand::Run(vec![job])).unwrap();
        drop(commands);
        let load = Arc::new(AtomicUsize::new(values.len()));
        let worker = Worker {
            commands: receiver,
            report: Arc::clone(reports) as Arc<dyn Report>,
            load: Arc::clone(&load),
        };
        let limits = CallLimits {
            handler: "orders".to_owned(),
            clock: Clock::manual(),
            timeout: None,
            expiry: None,
        };
        let handler = {
            let (seen, go_on) = (Arc::clone(&seen), Arc::clone(&go_on));
            move |Value(value): Value<String>| {
                let (seen, go_on) = (Arc::clone(&seen), Arc::clone(&go_on));
                async move {
                    seen.lock().unwrap().push(value.clone());
                    match value.as_str() {
                        "wait" => go_on.notified().await,
                        "fail" => return Err(Fault::retry("not now")),
                        "skip" => return Ok(Done::Skip("nothing to do".into())),
                        "again" => return Ok(Done::Duplicate),
                        _ => {}
                    }
                    Ok(Done::Ok)
                }
            }
        };
        let worker = run_each(Arc::new(handler), worker, limits);
        tokio::join!(worker, async { go_on.notify_one() });
        assert_eq!(load.load(Ordering::Relaxed), 0);
        seen.lock().unwrap().clone()
    }

    #[tokio::test]
    async fn a_run_that_is_done_at_once_is_reported_as_one_result() {
        let reports = Arc::new(Reports::default());
        let seen = go(&["one", "skip", "again", "two"], &reports).await;
        assert_eq!(seen, ["one", "skip", "again", "two"]);
        let totals = RunTotals {
            done: 4,
            skipped: 1,
            duplicates: 1,
            took_ns: 0,
        };
        assert_eq!(*reports.finished.lock().unwrap(), [(RUN, JobPart::Run(totals), true)]);
        assert!(reports.interrupted.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn what_waits_goes_on_alone_and_what_is_behind_it_is_given_back() {
        let reports = Arc::new(Reports::default());
        let seen = go(&["one", "skip", "wait", "two"], &reports).await;
        assert_eq!(seen, ["one", "skip", "wait"]);
        let totals = RunTotals {
            done: 2,
            skipped: 1,
            ..RunTotals::default()
        };
        assert_eq!(*reports.interrupted.lock().unwrap(), [totals]);
        assert_eq!(*reports.finished.lock().unwrap(), [(NEXT, JobPart::All(1), true)]);
    }

    #[tokio::test]
    async fn a_failed_record_of_a_run_is_reported_alone() {
        let reports = Arc::new(Reports::default());
        let seen = go(&["fail", "two"], &reports).await;
        assert_eq!(seen, ["fail"]);
        assert_eq!(*reports.interrupted.lock().unwrap(), [RunTotals::default()]);
        assert_eq!(*reports.finished.lock().unwrap(), [(NEXT, JobPart::All(1), false)]);
    }

    #[tokio::test]
    async fn results_of_a_released_run_are_dropped() {
        for value in ["wait", "fail"] {
            let reports = Arc::new(Reports {
                is_lost: true,
                ..Reports::default()
            });
            assert_eq!(go(&["one", value, "two"], &reports).await, ["one", value]);
            assert!(reports.finished.lock().unwrap().is_empty());
        }
    }
}
