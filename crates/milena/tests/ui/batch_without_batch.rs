//! A batch handler does not take a batch.

use milena::app::prelude::*;

async fn charge(Value(_order): Value<String>) {}

fn main() {
    let _ = App::new("").batch("orders", charge, |policy| policy);
}
