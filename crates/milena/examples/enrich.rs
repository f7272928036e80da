//! Exactly-once read, transform, write: a reader of `rich` with `read_committed` sees the output of each input once,
//! despite crashes. Records that cannot be decoded go to `raw.dlq` in the same transaction.
//!
//! `cargo run -p milena --example enrich -- 127.0.0.1:9092 instance-1` with the topics `raw` and `rich`.

use std::error::Error;

use milena::app::prelude::*;

#[derive(serde::Deserialize, serde::Serialize)]
struct Sale {
    item: String,
    cents: i64,
    #[serde(default)]
    with_tax: i64,
}

async fn enrich(Event(mut sale): Event<Sale>, Key(key): Key<Option<String>>) -> Result<Done, Fault> {
    sale.with_tax = sale.cents * 120 / 100;
    let rich = OutRecord::new("rich").json(&sale)?;
    Ok(key.into_iter().fold(rich, |rich, key| rich.key(key)).into())
}

/// `instance` must be unique per instance and stay the same across restarts.
pub fn app(bootstrap: &str, instance: &str) -> App {
    App::new(bootstrap)
        .group("enrichers")
        .instance(instance)
        .exactly_once("raw", enrich, |policy| policy)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let bootstrap = arguments.next().unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let instance = arguments.next().unwrap_or_else(|| "instance-1".to_owned());
    app(&bootstrap, &instance).run_until(shutdown_signal()).await?;
    Ok(())
}
