//! A handler fails with a text.

use milena::app::prelude::*;

async fn charge(Value(_order): Value<String>) -> Result<(), String> {
    Err("no money".to_owned())
}

milena::app::check_handler!(charge);

fn main() {
    let _ = App::new("").on("orders", charge, |policy| policy);
}
