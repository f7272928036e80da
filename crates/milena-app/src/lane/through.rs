//! Runs that a handler of single records goes through.
//!
//! Most handlers that only count, filter or keep something in memory are done at once. Then the records of a run are called
//! one after the other, and are done as a whole: the machine hears of them once. The first that has to wait, fails or emits
//! interrupts the run: it goes on alone, and the machine puts what is behind it in line by keys.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use super::{Finished, Job, Owner, Part, Report, Settled, result};
use crate::{
    clock::{Clock, nanos},
    handler::{Cx, Done, Fault},
    pool::{Pool, Started},
    times::ReadMark,
};

/// So long a run may take. Then what is left of it is better shared with other lanes.
const RUN_MAX: Duration = Duration::from_millis(5);

/// What was done of a run, each record at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Passed {
    pub(crate) done: u32,
    /// So many of them without an effect.
    pub(crate) skipped: u32,
    pub(crate) duplicates: u32,
    pub(crate) took_ns: u64,
}

impl Passed {
    /// Whether that was all there is to a call.
    fn counts(&mut self, outcome: &Result<Done, Fault>) -> bool {
        match outcome {
            Ok(Done::Ok) => {}
            Ok(Done::Emit(records)) if records.is_empty() => {}
            Ok(Done::Skip(why)) => {
                tracing::debug!(%why, "a record was skipped");
                self.skipped += 1;
            }
            Ok(Done::Duplicate) => self.duplicates += 1,
            _ => return false,
        }
        self.done += 1;
        true
    }
}

/// What a lane of single records calls with.
pub(super) struct Calls<'a, C> {
    pub(super) call: C,
    pub(super) clock: &'a Clock,
    pub(super) mark: Arc<ReadMark>,
    pub(super) report: &'a dyn Report,
    pub(super) load: &'a AtomicUsize,
}

/// How many calls a handful has had, and what the first took to read its arguments. That is taken for what each does: a
/// clock costs as much as a record.
#[derive(Default)]
struct Handful {
    calls: u64,
    read_ns: Option<u64>,
}

impl<C, F> Calls<'_, C>
where
    C: Fn(Cx) -> F,
    F: Future<Output = Result<Done, Fault>>,
{
    /// Calls with all that was ordered. Where one call ends the next begins.
    pub(super) fn start(&self, pool: &mut Pool<Owner, F>, jobs: Vec<Job>, finished: &mut Vec<Finished>) {
        let mut began = self.clock.instant();
        let source = jobs.first().map_or(0, |job| job.scope.source);
        let mut handful = Handful::default();
        for job in jobs {
            if job.records.len() > 1 {
                began = self.go_through(pool, &job, began, &mut handful, finished);
                continue;
            }
            let record = job.record;
            let started = self.call(pool, (record, began), job.into_cx(), &mut handful);
            let now = self.clock.instant();
            if let Started::Ready(_, outcome) = started {
                finished.push(result(record, now - began, outcome));
            }
            began = now;
        }
        if let Some(read_ns) = handful.read_ns {
            self.report.decoded(source, read_ns.saturating_mul(handful.calls));
        }
    }

    fn call(
        &self,
        pool: &mut Pool<Owner, F>,
        owner: Owner,
        mut cx: Cx,
        handful: &mut Handful,
    ) -> Started<Owner, Result<Done, Fault>> {
        let (is_first, (_, began)) = (handful.calls == 0, owner);
        cx.mark = is_first.then(|| Arc::clone(&self.mark));
        let started = pool.start(owner, (self.call)(cx));
        if is_first {
            handful.read_ns = self.mark.take(began);
        }
        handful.calls += 1;
        started
    }

    fn go_through(
        &self,
        pool: &mut Pool<Owner, F>,
        job: &Job,
        first: Instant,
        handful: &mut Handful,
        finished: &mut Vec<Finished>,
    ) -> Instant {
        let mut passed = Passed::default();
        let mut began = first;
        for cx in job.cxs() {
            let started = self.call(pool, (job.record, began), cx, handful);
            let now = self.clock.instant();
            // What took too long is told alone, so that it is known which one it was.
            let is_late = now - first > RUN_MAX;
            let is_done = match &started {
                Started::Ready(_, outcome) => !is_late && passed.counts(outcome),
                Started::Waits(_) => false,
            };
            if !is_done {
                passed.took_ns = nanos(began - first);
                self.interrupt(pool, job, &passed, (now - began, started), finished);
                return now;
            }
            began = now;
        }
        passed.took_ns = nanos(began - first);
        finished.push(Finished {
            record: job.record,
            part: Part::Through(passed),
            outcome: Ok(Settled::Ok),
            took_ns: passed.took_ns,
            call_ns: 0,
        });
        began
    }

    /// The next record goes on alone, and those behind it are not ours any more.
    fn interrupt(
        &self,
        pool: &mut Pool<Owner, F>,
        job: &Job,
        passed: &Passed,
        (took, started): (Duration, Started<Owner, Result<Done, Fault>>),
        finished: &mut Vec<Finished>,
    ) {
        let next = self.report.interrupted(job.record, passed);
        let gone = job.records.len() - usize::from(next.is_some());
        self.load.fetch_sub(gone, Ordering::Relaxed);
        match (started, next) {
            (Started::Waits(place), next) => pool.hand_over(place, |(_, began)| Some((next?, began))),
            (Started::Ready(_, outcome), Some(record)) => finished.push(result(record, took, outcome)),
            // Nobody waits for any of it.
            (Started::Ready(..), None) => {}
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
        handler::{States, TopicScope, Value},
        lane::{Lane, LaneOrder, run_each},
        letters::Believed,
        route::CallLimits,
        testing::records_with_values,
    };

    const RUN: RecordId = RecordId::new(0, 0);
    const NEXT: RecordId = RecordId::new(1, 0);

    /// Keeps what is reported, and lets the next record of a run go on if somebody waits for it.
    #[derive(Default)]
    struct Told {
        finished: Mutex<Vec<(RecordId, Part, bool)>>,
        interrupted: Mutex<Vec<Passed>>,
        is_lost: bool,
    }

    impl Report for Told {
        fn finished(&self, finished: &mut Vec<Finished>) {
            let told = finished
                .drain(..)
                .map(|one| (one.record, one.part, one.outcome.is_ok()));
            self.finished.lock().unwrap().extend(told);
        }

        fn interrupted(&self, record: RecordId, passed: &Passed) -> Option<RecordId> {
            assert_eq!(record, RUN);
            self.interrupted.lock().unwrap().push(*passed);
            (!self.is_lost).then_some(NEXT)
        }

        fn decoded(&self, _source: usize, _took_ns: u64) {}
    }

    /// Lets a handler go through a run: `wait` waits until it is told not to, `fail` fails, `skip` and `again` have no
    /// effect. Gives the values it was called with.
    async fn go(values: &[&str], told: &Arc<Told>) -> Vec<String> {
        let seen = Arc::new(Mutex::new(vec![]));
        let go_on = Arc::new(Notify::new());
        let (orders, receiver) = mpsc::unbounded_channel();
        let scope = TopicScope {
            handler: 0,
            source: 0,
            group: Arc::from("billing"),
            states: States::default(),
            captures: vec![],
            believed: Believed::Nobody,
        };
        let job = Job {
            record: RUN,
            scope: Arc::new(Arc::new(scope)),
            records: records_with_values(values).runs().next().unwrap(),
            attempt: 1,
        };
        orders.send(LaneOrder::Run(vec![job])).unwrap();
        drop(orders);
        let load = Arc::new(AtomicUsize::new(values.len()));
        let lane = Lane {
            orders: receiver,
            report: Arc::clone(told) as Arc<dyn Report>,
            load: Arc::clone(&load),
        };
        let limits = CallLimits {
            handler: "orders".to_owned(),
            clock: Clock::standing(),
            timeout: None,
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
        let lane = run_each(Arc::new(handler), lane, limits);
        tokio::join!(lane, async { go_on.notify_one() });
        assert_eq!(load.load(Ordering::Relaxed), 0);
        seen.lock().unwrap().clone()
    }

    #[tokio::test]
    async fn what_is_done_at_once_is_told_as_a_whole() {
        let told = Arc::new(Told::default());
        let seen = go(&["one", "skip", "again", "two"], &told).await;
        assert_eq!(seen, ["one", "skip", "again", "two"]);
        let passed = Passed {
            done: 4,
            skipped: 1,
            duplicates: 1,
            took_ns: 0,
        };
        assert_eq!(*told.finished.lock().unwrap(), [(RUN, Part::Through(passed), true)]);
        assert!(told.interrupted.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn what_waits_goes_on_alone_and_what_is_behind_it_is_given_back() {
        let told = Arc::new(Told::default());
        let seen = go(&["one", "skip", "wait", "two"], &told).await;
        assert_eq!(seen, ["one", "skip", "wait"]);
        let passed = Passed {
            done: 2,
            skipped: 1,
            ..Passed::default()
        };
        assert_eq!(*told.interrupted.lock().unwrap(), [passed]);
        assert_eq!(*told.finished.lock().unwrap(), [(NEXT, Part::Whole(1), true)]);
    }

    #[tokio::test]
    async fn what_fails_is_told_alone() {
        let told = Arc::new(Told::default());
        let seen = go(&["fail", "two"], &told).await;
        assert_eq!(seen, ["fail"]);
        assert_eq!(*told.interrupted.lock().unwrap(), [Passed::default()]);
        assert_eq!(*told.finished.lock().unwrap(), [(NEXT, Part::Whole(1), false)]);
    }

    #[tokio::test]
    async fn of_a_run_that_nobody_waits_for_nothing_is_kept() {
        for value in ["wait", "fail"] {
            let told = Arc::new(Told {
                is_lost: true,
                ..Told::default()
            });
            assert_eq!(go(&["one", value, "two"], &told).await, ["one", value]);
            assert!(told.finished.lock().unwrap().is_empty());
        }
    }
}
