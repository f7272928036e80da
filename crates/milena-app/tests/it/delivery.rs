//! Delivery guarantees.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use milena_app::prelude::*;
use milena_test::{ErrorCode, TestBroker, TestRecord, messages::ProduceRequest};
use tokio::sync::{Notify, mpsc};

use crate::rig::{GROUP, app, committed, header, read, read_with, text, until, within};

#[tokio::test]
async fn after_a_crash_what_was_done_out_of_order_and_committed_is_not_done_again() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    let values: Vec<(String, String)> = (0..20).map(|number| (number.to_string(), number.to_string())).collect();
    broker.produce(
        "orders",
        0,
        values.iter().map(|(key, value)| (key.as_str(), value.as_str())),
    );
    let (seen, mut reports) = mpsc::unbounded_channel();
    let first = {
        let seen = seen.clone();
        move |Value(value): Value<String>| {
            let seen = seen.clone();
            async move {
                if value == "3" {
                    std::future::pending::<()>().await;
                }
                seen.send(value).unwrap();
            }
        }
    };
    let running = app(&broker)
        .commit_interval(Duration::from_millis(1))
        .on("orders", first, |policy| policy.timeout(None));
    let running = running.start().await.unwrap();
    for _ in 0..19 {
        within("a call", reports.recv()).await.unwrap();
    }
    committed(&broker, GROUP, "orders", 0, 3).await;
    // The offset map of finished records is part of the commit of the frontier.
    until("a commit of all", || {
        let status = running.status();
        (status.records, status.replay_if_crashed_now) == (1, 0)
    })
    .await;
    running.kill();
    let second = move |Value(value): Value<String>| {
        seen.send(value).unwrap();
        async {}
    };
    let running = app(&broker)
        .on("orders", second, |policy| policy)
        .start()
        .await
        .unwrap();
    assert_eq!(within("the rest", reports.recv()).await.unwrap(), "3");
    committed(&broker, GROUP, "orders", 0, 20).await;
    assert_eq!(reports.try_recv().ok(), None);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_second_instance_takes_over_gracefully_and_nothing_is_done_twice_or_left_out() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 8);
    let seen: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let handler = {
        let seen = seen.clone();
        move |Value(value): Value<String>| {
            let seen = seen.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                *seen.lock().unwrap().entry(value).or_default() += 1;
            }
        }
    };
    let start = || app(&broker).on("orders", handler.clone(), |policy| policy).start();
    let first = start().await.unwrap();
    let mut number = 0;
    let mut produce = || {
        for partition in 0..8 {
            broker.produce("orders", partition, [number.to_string()]);
            number += 1;
        }
    };
    until("work for the first", || {
        produce();
        first.counts()[0].success > 200
    })
    .await;
    let second = start().await.unwrap();
    until("work for both", || {
        produce();
        second.counts()[0].success > 200
    })
    .await;
    let first_ends = tokio::spawn(first.stop());
    let mut more = 50;
    until("the end of the first", || {
        produce();
        more -= 1;
        more < 0 && first_ends.is_finished()
    })
    .await;
    first_ends.await.unwrap().unwrap();
    until("all", || seen.lock().unwrap().len() == number).await;
    second.stop().await.unwrap();
    let seen = seen.lock().unwrap();
    let twice: Vec<&String> = seen
        .iter()
        .filter(|(_, count)| **count > 1)
        .map(|(value, _)| value)
        .collect();
    assert_eq!(twice, Vec::<&String>::new());
    let total: i64 = (0..8)
        .map(|partition| broker.committed(GROUP, "orders", partition).unwrap())
        .sum();
    assert_eq!(total, i64::try_from(number).unwrap());
}

#[tokio::test]
async fn at_most_once_commits_before_it_calls() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, ["a"]);
    let (started, blocked) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (started, blocked) = (started.clone(), blocked.clone());
        move || {
            let (started, blocked) = (started.clone(), blocked.clone());
            async move {
                started.notify_one();
                blocked.notified().await;
            }
        }
    };
    let running = app(&broker)
        .at_most_once("orders", handler, |policy| policy.timeout(None))
        .start()
        .await
        .unwrap();
    within("the call", started.notified()).await;
    assert_eq!(broker.committed(GROUP, "orders", 0), Some(1));
    running.kill();
}

#[tokio::test]
async fn what_is_emitted_is_written_before_the_offset_moves() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.create_topic("bills", 1);
    broker.produce("orders", 0, [("k", "book"), ("k", "pen")]);
    let bill = |Value(item): Value<String>, Key(key): Key<String>| async move {
        Done::Emit(vec![
            OutRecord::new("bills").key(key).value(format!("a bill for a {item}")),
        ])
    };
    let running = app(&broker).on("orders", bill, |policy| policy).start().await.unwrap();
    committed(&broker, GROUP, "orders", 0, 2).await;
    let bills = read_with(&broker, "bills", 1, 2, "read_uncommitted").await;
    let values: Vec<&str> = bills.iter().map(|bill| text(bill.value())).collect();
    assert_eq!(values, ["a bill for a book", "a bill for a pen"]);
    assert_eq!(running.counts()[0].published, 2);
    running.stop().await.unwrap();
}

/// An application with a short transaction window.
fn in_transactions(broker: &TestBroker) -> App {
    app(broker).instance("one").transaction_window(Duration::from_millis(5))
}

#[tokio::test]
async fn exactly_once_output_and_progress_are_one_transaction() {
    let broker = TestBroker::start();
    broker.create_topic("raw", 2);
    broker.create_topic("rich", 1);
    for partition in 0..2 {
        broker.produce(
            "raw",
            partition,
            (0..50).map(|number: i32| format!("{partition}-{number}")),
        );
    }
    let enrich = |Value(value): Value<String>| async move {
        if value == "1-7" {
            return Err(Fault::poison("not this one"));
        }
        Ok(Done::from(OutRecord::new("rich").value(format!("rich {value}"))))
    };
    let running = in_transactions(&broker)
        .exactly_once("raw", enrich, |policy| policy)
        .start()
        .await
        .unwrap();
    let rich = read_with(&broker, "rich", 1, 99, "read_committed").await;
    let values: BTreeSet<&str> = rich.iter().map(|record| text(record.value())).collect();
    assert_eq!(values.len(), 99);
    let dead = read_with(&broker, "raw.dlq", 2, 1, "read_committed").await;
    assert_eq!(text(dead[0].value()), "1-7");
    committed(&broker, GROUP, "raw", 0, 50).await;
    committed(&broker, GROUP, "raw", 1, 50).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_transaction_that_cannot_be_written_does_not_count_and_its_records_come_again() {
    let broker = TestBroker::start();
    broker.create_topic("raw", 1);
    broker.create_topic("rich", 1);
    broker.produce("raw", 0, (0..20).map(|number: i32| number.to_string()));
    let refused = broker
        .faults()
        .on::<ProduceRequest>()
        .times(1)
        .respond_error(ErrorCode::InvalidRecord);
    let enrich = |Value(value): Value<String>| async move { Done::from(OutRecord::new("rich").value(value)) };
    let running = in_transactions(&broker)
        .exactly_once("raw", enrich, |policy| policy)
        .start()
        .await
        .unwrap();
    committed(&broker, GROUP, "raw", 0, 20).await;
    assert_eq!(refused.struck(), 1);
    let rich = read_with(&broker, "rich", 1, 20, "read_committed").await;
    let values: BTreeSet<&str> = rich.iter().map(|record| text(record.value())).collect();
    assert_eq!(values.len(), 20);
    running.stop().await.unwrap();
}

/// Emits more bytes for `big` than a request may have.
async fn grow(Value(value): Value<String>) -> Done {
    let size = if value == "big" { 5_000 } else { 10 };
    Done::from(OutRecord::new("rich").value(format!("{value} {}", "x".repeat(size))))
}

#[tokio::test]
async fn what_can_never_be_written_becomes_a_dead_letter_and_all_else_goes_on() {
    for is_transactional in [false, true] {
        let broker = TestBroker::start();
        broker.create_topic("raw", 1);
        broker.create_topic("rich", 1);
        broker.produce("raw", 0, ["a", "big", "c"]);
        let app = in_transactions(&broker).producer("max.request.size", 2_000);
        let app = if is_transactional {
            app.exactly_once("raw", grow, |policy| policy)
        } else {
            app.on("raw", grow, |policy| policy)
        };
        let running = app.start().await.unwrap();
        let dead = read_with(&broker, "raw.dlq", 1, 1, "read_committed").await;
        assert_eq!(text(dead[0].value()), "big");
        let reason = header(&dead[0], "dlq.failure.reason").unwrap();
        assert!(reason.contains("max.request.size"), "{reason}");
        committed(&broker, GROUP, "raw", 0, 3).await;
        let rich = read_with(&broker, "rich", 1, 2, "read_committed").await;
        let mut values: Vec<&str> = rich.iter().map(|record| &text(record.value())[..1]).collect();
        values.sort_unstable();
        assert_eq!(values, ["a", "c"], "transactional: {is_transactional}");
        running.stop().await.unwrap();
    }
}

/// A broker refuses batches; the runtime must find the record that it refuses.
#[tokio::test]
async fn only_what_is_refused_alone_is_given_up() {
    let broker = TestBroker::start();
    broker.create_topic("raw", 1);
    broker.create_topic("rich", 1);
    let value = |number: i32| match number {
        7 => "guilty".to_owned(),
        _ => number.to_string(),
    };
    broker.produce("raw", 0, (0..20).map(value));
    // Every batch with the one record, but not its dead letter.
    let is_refused = |request: &ProduceRequest| has(request, b"guilty") && !has(request, b"dlq.failure.reason");
    let refused = broker
        .faults()
        .on::<ProduceRequest>()
        .when(is_refused)
        .respond_error(ErrorCode::InvalidRecord);
    let enrich = |Value(value): Value<String>| async move { Done::from(OutRecord::new("rich").value(value)) };
    let running = in_transactions(&broker)
        .exactly_once("raw", enrich, |policy| policy)
        .start()
        .await
        .unwrap();
    committed(&broker, GROUP, "raw", 0, 20).await;
    assert!(refused.struck() > 0);
    let dead = read_with(&broker, "raw.dlq", 1, 1, "read_committed").await;
    assert_eq!(text(dead[0].value()), "guilty");
    let rich = read_with(&broker, "rich", 1, 19, "read_committed").await;
    let values: BTreeSet<&str> = rich.iter().map(|record| text(record.value())).collect();
    assert!(values.len() == 19 && !values.contains("guilty"), "{values:?}");
    running.stop().await.unwrap();
}

/// Records of a key pass each other while their output is written. A batch that is refused once may change neither their order
/// nor their number: the last output of each record is behind that of the record before.
#[tokio::test]
async fn output_of_a_key_stays_in_order_when_a_batch_is_refused() {
    const RECORDS: i64 = 200;
    let broker = TestBroker::start();
    broker.create_topic("raw", 1);
    broker.create_topic("rich", 1);
    broker.produce(
        "raw",
        0,
        (0..RECORDS).map(|number| TestRecord::new(number.to_string()).key("key")),
    );
    let is_in_the_middle = |request: &ProduceRequest| has(request, b"number 50.");
    let refused = broker
        .faults()
        .on::<ProduceRequest>()
        .when(is_in_the_middle)
        .times(1)
        .respond_error(ErrorCode::InvalidRecord);
    let enrich = |Value(value): Value<String>| async move {
        Done::from(OutRecord::new("rich").value(format!("number {value}.")))
    };
    let running = app(&broker).on("raw", enrich, |policy| policy).start().await.unwrap();
    committed(&broker, GROUP, "raw", 0, RECORDS).await;
    running.stop().await.unwrap();
    assert_eq!(refused.struck(), 1);
    let count = broker.produce("rich", 0, ["end"]);
    let rich = read(&broker, "rich", 1, usize::try_from(count).unwrap()).await;
    let last = |number: i64| {
        let value = format!("number {number}.");
        rich.iter().rposition(|record| text(record.value()) == value)
    };
    let positions: Vec<usize> = (0..RECORDS).map(|number| last(number).unwrap()).collect();
    assert!(positions.is_sorted(), "{positions:?}");
}

/// Returns whether a record of the request contains these bytes.
fn has(request: &ProduceRequest, bytes: &[u8]) -> bool {
    let partitions = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    let mut batches = partitions.filter_map(|partition| partition.records.as_ref());
    batches.any(|records| records.windows(bytes.len()).any(|window| window == bytes))
}
