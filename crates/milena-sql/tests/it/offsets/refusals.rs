//! Combinations that cannot be right are refused at start.

use std::time::Duration;

use milena_app::{Replay, prelude::*};
use milena_sql::{Database, offsets::SqlOffsets, once::SqliteTx};

use super::rig::{GROUP, Rig, TOPIC, within};
use crate::databases::Home;

async fn nothing(_tx: SqliteTx) {}

#[tokio::test]
async fn a_handler_needs_a_store_and_a_transaction() {
    let rig = Rig::new(Home::sqlite(), 1).await;
    let app = || App::new("127.0.0.1:1").group(GROUP).state(rig.database.clone());
    let store = || SqlOffsets::new(rig.database.clone());
    let no_store = app().stored_offsets(TOPIC, nothing, |policy| policy);
    let error = no_store.check().unwrap_err().to_string();
    assert!(error.contains("App::offset_store"), "{error}");
    let no_transaction = app()
        .offset_store(store())
        .stored_offsets(TOPIC, || async {}, |policy| policy);
    let error = no_transaction.check().unwrap_err().to_string();
    assert!(error.contains("takes no transaction"), "{error}");
    let held = app().offset_store(store()).stored_offsets(TOPIC, nothing, |policy| {
        policy.then_topics([Duration::from_secs(60)]).keep_key_order()
    });
    let error = held.check().unwrap_err().to_string();
    assert!(error.contains("keep_key_order"), "{error}");
    app()
        .offset_store(store())
        .stored_offsets(TOPIC, nothing, |policy| policy)
        .check()
        .unwrap();
}

#[tokio::test]
async fn a_database_without_tables_is_found_at_start() {
    for home in Home::both() {
        let database = home.connect().await;
        let rig = Rig::new(Home::sqlite(), 1).await;
        let app = rig.orders(rig.app().offset_store(SqlOffsets::new(database)), |policy| policy);
        let error = app.start().await.unwrap_err().to_string();
        assert!(error.contains("milena sql init"), "{error}");
    }
}

#[tokio::test]
async fn a_replay_is_refused() {
    let rig = Rig::new(Home::sqlite(), 1).await;
    let app = rig.orders(rig.app(), |policy| policy);
    let error = app.replay(Replay::new("repair")).await.unwrap_err().to_string();
    assert!(error.contains("duplicates"), "{error}");
}

#[tokio::test]
async fn transactions_in_another_database_end_the_application() {
    let (rig, other) = (Rig::new(Home::sqlite(), 1).await, Home::sqlite());
    let other: Database = other.migrated().await;
    rig.broker.produce(TOPIC, 0, ["one"]);
    let app = rig.orders(rig.app().offset_store(SqlOffsets::new(other)), |policy| policy);
    let running = app.start().await.unwrap();
    within("the end", running.ended()).await;
    let error = running.stop().await.unwrap_err().to_string();
    assert!(error.contains("no offset of orders-0"), "{error}");
    assert!(rig.effects().await.is_empty());
}
