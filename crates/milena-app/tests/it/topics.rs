//! Patterns, retry topics, and failure records of other groups.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use milena_app::{Clock, UnknownTopic, failure, prelude::*};
use milena_client::{admin::Admin, config::ConfigMap};
use milena_test::{TestBroker, TestRecord};
use tokio::sync::mpsc;

use crate::rig::{GROUP, app, committed, header, read, text, until, within};

#[tokio::test]
async fn a_handler_for_a_pattern_gets_what_its_braces_stand_for() {
    let broker = TestBroker::start();
    for topic in ["events-acme", "events-zeta", "events-special", "other"] {
        broker.create_topic(topic, 1);
        broker.produce(topic, 0, ["x"]);
    }
    let (seen, mut reports) = mpsc::unbounded_channel();
    let of_tenant = {
        let seen = seen.clone();
        move |cx: Cx| {
            seen.send(cx.capture("tenant").unwrap().to_owned()).unwrap();
            async {}
        }
    };
    let special = move || {
        seen.send("its own handler".to_owned()).unwrap();
        async {}
    };
    let running = app(&broker)
        .on("events-{tenant}", of_tenant, |policy| policy)
        .on("events-special", special, |policy| policy)
        .unknown_topics("{any}", UnknownTopic::Skip)
        .start()
        .await
        .unwrap();
    let mut found = vec![];
    for _ in 0..3 {
        found.push(within("a call", reports.recv()).await.unwrap());
    }
    found.sort();
    assert_eq!(found, ["acme", "its own handler", "zeta"]);
    committed(&broker, GROUP, "other", 0, 1).await;
    assert_eq!(running.counts().iter().map(|counts| counts.skipped).sum::<u64>(), 1);
    running.stop().await.unwrap();
}

/// A handler that reports the topic and attempt of each record, and the capture `tenant`.
fn report_tenant(
    seen: mpsc::UnboundedSender<(String, u32, Option<String>)>,
) -> impl Fn(Value<String>, Cx) -> std::future::Ready<Result<(), Fault>> + Clone {
    move |Value(value), cx| {
        let tenant = cx.capture("tenant").map(ToOwned::to_owned);
        seen.send((cx.record().topic().to_owned(), cx.attempt(), tenant))
            .unwrap();
        std::future::ready(if value == "bad" {
            Err(Fault::retry("not yet"))
        } else {
            Ok(())
        })
    }
}

#[tokio::test]
async fn an_expression_reads_topics_with_dots_and_those_that_come_later() {
    let broker = TestBroker::start();
    for topic in [
        "events-eu-acme.de",
        "events-europe",
        "events-eu-old.dlq",
        "events-eu-old.retry-1m",
    ] {
        broker.create_topic(topic, 1);
        broker.produce(topic, 0, ["x"]);
    }
    let (seen, mut reports) = mpsc::unbounded_channel();
    let running = app(&broker)
        .consumer("metadata.max.age.ms", 100)
        .on("^events-[a-z]{2}-(?<tenant>.*)$", report_tenant(seen), |policy| policy)
        .start()
        .await
        .unwrap();
    let first = within("the first topic", reports.recv()).await.unwrap();
    assert_eq!(first, ("events-eu-acme.de".to_owned(), 1, Some("acme.de".to_owned())));
    broker.create_topic("events-us-zeta.ny", 1);
    broker.produce("events-us-zeta.ny", 0, ["x"]);
    let later = within("the later topic", reports.recv()).await.unwrap();
    assert_eq!(later, ("events-us-zeta.ny".to_owned(), 1, Some("zeta.ny".to_owned())));
    committed(&broker, GROUP, "events-us-zeta.ny", 0, 1).await;
    let read: Vec<String> = running
        .status()
        .partitions
        .iter()
        .map(|it| it.partition.topic.to_string())
        .collect();
    assert_eq!(read, ["events-eu-acme.de", "events-us-zeta.ny"]);
    running.stop().await.unwrap();
    assert!(reports.try_recv().is_err(), "no other topic was read");
}

#[tokio::test]
async fn an_expression_for_all_topics_reads_each_failure_from_its_own_retry_topic() {
    let broker = TestBroker::start();
    broker.create_topic("orders.v1", 1);
    broker.produce("orders.v1", 0, ["bad"]);
    let clock = Clock::manual();
    let (seen, mut reports) = mpsc::unbounded_channel();
    let running = app(&broker)
        .consumer("metadata.max.age.ms", 100)
        .clock(clock.clone())
        .on("^.*$", report_tenant(seen), |policy| {
            policy.retry(Retry::none()).then_topics([Duration::from_secs(60)])
        })
        .start()
        .await
        .unwrap();
    let first = within("the first try", reports.recv()).await.unwrap();
    assert_eq!(first, ("orders.v1".to_owned(), 1, None));
    let mut second = None;
    until("the second try", || {
        clock.advance(Duration::from_secs(1));
        second = reports.try_recv().ok();
        second.is_some()
    })
    .await;
    assert_eq!(second, Some(("orders.v1.retry-1m".to_owned(), 2, None)));
    let dead = read(&broker, "orders.v1.dlq", 1, 1).await;
    let failure_record = failure::read(dead[0].headers()).unwrap();
    assert_eq!(
        (failure_record.attempts, failure_record.origin.topic.as_str()),
        (2, "orders.v1")
    );
    running.stop().await.unwrap();
    assert_eq!(broker.committed("billing.retry-1m", "orders.v1.retry-1m", 0), Some(1));
    assert!(
        reports.try_recv().is_err(),
        "neither the dead letter nor the retry was read as a topic of its own"
    );
    let mut settings = ConfigMap::new();
    settings.set("bootstrap.servers", broker.bootstrap_servers());
    let admin = Admin::new(settings).unwrap();
    let topics: Vec<String> = admin
        .list_topics()
        .await
        .unwrap()
        .keys()
        .map(ToString::to_string)
        .collect();
    let compound = topics
        .iter()
        .filter(|topic| topic.matches(".dlq").count() + topic.matches(".retry").count() > 1);
    assert_eq!(compound.count(), 0, "{topics:?}");
}

#[tokio::test]
async fn a_topic_with_a_handler_of_its_own_is_not_read_by_a_pattern_of_another_delivery() {
    let broker = TestBroker::start();
    for topic in ["events-acme", "events-special"] {
        broker.create_topic(topic, 6);
        for partition in 0..6 {
            broker.produce(topic, partition, ["x"]);
        }
    }
    let (seen, mut reports) = mpsc::unbounded_channel();
    let says = |handler: &'static str| {
        let seen = seen.clone();
        move |cx: Cx| {
            seen.send((handler, cx.record().topic().to_owned())).unwrap();
            async {}
        }
    };
    let running = app(&broker)
        .on("^events-.*$", says("pattern"), |policy| policy)
        .at_most_once("events-special", says("name"), |policy| policy)
        .start()
        .await
        .unwrap();
    let mut found = vec![];
    for _ in 0..12 {
        found.push(within("a call", reports.recv()).await.unwrap());
    }
    running.stop().await.unwrap();
    let is_right = |(handler, topic): &&(&str, String)| (*handler == "name") == (topic == "events-special");
    assert_eq!(found.iter().filter(is_right).count(), 12, "{found:?}");
}

#[tokio::test]
async fn a_bad_expression_is_an_error_that_says_why() {
    let broker = TestBroker::start();
    let error = app(&broker)
        .on("^events-(", async || {}, |policy| policy)
        .start()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("unclosed group"), "{error}");
}

/// Attempt, elapsed seconds, event id and topic of a call.
type Try = (u32, i64, String, String);

/// Advances the clock until the handler is called.
async fn next_try(clock: &Clock, step: Duration, reports: &mut mpsc::UnboundedReceiver<Try>) -> Try {
    let mut found = None;
    until("the next try", || {
        clock.advance(step);
        found = reports.try_recv().ok();
        found.is_some()
    })
    .await;
    found.unwrap()
}

#[tokio::test]
async fn retry_topics_are_read_by_their_own_group_when_their_time_has_come() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 2);
    let clock = Clock::manual();
    let start_ms = clock.now_ms();
    let (seen, mut reports) = mpsc::unbounded_channel();
    let handler = {
        let clock = clock.clone();
        move |Value(value): Value<String>, cx: Cx| {
            let waited_s = (clock.now_ms() - start_ms) / 1000;
            seen.send((cx.attempt(), waited_s, cx.event_id(), cx.record().topic().to_owned()))
                .unwrap();
            async move {
                if value == "bad" {
                    Err(Fault::retry("not yet"))
                } else {
                    Ok(())
                }
            }
        }
    };
    broker.produce("orders", 1, [TestRecord::new("bad").key("k").header("trace", "t1")]);
    let running = app(&broker)
        .clock(clock.clone())
        .on("orders", handler, |policy| {
            policy
                .retry(Retry::none())
                .then_topics([Duration::from_secs(60), Duration::from_secs(300)])
        })
        .start()
        .await
        .unwrap();
    assert_eq!(
        within("the first try", reports.recv()).await.unwrap(),
        (1, 0, "orders-1-0".to_owned(), "orders".to_owned())
    );
    let first = read(&broker, "orders.retry-1m", 2, 1).await;
    assert_eq!((first[0].partition(), text(first[0].value())), (1, "bad"));
    assert_eq!(header(&first[0], "X-Retry-Count").as_deref(), Some("1"));
    let due: i64 = header(&first[0], "milena.due_at").unwrap().parse().unwrap();
    assert_eq!((due - start_ms) / 1000, 60);

    let second = next_try(&clock, Duration::from_secs(1), &mut reports).await;
    let (attempt, waited_s, id, topic) = second;
    assert_eq!(
        (attempt, id.as_str(), topic.as_str()),
        (2, "orders-1-0", "orders.retry-1m")
    );
    assert!(waited_s >= 60, "tried after {waited_s} s, before its time");
    let second = read(&broker, "orders.retry-5m", 2, 1).await;
    assert_eq!(header(&second[0], "X-Retry-Count").as_deref(), Some("2"));

    next_try(&clock, Duration::from_secs(10), &mut reports).await;
    let dead = read(&broker, "orders.dlq", 2, 1).await;
    let failure_record = failure::read(dead[0].headers()).unwrap();
    assert_eq!(
        (
            failure_record.attempts,
            failure_record.origin.topic.as_str(),
            failure_record.origin.offset
        ),
        (3, "orders", 0)
    );
    assert_eq!(
        (failure_record.due_at_ms, header(&dead[0], "trace").as_deref()),
        (None, Some("t1"))
    );
    running.stop().await.unwrap();
    assert_eq!(broker.committed("billing.retry-1m", "orders.retry-1m", 1), Some(1));
    assert_eq!(broker.committed(GROUP, "orders", 1), Some(1));
}

#[tokio::test]
async fn what_another_group_has_put_into_a_retry_topic_is_left_to_it() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.create_topic("orders.retry-1s", 1);
    let calls = Arc::new(AtomicUsize::new(0));
    let handler = {
        let calls = calls.clone();
        move || {
            calls.fetch_add(1, Ordering::SeqCst);
            async {}
        }
    };
    let sent = |group: &str| {
        TestRecord::new("x")
            .header("dlq.original.topic", "orders")
            .header("dlq.original.partition", "0")
            .header("dlq.original.offset", "7")
            .header("dlq.consumer.group", group)
            .header("milena.due_at", "0")
    };
    broker.produce("orders.retry-1s", 0, [sent("shipping"), sent(GROUP), sent("shipping")]);
    let running = app(&broker)
        .on("orders", handler, |policy| policy.then_topics([Duration::from_secs(1)]))
        .start()
        .await
        .unwrap();
    committed(&broker, "billing.retry-1s", "orders.retry-1s", 0, 3).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn several_consumers_of_one_process_share_the_partitions() {
    async fn handle(Raw(record): Raw, State(seen): State<Arc<Mutex<Vec<i32>>>>) {
        seen.lock().unwrap().push(record.partition());
    }
    let broker = TestBroker::start();
    broker.create_topic("orders", 6);
    for partition in 0..6 {
        broker.produce("orders", partition, ["one", "two"]);
    }
    let seen = Arc::new(Mutex::new(Vec::<i32>::new()));
    let running = app(&broker)
        .consumers(3)
        .state(Arc::clone(&seen))
        .on("orders", handle, |policy| policy)
        .start()
        .await
        .unwrap();
    until("three members with all partitions", || {
        broker.group_members(GROUP).len() == 3 && running.status().partitions.len() == 6
    })
    .await;
    for partition in 0..6 {
        committed(&broker, GROUP, "orders", partition, 2).await;
    }
    running.stop().await.unwrap();
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_unstable();
    assert_eq!(seen, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5], "each record once");
}
