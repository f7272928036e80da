//! Natural keys and versions.

use milena_app::prelude::*;
use milena_sql::once::{Inserted, PgTx, SqliteTx};
use milena_test::TestKit;

use super::shop::{execute, noted, opened, texts};
use crate::databases::Home;

const INVOICES: &str = "CREATE TABLE invoices (number text NOT NULL UNIQUE, version integer NOT NULL DEFAULT 1)";
const STATE: &str = "SELECT number || ' ' || version FROM invoices ORDER BY number";

/// The same handler for both databases: the value is `new <number>` or `set <number> <version>`, or an `easy` or a `late` one.
macro_rules! handler {
    ($name:ident, $tx:ty) => {
        async fn $name(Value(text): Value<String>, mut tx: $tx) -> Result<Done, Fault> {
            let words: Vec<&str> = text.split(' ').collect();
            match words.as_slice() {
                ["new", number] => {
                    let insert = sqlx::query("INSERT INTO invoices (number) VALUES ($1)").bind(*number);
                    let inserted = tx.insert_unique(insert).await?;
                    if let Inserted::Exists { constraint } = &inserted {
                        let constraint = constraint.as_deref().unwrap_or_default();
                        assert!(
                            ["invoices_number_key", "invoices.number"].contains(&constraint),
                            "{constraint}"
                        );
                    }
                    Ok(inserted.or_duplicate())
                }
                ["easy", number] => {
                    let insert = "INSERT INTO invoices (number) VALUES ($1) ON CONFLICT (number) DO NOTHING";
                    Ok(tx
                        .insert_unique(sqlx::query(insert).bind(*number))
                        .await?
                        .or_duplicate())
                }
                [kind, number, version] => {
                    let update = "UPDATE invoices SET version = version + 1 WHERE number = $1 AND version = $2";
                    let version: i32 = version
                        .parse()
                        .map_err(Fault::poison::<std::num::ParseIntError>)?;
                    let update = sqlx::query(update).bind(*number).bind(version);
                    let versioned = tx.update_version(update).await?;
                    if *kind == "late" {
                        return Ok(versioned.or_skip("a newer version is there"));
                    }
                    versioned.or_retry()?;
                    Ok(Done::Ok)
                }
                _ => {
                    let all = sqlx::query("UPDATE invoices SET version = version + 1");
                    tx.update_version(all).await?.or_retry()?;
                    Ok(Done::Ok)
                }
            }
        }
    };
}

handler!(on_postgres, PgTx);
handler!(on_sqlite, SqliteTx);

async fn conflicts<A: 'static>(home: Home, handler: impl milena_app::handler::Handler<A>) {
    let database = opened(&home).await;
    execute(&database, INVOICES).await;
    let app = App::new("").group("billing").state(database.clone());
    let kit = TestKit::start(app.on("orders", handler, |policy| policy.retry(Retry::none()))).await;
    for value in [
        "new 1", "new 2", "new 1", "easy 3", "easy 3", "set 1 1", "set 1 1", "late 2 9",
    ] {
        kit.publish("orders", ("anna", value)).await;
    }
    kit.settled().await;
    assert_eq!(texts(&database, STATE).await, ["1 2", "2 1", "3 1"]);
    let counts = kit.running().counts();
    let counts = counts.first().unwrap();
    assert_eq!(
        (counts.success, counts.duplicates, counts.skipped, counts.failed),
        (4, 2, 1, 1)
    );
    assert_eq!(noted(&database).await.len(), 5);
    kit.assert_dlq("orders", 1).await;
    // A version that names no row is a mistake of the program.
    kit.publish("orders", ("anna", "all")).await;
    kit.running().ended().await;
    let failure = kit.running().failure().unwrap().to_string();
    assert!(failure.contains("changed 3 rows"), "{failure}");
}

#[tokio::test]
async fn conflicts_have_outcomes() {
    conflicts(Home::postgres(), on_postgres).await;
    conflicts(Home::sqlite(), on_sqlite).await;
}
