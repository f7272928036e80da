//! A few records that nobody can read among 50,000. They become dead letters with their own bytes, and no other record waits
//! for them or is lost.
//!
//! `cargo run -p milena --example poison -- 127.0.0.1:9092` with the topic `orders`.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use milena::app::prelude::*;

#[derive(serde::Deserialize)]
struct Placed {
    cents: i64,
}

pub type Turnover = Arc<AtomicI64>;

/// It is called only for what can be read.
async fn add(Event(order): Event<Placed>, State(turnover): State<Turnover>) {
    turnover.fetch_add(order.cents, Ordering::Relaxed);
}

pub fn app(bootstrap: &str, turnover: Turnover) -> App {
    App::new(bootstrap)
        .group("turnover")
        .state(turnover)
        .on("orders", add, |policy| policy)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bootstrap = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let turnover = Turnover::default();
    app(&bootstrap, Arc::clone(&turnover))
        .run_until(shutdown_signal())
        .await?;
    println!("{} cents", turnover.load(Ordering::Relaxed));
    Ok(())
}
