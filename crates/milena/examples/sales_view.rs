//! A view built from events (CQRS): sales by country, kept in memory, with snapshots on disk or in a database. A start reads
//! only the records after the last snapshot.
//!
//! `cargo run -p milena --features sql --example sales_view -- 127.0.0.1:9092 /tmp/countries` with the topic `sales`, whose
//! keys are countries. Instances on several machines share their snapshots in a database: give them
//! `postgres://app@db/shop` instead of the directory.

use std::{collections::BTreeMap, error::Error, time::Duration};

use milena::{
    app::{
        handler::BoxError,
        prelude::shutdown_signal,
        projection::{FileSnapshots, Projection, Snapshots},
    },
    prelude::*,
    sql::{Database, SqlSnapshots},
};

pub type Countries = BTreeMap<String, u64>;

/// The view, not yet up to date.
pub fn sales_view<T: Snapshots>(bootstrap: &str, snapshots: T) -> Result<Projection<Countries, T>, Box<dyn Error>> {
    let config = ConsumerConfig::builder(bootstrap)
        .group_id("sales-view")
        .enable_auto_commit(false)
        .build()?;
    let projection = Projection::new(config, ["sales"], snapshots)?;
    Ok(projection.snapshot_every(Duration::from_secs(3600), 10_000))
}

/// Adds a sale to the view.
pub fn count(countries: &mut Countries, sale: RecordRef<'_>) -> Result<(), BoxError> {
    let country = String::from_utf8_lossy(sale.key().unwrap_or_default()).into_owned();
    *countries.entry(country).or_default() += 1;
    Ok(())
}

/// Snapshots of the view in a database.
pub async fn in_database(url: &str) -> Result<SqlSnapshots, Box<dyn Error>> {
    let database = Database::connect(url).await?;
    database.migrate().await?;
    Ok(SqlSnapshots::new(database, "sales-view"))
}

/// Keeps the view up to date until SIGINT or SIGTERM, and prints it.
async fn run<T: Snapshots>(projection: Projection<Countries, T>) -> Result<(), Box<dyn Error>> {
    let view = projection.view();
    let print = async {
        shutdown_signal().await;
        for partition in view.partitions() {
            view.with(&partition, |countries, _| println!("{partition}: {countries:?}"));
        }
    };
    projection.run_until(count, print).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let bootstrap = arguments.next().unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let place = arguments.next().unwrap_or_else(|| "countries".to_owned());
    if place.contains("://") {
        run(sales_view(&bootstrap, in_database(&place).await?)?).await
    } else {
        run(sales_view(&bootstrap, FileSnapshots::new(&place)?)?).await
    }
}
