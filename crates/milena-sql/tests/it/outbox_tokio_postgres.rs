//! The writer for transactions of the crate `tokio-postgres`.

use milena_sql::outbox::{self, OutboxError, OutboxEvent};
use tokio_postgres::NoTls;

use crate::databases::Home;

#[tokio::test]
async fn events_commit_with_the_transaction_of_tokio_postgres() {
    let home = Home::postgres();
    home.migrated().await;
    let (mut client, connection) = tokio_postgres::connect(&home.url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let event = OutboxEvent::new("orders", "7", "OrderPlaced")
        .payload("{}")
        .header("tenant", "a")
        .topic("placed");

    let transaction = client.transaction().await.unwrap();
    outbox::tokio_postgres::write(&transaction, &event).await.unwrap();
    transaction.rollback().await.unwrap();

    let transaction = client.transaction().await.unwrap();
    let id = outbox::tokio_postgres::write(&transaction, &event).await.unwrap();
    let events: Vec<_> = (0..400)
        .map(|number| OutboxEvent::new("orders", number.to_string(), "OrderPlaced"))
        .collect();
    let ids = outbox::tokio_postgres::write_all(&transaction, &events).await.unwrap();
    assert!(
        outbox::tokio_postgres::write_all(&transaction, &[])
            .await
            .unwrap()
            .is_empty()
    );
    transaction.commit().await.unwrap();

    let rows = client.query(
        "SELECT id, payload, headers::text, topic FROM milena_outbox ORDER BY sequence",
        &[],
    );
    let rows = rows.await.unwrap();
    assert_eq!(rows.len(), 1 + ids.len());
    assert_eq!(rows[0].get::<_, uuid::Uuid>(0), id);
    assert_eq!(rows[0].get::<_, Option<&[u8]>>(1), Some(b"{}".as_slice()));
    assert_eq!(rows[0].get::<_, &str>(2), r#"{"tenant": "a"}"#);
    assert_eq!(rows[0].get::<_, Option<&str>>(3), Some("placed"));
    assert_eq!(rows[1].get::<_, Option<&[u8]>>(1), None);

    let transaction = client.transaction().await.unwrap();
    let again = event.clone().id(id);
    let error = outbox::tokio_postgres::write(&transaction, &again).await.unwrap_err();
    assert!(matches!(error, OutboxError::DuplicateId(_)), "{error}");
    transaction.rollback().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let bad = OutboxEvent::new("orders", "\0", "OrderPlaced");
    let error = outbox::tokio_postgres::write_all(&transaction, &[event, bad])
        .await
        .unwrap_err();
    assert!(matches!(error, OutboxError::Invalid(_)), "{error}");
}
