//! Readings of a sensor, at most once: a missing one does no harm, a repeated one would count twice. Each is committed
//! before it is handled, and failures are not retried.
//!
//! `cargo run -p milena --example readings -- 127.0.0.1:9092` with the topic `readings`.

use std::{
    error::Error,
    sync::{Arc, Mutex},
};

use milena::app::prelude::*;

pub type Meter = Arc<Mutex<Vec<i64>>>;

async fn add(Event(reading): Event<i64>, State(meter): State<Meter>) -> Result<(), Fault> {
    let mut meter = meter.lock().map_err(|error| Fault::fatal(error.to_string()))?;
    meter.push(reading);
    if reading < 0 {
        return Err(Fault::retry("a meter does not run backwards"));
    }
    Ok(())
}

pub fn app(bootstrap: &str, meter: Meter) -> App {
    App::new(bootstrap)
        .group("meters")
        .state(meter)
        .at_most_once("readings", add, |policy| policy.when_exhausted(Exhausted::Skip))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bootstrap = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let meter = Meter::default();
    app(&bootstrap, Arc::clone(&meter)).run_until(shutdown_signal()).await?;
    println!("{:?}", meter.lock());
    Ok(())
}
