//! A handler holds something across an `.await` that cannot go to another thread.

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
