//! One round: databases, brokers, services and relays, and the check at the end.

use std::{
    fmt,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use milena_sql::{
    Connection, Database,
    outbox::{self, OutboxEvent},
    sqlx,
};

use crate::{
    any_cluster::{AnyCluster, Kind},
    databases::{DatabaseKind, Databases},
    oracle::{self, Outcome, PARTITIONS},
    processes::{Processes, pause},
    programs::run as run_program,
    random::Random,
    service::SERVICES,
};

/// Time for the sagas to end after the last fault.
const DRAIN: Duration = Duration::from_secs(240);

/// The figures of a successful round.
pub struct Figures {
    time: Duration,
    services_killed: usize,
    relays_killed: usize,
    database_kills: usize,
    broker_kills: usize,
    retried: usize,
    drained_after: Duration,
    outcome: Outcome,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = &self.outcome;
        writeln!(
            f,
            "  {} s of faults; killed: {} services, {} relays, the database {} times, brokers {} times",
            self.time.as_secs(),
            self.services_killed,
            self.relays_killed,
            self.database_kills,
            self.broker_kills
        )?;
        write!(
            f,
            "  {} orders completed, {} cancelled ({} by a timer), {} steps undone, {} tombstones, {} stuck sagas retried by \
             hand; all ended {:.1} s after the last fault",
            outcome.completed,
            outcome.cancelled,
            outcome.timed_out,
            outcome.undone,
            outcome.tombstones,
            self.retried,
            self.drained_after.as_secs_f64()
        )
    }
}

pub fn run(kind: Kind, brokers: u16, database: DatabaseKind, time: Duration, seed: u64) -> Result<Figures, String> {
    let cluster = AnyCluster::start(kind, brokers);
    let databases = Databases::start(database);
    create_topics(&cluster);
    let logs = tempfile::tempdir().unwrap().keep();
    let figures = play(&cluster, &databases, &logs, time, seed);
    match &figures {
        Ok(_) => std::fs::remove_dir_all(logs).unwrap(),
        Err(_) => println!("the logs are in {}", logs.display()),
    }
    figures
}

fn create_topics(cluster: &AnyCluster) {
    let (replicas, partitions) = (cluster.brokers().to_string(), PARTITIONS.to_string());
    for service in SERVICES {
        let mut create = Command::new(env!("CARGO_BIN_EXE_milena"));
        create.args(["topic", "create", &format!("{service}.events"), "-b", cluster.address()]);
        create.args(["--partitions", &partitions, "--replicas", &replicas]);
        run_program(&mut create, "");
    }
}

fn play(
    cluster: &AnyCluster,
    databases: &Databases,
    logs: &Path,
    time: Duration,
    seed: u64,
) -> Result<Figures, String> {
    let stop = &AtomicBool::new(false);
    let began = Instant::now();
    let processes = Processes::start(databases, cluster.address(), logs, seed);
    let (mut processes, database_kills, broker_kills) = thread::scope(|scope| {
        let working = scope.spawn(move || processes.work(stop));
        let placing = scope.spawn(move || place_orders(&databases.url("orders"), stop));
        let crashing = scope.spawn(move || repeat(seed + 1, stop, |random| databases.crash(random.millis(0..2_000))));
        let brokers = scope.spawn(move || {
            repeat(seed + 2, stop, |random| {
                let broker = u16::try_from(random.number(0..usize::from(cluster.brokers()))).unwrap() + 1;
                cluster.crash(broker, random.millis(0..2_000));
                true
            })
        });
        pause(time, &AtomicBool::new(false));
        stop.store(true, Relaxed);
        placing.join().unwrap();
        let kills = (crashing.join().unwrap(), brokers.join().unwrap());
        (working.join().unwrap(), kills.0, kills.1)
    });
    let time = began.elapsed();
    let (drained_after, retried) = drain(databases, &mut processes)?;
    let outcome = oracle::check(databases, cluster.address())?;
    if outcome.completed == 0 || outcome.cancelled == 0 {
        return Err(format!("too little has happened: {outcome:?}"));
    }
    Ok(Figures {
        time,
        services_killed: processes.services_killed,
        relays_killed: processes.relays_killed,
        database_kills,
        broker_kills,
        retried,
        drained_after,
        outcome,
    })
}

/// Does something now and then. Returns how often.
fn repeat(seed: u64, stop: &AtomicBool, mut action: impl FnMut(&mut Random) -> bool) -> usize {
    let mut random = Random(seed);
    let mut count = 0;
    loop {
        pause(random.millis(4_000..10_000), stop);
        if stop.load(Relaxed) {
            return count;
        }
        count += usize::from(action(&mut random));
    }
}

/// Places orders until `stop`: each is a row and an event in one transaction.
fn place_orders(url: &str, stop: &AtomicBool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut number = 0;
        while !stop.load(Relaxed) {
            tokio::time::sleep(Duration::from_millis(40)).await;
            let Ok(database) = Database::connect(url).await else {
                continue;
            };
            while !stop.load(Relaxed) && place(&database, &format!("order-{number}")).await.is_ok() {
                number += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            // Whether the failed commit has happened is unknown, so its number is not used again.
            number += 1;
            database.close().await;
        }
    });
}

async fn place(database: &Database, id: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut transaction = database.begin().await?;
    let insert = "INSERT INTO orders (id, status) VALUES ($1, 'placed')";
    match transaction.connection() {
        Connection::Postgres(connection) => {
            sqlx::query(insert).bind(id).execute(connection).await?;
        }
        Connection::Sqlite(connection) => {
            sqlx::query(insert).bind(id).execute(connection).await?;
        }
    }
    let event = OutboxEvent::new("orders", id, "OrderCreated")
        .payload("{}")
        .header("correlation_id", id);
    outbox::write(transaction.connection(), &event).await?;
    transaction.commit().await?;
    Ok(())
}

/// Waits until all sagas have ended and all events are published. Stuck sagas are retried by hand.
fn drain(databases: &Databases, processes: &mut Processes<'_>) -> Result<(Duration, usize), String> {
    let began = Instant::now();
    let mut retried = 0;
    loop {
        let placed = databases.query("orders", "SELECT count(*) FROM orders");
        let ended = databases.query("orders", "SELECT count(*) FROM effects");
        let waiting: Vec<String> = SERVICES
            .iter()
            .map(|service| databases.query(service, "SELECT count(*) FROM milena_outbox WHERE published_at IS NULL"))
            .collect();
        if placed == ended && waiting.iter().all(|count| count == "0") {
            return Ok((began.elapsed(), retried));
        }
        if began.elapsed() > DRAIN {
            return Err(format!(
                "{ended} of {placed} sagas have ended after {} s; unpublished events: {waiting:?}",
                DRAIN.as_secs()
            ));
        }
        processes.start_missing();
        let stuck = databases.query(
            "orders",
            "SELECT saga_id FROM milena_sagas WHERE status = 'stuck' LIMIT 10",
        );
        for saga in stuck.lines() {
            let mut retry = Command::new(env!("CARGO_BIN_EXE_milena"));
            retry.args(["saga", "retry", saga, "-d", &databases.url("orders")]);
            let output = retry
                .args(["--reason", "the faults are over", "--user", "test"])
                .output()
                .unwrap();
            retried += usize::from(output.status.success());
        }
        thread::sleep(Duration::from_millis(500));
    }
}
