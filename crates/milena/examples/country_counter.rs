//! CountryCounter: counts the customers of each country, and prints the counts as JSON after each poll with records.
//! The topic `customerCountries` has a customer as key and a country as value.
//!
//! `cargo run -p milena --example country_counter -- 127.0.0.1:9092`; Ctrl-C ends it. In another terminal:
//! `printf 'anna:AT\nben:CZ\n' | milena produce customerCountries -K:`

use std::{collections::BTreeMap, error::Error, future::Future, pin::pin, time::Duration};

use milena::{app::prelude::shutdown_signal, prelude::*};

/// Counts until `stop` is done, and passes the JSON of all counts to `print`.
pub async fn run(
    bootstrap: &str,
    stop: impl Future<Output = ()>,
    mut print: impl FnMut(String),
) -> Result<(), Box<dyn Error>> {
    let config = ConsumerConfig::builder(bootstrap)
        .group_id("CountryCounter")
        .auto_offset_reset(AutoOffsetReset::Earliest);
    let mut consumer = Consumer::new(config)?;
    consumer.subscribe(["customerCountries"])?;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut stop = pin!(stop);
    loop {
        let records = tokio::select! {
            records = consumer.poll(Duration::from_millis(100)) => records?,
            () = &mut stop => break,
        };
        for record in &records {
            *counts.entry(record.value_as(&Plain)?).or_default() += 1;
        }
        if !records.is_empty() {
            print(serde_json::to_string_pretty(&counts)?);
        }
    }
    consumer.close().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bootstrap = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    run(&bootstrap, shutdown_signal(), |json| println!("{json}")).await
}
