//! Wake-ups by commits, and their cost for writers.

use std::time::Duration;

use milena_sql::{
    Database, Transaction,
    outbox::{self, OutboxEvent},
};
use milena_test::TestBroker;
use sqlx::{PgPool, postgres::PgListener};

use super::support::{relay, until, until_published, write};
use crate::databases::Home;

/// Number of locks by which a sleeping relay tells writers to notify.
async fn sleeping_slots(pool: &PgPool) -> i64 {
    let locks = "SELECT count(*) FROM pg_locks
        WHERE locktype = 'advisory' AND classid = 1835101295 AND mode = 'ExclusiveLock' AND granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    sqlx::query_scalar(locks).fetch_one(pool).await.unwrap()
}

async fn has_found_relay_awake(transaction: &mut Transaction) -> bool {
    let Transaction::Postgres(connection) = transaction else {
        unreachable!()
    };
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1835101295
        AND mode = 'ShareLock' AND pid = pg_backend_pid()";
    let locks: i64 = sqlx::query_scalar(locks).fetch_one(&mut **connection).await.unwrap();
    locks == 1
}

/// Number of notifications since the last call; the marker comes after them.
async fn notifications(listener: &mut PgListener, pool: &PgPool) -> usize {
    sqlx::query("SELECT pg_notify('milena_outbox', 'marker')")
        .execute(pool)
        .await
        .unwrap();
    let mut count = 0;
    while listener.recv().await.unwrap().payload() != "marker" {
        count += 1;
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_wake_a_sleeping_relay_and_do_not_notify_one_that_is_awake() {
    let home = Home::postgres();
    let (database, broker) = (home.migrated().await, TestBroker::start());
    let Database::Postgres(pool) = &database else {
        unreachable!()
    };
    broker.create_topic("order.events", 1);
    // The poll interval is longer than the test may take.
    let running = relay(&database, &broker).poll_interval(Duration::from_secs(600));
    let running = running.start().await.unwrap();
    let mut listener = PgListener::connect_with(pool).await.unwrap();
    listener.listen("milena_outbox").await.unwrap();
    until("the relay sleeps", || async { sleeping_slots(pool).await == 256 }).await;
    write(&database, "order", "a", "1").await;
    assert_eq!(notifications(&mut listener, pool).await, 1);
    until_published(&database).await;
    until("the relay sleeps again", || async { sleeping_slots(pool).await == 256 }).await;
    // A transaction that finds the relay awake keeps it awake, so that other transactions need not notify.
    let mut number = 0;
    let awake = loop {
        number += 1;
        write(&database, "order", &format!("wake-{number}"), "1").await;
        let mut open = database.begin().await.unwrap();
        let event = OutboxEvent::new("order", format!("open-{number}"), "Changed").payload("1");
        outbox::write(open.connection(), &event).await.unwrap();
        if has_found_relay_awake(&mut open).await {
            break open;
        }
        open.commit().await.unwrap();
    };
    notifications(&mut listener, pool).await;
    for number in 0..200 {
        write(&database, "order", &format!("busy-{number}"), "1").await;
    }
    // The relay tries to sleep now and then, which a writer may take for sleep.
    let notified = notifications(&mut listener, pool).await;
    assert!(notified < 50, "{notified} of 200 transactions notified");
    awake.commit().await.unwrap();
    until_published(&database).await;
    running.stop().await.unwrap();
}
