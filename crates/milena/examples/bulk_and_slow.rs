//! Fast and slow handlers in one application: an indexer that takes records by the hundred, and a slow archive with at
//! most two concurrent calls. Neither waits for the other, and the metrics show which one is slow.
//!
//! `cargo run -p milena --example bulk_and_slow -- 127.0.0.1:9092` with the topics `clicks` and `scans`.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use milena::app::prelude::*;

pub type Indexed = Arc<AtomicUsize>;

async fn index(clicks: Batch<Raw>, State(indexed): State<Indexed>) {
    indexed.fetch_add(clicks.len(), Ordering::Relaxed);
}

async fn archive(_scan: Raw) {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

pub fn app(bootstrap: &str, indexed: Indexed) -> App {
    App::new(bootstrap)
        .group("warehouse")
        .state(indexed)
        .bulkhead("archive", 2)
        .batch("clicks", index, |policy| {
            policy.batch_size(500).batch_linger(Duration::from_millis(20))
        })
        .on("scans", archive, |policy| {
            policy
                .bulkhead("archive")
                .slow_after(Duration::from_millis(40))
                .order(Order::Unordered)
        })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bootstrap = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    app(&bootstrap, Indexed::default()).run_until(shutdown_signal()).await?;
    Ok(())
}
