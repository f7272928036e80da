//! A handler is not async.

use milena::app::prelude::*;

fn charge(Value(_order): Value<String>) {}

milena::app::check_handler!(charge);

fn main() {
    let _ = App::new("").on("orders", charge, |policy| policy);
}
