//! The value of an event cannot be deserialized.

use milena::app::prelude::*;

struct Order {
    id: u64,
}

async fn charge(Event(order): Event<Order>) {
    drop(order.id);
}

milena::app::check_handler!(charge);

fn main() {
    let _ = App::new("").on("orders", charge, |policy| policy);
}
