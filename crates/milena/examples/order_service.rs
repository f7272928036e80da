//! A whole service: it takes orders, charges for them, and publishes bills, whatever goes wrong.
//!
//! `cargo run -p milena --example order_service -- 127.0.0.1:9092` with the topics `orders` and `bills`; Ctrl-C or SIGTERM
//! ends it in peace.
//!
//! - An order is charged by a payment service. While that is down a circuit breaker holds orders back.
//! - An order that cannot be charged now is tried again: five times in its place, then after 1, 5 and 15 minutes.
//! - What can never be charged, or read, becomes a dead letter in `orders.dlq`.
//! - Orders of one customer are handled in their order; others do not wait for them.
//! - A bill is written before the order counts as done. After a crash an order may be charged again, so the payment
//!   service is told the id of the event: for the same id it charges once.

use std::{error::Error, sync::Arc, time::Duration};

use milena::app::prelude::*;

#[derive(serde::Deserialize)]
struct Placed {
    customer: String,
    cents: i64,
}

/// What the service needs of the world, so that a test can put its own in its place.
pub trait Payments: Send + Sync {
    fn charge(&self, event_id: &str, customer: &str, cents: i64) -> Result<String, PaymentError>;
}

#[derive(Debug)]
pub enum PaymentError {
    /// The service does not answer.
    Down,
    /// The customer has no money, at the moment.
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

/// The application, without a place to run.
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
