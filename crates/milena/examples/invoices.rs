//! A crash after 5 of 10 invoices. With auto-commit the other five are lost: what `poll` returned is committed by the next
//! `poll`, printed or not. The runtime commits what is done, so a new process prints the other five, and none twice.
//!
//! `cargo run -p milena --example invoices -- 127.0.0.1:9092` with the topic `invoices`.

use std::{
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};

use milena::{app::prelude::*, prelude::*};
use tokio::sync::Semaphore;

/// It prints as long as there is paper, then it hangs.
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

/// How not to do it: the work goes elsewhere, and the loop goes on.
pub async fn careless(bootstrap: &str, printer: Arc<Printer>) -> Result<(), Box<dyn Error>> {
    let config = ConsumerConfig::builder(bootstrap)
        .group_id("careless")
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .set("auto.commit.interval.ms", 1);
    let mut consumer = Consumer::new(config)?;
    consumer.subscribe(["invoices"])?;
    loop {
        let records = consumer.poll(Duration::from_millis(10)).await?;
        for record in &records {
            let invoice = record.value_as::<String>(&Plain)?;
            let printer = Arc::clone(&printer);
            tokio::spawn(async move { printer.print(invoice).await });
        }
    }
}

async fn print(Value(invoice): Value<String>, State(printer): State<Arc<Printer>>) {
    printer.print(invoice).await;
}

/// How to do it.
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
