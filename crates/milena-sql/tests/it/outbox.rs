//! Writers of the outbox.

use milena_sql::{
    Database,
    outbox::{self, InvalidEvent, OutboxError, OutboxEvent},
    sqlx,
};

use crate::databases::Home;

type Row = (String, String, String, Option<Vec<u8>>, String, Option<String>);

/// Columns of an event in the order of their sequence: type, aggregate id, type, payload, headers, topic.
async fn rows(database: &Database) -> Vec<Row> {
    const SELECT: &str = "SELECT aggregatetype, aggregateid, type, payload, CAST(headers AS text), topic
        FROM milena_outbox ORDER BY sequence";
    match database {
        Database::Postgres(pool) => sqlx::query_as(SELECT).fetch_all(pool).await.unwrap(),
        Database::Sqlite(pool) => sqlx::query_as(SELECT).fetch_all(pool).await.unwrap(),
    }
}

#[tokio::test]
async fn an_event_is_stored_with_all_its_parts() {
    for home in Home::both() {
        let database = home.migrated().await;
        let mut transaction = database.begin().await.unwrap();
        let event = OutboxEvent::new("orders", "7", "OrderPlaced")
            .json(&serde_json::json!({"cents": 5}))
            .unwrap()
            .header("tenant", "a \"quoted\" name")
            .topic("placed");
        let id = outbox::write(transaction.connection(), &event).await.unwrap();
        assert_eq!(id.get_version_num(), 7);
        outbox::write(
            transaction.connection(),
            &OutboxEvent::new("orders", "7", "OrderForgotten"),
        )
        .await
        .unwrap();
        transaction.commit().await.unwrap();

        let rows = rows(&database).await;
        let (aggregate_type, aggregate_id, event_type, payload, headers, topic) = rows[0].clone();
        assert_eq!((aggregate_type.as_str(), aggregate_id.as_str()), ("orders", "7"));
        assert_eq!((event_type.as_str(), topic.as_deref()), ("OrderPlaced", Some("placed")));
        assert_eq!(payload.unwrap(), br#"{"cents":5}"#);
        let headers: serde_json::Value = serde_json::from_str(&headers).unwrap();
        assert_eq!(headers, serde_json::json!({"tenant": "a \"quoted\" name"}));
        assert_eq!(rows[1].3, None, "an event without a payload is a tombstone");
        assert_eq!((rows[1].4.as_str(), rows[1].5.as_deref()), ("{}", None));
    }
}

#[tokio::test]
async fn many_events_keep_their_order_within_an_aggregate() {
    for home in Home::both() {
        let database = home.migrated().await;
        let events: Vec<_> = (0..300)
            .map(|number| OutboxEvent::new("orders", (number % 7).to_string(), number.to_string()).payload("x"))
            .collect();
        let mut transaction = database.begin().await.unwrap();
        let ids = outbox::write_all(transaction.connection(), &events).await.unwrap();
        assert!(
            outbox::write_all(transaction.connection(), &[])
                .await
                .unwrap()
                .is_empty()
        );
        transaction.commit().await.unwrap();
        assert_eq!(ids.len(), events.len());

        let rows = rows(&database).await;
        assert_eq!(rows.len(), events.len());
        for aggregate in 0..7 {
            let of_aggregate = rows.iter().filter(|row| row.1 == aggregate.to_string());
            let numbers: Vec<i32> = of_aggregate.map(|row| row.2.parse().unwrap()).collect();
            assert!(numbers.is_sorted(), "{numbers:?}");
        }
    }
}

#[tokio::test]
async fn a_transaction_that_is_rolled_back_announces_nothing() {
    for home in Home::both() {
        let database = home.migrated().await;
        let mut transaction = database.begin().await.unwrap();
        let event = OutboxEvent::new("orders", "7", "OrderPlaced").payload("x");
        outbox::write(transaction.connection(), &event).await.unwrap();
        transaction.rollback().await.unwrap();
        let mut dropped = database.begin().await.unwrap();
        outbox::write_all(dropped.connection(), &[event.clone(), event])
            .await
            .unwrap();
        drop(dropped);
        assert!(rows(&database).await.is_empty());
    }
}

#[tokio::test]
async fn events_that_cannot_be_published_are_refused_before_they_are_stored() {
    let good = || OutboxEvent::new("orders", "7", "OrderPlaced");
    let long = "x".repeat(2000);
    let cases = [
        (
            OutboxEvent::new("", "7", "A"),
            "the aggregate type of the outbox event is empty",
        ),
        (
            OutboxEvent::new("orders", "", "A"),
            "the aggregate id of the outbox event is empty",
        ),
        (
            OutboxEvent::new("orders", "7", ""),
            "the event type of the outbox event is empty",
        ),
        (OutboxEvent::new("orders", "7\0", "A"), "contains a NUL character"),
        (
            OutboxEvent::new("orders", &long, "A"),
            "aggregate id of the outbox event has 2000 bytes; at most 1024",
        ),
        (
            OutboxEvent::new(&long, "7", "A"),
            "aggregate type of the outbox event has 2000 bytes; at most 249",
        ),
        (
            OutboxEvent::new("x".repeat(245), "7", "A"),
            "topic of the outbox event has 252 bytes; at most 249",
        ),
        (
            OutboxEvent::new("Bestellungen für", "7", "A"),
            "\"Bestellungen für.events\", which is not a name",
        ),
        (good().topic(".."), "\"..\", which is not a name that Kafka accepts"),
        (good().topic(""), "\"\", which is not a name that Kafka accepts"),
        (
            good().header("id", "1"),
            "the header \"id\" of the outbox event is set by the relay",
        ),
        (good().header("eventType", "1"), "the header \"eventType\""),
        (good().header("", "1"), "the header name of the outbox event is empty"),
        (
            good().header("a", "\0"),
            "the header of the outbox event contains a NUL character",
        ),
        (
            good().header("a", "x".repeat(70_000)),
            "sum of the headers of the outbox event has 70001 bytes",
        ),
    ];
    for home in Home::both() {
        let database = home.migrated().await;
        let mut transaction = database.begin().await.unwrap();
        for (event, expected) in &cases {
            let error = outbox::write(transaction.connection(), event).await.unwrap_err();
            assert!(
                error.to_string().contains(expected),
                "{error}\ndoes not contain {expected}"
            );
            assert!(matches!(error, OutboxError::Invalid(_)) && !error.is_retryable());
            outbox::write_all(transaction.connection(), &[good(), event.clone()])
                .await
                .unwrap_err();
        }
        // The transaction is still good: nothing was sent to the database.
        outbox::write(transaction.connection(), &good()).await.unwrap();
        transaction.commit().await.unwrap();
        assert_eq!(rows(&database).await.len(), 1);
    }
    let unwritable = std::collections::BTreeMap::from([((1, 2), 3)]);
    assert!(matches!(good().json(&unwritable), Err(InvalidEvent::Json(_))));
}

#[tokio::test]
async fn errors_of_the_database_say_what_to_do() {
    for home in Home::both() {
        let database = home.connect().await;
        let event = OutboxEvent::new("orders", "7", "OrderPlaced").id(uuid::Uuid::now_v7());
        let mut transaction = database.begin().await.unwrap();
        let error = outbox::write(transaction.connection(), &event).await.unwrap_err();
        assert!(error.to_string().contains("`milena sql init`"), "{error}");
        drop(transaction);

        database.migrate().await.unwrap();
        let mut transaction = database.begin().await.unwrap();
        outbox::write(transaction.connection(), &event).await.unwrap();
        let error = outbox::write(transaction.connection(), &event).await.unwrap_err();
        assert!(matches!(error, OutboxError::DuplicateId(_)), "{error}");
    }
}
