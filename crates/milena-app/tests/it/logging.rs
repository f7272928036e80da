//! Failures are logged, with a rate limit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use milena_app::prelude::*;
use milena_test::{TestBroker, TestKit};

use crate::{
    log::Log,
    rig::{app, committed, until},
};

#[tokio::test]
async fn failures_and_dead_letters_are_logged_once_per_second_with_their_number() {
    async fn refuse(Value(value): Value<String>) -> Result<(), Fault> {
        Err(Fault::poison(format!("no customer {value}")))
    }
    let (log, _listening) = Log::listen();
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, (0..300).map(|number| number.to_string()));
    let running = app(&broker)
        .on("orders", refuse, |policy| policy)
        .start()
        .await
        .unwrap();
    committed(&broker, "billing", "orders", 0, 300).await;
    running.stop().await.unwrap();
    for event in ["handler_failed", "dead_letter"] {
        assert_eq!(log.count(event), 300, "{event}");
        assert!(log.of(event).len() < 100, "{:?}", log.of(event));
    }
    let first = log.of("dead_letter").remove(0).message;
    let number = first.rsplit(' ').next().unwrap();
    let expected = format!("orders-0@{number} → orders.dlq after 1 attempt: no customer {number}");
    assert_eq!(first, expected);
    let last = log.of("dead_letter").pop().unwrap();
    assert!(
        last.message.contains(&format!("(+{} similar)", last.similar)),
        "{last:?}"
    );
}

#[tokio::test]
async fn retries_and_breakers_are_logged() {
    async fn call(State(is_up): State<Arc<AtomicBool>>) -> Result<(), Fault> {
        if is_up.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(Fault::dependency("psp")("connection refused"))
    }
    async fn fail() -> Result<(), Fault> {
        Err(Fault::retry("no money"))
    }
    let (log, _listening) = Log::listen();
    let broker = TestBroker::start();
    broker.create_topic("calls", 1);
    broker.create_topic("orders", 1);
    broker.produce("calls", 0, (0..20).map(|number| number.to_string()));
    broker.produce("orders", 0, ["one"]);
    let is_up = Arc::new(AtomicBool::new(false));
    let minute = Duration::from_secs(60);
    let app = App::new("")
        .group("billing")
        .state(Arc::clone(&is_up))
        .on("calls", call, |policy| policy.breaker("psp"))
        .on("orders", fail, |policy| {
            policy.retry(Retry::none()).then_topics([minute])
        });
    let kit = TestKit::start_on(broker, app).await;
    until("an open breaker", || !log.of("breaker_opened").is_empty()).await;
    let opened = log.of("breaker_opened").remove(0).message;
    assert!(opened.starts_with("circuit breaker psp opened"), "{opened}");
    until("a retry", || !log.of("retry_topic").is_empty()).await;
    let retry = log.of("retry_topic").remove(0).message;
    assert_eq!(retry, "orders-0@0 → orders.retry-1m after 1 attempt: no money");
    is_up.store(true, Ordering::SeqCst);
    kit.advance(minute).await;
    until("a closed breaker", || !log.of("breaker_closed").is_empty()).await;
}

#[tokio::test]
async fn topics_that_may_lose_failed_records_are_named() {
    async fn handle() {}
    let (log, _listening) = Log::listen();
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    let settings = [("cleanup.policy", "compact,delete"), ("retention.ms", "3600000")];
    broker.create_topic_with("orders.dlq", 1, &settings);
    let running = app(&broker)
        .on("orders", handle, |policy| policy)
        .start()
        .await
        .unwrap();
    running.stop().await.unwrap();
    let lines = log.of("failure_topic_may_lose_records");
    let messages: Vec<&str> = lines.iter().map(|line| line.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "topic orders.dlq keeps failed records of orders, and cleanup.policy=compact,delete may delete them too soon; set \
             cleanup.policy=delete",
            "topic orders.dlq keeps failed records of orders, and retention.ms=3600000 may delete them too soon; set \
             retention.ms=2592000000",
        ]
    );
}

#[tokio::test]
async fn an_output_topic_that_does_not_exist_is_named() {
    async fn copy(Raw(record): Raw) -> Done {
        let value = record.value().unwrap_or_default().to_vec();
        OutRecord::new("bills").value(value).into()
    }
    let (log, _listening) = Log::listen();
    let broker = TestBroker::builder().set("auto.create.topics.enable", false).start();
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, ["one"]);
    let running = app(&broker).on("orders", copy, |policy| policy).start().await.unwrap();
    until("a warning", || !log.of("output_waits").is_empty()).await;
    let message = log.of("output_waits").remove(0).message;
    assert_eq!(message, "orders-0@0 → bills: topic bills does not exist; create it");
    broker.create_topic("bills", 1);
    committed(&broker, "billing", "orders", 0, 1).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn topics_that_only_a_dot_keeps_out_of_a_pattern_are_named() {
    async fn handle() {}
    let (log, _listening) = Log::listen();
    let broker = TestBroker::start();
    broker.create_topic("events-acme", 1);
    broker.create_topic("events-acme.eu", 1);
    let running = app(&broker)
        .on("events-{tenant}", handle, |policy| policy)
        .start()
        .await
        .unwrap();
    running.stop().await.unwrap();
    let lines = log.of("topics_not_matched");
    assert!(
        lines[0]
            .message
            .starts_with("1 topics such as events-acme.eu are not read"),
        "{lines:?}"
    );
}
