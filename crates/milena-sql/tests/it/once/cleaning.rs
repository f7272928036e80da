//! Clean-up of processed events against the retention of topics.

use std::time::Duration;

use milena_client::{admin::Admin, config::ConfigMap};
use milena_sql::{
    Database,
    once::{CleanError, CleanUp},
};
use milena_test::TestBroker;

use super::shop::{noted, opened};
use crate::databases::Home;

const DAY: Duration = Duration::from_secs(86_400);

/// Notes an event as processed some days ago.
async fn note(database: &Database, group: &str, handler: &str, id: &str, days: i32) {
    let insert =
        "INSERT INTO milena_processed_events (consumer_group, handler, event_id, processed_at) VALUES ($1, $2, $3, ";
    match database {
        Database::Postgres(pool) => {
            let insert = format!("{insert} now() - make_interval(days => $4))");
            let insert = sqlx::query(sqlx::AssertSqlSafe(insert))
                .bind(group)
                .bind(handler)
                .bind(id)
                .bind(days);
            insert.execute(pool).await.map(drop)
        }
        Database::Sqlite(pool) => {
            let insert =
                format!("{insert} CAST((julianday('now') - 2440587.5) * 86400000 AS integer) - $4 * 86400000)");
            let insert = sqlx::query(sqlx::AssertSqlSafe(insert))
                .bind(group)
                .bind(handler)
                .bind(id)
                .bind(days);
            insert.execute(pool).await.map(drop)
        }
    }
    .unwrap();
}

async fn cleaning(home: Home) {
    let database = opened(&home).await;
    let broker = TestBroker::start();
    let days = |days: u64| (days * 86_400_000).to_string();
    let segment = ("segment.ms", "3600000");
    broker.create_topic_with("orders", 1, &[("retention.ms", &days(7)), segment]);
    broker.create_topic_with("orders.retry-1m", 1, &[("retention.ms", &days(40)), segment]);
    broker.create_topic_with("orders.dlq", 1, &[("retention.ms", &days(30)), segment]);
    broker.create_topic_with("other", 1, &[("retention.ms", "-1")]);
    broker.create_topic_with("table", 1, &[("cleanup.policy", "compact")]);
    let mut config = ConfigMap::new();
    config.set("bootstrap.servers", broker.bootstrap_servers());
    let admin = Admin::new(config).unwrap();
    for (id, age) in [("new", 1), ("month", 35), ("old", 41)] {
        note(&database, "billing", "orders", id, age).await;
        note(&database, "shipping", "other", id, age).await;
    }
    let billing = || CleanUp::new("billing");
    let error = billing().keep(DAY * 30).clean(&database, &admin).await.unwrap_err();
    let CleanError::TooShort { topic, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(topic, "orders.dlq", "it is kept for its segment too: {error}");
    let error = billing().keep(DAY * 39).clean(&database, &admin).await.unwrap_err();
    assert!(
        matches!(&error, CleanError::TooShort { topic, .. } if topic == "orders.retry-1m"),
        "{error}"
    );
    for topic in ["other", "table"] {
        let error = billing().topic(topic).clean(&database, &admin).await.unwrap_err();
        assert!(
            matches!(&error, CleanError::Unlimited { topic: found, .. } if found == topic),
            "{error}"
        );
    }
    let error = CleanUp::new("shipping").clean(&database, &admin).await.unwrap_err();
    assert!(matches!(&error, CleanError::Unlimited { .. }), "{error}");
    assert_eq!(noted(&database).await.len(), 6, "nothing was deleted");
    // Without a period of its own it takes that of the topics.
    let cleaned = billing().clean(&database, &admin).await.unwrap();
    assert_eq!(
        (cleaned.deleted, cleaned.keep),
        (1, DAY * 40 + Duration::from_secs(3_600))
    );
    assert_eq!(cleaned.topics.len(), 3);
    let cleaned = CleanUp::new("shipping")
        .ignore_topic("other")
        .clean(&database, &admin)
        .await
        .unwrap();
    assert_eq!((cleaned.deleted, cleaned.keep), (2, DAY * 30));
    assert_eq!(noted(&database).await, ["month", "new", "new"]);
}

#[tokio::test]
async fn events_are_kept_as_long_as_a_topic_may_have_their_records() {
    cleaning(Home::postgres()).await;
    cleaning(Home::sqlite()).await;
}
