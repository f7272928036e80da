//! Repairing a mistake: the handler that was wrong on Monday handles Monday again. The running group is not affected,
//! and an interrupted repair continues where it was.
//!
//! `cargo run -p milena --example back_fill -- 127.0.0.1:9092 1700000000000 1700086400000` with the topic `sales` and
//! two times in milliseconds since 1970.

use std::{
    error::Error,
    sync::{Arc, Mutex},
};

use milena::app::{Replay, ReplayFrom, ReplayReport, ReplayTo, RunError, prelude::*};

pub type Books = Arc<Mutex<Vec<String>>>;

async fn book(Value(sale): Value<String>, State(books): State<Books>) -> Result<(), Fault> {
    let mut books = books.lock().map_err(|error| Fault::fatal(error.to_string()))?;
    books.push(sale);
    Ok(())
}

/// The application as it runs every day.
pub fn app(bootstrap: &str, books: Books) -> App {
    App::new(bootstrap)
        .group("accounting")
        .state(books)
        .on("sales", book, |policy| policy.order(Order::Partition))
}

/// Runs the application for a range of time.
pub async fn repair(app: App, from_ms: i64, to_ms: i64) -> Result<ReplayReport, RunError> {
    let range = Replay::new(format!("repair-{from_ms}"))
        .from(ReplayFrom::Time(from_ms))
        .to(ReplayTo::Time(to_ms));
    app.replay(range).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bootstrap, from_ms, to_ms] = arguments.as_slice() else {
        return Err("a broker and two times are needed".into());
    };
    let report = repair(app(bootstrap, Books::default()), from_ms.parse()?, to_ms.parse()?).await?;
    println!("{report:?}");
    Ok(())
}
