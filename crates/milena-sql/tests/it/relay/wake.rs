//! Wake-ups by commits, and their cost for writers.

use std::time::Duration;

use milena_sql::{
    Database,
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

/// Returns whether a notification is there; the marker of this connection comes after it.
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
    // An open transaction keeps the relay awake, so that nobody has to notify.
    let mut open = database.begin().await.unwrap();
    let event = OutboxEvent::new("order", "open", "Changed").payload("1");
    outbox::write(open.connection(), &event).await.unwrap();
    write(&database, "order", "a", "2").await;
    until("the relay is awake", || async { sleeping_slots(pool).await == 0 }).await;
    let mut awake = database.begin().await.unwrap();
    let event = OutboxEvent::new("order", "awake", "Changed").payload("1");
    outbox::write(awake.connection(), &event).await.unwrap();
    notifications(&mut listener, pool).await;
    for number in 0..200 {
        write(&database, "order", &format!("busy-{number}"), "1").await;
    }
    assert_eq!(notifications(&mut listener, pool).await, 0);
    awake.commit().await.unwrap();
    open.commit().await.unwrap();
    until_published(&database).await;
    running.stop().await.unwrap();
}
