//! One round: a database, brokers, writers and relays, and the comparison at the end.

use std::{
    fmt,
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use milena_test::PostgresServer;

use crate::{
    any_cluster::{AnyCluster, Kind},
    oracle::{self, Comparison, PARTITIONS, TOPIC},
    processes::{FaultCounts, Processes, pause},
    programs::run as run_program,
    random::Random,
    writer,
};

/// Time for the relays to publish the rest after the last fault.
const DRAIN: Duration = Duration::from_secs(120);

/// The figures of a successful round.
pub struct Figures {
    time: Duration,
    faults: FaultCounts,
    database_kills: usize,
    broker_kills: usize,
    drained_after: Duration,
    found: Comparison,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { faults, found, .. } = self;
        writeln!(f, "  {} s of faults", self.time.as_secs())?;
        writeln!(
            f,
            "  killed: {} writers, {} relays, the database {} times, brokers {} times",
            faults.writers_killed, faults.relays_killed, self.database_kills, self.broker_kills
        )?;
        writeln!(
            f,
            "  relays stopped by SIGTERM: {}; ended by themselves: {}",
            faults.relays_stopped, faults.relays_ended
        )?;
        write!(
            f,
            "  {} orders committed, all announced in order {:.1} s after the last fault; {} records, {} of them repeated",
            found.orders,
            self.drained_after.as_secs_f64(),
            found.records,
            found.records - found.orders
        )
    }
}

pub fn run(kind: Kind, brokers: u16, time: Duration, seed: u64) -> Result<Figures, String> {
    oracle::check_the_checks();
    let cluster = AnyCluster::start(kind, brokers);
    let server = Mutex::new(PostgresServer::start());
    let logs = tempfile::tempdir().unwrap().keep();
    let figures = play(&cluster, &server, &logs, time, seed);
    match &figures {
        Ok(_) => std::fs::remove_dir_all(logs).unwrap(),
        Err(_) => println!("the log of the relays is in {}", logs.display()),
    }
    figures
}

fn play(
    cluster: &AnyCluster,
    server: &Mutex<PostgresServer>,
    logs: &Path,
    time: Duration,
    seed: u64,
) -> Result<Figures, String> {
    let url = server.lock().unwrap().create_database();
    create(cluster, &url);
    server.lock().unwrap().psql(&url, writer::TABLES);
    let stop = Arc::new(AtomicBool::new(false));
    let processes = Processes::new(&url, cluster.address(), logs, seed);
    let began = Instant::now();
    let (mut processes, database_kills, broker_kills) = thread::scope(|scope| {
        let stop = &*stop;
        let working = scope.spawn(move || processes.work(stop));
        let databases = scope.spawn(move || kill_database(server, seed + 1, stop));
        let brokers = scope.spawn(move || kill_brokers(cluster, seed + 2, stop));
        pause(time, &AtomicBool::new(false));
        stop.store(true, Relaxed);
        let kills = (databases.join().unwrap(), brokers.join().unwrap());
        (working.join().unwrap(), kills.0, kills.1)
    });
    let time = began.elapsed();
    let server = server.lock().unwrap();
    let drained_after = drain(&server, &url, &mut processes)?;
    let found = oracle::compare(&server, &url, cluster.address())?;
    if found.orders == 0 {
        return Err("no order was committed".to_owned());
    }
    Ok(Figures {
        time,
        faults: processes.counts,
        database_kills,
        broker_kills,
        drained_after,
        found,
    })
}

/// Creates the tables and the topic.
fn create(cluster: &AnyCluster, url: &str) {
    let milena = || Command::new(env!("CARGO_BIN_EXE_milena"));
    run_program(milena().args(["sql", "init", "-d", url]), "");
    let replicas = cluster.brokers().to_string();
    let partitions = PARTITIONS.to_string();
    let topic = ["topic", "create", TOPIC, "-b", cluster.address()];
    let size = ["--partitions", &partitions, "--replicas", &replicas];
    run_program(milena().args(topic).args(size), "");
}

/// Waits until all committed events are marked as published.
fn drain(server: &PostgresServer, url: &str, processes: &mut Processes) -> Result<Duration, String> {
    let began = Instant::now();
    loop {
        let waiting = server.psql(url, "SELECT count(*) FROM milena_outbox WHERE published_at IS NULL");
        if waiting == "0" {
            return Ok(began.elapsed());
        }
        if began.elapsed() > DRAIN {
            return Err(format!(
                "{waiting} events are not published after {} s",
                DRAIN.as_secs()
            ));
        }
        processes.start_missing_relays();
        thread::sleep(Duration::from_millis(100));
    }
}

/// Kills and restarts the database. Returns the number of kills.
fn kill_database(server: &Mutex<PostgresServer>, seed: u64, stop: &AtomicBool) -> usize {
    let mut random = Random(seed);
    let mut kills = 0;
    loop {
        pause(random.millis(2_000..8_000), stop);
        if stop.load(Relaxed) {
            return kills;
        }
        kills += 1;
        let mut server = server.lock().unwrap();
        server.kill();
        pause(random.millis(0..2_000), stop);
        server.restart();
    }
}

/// Kills and restarts one broker after the other. Returns the number of kills.
fn kill_brokers(cluster: &AnyCluster, seed: u64, stop: &AtomicBool) -> usize {
    let mut random = Random(seed);
    let mut kills = 0;
    loop {
        pause(random.millis(2_000..8_000), stop);
        if stop.load(Relaxed) {
            return kills;
        }
        kills += 1;
        let broker = u16::try_from(random.number(0..usize::from(cluster.brokers()))).unwrap() + 1;
        cluster.crash(broker, random.millis(0..2_000));
    }
}
