//! Key order through retries.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use milena_app::{Clock, Running, handler::Handler, prelude::*};
use milena_test::{TestBroker, TestRecord};

use crate::rig::{GROUP, app, header, read, read_with, text, until};

/// Observations of the handlers of all processes.
#[derive(Clone, Default)]
struct Seen {
    /// Successfully handled values with their topics.
    handled: Arc<Mutex<Vec<(String, String)>>>,
    failed: Arc<Mutex<BTreeMap<String, u32>>>,
}

/// Fails a record `bad…` twice, across restarts, and notes the others.
fn handler(seen: &Seen) -> impl Handler<(Value<String>, Cx)> {
    let seen = seen.clone();
    move |Value(value): Value<String>, cx: Cx| {
        let seen = seen.clone();
        async move {
            if value.starts_with("bad") {
                let mut failed = seen.failed.lock().unwrap();
                let times = failed.entry(value.clone()).or_default();
                *times += 1;
                if *times <= 2 {
                    return Err(Fault::retry("not yet"));
                }
            }
            let handled = (value.clone(), cx.record().topic().to_owned());
            seen.handled.lock().unwrap().push(handled);
            Ok(Done::Emit(vec![OutRecord::new("out").key("k").value(value)]))
        }
    }
}

fn values(seen: &Seen) -> Vec<String> {
    let handled = seen.handled.lock().unwrap();
    handled.iter().map(|(value, _)| value.clone()).collect()
}

fn record(key: &str, value: &str) -> TestRecord {
    TestRecord::new(value).key(key)
}

fn keep_order(policy: Policy) -> Policy {
    let delays = [60, 300].map(Duration::from_secs);
    policy.retry(Retry::none()).then_topics(delays).keep_key_order()
}

/// Waits for a commit of the main topic, while less time passes than the first retry delay.
async fn committed_soon(broker: &TestBroker, clock: &Clock, offset: i64) {
    let mut steps = 0..2000;
    until("the commit of the main topic", || {
        if steps.next().is_some() {
            clock.advance(Duration::from_millis(10));
        }
        broker.committed(GROUP, "orders", 0) == Some(offset)
    })
    .await;
}

async fn start(broker: &TestBroker, clock: &Clock, seen: &Seen) -> Running {
    let app = app(broker).clock(clock.clone()).on("orders", handler(seen), keep_order);
    app.start().await.unwrap()
}

#[tokio::test]
async fn what_follows_a_record_that_is_retried_waits_behind_it_across_a_crash() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.create_topic("out", 1);
    let (clock, seen) = (Clock::manual(), Seen::default());
    let first = start(&broker, &clock, &seen).await;
    broker.produce(
        "orders",
        0,
        [record("k", "bad"), record("k", "second"), record("j", "other")],
    );
    let held = read(&broker, "orders.held", 1, 2).await;
    committed_soon(&broker, &clock, 3).await;
    assert_eq!(values(&seen), ["other"]);
    assert_eq!([text(held[0].value()), text(held[1].value())], ["bad", "second"]);
    assert!(header(&held[0], "milena.due_at").is_some() && header(&held[1], "milena.due_at").is_none());
    let reason = header(&held[1], "dlq.failure.reason");
    assert_eq!(
        reason.as_deref(),
        Some("an earlier record of its key is being tried again")
    );
    first.kill();
    // The next process knows only the committed and written state.
    let second = start(&broker, &clock, &seen).await;
    broker.produce("orders", 0, [record("k", "third")]);
    read(&broker, "orders.held", 1, 3).await;
    committed_soon(&broker, &clock, 4).await;
    assert_eq!(values(&seen), ["other"]);
    until("the retries", || {
        clock.advance(Duration::from_secs(10));
        values(&seen).len() >= 4
    })
    .await;
    assert_eq!(values(&seen), ["other", "bad", "second", "third"]);
    // The key is released when the group of the held-keys topic has committed all of it.
    let mut number: i32 = 0;
    let is_free = || {
        let handled = seen.handled.lock().unwrap();
        handled
            .iter()
            .any(|(value, topic)| value.starts_with("free") && topic == "orders")
    };
    while !is_free() {
        // Up to here all of them were held.
        let (group, end) = (format!("{GROUP}.held"), 3 + i64::from(number));
        until("the commit of what is held", || {
            clock.advance(Duration::from_millis(100));
            broker.committed(&group, "orders.held", 0) == Some(end)
        })
        .await;
        let value = format!("free{number}");
        broker.produce("orders", 0, [record("k", &value)]);
        until("the next of the key", || {
            clock.advance(Duration::from_secs(1));
            values(&seen).contains(&value)
        })
        .await;
        number += 1;
    }
    let in_order: Vec<String> = (0..number).map(|number| format!("free{number}")).collect();
    assert_eq!(values(&seen)[4..], in_order);
    second.stop().await.unwrap();
}

#[tokio::test]
async fn keys_stay_in_order_in_transactions_too() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.create_topic("out", 1);
    let (clock, seen) = (Clock::manual(), Seen::default());
    let running = app(&broker)
        .instance("one")
        .clock(clock.clone())
        .exactly_once("orders", handler(&seen), keep_order)
        .start()
        .await
        .unwrap();
    broker.produce(
        "orders",
        0,
        [record("k", "bad"), record("k", "second"), record("k", "third")],
    );
    let passing = {
        let clock = clock.clone();
        async move {
            loop {
                clock.advance(Duration::from_millis(500));
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    };
    let passing = tokio::spawn(passing);
    let written = read_with(&broker, "out", 1, 3, "read_committed").await;
    let written: Vec<&str> = written.iter().map(|record| text(record.value())).collect();
    assert_eq!(written, ["bad", "second", "third"]);
    passing.abort();
    running.stop().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_kept_in_order_is_refused_at_the_start() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    let without_delays: fn(Policy) -> Policy = |policy| policy.keep_key_order();
    let without_keys = |policy| keep_order(policy).order(Order::Unordered);
    let policies = [
        (without_delays, "no delays are set"),
        (without_keys, "its order is not that of keys"),
    ];
    for (policy, why) in policies {
        let app = app(&broker).on("orders", handler(&Seen::default()), policy);
        let error = app.start().await.err().unwrap().to_string();
        assert!(error.contains(why), "{error}");
    }
}
