//! Compensations before actions, and functions that fail.

use std::sync::atomic::Ordering;

use milena_app::{
    App,
    saga::{Saga, Step},
};
use milena_sql::{
    Dialect,
    saga::{AppSagas as _, Participant, ParticipantError, Sagas},
};

use super::rig::{Shop, event, order_saga};
use crate::databases::Home;

#[tokio::test]
async fn a_compensation_before_its_action_refuses_the_action() {
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        let mut shop = Shop::new(dialect).await;
        shop.start("payment").await;
        let request = event("CompensationRequested", "9", r#"{"step":"charge"}"#)
            .header("saga_step", "charge")
            .header("id", "request");
        shop.publish_record("orders", "9", request);
        shop.wait_for("payment", "9", "cancelled").await;
        // The tombstone is announced as if the step was compensated.
        let refunded = "SELECT count(*) FROM milena_outbox WHERE type = 'PaymentRefunded'";
        assert_eq!(shop.count("payment", refunded).await, 1);
        shop.publish("inventory", "InventoryReserved", "9", r#"{"card":"good"}"#);
        let refused = "SELECT count(*) FROM milena_saga_audit WHERE action LIKE 'charge refused%'";
        shop.wait_for_count("payment", refused, 1).await;
        assert_eq!(shop.count("payment", "SELECT count(*) FROM charges").await, 0);
        assert_eq!(shop.status("payment", "9").await.as_deref(), Some("cancelled"));
        let counts = shop.service("payment").sagas.counts();
        let counts = counts[&("order".to_owned(), "payment".to_owned())];
        assert_eq!((counts.cancelled_steps, counts.refused, counts.performed), (1, 1, 0));
    }
}

#[tokio::test]
async fn an_error_is_retried_and_leaves_nothing() {
    let mut shop = Shop::new(Dialect::Postgres).await;
    shop.switches.is_bank_down.store(true, Ordering::SeqCst);
    shop.start("payment").await;
    shop.publish("inventory", "InventoryReserved", "1", r#"{"card":"good"}"#);
    let running = &shop.service("payment").instances[0];
    let failed = || running.counts().iter().map(|counts| counts.failed).sum::<u64>();
    while failed() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    assert_eq!(shop.row("payment", "1").await, None);
    assert_eq!(
        shop.count("payment", "SELECT count(*) FROM milena_processed_events")
            .await,
        0
    );
    shop.switches.is_bank_down.store(false, Ordering::SeqCst);
    shop.clock.advance(std::time::Duration::from_secs(60));
    shop.wait_for("payment", "1", "done").await;
    assert_eq!(shop.count("payment", "SELECT count(*) FROM charges").await, 1);
}

#[tokio::test]
async fn events_of_others_are_skipped() {
    let mut shop = Shop::new(Dialect::Sqlite).await;
    shop.start("shipping").await;
    shop.publish("payment", "AccountOpened", "1", "{}");
    shop.publish("payment", "PaymentProcessed", "3", "{}");
    shop.wait_for("shipping", "3", "done").await;
    assert_eq!(shop.row("shipping", "1").await, None);
}

#[tokio::test]
async fn a_participant_must_fit_its_definition() {
    async fn nothing() {}
    let database = Home::sqlite().connect().await;
    let add = |participant: Participant| {
        let sagas = Sagas::new(database.clone()).participant(participant);
        App::new("127.0.0.1:1").group("x").sagas(sagas).unwrap_err()
    };
    let saga = order_saga();
    let refused = |error: ParticipantError, text: &str| assert_eq!(error.to_string(), text);
    refused(
        add(Participant::new(&saga, "inventory")),
        "step reserve of the saga order has no function; add Participant::step(\"reserve\", …)",
    );
    refused(
        add(Participant::new(&saga, "inventory").step("reserve", nothing)),
        "step reserve of the saga order has no compensation; add Participant::compensation(\"reserve\", …)",
    );
    refused(
        add(Participant::new(&saga, "inventory").step("charge", nothing)),
        "inventory has no step \"charge\" in the saga order",
    );
    refused(
        add(Participant::new(&saga, "billing")),
        "the saga order has no participant \"billing\"; it has orders, inventory, payment, shipping",
    );
    refused(
        add(Participant::new(&saga, "shipping")
            .step("ship", nothing)
            .compensation("ship", nothing)),
        "step ship of the saga order is pivot and cannot be compensated; remove its compensation",
    );
    refused(
        add(Participant::new(&saga, "shipping")
            .step("ship", nothing)
            .completed(nothing)),
        "shipping does not own the saga order; only orders has functions for its end",
    );
}

/// A participant that performs the step of a saga whose id and event types are in JSON.
#[tokio::test]
async fn ids_and_types_may_be_in_the_payload() {
    use milena_app::saga::Locator;
    use milena_test::{TestBroker, TestRecord};
    async fn nothing() {}
    let saga = Saga::named("trip")
        .owner("trips", "trips")
        .participant("hotels", "hotels")
        .id(Locator::json("trip.id"))
        .event_type(Locator::json("kind"))
        .starts("Booked")
        .step(
            Step::compensatable("book")
                .by("hotels")
                .on("Booked")
                .done("HotelBooked")
                .failed("HotelFull")
                .compensated("HotelFreed"),
        )
        .build()
        .unwrap();
    let home = Home::sqlite();
    let database = home.migrated().await;
    let broker = TestBroker::start();
    broker.create_topic("trips", 1);
    broker.produce("trips", 0, [TestRecord::new(r#"{"kind":"Booked","trip":{"id":7}}"#)]);
    let participant = Participant::new(&saga, "hotels")
        .step("book", nothing)
        .compensation("book", nothing);
    let app = App::new(broker.bootstrap_servers()).group("hotels");
    let app = app
        .sagas(Sagas::new(database.clone()).participant(participant))
        .unwrap();
    let running = app.start().await.unwrap();
    let milena_sql::Database::Sqlite(pool) = &database else {
        unreachable!()
    };
    let payload = loop {
        let query = sqlx::query_as("SELECT topic, aggregateid, payload FROM milena_outbox");
        let rows: Vec<(String, String, Vec<u8>)> = query.fetch_all(pool).await.unwrap();
        if let Some((topic, key, payload)) = rows.into_iter().next() {
            assert_eq!((topic.as_str(), key.as_str()), ("hotels", "7"));
            break payload;
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    };
    let payload: serde_json::Value = serde_json::from_slice(&payload).unwrap();
    assert_eq!(
        payload,
        serde_json::json!({ "kind": "HotelBooked", "trip": { "id": "7" } })
    );
    running.stop().await.unwrap();
}
