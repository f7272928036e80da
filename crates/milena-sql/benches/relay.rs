//! The outbox relay on PostgreSQL with its default settings: latency under load, speed of a drain, and memory.
//!
//! `cargo bench -p milena-sql --bench relay`
//!
//! The relay is a process of its own. Server, broker and writers share the machine with it. The latency of an event is
//! from its insert to its mark in the table, by the database's clock: commit and acknowledgement are in between.

#![allow(
    clippy::unwrap_used,
    reason = "a measurement that meets the unexpected should stop there"
)]

use std::{
    env, fs,
    io::Read,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use milena_broker::Broker;
use milena_client::{
    admin::{Admin, NewTopic},
    config::ConfigMap,
};
use milena_sql::{Database, relay::Relay, sqlx};
use milena_test::PostgresServer;
use sqlx::PgPool;
use tokio::runtime::Runtime;

const AGGREGATES: u64 = 1_000;
const PARTITIONS: i32 = 8;
const WRITERS: u64 = 8;
const RATE: u64 = 5_000;
const LOAD: Duration = Duration::from_secs(20);
/// Events at the beginning that do not count: connections and caches are cold.
const WARM_UP: Duration = Duration::from_secs(3);
const DRAINED: i64 = 200_000;
const PAYLOAD: usize = 200;

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if let [_, role, database, brokers] = arguments.as_slice()
        && role == "relay"
    {
        return relay(database, brokers);
    }
    let directory = tempfile::tempdir().unwrap();
    let runtime = Runtime::new().unwrap();
    let broker = runtime.block_on(start_broker(&directory.path().display().to_string()));
    let brokers = broker.address().to_string();
    let server = PostgresServer::start_synced();
    for events in [1, 10] {
        let url = server.create_database();
        runtime.block_on(load(&url, &brokers, events));
    }
    let url = server.create_database();
    runtime.block_on(drain(&url, &brokers));
    runtime.block_on(broker.shutdown());
}

/// The relay's own process. It ends with its input.
fn relay(database: &str, brokers: &str) {
    Runtime::new().unwrap().block_on(async {
        let database = Database::connect(database).await.unwrap();
        let mut settings = ConfigMap::new();
        settings.set("bootstrap.servers", brokers);
        let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut vec![]));
        let stop = async { drop(ended.await) };
        Relay::new(database, settings).run_until(stop).await.unwrap();
    });
}

struct RelayProcess(Child);

impl RelayProcess {
    fn start(database: &str, brokers: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["relay", database, brokers]).stdin(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// Largest resident memory so far, in MB.
    fn memory(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        let kilobytes: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kilobytes / 1024.0
    }

    /// CPU time so far, in seconds.
    fn cpu(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        ticks / 100.0
    }
}

impl Drop for RelayProcess {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

async fn start_broker(directory: &str) -> Broker {
    let mut settings = ConfigMap::new();
    settings
        .set("listeners", "PLAINTEXT://127.0.0.1:0")
        .set("log.dirs", directory);
    let broker = Broker::start(settings).await.unwrap();
    let mut settings = ConfigMap::new();
    settings.set("bootstrap.servers", broker.address().to_string());
    let admin = Admin::new(settings).unwrap();
    let topic = NewTopic::new("order.events").partitions(PARTITIONS);
    for created in admin.create_topics([topic]).await.into_values() {
        created.unwrap();
    }
    broker
}

async fn connect(url: &str) -> (Database, PgPool) {
    let database = Database::connect(url).await.unwrap();
    database.migrate().await.unwrap();
    let Database::Postgres(pool) = &database else {
        unreachable!()
    };
    let pool = pool.clone();
    (database, pool)
}

/// Writers insert at a fixed rate, `events` in each transaction.
async fn load(url: &str, brokers: &str, events: u64) {
    let (_database, pool) = connect(url).await;
    let relay = RelayProcess::start(url, brokers);
    let began = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(pool.clone(), writer, events)))
        .collect();
    let mut written = 0;
    for writer in writers {
        written += writer.await.unwrap();
    }
    let took = began.elapsed();
    until_published(&pool).await;
    let [p50, p99, max] = latencies(&pool).await;
    println!(
        "load, {events:>2} events per transaction: {:.0} events/s; insert to mark p50 {p50:.1} ms, p99 {p99:.1} ms, \
         max {max:.1} ms; relay {:.1} MB, {:.2} s CPU",
        written as f64 / took.as_secs_f64(),
        relay.memory(),
        relay.cpu(),
    );
}

async fn write(pool: PgPool, writer: u64, events: u64) -> u64 {
    const INSERT: &str = "INSERT INTO milena_outbox (aggregatetype, aggregateid, type, payload)
        SELECT 'order', (($1 + number * $2) % $3)::text, 'Changed', $4 FROM generate_series(1, $5) AS numbers (number)";
    let interval = Duration::from_secs_f64((WRITERS * events) as f64 / RATE as f64);
    let mut timer = tokio::time::interval(interval);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    let (began, mut written) = (Instant::now(), 0);
    let payload = vec![b'x'; PAYLOAD];
    while began.elapsed() < LOAD {
        timer.tick().await;
        // Writers share no aggregate, and the events of a transaction are of different ones.
        let first = writer + written * WRITERS * 7;
        let insert = sqlx::query(INSERT).bind(i64::try_from(first).unwrap());
        let insert = insert.bind(i64::try_from(WRITERS).unwrap());
        let insert = insert.bind(i64::try_from(AGGREGATES).unwrap()).bind(&payload);
        insert
            .bind(i64::try_from(events).unwrap())
            .execute(&pool)
            .await
            .unwrap();
        written += events;
    }
    written
}

/// Percentiles after the warm-up, in milliseconds.
async fn latencies(pool: &PgPool) -> [f64; 3] {
    const LATENCIES: &str = "SELECT percentile_cont(ARRAY[0.5, 0.99, 1.0]) WITHIN GROUP (
            ORDER BY extract(epoch FROM published_at - created_at)::float8 * 1000)
        FROM milena_outbox
        WHERE created_at > (SELECT min(created_at) FROM milena_outbox) + $1 * interval '1 second'";
    let warm_up = i64::try_from(WARM_UP.as_secs()).unwrap();
    let latencies: Vec<f64> = sqlx::query_scalar(LATENCIES)
        .bind(warm_up)
        .fetch_one(pool)
        .await
        .unwrap();
    latencies.try_into().unwrap()
}

async fn until_published(pool: &PgPool) {
    const UNPUBLISHED: &str = "SELECT EXISTS (SELECT FROM milena_outbox WHERE published_at IS NULL)";
    while sqlx::query_scalar::<_, bool>(UNPUBLISHED)
        .fetch_one(pool)
        .await
        .unwrap()
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn drain(url: &str, brokers: &str) {
    const FILL: &str = "INSERT INTO milena_outbox (aggregatetype, aggregateid, type, payload)
        SELECT 'order', (number % $1)::text, 'Changed', $2 FROM generate_series(1, $3) AS numbers (number)";
    let (_database, pool) = connect(url).await;
    let fill = sqlx::query(FILL).bind(i64::try_from(AGGREGATES).unwrap());
    let fill = fill.bind(vec![b'x'; PAYLOAD]).bind(DRAINED);
    fill.execute(&pool).await.unwrap();
    sqlx::query("VACUUM ANALYZE milena_outbox")
        .execute(&pool)
        .await
        .unwrap();
    sqlx::query("CHECKPOINT").execute(&pool).await.unwrap();
    let began = Instant::now();
    let relay = RelayProcess::start(url, brokers);
    until_published(&pool).await;
    let took = began.elapsed().as_secs_f64();
    println!(
        "drain of {DRAINED} events: {took:.1} s, {:.0} events/s; relay {:.1} MB, {:.2} s CPU",
        DRAINED as f64 / took,
        relay.memory(),
        relay.cpu(),
    );
}
