//! Handlers and their arguments.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use milena_app::{StartError, failure, prelude::*};
use milena_test::{TestBroker, TestRecord};
use tokio::sync::mpsc;

use crate::rig::{GROUP, app, committed, read, text, until, within};

type Seen = mpsc::UnboundedSender<String>;

#[derive(serde::Deserialize)]
struct Placed {
    id: u64,
}

async fn tell(
    Event(order): Event<Placed>,
    Key(key): Key<String>,
    headers: Headers,
    State(seen): State<Seen>,
    cx: Cx,
) -> Result<Done, Fault> {
    let trace = String::from_utf8_lossy(headers.last("trace").unwrap_or_default()).into_owned();
    let text = format!(
        "{} {key} {trace} {} {} {}",
        order.id,
        cx.group(),
        cx.attempt(),
        cx.event_id()
    );
    seen.send(text).map_err(Fault::fatal)?;
    Ok(Done::Ok)
}

#[tokio::test]
async fn a_handler_gets_its_arguments_and_the_offset_is_committed() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 2);
    let (seen, mut reports) = mpsc::unbounded_channel::<String>();
    let running = app(&broker)
        .state(seen)
        .on("orders", tell, |policy| policy)
        .start()
        .await
        .unwrap();
    let record = |id: &str| TestRecord::new(id).key("anna").header("trace", "t1");
    broker.produce(
        "orders",
        1,
        [record(r#"{"id": 7}"#), record(r#"{"id": 8}"#).header("event_id", "e8")],
    );
    assert_eq!(
        within("the first call", reports.recv()).await.unwrap(),
        "7 anna t1 billing 1 orders-1-0"
    );
    assert_eq!(
        within("the second call", reports.recv()).await.unwrap(),
        "8 anna t1 billing 1 e8"
    );
    committed(&broker, GROUP, "orders", 1, 2).await;
    running.stop().await.unwrap();
    assert_eq!(broker.group_members(GROUP), []);
}

#[tokio::test]
async fn a_batch_handler_gets_many_records_and_returns_an_outcome_for_each() {
    let broker = TestBroker::start();
    broker.create_topic("clicks", 1);
    let values: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    broker.produce("clicks", 0, values.iter().chain([&"poison".to_owned()]));
    let (seen, mut reports) = mpsc::unbounded_channel();
    let index = move |batch: Batch<Event<u32>>| {
        let seen = seen.clone();
        async move {
            let numbers: Vec<u32> = batch.iter().map(|Event(number)| *number).collect();
            let outcomes: Vec<Result<Done, Fault>> = numbers
                .iter()
                .map(|number| match number {
                    3 => Err(Fault::poison("three is not wanted")),
                    _ => Ok(Done::Ok),
                })
                .collect();
            seen.send(numbers).unwrap();
            outcomes
        }
    };
    let running = app(&broker)
        .batch("clicks", index, |policy| policy.order(Order::Partition).batch_size(100))
        .start()
        .await
        .unwrap();
    let mut all = vec![];
    while all.len() < 10 {
        all.extend(within("a batch", reports.recv()).await.unwrap());
    }
    assert_eq!(all, (0..10).collect::<Vec<_>>());
    committed(&broker, GROUP, "clicks", 0, 11).await;
    let counts = running.counts();
    let counts = counts.first().unwrap();
    assert_eq!((counts.success, counts.dead_non_retriable), (9, 2));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn order_is_kept_for_each_key_while_others_overtake() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    let (seen, mut reports) = mpsc::unbounded_channel();
    let gate = Arc::new(tokio::sync::Notify::new());
    let wait = gate.clone();
    let handler = move |Key(key): Key<String>, Value(value): Value<String>| {
        let (seen, wait) = (seen.clone(), wait.clone());
        async move {
            if value == "a1" {
                wait.notified().await;
            }
            seen.send(format!("{key} {value}")).unwrap();
        }
    };
    let running = app(&broker)
        .on("orders", handler, |policy| policy)
        .start()
        .await
        .unwrap();
    broker.produce("orders", 0, [("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2")]);
    assert_eq!(within("b1", reports.recv()).await.unwrap(), "b b1");
    assert_eq!(within("b2", reports.recv()).await.unwrap(), "b b2");
    // Finished records above the frontier do not move it.
    gate.notify_one();
    assert_eq!(within("a1", reports.recv()).await.unwrap(), "a a1");
    assert_eq!(within("a2", reports.recv()).await.unwrap(), "a a2");
    committed(&broker, GROUP, "orders", 0, 4).await;
    running.stop().await.unwrap();
}

/// An application with four records of different keys, whose handler keeps its only permit until it may finish.
async fn full(broker: &TestBroker, when_full: WhenFull) -> (Running, Arc<tokio::sync::Semaphore>) {
    broker.create_topic("orders", 1);
    let may_end = Arc::new(tokio::sync::Semaphore::new(0));
    let handler = {
        let may_end = Arc::clone(&may_end);
        move || {
            let may_end = Arc::clone(&may_end);
            async move { drop(may_end.acquire().await) }
        }
    };
    broker.produce(
        "orders",
        0,
        ["0", "1", "2", "3"].map(|key| TestRecord::new(key).key(key)),
    );
    let running = app(broker)
        .bulkhead("database", 1)
        .on("orders", handler, |policy| {
            policy.bulkhead("database").when_full(when_full).timeout(None)
        })
        .start()
        .await
        .unwrap();
    (running, may_end)
}

#[tokio::test]
async fn records_that_find_a_full_bulkhead_become_dead_letters_if_the_policy_says_so() {
    let broker = TestBroker::start();
    let (running, may_end) = full(&broker, WhenFull::DeadLetter).await;
    let mut dead = read(&broker, "orders.dlq", 1, 3).await;
    // Each record has a key of its own, so their dead letters have no order.
    dead.sort_by(|one, other| one.value().cmp(&other.value()));
    for (dead, value) in dead.iter().zip(["1", "2", "3"]) {
        let failure_record = failure::read(dead.headers()).unwrap();
        assert_eq!((text(dead.value()), failure_record.attempts), (value, 0));
        let reason = "no permit was left in the bulkhead of its handler: database";
        assert_eq!(failure_record.failure.reason, reason);
    }
    may_end.add_permits(1);
    committed(&broker, GROUP, "orders", 0, 4).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn records_that_find_a_full_bulkhead_are_skipped_if_the_policy_says_so() {
    let broker = TestBroker::start();
    let (running, may_end) = full(&broker, WhenFull::Skip).await;
    until("three records are skipped", || running.counts()[0].skipped == 3).await;
    may_end.add_permits(1);
    committed(&broker, GROUP, "orders", 0, 4).await;
    assert_eq!(running.counts()[0].success, 1);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn no_more_calls_run_at_once_than_a_bulkhead_has_permits() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.create_topic("mails", 1);
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let handler = {
        let (now, most) = (now.clone(), most.clone());
        move || {
            let (now, most) = (now.clone(), most.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
            }
        }
    };
    for topic in ["orders", "mails"] {
        broker.produce(topic, 0, (0..200).map(|number: i32| number.to_string()));
    }
    let running = app(&broker)
        .bulkhead("database", 3)
        .on("orders", handler.clone(), |policy| policy.bulkhead("database"))
        .on("mails", handler, |policy| policy.bulkhead("database"))
        .start()
        .await
        .unwrap();
    committed(&broker, GROUP, "orders", 0, 200).await;
    committed(&broker, GROUP, "mails", 0, 200).await;
    running.stop().await.unwrap();
    assert!((2..=3).contains(&most.load(Ordering::SeqCst)), "{most:?}");
}

#[tokio::test]
async fn a_record_can_be_put_off_without_failing() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, ["x"]);
    let calls = Arc::new(AtomicUsize::new(0));
    let handler = {
        let calls = calls.clone();
        move |cx: Cx| {
            let call = calls.fetch_add(1, Ordering::SeqCst);
            async move {
                match call {
                    0 => Done::RetryAfter(std::time::Duration::from_millis(5)),
                    _ => Done::Skip(format!("seen at attempt {}", cx.attempt()).into()),
                }
            }
        }
    };
    let running = app(&broker)
        .on("orders", handler, |policy| policy)
        .start()
        .await
        .unwrap();
    committed(&broker, GROUP, "orders", 0, 1).await;
    until("the count", || running.counts()[0].skipped == 1).await;
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert_eq!((running.counts()[0].deferred, running.counts()[0].failed), (1, 0));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn what_is_missing_is_found_at_the_start() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    let error = app(&broker)
        .on("orders", tell, |policy| policy)
        .start()
        .await
        .unwrap_err();
    assert!(matches!(error, StartError::State { .. }), "{error}");
    assert!(error.to_string().contains("add it with .state(…)"), "{error}");
    let nothing = || async {};
    let error = app(&broker)
        .on("ordres", nothing, |policy| policy)
        .start()
        .await
        .unwrap_err();
    assert!(matches!(error, StartError::NoTopic { .. }), "{error}");
    let error = app(&broker)
        .on("orders", nothing, |policy| policy.bulkhead("db"))
        .start()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("bulkhead \"db\" is not declared"), "{error}");
    let twice = app(&broker)
        .on("orders", nothing, |policy| policy)
        .on("orders", nothing, |policy| policy);
    assert!(matches!(twice.start().await, Err(StartError::TwoHandlers { .. })));
    for (key, value) in [("enable.auto.commit", "true"), ("value.deserializer", "i64")] {
        let error = app(&broker).consumer(key, value).on("orders", nothing, |policy| policy);
        assert!(
            matches!(error.start().await, Err(StartError::OurSetting { .. })),
            "{key}"
        );
    }
}
