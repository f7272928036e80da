//! Applications under test.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use milena_app::prelude::*;
use milena_test::{TestBroker, TestKit};

type Seen = Arc<Mutex<Vec<String>>>;

async fn note(Value(value): Value<String>, State(seen): State<Seen>) -> Result<(), Fault> {
    let mut seen = seen.lock().unwrap();
    seen.push(value.clone());
    if value.starts_with("bad") {
        Err(Fault::retry("bad"))
    } else {
        Ok(())
    }
}

fn app(seen: &Seen) -> App {
    App::new("")
        .group("billing")
        .state(seen.clone())
        .on("orders", note, |policy| {
            policy
                .retry(
                    Retry::exponential(Duration::from_secs(1), Duration::from_secs(4))
                        .attempts(3)
                        .elapsed_max(None),
                )
                .then_topics([Duration::from_secs(300)])
        })
}

#[tokio::test]
async fn retries_and_retry_topics_pass_in_no_time_and_in_their_order() {
    let seen = Seen::default();
    let kit = TestKit::start(app(&seen)).await;
    kit.publish("orders", ("a", "bad 1")).await;
    kit.publish("orders", ("b", "good")).await;
    kit.settled().await;
    assert_eq!(seen.lock().unwrap().len(), 2);
    // Waits of about one and two seconds.
    kit.advance(Duration::from_secs(4)).await;
    assert_eq!(seen.lock().unwrap().len(), 4);
    assert_eq!(kit.records("orders.retry-5m").await.len(), 1);
    kit.advance(Duration::from_secs(297)).await;
    kit.assert_dlq("orders", 0).await;
    kit.advance(Duration::from_secs(3)).await;
    assert_eq!(kit.assert_dlq("orders", 1).await[0].value(), Some(&b"bad 1"[..]));
    assert_eq!(seen.lock().unwrap().len(), 5);
    let broker = kit.stop().await;
    assert_eq!(broker.committed("billing", "orders", 0), Some(2));
}

#[tokio::test]
async fn after_a_crash_only_what_was_not_committed_comes_again() {
    let seen = Seen::default();
    let mut kit = TestKit::start(app(&seen)).await;
    kit.publish("orders", "first").await;
    kit.settled().await;
    kit.advance(Duration::from_secs(2)).await;
    kit.publish("orders", "second").await;
    kit.settled().await;
    kit.crash().await;
    kit.settled().await;
    assert_eq!(*seen.lock().unwrap(), ["first", "second", "second"]);
    kit.stop().await;
}

#[tokio::test]
async fn a_rebalance_loses_nothing_and_repeats_nothing() {
    let seen = Seen::default();
    let broker = TestBroker::start();
    broker.create_topic("orders", 4);
    let mut kit = TestKit::start_on(broker, app(&seen)).await;
    for number in 0..20 {
        kit.publish("orders", (number.to_string().as_str(), "one")).await;
    }
    kit.rebalance().await;
    for number in 0..20 {
        kit.publish("orders", (number.to_string().as_str(), "two")).await;
    }
    kit.settled().await;
    assert_eq!(seen.lock().unwrap().len(), 40);
    kit.stop().await;
}
