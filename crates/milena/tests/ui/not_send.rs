//! A handler holds a value across an `.await` that is not `Send`.

use std::rc::Rc;

use milena::app::prelude::*;

async fn charge(Value(order): Value<String>) {
    let order = Rc::new(order);
    std::future::ready(()).await;
    drop(order);
}

milena::app::check_handler!(charge);

fn main() {
    let _ = App::new("").on("orders", charge, |policy| policy);
}
