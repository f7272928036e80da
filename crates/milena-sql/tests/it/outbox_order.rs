//! Order and locks of the outbox in PostgreSQL.

use std::{sync::Arc, time::Duration};

use milena_sql::{
    Database, Transaction,
    outbox::{self, OutboxError, OutboxEvent},
    sqlx::{self, PgPool},
};
use tokio::{sync::Barrier, task::JoinSet};
use uuid::Uuid;

use crate::databases::Home;

fn event(aggregate: &str) -> OutboxEvent {
    OutboxEvent::new("orders", aggregate, "OrderChanged").payload("x")
}

fn pool(database: &Database) -> &PgPool {
    match database {
        Database::Postgres(pool) => pool,
        Database::Sqlite(_) => panic!("not PostgreSQL"),
    }
}

async fn begin(database: &Database) -> sqlx::Transaction<'static, sqlx::Postgres> {
    pool(database).begin().await.unwrap()
}

/// A random number below `end`.
fn random(end: u64) -> u64 {
    Uuid::new_v4().as_u64_pair().0 % end
}

/// A transaction with some events of one of three aggregates. While it has the lock, every smaller sequence number of
/// the aggregate is visible, so it is committed: the numbers are in the order of the commits.
async fn change(database: &Database, way: u64) -> Result<Option<(Uuid, i64)>, OutboxError> {
    let aggregate = random(3).to_string();
    let mut transaction = begin(database).await;
    let id = match way {
        0 => outbox::write(&mut transaction, &event(&aggregate)).await?,
        1 => {
            // Many aggregates: the order of the locks is that of the statement, not of the events.
            let mut events: Vec<_> = (0..10).map(|_| event(&random(100).to_string())).collect();
            events.push(event(&aggregate));
            *outbox::write_all(&mut transaction, &events).await?.last().unwrap()
        }
        2 => {
            let mut events: Vec<_> = (0..300).map(|number| event(&format!("many-{number}"))).collect();
            events.push(event(&aggregate));
            *outbox::write_all(&mut transaction, &events).await?.last().unwrap()
        }
        _ => {
            let insert = format!("{} RETURNING id", outbox::INSERT_POSTGRES);
            let insert = sqlx::query_scalar(sqlx::AssertSqlSafe(insert))
                .bind("orders")
                .bind(&aggregate)
                .bind("OrderChanged")
                .bind(Vec::<u8>::new());
            insert.fetch_one(&mut *transaction).await.unwrap()
        }
    };
    tokio::time::sleep(Duration::from_micros(random(3_000))).await;
    let earlier: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM milena_outbox AS other, milena_outbox AS mine
         WHERE mine.id = $1 AND other.aggregateid = mine.aggregateid AND other.sequence < mine.sequence",
    )
    .bind(id)
    .fetch_one(&mut *transaction)
    .await
    .unwrap();
    if random(5) == 0 {
        transaction.rollback().await.unwrap();
        return Ok(None);
    }
    transaction.commit().await.unwrap();
    Ok(Some((id, earlier)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sequence_numbers_of_an_aggregate_are_in_the_order_of_the_commits() {
    let home = Home::postgres();
    let database = home.migrated().await;
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let database = database.clone();
        tasks.spawn(async move {
            let mut committed = vec![];
            for _ in 0..40 {
                match change(&database, task % 4).await {
                    Ok(Some(change)) => committed.push(change),
                    Ok(None) => {}
                    // Of the locks for many aggregates; the transaction is rolled back.
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
            }
            committed
        });
    }
    let committed: Vec<(Uuid, i64)> = tasks.join_all().await.into_iter().flatten().collect();
    assert!(committed.len() > 100, "{}", committed.len());
    for (id, seen) in committed {
        let earlier: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM milena_outbox AS other, milena_outbox AS mine
             WHERE mine.id = $1 AND other.aggregateid = mine.aggregateid AND other.sequence < mine.sequence",
        )
        .bind(id)
        .fetch_one(pool(&database))
        .await
        .unwrap();
        assert_eq!(earlier, seen, "{id}: an earlier number was committed later");
    }
}

#[tokio::test]
async fn a_deadlock_ends_one_transaction_that_then_can_run_again() {
    let home = Home::postgres();
    let database = home.migrated().await;
    let barrier = Arc::new(Barrier::new(2));
    let run = |first: &'static str, second: &'static str| {
        let (database, barrier) = (database.clone(), Arc::clone(&barrier));
        tokio::spawn(async move {
            let mut transaction = begin(&database).await;
            outbox::write(&mut transaction, &event(first)).await.unwrap();
            barrier.wait().await;
            let written = outbox::write(&mut transaction, &event(second)).await;
            match written {
                Ok(_) => transaction.commit().await.unwrap(),
                Err(_) => transaction.rollback().await.unwrap(),
            }
            written
        })
    };
    let (one, other) = (run("a", "b"), run("b", "a"));
    let errors: Vec<OutboxError> = [one.await.unwrap(), other.await.unwrap()]
        .into_iter()
        .filter_map(Result::err)
        .collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(matches!(errors[0], OutboxError::Conflict(_)) && errors[0].is_retryable());
    assert!(errors[0].to_string().contains("deadlock detected"), "{}", errors[0]);
    let mut again = begin(&database).await;
    outbox::write_all(&mut again, &[event("b"), event("a")]).await.unwrap();
    again.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_with_the_same_aggregates_in_any_order_do_not_deadlock() {
    let home = Home::postgres();
    let database = home.migrated().await;
    let mut tasks = JoinSet::new();
    for task in 0..4 {
        let database = database.clone();
        tasks.spawn(async move {
            for _ in 0..30 {
                let mut events: Vec<_> = (0..100).map(|number| event(&number.to_string())).collect();
                if task % 2 == 0 {
                    events.reverse();
                }
                let mut transaction = begin(&database).await;
                outbox::write_all(&mut transaction, &events).await.unwrap();
                transaction.commit().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}

/// More aggregates than a server with default settings has locks.
const MANY: i32 = 20_000;
const LOCKS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";

#[tokio::test]
async fn a_transaction_with_many_aggregates_does_not_exhaust_the_locks_of_the_server() {
    let home = Home::postgres();
    let database = home.migrated().await;
    let mut transaction = begin(&database).await;
    sqlx::query(
        "INSERT INTO milena_outbox (aggregatetype, aggregateid, type, payload)
         SELECT 'orders', number::text, 'OrderImported', '' FROM generate_series(1, $1) AS number",
    )
    .bind(MANY)
    .execute(&mut *transaction)
    .await
    .unwrap();
    let locks: i64 = sqlx::query_scalar(LOCKS).fetch_one(&mut *transaction).await.unwrap();
    // Of the aggregates, of their slots, and of all aggregates: shared, then exclusive.
    assert!(locks <= 2 * 256 + 2, "{locks}");
    transaction.commit().await.unwrap();

    let mut transaction = begin(&database).await;
    let events: Vec<_> = (0..MANY).map(|number| event(&number.to_string())).collect();
    outbox::write_all(&mut transaction, &events).await.unwrap();
    let locks: i64 = sqlx::query_scalar(LOCKS).fetch_one(&mut *transaction).await.unwrap();
    assert!(locks <= 256 + 1, "{locks}");

    // The lock of all aggregates is one of each of them.
    let waiting = tokio::spawn({
        let database = database.clone();
        async move {
            let mut transaction = begin(&database).await;
            let id = outbox::write(&mut transaction, &event("7")).await.unwrap();
            transaction.commit().await.unwrap();
            id
        }
    });
    const WAITS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    while sqlx::query_scalar::<_, i64>(WAITS)
        .fetch_one(pool(&database))
        .await
        .unwrap()
        == 0
    {
        assert!(
            !waiting.is_finished(),
            "an event did not wait for the lock of all aggregates"
        );
    }
    transaction.commit().await.unwrap();
    let id = waiting.await.unwrap();
    let last: Uuid = sqlx::query_scalar("SELECT id FROM milena_outbox WHERE aggregateid = '7' ORDER BY sequence DESC")
        .fetch_one(pool(&database))
        .await
        .unwrap();
    assert_eq!(last, id);
}

#[tokio::test]
async fn a_plain_insert_gets_an_id_and_a_reason_for_a_refusal() {
    for home in Home::both() {
        let database = home.migrated().await;
        let insert = |columns: &str, values: &str| {
            let statement = format!(
                "INSERT INTO milena_outbox (aggregatetype, aggregateid, type{columns}) VALUES ({values})
                 RETURNING CAST(id AS text)"
            );
            let database = database.clone();
            async move {
                let statement = sqlx::AssertSqlSafe(statement);
                match &database {
                    Database::Postgres(pool) => sqlx::query_scalar::<_, String>(statement).fetch_one(pool).await,
                    Database::Sqlite(pool) => sqlx::query_scalar::<_, String>(statement).fetch_one(pool).await,
                }
            }
        };
        let id: Uuid = insert("", "'orders', '7', 'OrderPlaced'")
            .await
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
        let (seconds, _) = id.get_timestamp().unwrap().to_unix();
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        assert!(now.as_secs().abs_diff(seconds) < 60, "{id}");
        insert(", headers, topic", "'Größe', '7', 'A', '{\"a\": \"b\"}', 'sizes'")
            .await
            .unwrap();
        let cases = [
            ("", "'Größe', '7', 'A'", "name"),
            ("", "'', '7', 'A'", "aggregatetype"),
            ("", "'orders', '', 'A'", "aggregateid"),
            (", topic", "'orders', '7', 'A', '..'", "name"),
            (", topic", "'orders', '7', 'A', ''", "name"),
            (", headers", "'orders', '7', 'A', '[]'", "headers"),
            (", headers", "'orders', '7', 'A', '{\"id\": \"8\"}'", "id"),
            (", headers", "'orders', '7', 'A', '{\"eventType\": \"8\"}'", "event"),
        ];
        for (columns, values, expected) in cases {
            let error = insert(columns, values).await.unwrap_err().to_string();
            assert!(
                error.contains("outbox") && error.contains(expected),
                "{values}: {error}"
            );
        }
    }
}

#[tokio::test]
async fn a_transaction_of_either_database_is_taken_as_it_is() {
    for home in Home::both() {
        let database = home.migrated().await;
        let mut transaction = database.begin().await.unwrap();
        match &mut transaction {
            Transaction::Postgres(transaction) => outbox::write(transaction, &event("7")).await,
            Transaction::Sqlite(transaction) => outbox::write(transaction, &event("7")).await,
        }
        .unwrap();
        transaction.commit().await.unwrap();
    }
}
