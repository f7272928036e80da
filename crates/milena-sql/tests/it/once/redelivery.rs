//! Records that are delivered again, and effects that happen once.

use std::time::Duration;

use milena_app::{Replay, StartError, prelude::*};
use milena_sql::{
    Database,
    once::{PgTx, SqliteTx},
    outbox::OutboxEvent,
};
use milena_test::{TestBroker, TestKit, TestRecord};
use sqlx::{Postgres, Sqlite};

use super::shop::{Script, Shop, Step, app, effect, effects, noted, opened, texts};
use crate::databases::Home;

/// Runs a test on both databases.
macro_rules! on_both {
    ($name:ident, $test:ident) => {
        #[tokio::test]
        async fn $name() {
            $test::<Postgres>().await;
            $test::<Sqlite>().await;
        }
    };
}

fn with_id(value: &str, id: &str) -> TestRecord {
    TestRecord::new(value).key("anna").header("event_id", id)
}

on_both!(a_duplicate_is_skipped_and_counted, duplicate);
async fn duplicate<DB: Shop>() {
    let home = DB::home();
    let database = opened(&home).await;
    let script = Script::default();
    let kit = TestKit::start(app::<DB>(&database, &script, |policy| policy)).await;
    for record in [with_id("one", "e1"), with_id("two", "e2"), with_id("one", "e1")] {
        kit.publish("orders", record).await;
    }
    kit.settled().await;
    assert_eq!(effects(&database).await, ["one", "two"]);
    assert_eq!(noted(&database).await, ["e1", "e2"]);
    assert_eq!(script.calls(), 2);
    let metrics = kit.running().to_prometheus();
    let line = "events_duplicates_skipped_total{handler=\"orders\"} 1";
    assert!(metrics.lines().any(|found| found == line), "{metrics}");
    // Another process, and all records again.
    let broker = kit.stop().await;
    let again = app::<DB>(&database, &script, |policy| policy).bootstrap_servers(broker.bootstrap_servers());
    let report = again.replay(Replay::new("again")).await.unwrap();
    assert_eq!(report.counts.first().unwrap().duplicates, 3);
    assert_eq!(script.calls(), 2);
}

on_both!(a_failed_call_leaves_nothing_and_the_next_attempt_succeeds, failed);
async fn failed<DB: Shop>() {
    let home = DB::home();
    let database = opened(&home).await;
    let script = Script::default()
        .with("one", [Step::Fail, Step::Panic, Step::Fail])
        .with("two", [Step::Poison]);
    let kit = TestKit::start(app::<DB>(&database, &script, |policy| policy)).await;
    kit.publish("orders", ("anna", "one")).await;
    kit.publish("orders", ("bert", "two")).await;
    kit.settled().await;
    assert!(effects(&database).await.is_empty());
    kit.advance(Duration::from_secs(30)).await;
    assert_eq!(effects(&database).await, ["one"]);
    assert_eq!(noted(&database).await, ["orders-0-0"]);
    assert_eq!(script.calls(), 5);
    kit.assert_dlq("orders", 1).await;
    kit.stop().await;
}

on_both!(a_call_that_times_out_is_rolled_back, timed_out);
async fn timed_out<DB: Shop>() {
    let home = DB::home();
    let database = opened(&home).await;
    let script = Script::default().with("one", [Step::Wait]);
    let limit = Duration::from_secs(5);
    let kit = TestKit::start(app::<DB>(&database, &script, |policy| policy.timeout(limit))).await;
    kit.publish("orders", ("anna", "one")).await;
    script.until_waiting().await;
    kit.clock().advance(limit);
    kit.settled().await;
    assert!(effects(&database).await.is_empty());
    kit.advance(Duration::from_secs(1)).await;
    assert_eq!(effects(&database).await, ["one"]);
    assert_eq!(script.calls(), 2);
    kit.stop().await;
}

on_both!(a_call_that_dies_with_its_process_is_rolled_back, crashed);
async fn crashed<DB: Shop>() {
    let home = DB::home();
    let database = opened(&home).await;
    let script = Script::default().with("one", [Step::Wait]);
    let mut kit = TestKit::start(app::<DB>(&database, &script, |policy| policy)).await;
    kit.publish("orders", ("anna", "one")).await;
    script.until_waiting().await;
    kit.crash().await;
    kit.settled().await;
    assert_eq!(effects(&database).await, ["one"]);
    assert_eq!(script.calls(), 2);
    kit.stop().await;
}

on_both!(duplicates_on_two_instances_at_once_have_one_effect, concurrent);
async fn concurrent<DB: Shop>() {
    for (first, calls) in [(Step::Wait, 1), (Step::WaitAndFail, 2)] {
        let home = DB::home();
        let database = opened(&home).await;
        let script = Script::default().with("one", [first]);
        let broker = TestBroker::start();
        broker.create_topic("orders", 2);
        let mut kit = TestKit::start_on(broker, app::<DB>(&database, &script, |policy| policy)).await;
        kit.rebalance().await;
        kit.add_instance().await;
        kit.broker().produce("orders", 0, [with_id("one", "e1")]);
        kit.broker().produce("orders", 1, [with_id("one", "e1")]);
        script.until_waiting().await;
        DB::until_blocked(&database).await;
        script.go_on();
        kit.settled().await;
        kit.advance(Duration::from_secs(30)).await;
        assert_eq!(effects(&database).await, ["one"], "{first:?}");
        assert_eq!(script.calls(), calls, "{first:?}");
        kit.stop().await;
    }
}

on_both!(a_record_from_a_retry_topic_has_the_id_of_the_event, retry_topic);
async fn retry_topic<DB: Shop>() {
    let home = DB::home();
    let database = opened(&home).await;
    let script = Script::default().with("one", [Step::Fail]);
    let minute = Duration::from_secs(60);
    let policy = |policy: Policy| policy.retry(Retry::none()).then_topics([minute]);
    let kit = TestKit::start(app::<DB>(&database, &script, policy)).await;
    kit.publish("orders", ("anna", "one")).await;
    kit.settled().await;
    assert!(noted(&database).await.is_empty());
    kit.advance(minute).await;
    assert_eq!(effects(&database).await, ["one"]);
    assert_eq!(noted(&database).await, ["orders-0-0"]);
    let broker = kit.stop().await;
    let again = app::<DB>(&database, &script, policy).bootstrap_servers(broker.bootstrap_servers());
    again.replay(Replay::new("again")).await.unwrap();
    assert_eq!(effects(&database).await, ["one"]);
}

on_both!(a_dead_letter_that_is_published_twice_has_one_effect, dead_letter);
async fn dead_letter<DB: Shop>() {
    let home = DB::home();
    let database = opened(&home).await;
    let script = Script::default().with("one", [Step::Poison]);
    let kit = TestKit::start(app::<DB>(&database, &script, |policy| policy)).await;
    kit.publish("orders", with_id("one", "e1")).await;
    kit.settled().await;
    let dead = kit.assert_dlq("orders", 1).await;
    assert!(effects(&database).await.is_empty());
    for _ in 0..2 {
        let mut record = TestRecord::new(dead[0].value().unwrap()).key("anna");
        for header in dead[0].headers() {
            record = record.header(str::from_utf8(header.key).unwrap(), header.value.unwrap());
        }
        kit.publish("orders", record).await;
    }
    kit.settled().await;
    assert_eq!(effects(&database).await, ["one"]);
    assert_eq!(noted(&database).await, ["e1"]);
    kit.stop().await;
}

on_both!(a_rebalance_repeats_no_effect, rebalanced);
async fn rebalanced<DB: Shop>() {
    let home = DB::home();
    let database = opened(&home).await;
    let script = Script::default();
    let broker = TestBroker::start();
    broker.create_topic("orders", 4);
    let mut kit = TestKit::start_on(broker, app::<DB>(&database, &script, |policy| policy)).await;
    for round in 0..3 {
        for number in 0..20 {
            // Each event comes twice, in partitions of different owners.
            let event = format!("{round}-{number}");
            for key in ["anna", "bert"] {
                let record = TestRecord::new(event.as_str()).key(format!("{key} {number}"));
                kit.publish("orders", record.header("event_id", event.as_str())).await;
            }
        }
        kit.rebalance().await;
    }
    kit.settled().await;
    let found = effects(&database).await;
    let mut once = found.clone();
    once.dedup();
    assert_eq!((found.len(), once.len()), (60, 60));
    kit.stop().await;
}

on_both!(handlers_of_one_group_are_consumers_of_their_own, two_handlers);
async fn two_handlers<DB: Shop>() {
    let home = DB::home();
    let database = opened(&home).await;
    let script = Script::default();
    let app = app::<DB>(&database, &script, |policy| policy).on("enriched", effect::<DB>, |policy| policy);
    let kit = TestKit::start(app).await;
    kit.publish("orders", with_id("order", "e1")).await;
    kit.publish("enriched", with_id("enriched order", "e1")).await;
    kit.settled().await;
    assert_eq!(effects(&database).await, ["enriched order", "order"]);
    kit.stop().await;
}

#[tokio::test]
async fn ids_of_cloud_events_are_unique_within_their_source_and_ids_that_cannot_be_stored_are_poison() {
    let home = Home::postgres();
    let database = opened(&home).await;
    let kit = TestKit::start(app::<Postgres>(&database, &Script::default(), |policy| policy)).await;
    let event = |value: &str, source: &str| {
        let record = TestRecord::new(value).key("anna").header("ce_id", "1");
        record.header("ce_source", source)
    };
    for record in [event("one", "/shop"), event("two", "/web"), event("three", "/web")] {
        kit.publish("orders", record).await;
    }
    kit.publish("orders", with_id("long", &"x".repeat(2000))).await;
    kit.publish("orders", with_id("nul", "a\0b")).await;
    kit.settled().await;
    assert_eq!(effects(&database).await, ["one", "two"]);
    assert_eq!(noted(&database).await, ["/shop 1", "/web 1"]);
    kit.assert_dlq("orders", 2).await;
    kit.stop().await;
}

#[tokio::test]
async fn events_of_the_outbox_commit_with_the_effect_and_name_their_cause() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let home = Home::postgres();
    let database = opened(&home).await;
    let bill = |Value(name): Value<String>, mut tx: PgTx, cx: Cx| async move {
        tx.outbox(OutboxEvent::new("bills", name.as_str(), "BillWritten").payload(name.clone()))
            .await?;
        let own = OutboxEvent::new("bills", "own", "BillWritten").header("correlation_id", "own");
        tx.outbox_all([own]).await?;
        if cx.attempt() == 1 {
            return Err(Fault::retry("the first attempt fails"));
        }
        Ok(())
    };
    let app = App::new("").group("billing").state(database.clone());
    let kit = TestKit::start(app.on("orders", bill, |policy| policy)).await;
    kit.publish("orders", with_id("one", "e1").header("traceparent", PARENT))
        .await;
    kit.publish("orders", with_id("two", "e2").header("correlation_id", "c7"))
        .await;
    kit.settled().await;
    kit.advance(Duration::from_secs(1)).await;
    let query = "SELECT aggregateid || ' ' || (headers ->> 'correlation_id') || ' ' || (headers ->> 'causation_id')
        || coalesce(' ' || (headers ->> 'traceparent'), '') FROM milena_outbox ORDER BY 1";
    let traced = |text: &str| format!("{text} {PARENT}");
    let expected = [
        traced("one e1 e1"),
        traced("own own e1"),
        "own own e2".to_owned(),
        "two c7 e2".to_owned(),
    ];
    assert_eq!(texts(&database, query).await, expected);
    kit.stop().await;
}

#[tokio::test]
async fn combinations_without_sense_are_refused_at_start() {
    let postgres = Home::postgres().connect().await;
    let check = |app: App| app.group("billing").check().unwrap_err().to_string();
    let on = |app: App| app.on("orders", async |_tx: SqliteTx| {}, |policy| policy);
    let error = check(on(App::new("127.0.0.1:1")));
    assert!(
        error.contains("takes Tx<Sqlite>, and the application has no database"),
        "{error}"
    );
    let error = check(on(App::new("127.0.0.1:1").state(postgres.clone())));
    assert!(error.contains("database is postgres"), "{error}");
    let Database::Postgres(pool) = postgres else {
        panic!("a PostgreSQL")
    };
    let app = || App::new("127.0.0.1:1").state(pool.clone()).instance("one");
    let error = check(app().at_most_once("orders", async |_tx: PgTx| {}, |policy| policy));
    assert!(error.contains("at-most-once") && error.contains("App::on"), "{error}");
    let error = check(app().exactly_once("orders", async |_tx: PgTx| {}, |policy| policy));
    assert!(error.contains("exactly-once"), "{error}");
    let fine = app()
        .group("billing")
        .on("orders", async |_tx: PgTx| {}, |policy| policy);
    assert!(matches!(fine.check(), Ok::<(), StartError>(())));
}
