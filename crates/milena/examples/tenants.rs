//! One handler for the topics of all tenants, including future ones: `events-{tenant}`.
//!
//! `cargo run -p milena --example tenants -- 127.0.0.1:9092`

use std::{
    collections::BTreeMap,
    error::Error,
    sync::{Arc, Mutex},
};

use milena::app::prelude::*;

pub type Counts = Arc<Mutex<BTreeMap<String, u64>>>;

async fn count(cx: Cx, State(counts): State<Counts>) -> Result<Done, Fault> {
    let Some(tenant) = cx.capture("tenant") else {
        return Ok(Done::Skip("no tenant".into()));
    };
    let mut counts = counts.lock().map_err(|error| Fault::fatal(error.to_string()))?;
    *counts.entry(tenant.to_owned()).or_default() += 1;
    Ok(Done::Ok)
}

pub fn app(bootstrap: &str, counts: Counts) -> App {
    App::new(bootstrap)
        .group("metering")
        .state(counts)
        .on("events-{tenant}", count, |policy| policy)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bootstrap = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let counts = Counts::default();
    app(&bootstrap, counts.clone()).run_until(shutdown_signal()).await?;
    println!("{:?}", counts.lock());
    Ok(())
}
