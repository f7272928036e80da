//! A partner's API that allows ten calls per second, two at a time, and may hang. Orders wait in their topic; a call
//! that takes longer than a second is cancelled and retried.
//!
//! `cargo run -p milena --example partner_api -- 127.0.0.1:9092` with the topic `orders`.

use std::{
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};

use milena::app::prelude::*;

/// Orders that were sent.
pub type Calls = Arc<Mutex<Vec<String>>>;

async fn call(Value(order): Value<String>, State(calls): State<Calls>) -> Result<(), Fault> {
    let mut calls = calls.lock().map_err(|error| Fault::fatal(error.to_string()))?;
    calls.push(order);
    Ok(())
}

pub fn app(bootstrap: &str, calls: Calls) -> App {
    App::new(bootstrap)
        .group("partners")
        .state(calls)
        .on("orders", call, |policy| {
            policy
                .rate(Rate::per_second(10))
                .concurrency(2)
                .timeout(Duration::from_secs(1))
        })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bootstrap = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let calls = Calls::default();
    app(&bootstrap, Arc::clone(&calls)).run_until(shutdown_signal()).await?;
    println!("{:?}", calls.lock());
    Ok(())
}
