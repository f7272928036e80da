//! A handler fails with an error that is not `Send`.

use milena::app::prelude::*;

async fn charge(Value(_order): Value<String>) -> Result<(), Box<dyn std::error::Error>> {
    Ok(())
}

milena::app::check_handler!(charge);

fn main() {
    let _ = App::new("").on("orders", charge, |policy| policy);
}
