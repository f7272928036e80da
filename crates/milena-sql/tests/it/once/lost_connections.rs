//! Connections to the database that are lost at the worst moments.

use std::time::Duration;

use milena_app::prelude::*;
use milena_sql::{Database, once::PgTx};
use milena_test::TestKit;
use sqlx::Postgres;

use super::{
    proxy::{Cut, Proxy},
    shop::{Script, app, effects, noted, opened, until},
};
use crate::databases::{Home, server_port};

/// A database behind a proxy, and the same one without it.
async fn behind_proxy() -> (Proxy, Database, Database) {
    let home = Home::postgres();
    let direct = opened(&home).await;
    let proxy = Proxy::start(server_port()).await;
    let url = home.url.replace(&server_port().to_string(), &proxy.port.to_string());
    let proxied = Database::connect(&url).await.unwrap();
    (proxy, proxied, direct)
}

#[tokio::test]
async fn an_effect_whose_commit_is_unknown_happens_once() {
    // The commit was executed, so the next attempt is a duplicate; or it was not, so the next attempt is handled.
    for (cut, calls, duplicates) in [(Cut::After, 1, 1), (Cut::Before, 2, 0)] {
        let (proxy, proxied, direct) = behind_proxy().await;
        let script = Script::default();
        let kit = TestKit::start(app::<Postgres>(&proxied, &script, |policy| policy)).await;
        proxy.arm(cut, "COMMIT");
        kit.publish("orders", ("anna", "one")).await;
        proxy.fired().await;
        kit.settled().await;
        kit.advance(Duration::from_secs(1)).await;
        assert_eq!(effects(&direct).await, ["one"], "{cut:?}");
        assert_eq!(noted(&direct).await, ["orders-0-0"]);
        assert_eq!(script.calls(), calls, "{cut:?}");
        let counts = kit.running().counts();
        assert_eq!(counts.first().unwrap().duplicates, duplicates, "{cut:?}");
        kit.assert_dlq("orders", 0).await;
        kit.stop().await;
    }
}

#[tokio::test]
async fn an_effect_whose_connection_is_lost_before_is_handled_again() {
    for statement in ["BEGIN", "milena_processed_events", "INSERT INTO effects"] {
        for cut in [Cut::Before, Cut::After] {
            let (proxy, proxied, direct) = behind_proxy().await;
            let script = Script::default();
            let kit = TestKit::start(app::<Postgres>(&proxied, &script, |policy| policy)).await;
            proxy.arm(cut, statement);
            kit.publish("orders", ("anna", "one")).await;
            proxy.fired().await;
            kit.settled().await;
            kit.advance(Duration::from_secs(1)).await;
            assert_eq!(effects(&direct).await, ["one"], "{cut:?} {statement}");
            kit.assert_dlq("orders", 0).await;
            kit.stop().await;
        }
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_while_it_begins_leaves_no_open_transaction() {
    let (proxy, proxied, direct) = behind_proxy().await;
    let script = Script::default();
    let limit = Duration::from_secs(5);
    let app = app::<Postgres>(&proxied, &script, |policy| policy.timeout(limit).retry(Retry::none()));
    let kit = TestKit::start(app).await;
    proxy.arm(Cut::Hold, "BEGIN");
    kit.publish("orders", ("anna", "one")).await;
    proxy.fired().await;
    kit.clock().advance(limit);
    kit.settled().await;
    kit.assert_dlq("orders", 1).await;
    proxy.release();
    let Database::Postgres(pool) = &proxied else {
        panic!("a PostgreSQL")
    };
    until("the connection is back in its pool", || pool.num_idle() > 0).await;
    let Database::Postgres(pool) = &direct else {
        panic!("a PostgreSQL")
    };
    let open: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'",
    )
    .fetch_one(pool)
    .await
    .unwrap();
    assert_eq!(open, 0);
    assert_eq!(script.calls(), 0);
    kit.stop().await;
}

#[tokio::test]
async fn a_failed_statement_that_the_handler_ignores_does_not_pass_as_success() {
    let home = Home::postgres();
    let database = opened(&home).await;
    let careless = |Value(name): Value<String>, mut tx: PgTx| async move {
        let _ = sqlx::query("INSERT INTO effects (name) VALUES ($1)")
            .bind(name)
            .execute(&mut *tx)
            .await;
        let _ = sqlx::query("INSERT INTO effects (name) VALUES (NULL)")
            .execute(&mut *tx)
            .await;
    };
    let app = App::new("").group("billing").state(database.clone());
    let kit = TestKit::start(app.on("orders", careless, |policy| policy.retry(Retry::none()))).await;
    kit.publish("orders", ("anna", "one")).await;
    kit.settled().await;
    let dead = kit.assert_dlq("orders", 1).await;
    let reason = dead[0]
        .headers()
        .find(|header| header.key == b"dlq.failure.reason")
        .unwrap();
    let reason = String::from_utf8_lossy(reason.value.unwrap()).into_owned();
    assert!(reason.contains("the handler returned Ok"), "{reason}");
    assert!(effects(&database).await.is_empty());
    assert!(noted(&database).await.is_empty());
    kit.stop().await;
}
