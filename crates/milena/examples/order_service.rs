//! A complete service: it takes orders, charges for them, and publishes bills.
//!
//! `cargo run -p milena --example order_service -- 127.0.0.1:9092` with the topics `orders` and `bills`. Ctrl-C or
//! SIGTERM shuts it down gracefully.
//!
//! - A payment service charges the orders. While it is down, a circuit breaker pauses the partitions.
//! - A failed order is retried: five times in place, then after 1, 5 and 15 minutes.
//! - An order that can never be charged or decoded becomes a dead letter in `orders.dlq`.
//! - Orders of one customer are handled in order; others do not wait for them.
//! - The bill is written before the order counts as done. A crash may repeat a charge, so the payment service gets the
//!   event id: it charges once per id.

use std::{error::Error, sync::Arc, time::Duration};

use milena::app::prelude::*;

#[derive(serde::Deserialize)]
struct Placed {
    customer: String,
    cents: i64,
}

/// The external dependency, as a trait, so that tests can replace it.
pub trait Payments: Send + Sync {
    fn charge(&self, event_id: &str, customer: &str, cents: i64) -> Result<String, PaymentError>;
}

#[derive(Debug)]
pub enum PaymentError {
    /// The service does not respond.
    Down,
    /// The customer has no money at the moment.
    Declined,
}

pub type SharedPayments = Arc<dyn Payments>;

async fn charge(Event(order): Event<Placed>, State(payments): State<SharedPayments>, cx: Cx) -> Result<Done, Fault> {
    if order.cents <= 0 {
        return Err(Fault::poison(format!("an order of {} cents", order.cents)));
    }
    let receipt = match payments.charge(&cx.event_id(), &order.customer, order.cents) {
        Ok(receipt) => receipt,
        Err(PaymentError::Down) => return Err(Fault::dependency("payments")("the payment service is down")),
        Err(PaymentError::Declined) => return Err(Fault::retry("the payment was declined")),
    };
    let bill = OutRecord::new("bills").key(order.customer).value(receipt);
    Ok(bill.header("event_id", cx.event_id()).into())
}

/// The application, not started yet.
pub fn app(bootstrap: &str, payments: SharedPayments) -> App {
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    App::new(bootstrap)
        .group("billing")
        .state(payments)
        .breaker("payments", Breaker::default())
        .on("orders", charge, |policy| {
            policy
                .order(Order::Key)
                .concurrency(64)
                .breaker("payments")
                .then_topics([minutes(1), minutes(5), minutes(15)])
                .dead_letters(DeadLetters::default())
        })
}

struct Pretend;

impl Payments for Pretend {
    fn charge(&self, event_id: &str, customer: &str, cents: i64) -> Result<String, PaymentError> {
        println!("{customer} pays {cents} cents for {event_id}");
        Ok(format!("a receipt over {cents} cents"))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bootstrap = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    app(&bootstrap, Arc::new(Pretend)).run_until(shutdown_signal()).await?;
    Ok(())
}
