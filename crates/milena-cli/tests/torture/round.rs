//! One round: brokers, writer, copiers and checker together.

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use crate::{
    any_cluster::{AnyCluster, Kind},
    checker::{self, Checker},
    copiers::{Copiers, FaultCounts},
    random::Random,
    topics::{self, Progress},
    writer,
};

/// The interval of progress lines.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The figures of a successful round.
pub struct Figures {
    time: Duration,
    faults: FaultCounts,
    broker_kills: usize,
    records: usize,
    found: checker::Outputs,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            time,
            faults,
            broker_kills,
            records,
            found,
        } = self;
        writeln!(f, "  {} s of faults", time.as_secs())?;
        writeln!(
            f,
            "  copiers: {} started; {} killed, {} paused ({} of them replaced meanwhile), {} stopped",
            faults.started, faults.killed, faults.paused, faults.replaced, faults.stopped
        )?;
        for (why, count) in &faults.gave_up {
            writeln!(f, "  copiers that gave up: {count}: {why}")?;
        }
        writeln!(f, "  brokers killed: {broker_kills}")?;
        writeln!(f, "  records of the input, acknowledged: {records}")?;
        write!(
            f,
            "  records of the outputs: {} committed, each once and in order; {} aborted; {} markers of transactions",
            found.committed, found.aborted, found.markers
        )
    }
}

/// Waits, unless it is told to stop.
pub fn pause(time: Duration, stop: &AtomicBool) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.load(Relaxed) {
        thread::sleep(Duration::from_millis(20));
    }
}

pub fn run(kind: Kind, brokers: u16, time: Duration, seed: u64) -> Result<Figures, String> {
    let cluster = Arc::new(AnyCluster::start(kind, brokers));
    let logs = tempfile::tempdir().unwrap().keep();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let figures = runtime.block_on(play(Arc::clone(&cluster), logs.clone(), time, seed));
    match &figures {
        Ok(_) => std::fs::remove_dir_all(logs).unwrap(),
        Err(_) => println!("what the copiers said is in {}", logs.display()),
    }
    figures
}

/// Signals to all parts of a round.
struct Flags {
    /// No more faults.
    calm: AtomicBool,
    end: AtomicBool,
}

async fn play(cluster: Arc<AnyCluster>, logs: PathBuf, time: Duration, seed: u64) -> Result<Figures, String> {
    let address = cluster.address().to_owned();
    topics::create(&address).await;
    let flags = Arc::new(Flags {
        calm: AtomicBool::new(true),
        end: AtomicBool::new(false),
    });
    let progress = Arc::new(Progress::default());
    let told = Arc::clone(&progress);
    let telling = tokio::spawn(async move { tell(&told).await });
    let stop_writing = Arc::new(AtomicBool::new(false));
    let mut writing = tokio::spawn(writer::write(
        address.clone(),
        seed,
        Arc::clone(&progress),
        Arc::clone(&stop_writing),
    ));
    let (goal, wanted) = watch::channel(None);
    let mut checking = tokio::spawn(Checker::new(&address, Arc::clone(&progress)).check(wanted));
    let copiers = Copiers::new(&address, logs, seed + 1);
    let told = Arc::clone(&flags);
    let mut working = tokio::task::spawn_blocking(move || copiers.work(&told.calm, &told.end));

    let round = async {
        // Each of these ends early only after a failure.
        tokio::select! {
            () = progress.all_copy() => {}
            ended = &mut checking => return Err(ended.unwrap().err().unwrap_or_default()),
            ended = &mut writing => return Err(ended.unwrap().err().unwrap_or_default()),
            ended = &mut working => return Err(ended.unwrap().err().unwrap_or_default()),
        }
        flags.calm.store(false, Relaxed);
        let told = Arc::clone(&flags);
        let striking = tokio::task::spawn_blocking(move || kill_brokers(&cluster, seed + 2, &told.calm));
        let began = Instant::now();
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            ended = &mut checking => return Err(ended.unwrap().err().unwrap_or_default()),
            ended = &mut writing => return Err(ended.unwrap().err().unwrap_or_default()),
            ended = &mut working => return Err(ended.unwrap().err().unwrap_or_default()),
        }
        let struck = began.elapsed();
        flags.calm.store(true, Relaxed);
        let (cluster, broker_kills) = striking.await.unwrap();
        stop_writing.store(true, Relaxed);
        let counts = writing.await.unwrap()?;
        goal.send_replace(Some(counts.clone()));
        tokio::select! {
            seen = &mut checking => seen.unwrap()?,
            ended = &mut working => return Err(ended.unwrap().err().unwrap_or_default()),
        };
        flags.end.store(true, Relaxed);
        let faults = working.await.unwrap()?;
        let found = checker::check_outputs(cluster.address(), &counts).await?;
        Ok(Figures {
            time: struck,
            faults,
            broker_kills,
            records: counts.iter().sum(),
            found,
        })
    };
    let figures = round.await;
    telling.abort();
    // No process may outlive the round, not even a failed one.
    flags.calm.store(true, Relaxed);
    flags.end.store(true, Relaxed);
    figures
}

async fn tell(progress: &Progress) {
    let began = Instant::now();
    loop {
        tokio::time::sleep(REPORT_INTERVAL).await;
        println!("  {:>4} s: {}", began.elapsed().as_secs(), progress.line());
    }
}

/// Kills and restarts one broker after the other. Returns the brokers, all of them running, and the number of kills.
fn kill_brokers(cluster: &Arc<AnyCluster>, seed: u64, stop: &AtomicBool) -> (Arc<AnyCluster>, usize) {
    let mut random = Random(seed);
    let mut kills = 0;
    loop {
        let (calm, gap) = match **cluster {
            AnyCluster::Kafka { .. } => (random.millis(2_000..8_000), random.millis(0..4_000)),
            AnyCluster::Milena { .. } => (random.millis(500..5_000), random.millis(0..1_500)),
        };
        pause(calm, stop);
        if stop.load(Relaxed) {
            return (Arc::clone(cluster), kills);
        }
        kills += 1;
        let broker = u16::try_from(random.number(0..usize::from(cluster.brokers()))).unwrap() + 1;
        cluster.crash(broker, gap);
    }
}
