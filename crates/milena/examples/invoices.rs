//! A crash after 5 of 10 invoices. With auto-commit and a separate task for the work, the other five are lost: the next
//! `poll` commits the records of the last one, printed or not. If the loop does the work itself, the first five are
//! printed twice: the crash comes before the commit. The runtime commits each invoice when it is printed, so a new
//! process prints the other five, and none twice.
//!
//! `cargo run -p milena --example invoices -- 127.0.0.1:9092` with the topic `invoices`.

use std::{
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};

use milena::{app::prelude::*, prelude::*};
use tokio::sync::Semaphore;

/// A printer that hangs when it runs out of paper.
pub struct Printer {
    pub paper: Semaphore,
    pub printed: Mutex<Vec<String>>,
}

impl Printer {
    pub fn new(sheets: usize) -> Arc<Self> {
        Arc::new(Self {
            paper: Semaphore::new(sheets),
            printed: Mutex::default(),
        })
    }

    async fn print(&self, invoice: String) {
        if let (Ok(sheet), Ok(mut printed)) = (self.paper.acquire().await, self.printed.lock()) {
            sheet.forget();
            printed.push(invoice);
        }
    }
}

fn auto_committing(bootstrap: &str, group: &str, interval_ms: u32) -> Result<Consumer, Box<dyn Error>> {
    let config = ConsumerConfig::builder(bootstrap)
        .group_id(group)
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .set("auto.commit.interval.ms", interval_ms);
    let mut consumer = Consumer::new(config)?;
    consumer.subscribe(["invoices"])?;
    Ok(consumer)
}

/// A mistake that loses invoices: a task prints, and the loop polls and commits meanwhile.
pub async fn losing(bootstrap: &str, printer: Arc<Printer>) -> Result<(), Box<dyn Error>> {
    let mut consumer = auto_committing(bootstrap, "losing", 1)?;
    loop {
        let records = consumer.poll(Duration::from_millis(10)).await?;
        for record in &records {
            let invoice = record.value_as::<String>(&Plain)?;
            let printer = Arc::clone(&printer);
            tokio::spawn(async move { printer.print(invoice).await });
        }
    }
}

/// A mistake that prints invoices twice: a crash between two commits, 5 s apart, repeats printed invoices.
pub async fn doubling(bootstrap: &str, printer: Arc<Printer>) -> Result<(), Box<dyn Error>> {
    let mut consumer = auto_committing(bootstrap, "doubling", 5000)?;
    loop {
        let records = consumer.poll(Duration::from_millis(10)).await?;
        for record in &records {
            printer.print(record.value_as::<String>(&Plain)?).await;
        }
    }
}

async fn print(Value(invoice): Value<String>, State(printer): State<Arc<Printer>>) {
    printer.print(invoice).await;
}

/// The remedy: the offset is committed when the invoice is printed. A crash between the two still prints that one
/// invoice twice; a printer that must not do so remembers `Cx::event_id`.
pub fn app(bootstrap: &str, printer: Arc<Printer>) -> App {
    App::new(bootstrap)
        .group("careful")
        .state(printer)
        .commit_every(1)
        .on("invoices", print, |policy| policy.timeout(None))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bootstrap = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let printer = Printer::new(5);
    app(&bootstrap, Arc::clone(&printer))
        .run_until(shutdown_signal())
        .await?;
    println!("{:?}", printer.printed.lock());
    Ok(())
}
