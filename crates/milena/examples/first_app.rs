//! The program of `docs/first-app.md`: orders that are charged, retried, and dead-lettered.
//!
//! `cargo run -p milena --example first_app` with the topic `orders` on `127.0.0.1:9092`.

use std::{error::Error, time::Duration};

use milena::app::prelude::*;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    customer: String,
    cents: u32,
    card: String,
}

async fn charge(Event(order): Event<OrderPlaced>) -> Result<(), Fault> {
    if order.cents == 0 {
        return Err(Fault::poison("an order of 0 cents"));
    }
    if order.card == "declined" {
        return Err(Fault::retry("the card was declined"));
    }
    call_payment_service(&order)
        .await
        .map_err(Fault::dependency("payments"))?;
    println!("{} paid {} cents", order.customer, order.cents);
    Ok(())
}

/// Stands in for your HTTP call.
async fn call_payment_service(_order: &OrderPlaced) -> Result<(), std::io::Error> {
    Ok(())
}

fn app(bootstrap: &str) -> App {
    App::new(bootstrap).group("billing").on("orders", charge, |policy| {
        policy
            .retry(Retry::exponential(Duration::from_millis(200), Duration::from_secs(2)).attempts(3))
            .then_topics([Duration::from_secs(10), Duration::from_secs(60)])
            .breaker("payments")
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt::init();
    app("127.0.0.1:9092").run_until(shutdown_signal()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use milena_test::TestKit;

    #[tokio::test]
    async fn a_declined_card_is_retried_and_becomes_a_dead_letter() {
        let kit = TestKit::start(super::app("")).await;
        let anna = r#"{"customer":"anna","cents":500,"card":"valid"}"#;
        let ben = r#"{"customer":"ben","cents":700,"card":"declined"}"#;
        kit.publish("orders", ("anna", anna)).await;
        kit.publish("orders", ("ben", ben)).await;

        // Three attempts in place, then the retry topics: no dead letter yet.
        kit.advance(Duration::from_secs(30)).await;
        assert_eq!(kit.running().counts()[0].success, 1);
        kit.assert_dlq("orders", 0).await;

        // After the last retry topic.
        kit.advance(Duration::from_secs(60)).await;
        let dead = kit.assert_dlq("orders", 1).await;
        assert_eq!(dead[0].key(), Some(&b"ben"[..]));
        kit.stop().await;
    }

    #[tokio::test]
    async fn a_record_that_is_no_order_becomes_a_dead_letter_at_once() {
        let kit = TestKit::start(super::app("")).await;
        kit.publish("orders", "no order").await;
        kit.settled().await;
        let dead = kit.assert_dlq("orders", 1).await;
        assert_eq!(dead[0].value(), Some(&b"no order"[..]));
        kit.stop().await;
    }
}
