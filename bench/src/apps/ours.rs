//! Our runtime.

use std::{
    fs,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use milena_app::{failure, prelude::*};

use super::{Job, Task};
use crate::readers::unix_nanos;

const HOUR: Duration = Duration::from_secs(3600);
/// More than a second of work, so that no key waits because records of others fill the buffer.
const IN_FLIGHT: u64 = 100_000;

/// Counts the handled records, and notes the times of the first and the last one.
#[derive(Default)]
struct Tally {
    wanted: u64,
    done: AtomicU64,
    first: OnceLock<Instant>,
    last: OnceLock<Instant>,
    /// Delay of each record, in nanoseconds.
    late: Mutex<Vec<u64>>,
}

impl Tally {
    fn begin(&self) {
        self.first.get_or_init(Instant::now);
    }

    fn add(&self, records: u64) {
        if self.done.fetch_add(records, Relaxed) + records >= self.wanted {
            self.last.get_or_init(Instant::now);
        }
    }
}

type Shared = State<Arc<Tally>>;

pub async fn handle(job: &Job, in_batches: bool) -> Result<()> {
    let tally = Arc::new(Tally {
        wanted: job.records,
        ..Tally::default()
    });
    let group = format!("{:?}-{in_batches}-{}", job.task, std::process::id());
    let app = App::new(&job.address)
        .group(group)
        .instance("one")
        .state(Arc::clone(&tally))
        .state(Output(job.output().into()));
    let app = with_handler(app, job, in_batches);
    let before = resident_bytes()?;
    let running = app.start().await?;
    while tally.last.get().is_none() && !is_done(job, &running, &tally) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tally.last.get_or_init(Instant::now);
    if matches!(job.task, Task::ParkInTopic | Task::ParkInPlace) {
        // Fetched records stay in memory for a moment after their last use.
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let after = resident_bytes()?;
    let began = tally.first.get().context("no record came")?;
    let took = tally.last.get().context("no end")?.duration_since(*began);
    println!("{} {} {} 0", job.records, job.records * 100, took.as_secs_f64());
    for (number, late) in (0..).zip(
        tally
            .late
            .lock()
            .map_err(|_| anyhow::anyhow!("a handler panicked"))?
            .iter(),
    ) {
        println!("{number} {late}");
    }
    if tally.late.lock().is_ok_and(|late| late.is_empty()) {
        println!("0 {before}\n1 {after}");
    }
    match job.task {
        // Waiting records are no longer needed.
        Task::ParkInTopic | Task::ParkInPlace => running.kill(),
        _ => running.stop().await?,
    }
    Ok(())
}

/// Progress that handlers cannot see comes from the application's own counters.
fn is_done(job: &Job, running: &Running, tally: &Tally) -> bool {
    let handlers = running.counts();
    let Some(counts) = handlers.first() else { return false };
    let done = match job.task {
        Task::Poison => counts.dead_non_retriable,
        Task::Copy | Task::CopyOnce => counts.published,
        Task::ParkInTopic => counts.retry_topics,
        Task::ParkInPlace => running.status().parked,
        Task::Work | Task::Retry => tally.done.load(Relaxed),
    };
    done >= job.records
}

fn with_handler(app: App, job: &Job, in_batches: bool) -> App {
    let topic = job.topic.as_str();
    match job.task {
        Task::Work if in_batches => app.batch(topic, count_batch, |policy| policy.batch_size(500)),
        Task::Work if job.work_ms == 0 => app.on(topic, count, |policy| policy),
        Task::Work => {
            let work = Duration::from_millis(job.work_ms);
            let worker = move |State(tally): Shared| async move {
                tally.begin();
                tokio::time::sleep(work).await;
                tally.add(1);
            };
            app.in_flight(IN_FLIGHT)
                .on(topic, worker, |policy| policy.in_flight(IN_FLIGHT))
        }
        Task::Copy => app.on(topic, copy, |policy| policy),
        Task::CopyOnce => app.exactly_once(topic, copy, |policy| policy),
        Task::Poison => app.on(topic, poison, |policy| policy),
        Task::Retry => app.on(topic, retry, |policy| {
            policy.retry(Retry::none()).then_topics([Duration::from_secs(1)])
        }),
        Task::ParkInTopic => app.on(topic, fail, |policy| policy.retry(Retry::none()).then_topics([HOUR])),
        Task::ParkInPlace => app.in_flight(4 * job.records).on(topic, fail, |policy| {
            let retry = Retry::exponential(HOUR, HOUR).attempts(3).elapsed_max(None);
            policy.order(Order::Unordered).in_flight(4 * job.records).retry(retry)
        }),
    }
}

async fn count(_record: Raw, State(tally): Shared) {
    tally.begin();
    tally.add(1);
}

async fn count_batch(batch: Batch<Raw>, State(tally): Shared) {
    tally.begin();
    tally.add(batch.len() as u64);
}

/// Topic of the copies.
#[derive(Clone)]
struct Output(Arc<str>);

async fn copy(Raw(record): Raw, State(tally): Shared, State(output): State<Output>) -> Done {
    tally.begin();
    let copy = OutRecord::new(&*output.0).key(record.key().unwrap_or_default().to_vec());
    Done::from(copy.value(record.value().unwrap_or_default().to_vec()))
}

async fn poison(State(tally): Shared) -> Result<(), Fault> {
    tally.begin();
    Err(Fault::poison("it is bad"))
}

async fn fail(State(tally): Shared) -> Result<(), Fault> {
    tally.begin();
    Err(Fault::retry("not now"))
}

/// Notes how late the second attempt is.
async fn retry(cx: Cx, State(tally): Shared) -> Result<(), Fault> {
    tally.begin();
    if cx.attempt() == 1 {
        return Err(Fault::retry("not now"));
    }
    let due_ms = failure::read(cx.record().headers()).and_then(|failure_record| failure_record.due_at_ms);
    let due = u64::try_from(due_ms.unwrap_or_default()).unwrap_or_default() * 1_000_000;
    if let Ok(mut late) = tally.late.lock() {
        // It is never early; if it were, that would be seen.
        late.push(unix_nanos().checked_sub(due).unwrap_or(u64::MAX));
    }
    tally.add(1);
    Ok(())
}

/// Resident memory of this process.
fn resident_bytes() -> Result<u64> {
    let pages = fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = pages.split(' ').nth(1).context("no resident pages")?.parse()?;
    Ok(pages * 4096)
}
