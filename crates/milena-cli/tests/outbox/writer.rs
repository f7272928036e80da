//! A process that places orders until it is killed.
//!
//! A transaction writes the events first: only the trigger of the outbox orders the transactions of an aggregate. Then it
//! draws the next version of each aggregate, which shows the order of the commits.

use std::{io::Read as _, process::ExitCode, time::Duration};

use milena_sql::{
    Database,
    outbox::{self, OutboxEvent},
    sqlx::{self, PgPool, Postgres, Transaction},
};

use crate::random::Random;

/// The first argument of a writer process.
pub const ROLE: &str = "writer";
pub const AGGREGATES: usize = 20;
/// The pause after an error of the database, which may be down.
const PAUSE: Duration = Duration::from_millis(50);

/// Tables of the application. An order has the id of its event.
pub const TABLES: &str = "
    CREATE TABLE aggregates (name text PRIMARY KEY, version bigint NOT NULL DEFAULT 0);
    CREATE TABLE orders (id text PRIMARY KEY, aggregate text NOT NULL, version bigint NOT NULL,
        UNIQUE (aggregate, version));";

/// Arguments: URL of the database, seed.
pub fn main(arguments: &[String]) -> ExitCode {
    let [url, seed] = arguments else {
        return ExitCode::FAILURE;
    };
    // Its input ends with the process of the test.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut vec![]);
        std::process::exit(0);
    });
    let mut random = Random(seed.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        loop {
            if let Ok(Database::Postgres(pool)) = Database::connect(url).await {
                while place(&pool, &mut random).await.is_ok() {
                    tokio::time::sleep(random.millis(0..5)).await;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    })
}

/// Places orders of up to three aggregates in a transaction. Some transactions are slow, and some are rolled back.
async fn place(pool: &PgPool, random: &mut Random) -> Result<(), Box<dyn std::error::Error>> {
    let mut names: Vec<String> = (0..random.number(1..4))
        .map(|_| format!("a{}", random.number(0..AGGREGATES)))
        .collect();
    names.sort_unstable();
    names.dedup();
    let events: Vec<OutboxEvent> = names
        .iter()
        .map(|name| OutboxEvent::new("orders", name, "OrderPlaced").payload(name.clone()))
        .collect();
    let mut transaction = pool.begin().await?;
    let ids = outbox::write_all(&mut transaction, &events).await?;
    if random.number(0..10) == 0 {
        tokio::time::sleep(random.millis(0..200)).await;
    }
    for (id, name) in ids.iter().zip(&names) {
        insert_order(&mut transaction, &id.to_string(), name).await?;
    }
    if random.number(0..5) == 0 {
        transaction.rollback().await?;
    } else {
        transaction.commit().await?;
    }
    Ok(())
}

async fn insert_order(transaction: &mut Transaction<'static, Postgres>, id: &str, name: &str) -> sqlx::Result<()> {
    let version: i64 = sqlx::query_scalar(
        "INSERT INTO aggregates (name, version) VALUES ($1, 1)
         ON CONFLICT (name) DO UPDATE SET version = aggregates.version + 1 RETURNING version",
    )
    .bind(name)
    .fetch_one(&mut **transaction)
    .await?;
    sqlx::query("INSERT INTO orders (id, aggregate, version) VALUES ($1, $2, $3)")
        .bind(id)
        .bind(name)
        .bind(version)
        .execute(&mut **transaction)
        .await?;
    Ok(())
}
