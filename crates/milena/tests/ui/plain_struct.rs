//! A handler takes its value directly, not through an extractor.

use milena::app::prelude::*;

#[derive(serde::Deserialize)]
struct Order {
    id: u64,
}

async fn charge(order: Order) {
    drop(order.id);
}

milena::app::check_handler!(charge);

fn main() {
    let _ = App::new("").on("orders", charge, |policy| policy);
}
