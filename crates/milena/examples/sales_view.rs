//! A view built from events (CQRS): sales by country, kept in memory, with snapshots on disk. A start reads only the
//! records after the last snapshot.
//!
//! `cargo run -p milena --example sales_view -- 127.0.0.1:9092 /tmp/countries` with the topic `sales`, whose keys are
//! countries.

use std::{collections::BTreeMap, error::Error, path::Path, time::Duration};

use milena::{
    app::{
        handler::BoxError,
        prelude::shutdown_signal,
        projection::{FileSnapshots, Projection},
    },
    prelude::*,
};

pub type Countries = BTreeMap<String, u64>;

/// The view, not yet up to date.
pub fn sales_view(bootstrap: &str, directory: &Path) -> Result<Projection<Countries, FileSnapshots>, Box<dyn Error>> {
    let config = ConsumerConfig::builder(bootstrap)
        .group_id("sales-view")
        .enable_auto_commit(false)
        .build()?;
    let projection = Projection::new(config, ["sales"], FileSnapshots::new(directory)?)?;
    Ok(projection.snapshot_every(Duration::from_secs(3600), 10_000))
}

/// Adds a sale to the view.
pub fn count(countries: &mut Countries, sale: RecordRef<'_>) -> Result<(), BoxError> {
    let country = String::from_utf8_lossy(sale.key().unwrap_or_default()).into_owned();
    *countries.entry(country).or_default() += 1;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let bootstrap = arguments.next().unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let directory = arguments.next().unwrap_or_else(|| "countries".to_owned());
    let projection = sales_view(&bootstrap, directory.as_ref())?;
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
