//! Rows of sagas.

use milena_sql::{
    Connection, Database,
    saga::store::{self, AuditLine, SagaFilter, SagaKey, SagaRow},
};

use crate::databases::Home;

fn row(saga_id: &str, status: &str, started_ms: i64) -> SagaRow {
    SagaRow {
        key: SagaKey {
            saga_type: "order".to_owned(),
            participant: "inventory".to_owned(),
            saga_id: saga_id.to_owned(),
        },
        status: status.to_owned(),
        version: 1,
        state: "{}".to_owned(),
        wake_ms: None,
        command: None,
        reason: None,
        started_ms,
        changed_ms: started_ms,
    }
}

async fn save(database: &Database, row: &SagaRow) -> bool {
    let mut transaction = database.begin().await.unwrap();
    let saved = store::save(transaction.connection(), row).await.unwrap();
    transaction.commit().await.unwrap();
    saved.is_ok()
}

#[tokio::test]
async fn a_change_names_the_version_it_has_read() {
    for home in Home::both() {
        let database = home.migrated().await;
        let first = row("7", "running", 1);
        assert!(save(&database, &first).await);
        assert!(!save(&database, &first).await, "a second first version");
        let mut second = SagaRow { version: 2, ..first };
        second.status = "completed".to_owned();
        second.wake_ms = Some(9);
        assert!(save(&database, &second).await);
        assert!(!save(&database, &second).await, "a second second version");
        let mut transaction = database.begin().await.unwrap();
        let read = store::lock(transaction.connection(), &second.key).await.unwrap();
        assert_eq!(read, Some(second));
    }
}

#[tokio::test]
async fn the_due_saga_is_claimed_by_one_instance() {
    for home in Home::both() {
        let database = home.migrated().await;
        for (id, wake_ms) in [("a", Some(30)), ("b", Some(10)), ("c", Some(20)), ("d", None)] {
            let row = SagaRow {
                wake_ms,
                ..row(id, "running", 1)
            };
            assert!(save(&database, &row).await);
        }
        let mut first = database.begin().await.unwrap();
        let claimed = store::claim_due(first.connection(), "order", "inventory", 20)
            .await
            .unwrap();
        assert_eq!(claimed.unwrap().key.saga_id, "b");
        if let Database::Postgres(_) = database {
            let mut second = database.begin().await.unwrap();
            let claimed = store::claim_due(second.connection(), "order", "inventory", 20)
                .await
                .unwrap();
            assert_eq!(claimed.unwrap().key.saga_id, "c");
            let mut third = database.begin().await.unwrap();
            let claimed = store::claim_due(third.connection(), "order", "inventory", 20)
                .await
                .unwrap();
            assert_eq!(claimed, None);
        }
        drop(first);
        let mut other = database.begin().await.unwrap();
        let next = store::next_wake(other.connection(), "order", "inventory")
            .await
            .unwrap();
        assert_eq!(next, Some(10));
        let next = store::next_wake(other.connection(), "order", "payment").await.unwrap();
        assert_eq!(next, None);
    }
}

#[tokio::test]
async fn lists_show_the_oldest_open_sagas_and_the_youngest_ended() {
    for home in Home::both() {
        let database = home.migrated().await;
        let statuses = ["running", "stuck", "completed", "compensated", "compensating"];
        for (place, status) in statuses.into_iter().cycle().take(20).enumerate() {
            let at = i64::try_from(place).unwrap();
            assert!(save(&database, &row(&format!("{place:02}"), status, 100 - at)).await);
        }
        let mut transaction = database.begin().await.unwrap();
        let mut filter = SagaFilter {
            limit: 3,
            ..SagaFilter::default()
        };
        let ids = |rows: Vec<SagaRow>| rows.into_iter().map(|row| row.key.saga_id).collect::<Vec<_>>();
        let listed = store::list(transaction.connection(), &filter).await.unwrap();
        assert_eq!(ids(listed), ["19", "16", "15"]);
        filter.statuses = vec!["completed", "compensated"];
        let listed = store::list(transaction.connection(), &filter).await.unwrap();
        assert_eq!(ids(listed), ["02", "03", "07"]);
        filter.unchanged_since_ms = Some(93);
        let listed = store::list(transaction.connection(), &filter).await.unwrap();
        assert_eq!(ids(listed), ["07", "08", "12"]);
        filter.participant = Some("payment".to_owned());
        assert!(store::list(transaction.connection(), &filter).await.unwrap().is_empty());
        let counts = store::count_open(transaction.connection()).await.unwrap();
        let counts: Vec<_> = counts
            .iter()
            .map(|open| (&*open.status, open.count, open.oldest_ms))
            .collect();
        assert_eq!(counts, [("compensating", 4, 81), ("running", 4, 85), ("stuck", 4, 84)]);
    }
}

#[tokio::test]
async fn ended_sagas_are_deleted_with_their_audit_trail() {
    for home in Home::both() {
        let database = home.migrated().await;
        let line = AuditLine {
            version: 1,
            at_ms: 5,
            actor: "anna".to_owned(),
            action: "close".to_owned(),
            reason: Some("paid by cheque".to_owned()),
        };
        let mut transaction = database.begin().await.unwrap();
        for (id, status, at) in [("a", "completed", 5), ("b", "closed", 50), ("c", "running", 5)] {
            let row = row(id, status, at);
            store::save(transaction.connection(), &row).await.unwrap().unwrap();
            store::audit(transaction.connection(), &row.key, &line).await.unwrap();
        }
        let trail = store::trail(transaction.connection(), &row("a", "", 0).key)
            .await
            .unwrap();
        assert_eq!(trail, [line]);
        let deleted = store::delete_ended(transaction.connection(), 10, 100).await.unwrap();
        assert_eq!(deleted, 1);
        let trail = store::trail(transaction.connection(), &row("a", "", 0).key)
            .await
            .unwrap();
        assert!(trail.is_empty());
        assert_eq!(store::find(transaction.connection(), "b").await.unwrap().len(), 1);
        assert_eq!(store::find(transaction.connection(), "a").await.unwrap().len(), 0);
    }
}

/// The plans of the queries that operators and timers use do not depend on the number of ended sagas.
#[tokio::test]
async fn open_sagas_are_found_by_their_index() {
    let home = Home::postgres();
    let database = home.migrated().await;
    let mut transaction = database.begin().await.unwrap();
    let Connection::Postgres(connection) = transaction.connection() else {
        unreachable!()
    };
    let many = "INSERT INTO milena_sagas SELECT 's' || n, 'order', 'inventory', \
        CASE WHEN n % 5000 = 0 THEN 'stuck' WHEN n % 1000 = 0 THEN 'running' ELSE 'completed' END, 1, '{}', \
        CASE WHEN n % 1000 = 0 THEN n END, NULL, NULL, n, n FROM generate_series(1, 50000) n";
    sqlx::query(many).execute(&mut *connection).await.unwrap();
    sqlx::query("ANALYZE milena_sagas")
        .execute(&mut *connection)
        .await
        .unwrap();
    for (query, index) in [
        (
            "SELECT * FROM milena_sagas WHERE status = 'stuck' ORDER BY started_ms LIMIT 50",
            "milena_sagas_open",
        ),
        (
            "SELECT * FROM milena_sagas WHERE status = 'completed' ORDER BY changed_ms DESC LIMIT 50",
            "milena_sagas_ended",
        ),
        (
            "SELECT * FROM milena_sagas WHERE saga_type = 'order' AND participant = 'inventory' AND wake_ms IS NOT NULL \
             AND wake_ms <= 100 ORDER BY wake_ms LIMIT 1 FOR UPDATE SKIP LOCKED",
            "milena_sagas_wake",
        ),
        ("SELECT * FROM milena_sagas WHERE saga_id = 's7'", "milena_sagas_pkey"),
    ] {
        let explain = sqlx::AssertSqlSafe(format!("EXPLAIN {query}"));
        let plan: Vec<String> = sqlx::query_scalar(explain).fetch_all(&mut *connection).await.unwrap();
        let plan = plan.join("\n");
        assert!(plan.contains(index), "{query}:\n{plan}");
        assert!(!plan.contains("Seq Scan") && !plan.contains("Sort"), "{query}:\n{plan}");
    }
}
