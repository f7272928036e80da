//! One round: everything together.

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
    checker::{self, Checker},
    crew::{Blows, Crew},
    dice::Dice,
    topics::{self, Progress},
    world::{Kind, World},
    writer,
};

/// How often to say how far it is.
const TELL: Duration = Duration::from_secs(10);

/// What happened in a round that went well.
pub struct Figures {
    time: Duration,
    blows: Blows,
    broker_kills: usize,
    records: usize,
    found: checker::Found,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            time,
            blows,
            broker_kills,
            records,
            found,
        } = self;
        writeln!(f, "  {} s of blows", time.as_secs())?;
        writeln!(
            f,
            "  copiers: {} started; {} killed, {} paused ({} of them replaced meanwhile), {} stopped",
            blows.started, blows.killed, blows.paused, blows.replaced, blows.stopped
        )?;
        for (why, count) in &blows.gave_up {
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
    let world = Arc::new(World::start(kind, brokers));
    let logs = tempfile::tempdir().unwrap().keep();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let figures = runtime.block_on(play(Arc::clone(&world), logs.clone(), time, seed));
    match &figures {
        Ok(_) => std::fs::remove_dir_all(logs).unwrap(),
        Err(_) => println!("what the copiers said is in {}", logs.display()),
    }
    figures
}

/// What everybody is told.
struct Flags {
    /// No blows.
    calm: AtomicBool,
    end: AtomicBool,
}

async fn play(world: Arc<World>, logs: PathBuf, time: Duration, seed: u64) -> Result<Figures, String> {
    let address = world.address().to_owned();
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
    let crew = Crew::new(&address, logs, seed + 1);
    let told = Arc::clone(&flags);
    let mut working = tokio::task::spawn_blocking(move || crew.work(&told.calm, &told.end));

    let blows = async {
        // Each of these ends early only if something is wrong.
        tokio::select! {
            () = progress.all_copy() => {}
            ended = &mut checking => return Err(ended.unwrap().err().unwrap_or_default()),
            ended = &mut writing => return Err(ended.unwrap().err().unwrap_or_default()),
            ended = &mut working => return Err(ended.unwrap().err().unwrap_or_default()),
        }
        flags.calm.store(false, Relaxed);
        let told = Arc::clone(&flags);
        let striking = tokio::task::spawn_blocking(move || world_strikes(&world, seed + 2, &told.calm));
        let began = Instant::now();
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            ended = &mut checking => return Err(ended.unwrap().err().unwrap_or_default()),
            ended = &mut writing => return Err(ended.unwrap().err().unwrap_or_default()),
            ended = &mut working => return Err(ended.unwrap().err().unwrap_or_default()),
        }
        let struck = began.elapsed();
        flags.calm.store(true, Relaxed);
        let (world, broker_kills) = striking.await.unwrap();
        stop_writing.store(true, Relaxed);
        let counts = writing.await.unwrap()?;
        goal.send_replace(Some(counts.clone()));
        tokio::select! {
            seen = &mut checking => seen.unwrap()?,
            ended = &mut working => return Err(ended.unwrap().err().unwrap_or_default()),
        };
        flags.end.store(true, Relaxed);
        let blows = working.await.unwrap()?;
        let found = checker::judge(world.address(), &counts).await?;
        Ok(Figures {
            time: struck,
            blows,
            broker_kills,
            records: counts.iter().sum(),
            found,
        })
    };
    let figures = blows.await;
    telling.abort();
    // Also if something is wrong, nobody is left behind.
    flags.calm.store(true, Relaxed);
    flags.end.store(true, Relaxed);
    figures
}

async fn tell(progress: &Progress) {
    let began = Instant::now();
    loop {
        tokio::time::sleep(TELL).await;
        println!("  {:>4} s: {}", began.elapsed().as_secs(), progress.line());
    }
}

/// Kills one broker after the other and starts it again. Gives the brokers back, all of them at work, and how many it was.
fn world_strikes(world: &Arc<World>, seed: u64, stop: &AtomicBool) -> (Arc<World>, usize) {
    let mut dice = Dice(seed);
    let mut kills = 0;
    loop {
        let (calm, gap) = match **world {
            World::Kafka { .. } => (dice.millis(2_000..8_000), dice.millis(0..4_000)),
            World::Milena { .. } => (dice.millis(500..5_000), dice.millis(0..1_500)),
        };
        pause(calm, stop);
        if stop.load(Relaxed) {
            return (Arc::clone(world), kills);
        }
        kills += 1;
        let broker = u16::try_from(dice.number(0..usize::from(world.brokers()))).unwrap() + 1;
        world.crash(broker, gap);
    }
}
