//! Poison: records that cannot be decoded. A few of them become dead letters with their bytes unchanged, and no other
//! record waits for them. When all 50,000 records after a schema change are bad, the DLQ limit stops the partition
//! after the first hundred, instead of moving the whole topic to the dead letter topic. The handler that reads both
//! schemas continues from there.
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

/// Orders of both schemas.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum PlacedOrEuros {
    Placed(Placed),
    Euros { euros: i64 },
}

pub type Turnover = Arc<AtomicI64>;

/// Called only for records that can be decoded.
async fn add(Event(order): Event<Placed>, State(turnover): State<Turnover>) {
    turnover.fetch_add(order.cents, Ordering::Relaxed);
}

async fn add_either(Event(order): Event<PlacedOrEuros>, State(turnover): State<Turnover>) {
    let cents = match order {
        PlacedOrEuros::Placed(order) => order.cents,
        PlacedOrEuros::Euros { euros } => euros * 100,
    };
    turnover.fetch_add(cents, Ordering::Relaxed);
}

/// The default limit stops a partition after 100 dead letters in a row, or when half of the last 1,000 records are bad.
fn guarded(policy: Policy) -> Policy {
    policy.dlq_limit(DlqLimit::default())
}

/// The application that knows only the old schema.
pub fn app(bootstrap: &str, turnover: Turnover) -> App {
    App::new(bootstrap)
        .group("turnover")
        .state(turnover)
        .on("orders", add, guarded)
}

/// The next version, which reads both schemas.
pub fn app_of_both(bootstrap: &str, turnover: Turnover) -> App {
    App::new(bootstrap)
        .group("turnover")
        .state(turnover)
        .on("orders", add_either, guarded)
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
