//! Arbitrary interleavings of concurrent transactions.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU32, Ordering},
};

use milena_sql::{
    Database, Transaction,
    outbox::{self, OutboxEvent},
};
use milena_test::TestBroker;
use proptest::prelude::*;
use sqlx::PgPool;
use tokio::{runtime::Runtime, task::JoinHandle};

use super::support::{by_key, records, relay, until, until_published};
use crate::databases::Home;

const CONNECTIONS: usize = 4;
const AGGREGATES: u8 = 4;
const PARTITIONS: i32 = 2;

#[derive(Debug, Clone, Copy)]
enum Step {
    Insert { connection: usize, aggregate: u8 },
    Commit { connection: usize },
    RollBack { connection: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let connection = 0..CONNECTIONS;
    let step = (connection, 0..AGGREGATES, 0..10_u8).prop_map(|(connection, aggregate, kind)| match kind {
        0..6 => Step::Insert { connection, aggregate },
        6..9 => Step::Commit { connection },
        _ => Step::RollBack { connection },
    });
    proptest::collection::vec(step, 1..60)
}

/// A transaction, which may wait for the lock of an aggregate.
enum Session {
    Idle,
    Open(OpenTransaction),
    Waiting(JoinHandle<OpenTransaction>),
}

struct OpenTransaction {
    transaction: Transaction,
    pid: i32,
    /// Aggregates with the values of their events. Written in rising order, so that transactions do not deadlock.
    written: Vec<(u8, String)>,
}

/// Events in the order of their commits, which the script knows because it commits one at a time.
type Committed = BTreeMap<String, Vec<String>>;

struct Script<'a> {
    database: &'a Database,
    pool: &'a PgPool,
    kind: &'a str,
    sessions: Vec<Session>,
    committed: Committed,
    events: u32,
}

impl Script<'_> {
    async fn play(&mut self, step: Step) {
        match step {
            Step::Insert { connection, aggregate } => self.insert(connection, aggregate).await,
            Step::Commit { connection } => self.end(connection, true).await,
            Step::RollBack { connection } => self.end(connection, false).await,
        }
    }

    async fn begin(&self) -> OpenTransaction {
        let mut transaction = self.database.begin().await.unwrap();
        let Transaction::Postgres(connection) = &mut transaction else {
            unreachable!()
        };
        let pid = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut **connection);
        let pid = pid.await.unwrap();
        OpenTransaction {
            transaction,
            pid,
            written: vec![],
        }
    }

    async fn insert(&mut self, connection: usize, aggregate: u8) {
        let mut open = match std::mem::replace(&mut self.sessions[connection], Session::Idle) {
            Session::Idle => self.begin().await,
            Session::Open(open) => open,
            waiting @ Session::Waiting(_) => {
                self.sessions[connection] = waiting;
                return;
            }
        };
        if open.written.last().is_some_and(|(last, _)| *last > aggregate) {
            self.sessions[connection] = Session::Open(open);
            return;
        }
        self.events += 1;
        let (pid, value) = (open.pid, self.events.to_string());
        let event = OutboxEvent::new(self.kind, format!("{aggregate}"), "Changed").payload(value.clone());
        let waiting = tokio::spawn(async move {
            outbox::write(open.transaction.connection(), &event).await.unwrap();
            open.written.push((aggregate, value));
            open
        });
        // It is done, or it waits for a lock.
        until("the insert is done or waits", || async {
            let waits = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $1";
            let waits: Option<bool> = sqlx::query_scalar(waits).bind(pid).fetch_one(self.pool).await.unwrap();
            waiting.is_finished() || waits.unwrap_or(false)
        })
        .await;
        self.sessions[connection] = Session::Waiting(waiting);
        self.settle(connection).await;
    }

    /// Takes back a transaction that waits no more.
    async fn settle(&mut self, connection: usize) {
        let session = std::mem::replace(&mut self.sessions[connection], Session::Idle);
        self.sessions[connection] = match session {
            Session::Waiting(waiting) if waiting.is_finished() => Session::Open(waiting.await.unwrap()),
            other => other,
        };
    }

    async fn end(&mut self, connection: usize, is_commit: bool) {
        self.settle(connection).await;
        let session = std::mem::replace(&mut self.sessions[connection], Session::Idle);
        let open = match session {
            Session::Open(open) => open,
            other => {
                self.sessions[connection] = other;
                return;
            }
        };
        if !is_commit {
            open.transaction.rollback().await.unwrap();
            return;
        }
        open.transaction.commit().await.unwrap();
        for (aggregate, value) in open.written {
            self.committed.entry(aggregate.to_string()).or_default().push(value);
        }
    }

    /// Commits what is open. Each round frees at least one waiting transaction.
    async fn finish(&mut self) {
        until_async(async {
            while self.sessions.iter().any(|session| !matches!(session, Session::Idle)) {
                for connection in 0..CONNECTIONS {
                    self.end(connection, true).await;
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

async fn until_async(work: impl Future<Output = ()>) {
    let limit = std::time::Duration::from_secs(60);
    tokio::time::timeout(limit, work).await.expect("the transactions end");
}

#[test]
fn each_committed_event_is_published_once_in_commit_order() {
    static CASES: AtomicU32 = AtomicU32::new(0);
    let runtime = Runtime::new().unwrap();
    let home = Home::postgres();
    let (database, broker) = (runtime.block_on(home.migrated()), TestBroker::start());
    let Database::Postgres(pool) = &database else {
        unreachable!()
    };
    let config = ProptestConfig {
        cases: 16,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(steps in steps(), batch in 1_u32..6, in_flight in 1_u32..10)| {
        let kind = format!("case-{}", CASES.fetch_add(1, Ordering::Relaxed));
        let topic = format!("{kind}.events");
        broker.create_topic(&topic, PARTITIONS);
        let (published, committed) = runtime.block_on(async {
            let relay = relay(&database, &broker).batch(batch).in_flight(in_flight);
            let running = relay.start().await.unwrap();
            let mut script = Script {
                database: &database,
                pool,
                kind: &kind,
                sessions: (0..CONNECTIONS).map(|_| Session::Idle).collect(),
                committed: Committed::new(),
                events: 0,
            };
            for step in steps {
                script.play(step).await;
            }
            script.finish().await;
            until_published(&database).await;
            running.stop().await.unwrap();
            (by_key(&records(&broker, &topic, PARTITIONS).await), script.committed)
        });
        prop_assert_eq!(published, committed);
    });
}
