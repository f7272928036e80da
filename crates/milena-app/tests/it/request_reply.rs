//! Request-reply: requesters, services, and the clients of others.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use milena_app::{
    Clock,
    prelude::*,
    request_reply::{RequestError, WhenPendingFull},
};
use milena_client::{config::ConsumerConfig, consumer::Consumer};
use milena_test::{TestBroker, TestRecord};
use tokio::sync::Notify;

use crate::rig::{GROUP, TIMEOUT, app, committed, header, read, read_with, text, until, within};

/// A service that returns the value in capitals.
async fn shout(Value(value): Value<String>) -> Done {
    Done::reply(value.to_uppercase())
}

fn config(broker: &TestBroker) -> RequesterConfig {
    RequesterConfig::new(broker.bootstrap_servers()).timeout(TIMEOUT)
}

async fn requester(broker: &TestBroker) -> Requester {
    within("the start", Requester::start(config(broker))).await.unwrap()
}

fn value(reply: &milena_app::request_reply::Reply) -> &str {
    text(reply.value())
}

/// A request with replies to `topic`, which nothing awaits.
fn request(value: &str, topic: &str, headers: &[(&str, &str)]) -> TestRecord {
    let record = TestRecord::new(value).key("k");
    let record = record.header("correlation_id", "id-1").header("reply_topic", topic);
    headers
        .iter()
        .fold(record, |record, (name, value)| record.header(*name, value))
}

/// The topics of the cluster.
async fn topics(broker: &TestBroker) -> Vec<String> {
    let config = ConsumerConfig::builder(broker.bootstrap_servers());
    let listed = Consumer::new(config).unwrap().list_topics().await.unwrap();
    listed.into_keys().map(|topic| topic.to_string()).collect()
}

#[tokio::test]
async fn every_request_gets_its_own_reply() {
    let broker = TestBroker::start();
    broker.create_topic("shouts", 4);
    let running = app(&broker).on("shouts", shout, |policy| policy.replies(Replies::default()));
    let running = running.start().await.unwrap();
    let (one, two) = (requester(&broker).await, requester(&broker).await);
    let mut waiting = vec![];
    for number in 0..500 {
        let requester = if number % 2 == 0 { &one } else { &two };
        let request = requester.request("shouts", format!("k{}", number % 7), format!("request {number}"));
        waiting.push((number, tokio::spawn(request.send())));
    }
    for (number, reply) in waiting {
        let reply = within("a reply", reply).await.unwrap().unwrap();
        assert_eq!(value(&reply), format!("REQUEST {number}"));
    }
    for requester in [&one, &two] {
        let counts = requester.counts();
        assert_eq!(
            (counts.requests, counts.replied, counts.pending),
            (250, 250, 0),
            "{counts:?}"
        );
        assert_eq!((counts.late, counts.unknown, counts.duplicate), (0, 0, 0), "{counts:?}");
    }
    let counts = running.counts().remove(0);
    assert_eq!((counts.replies, counts.success), (500, 500), "{counts:?}");
    assert!(
        running
            .to_prometheus()
            .contains("milena_replies_total{handler=\"shouts\"} 500")
    );
    running.stop().await.unwrap();
    one.close().await;
    two.close().await;
}

#[tokio::test]
async fn typed_values_travel_as_json() {
    #[derive(serde::Serialize, serde::Deserialize, Debug, PartialEq)]
    struct Order {
        shares: u32,
    }
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    let double = |Event(order): Event<Order>| async move {
        Done::reply_json(&Order {
            shares: order.shares * 2,
        })
    };
    let running = app(&broker)
        .on("orders", double, |policy| policy)
        .start()
        .await
        .unwrap();
    let requester = requester(&broker).await;
    let doubled: Order = within("a reply", requester.request_json("orders", "a", &Order { shares: 21 }))
        .await
        .unwrap();
    assert_eq!(doubled, Order { shares: 42 });
    let wrong = within(
        "a reply",
        requester.request_json::<_, String>("orders", "a", &Order { shares: 1 }),
    )
    .await;
    assert!(matches!(wrong, Err(RequestError::Decode { .. })), "{wrong:?}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_request_without_a_service_times_out_and_its_late_reply_is_counted() {
    let broker = TestBroker::start();
    broker.create_topic("shouts", 1);
    let clock = Clock::manual();
    let requester = Requester::start(config(&broker).clock(clock.clone())).await.unwrap();
    let request = requester
        .request("shouts", "k", "hello")
        .timeout(Duration::from_millis(1_500));
    let pending = within("the send", request.begin()).await.unwrap();
    until("the timer", || clock.next_ms().is_some()).await;
    clock.advance(Duration::from_millis(1_499));
    assert_eq!(requester.counts().pending, 1);
    clock.advance(Duration::from_millis(1));
    let error = within("the timeout", pending).await.unwrap_err();
    assert_eq!(error.to_string(), "no reply within 1500 ms");
    // The service is slow, or its clock is: it answers nevertheless.
    let running = app(&broker).on("shouts", shout, |policy| policy).start().await.unwrap();
    until("the late reply", || requester.counts().late == 1).await;
    let counts = requester.counts();
    assert_eq!(
        (counts.timed_out, counts.replied, counts.pending),
        (1, 0, 0),
        "{counts:?}"
    );
    running.stop().await.unwrap();
}

#[tokio::test]
async fn expired_requests_are_skipped_by_services_and_seen_by_archives() {
    let broker = TestBroker::start();
    broker.create_topic("shouts", 1);
    broker.create_topic("replies", 1);
    let old = [("reply_deadline", "1000")];
    broker.produce(
        "shouts",
        0,
        [request("a", "replies", &old), request("b", "replies", &[])],
    );
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = {
        let calls = Arc::clone(&calls);
        move |Value(value): Value<String>| {
            calls.fetch_add(1, Ordering::SeqCst);
            async move { Done::reply(value) }
        }
    };
    let running = app(&broker).on("shouts", counted.clone(), |policy| policy.replies(Replies::default()));
    let running = running.start().await.unwrap();
    committed(&broker, GROUP, "shouts", 0, 2).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let counts = running.counts().remove(0);
    assert_eq!(
        (counts.requests_expired, counts.skipped, counts.replies),
        (1, 1, 1),
        "{counts:?}"
    );
    running.stop().await.unwrap();
    // A handler without reply settings sees all of them; the reply of the old one is not written.
    let running = app(&broker).group("archive").on("shouts", counted, |policy| policy);
    let running = running.start().await.unwrap();
    committed(&broker, "archive", "shouts", 0, 2).await;
    let counts = running.counts().remove(0);
    assert_eq!(
        (counts.requests_expired, counts.success, counts.replies),
        (1, 2, 1),
        "{counts:?}"
    );
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    running.stop().await.unwrap();
    assert_eq!(read(&broker, "replies", 1, 2).await.len(), 2);
}

#[tokio::test]
async fn requests_cannot_make_a_service_write_anywhere_or_wait_for_long() {
    let broker = TestBroker::start();
    for topic in ["shouts", "replies", "salaries"] {
        broker.create_topic(topic, 1);
    }
    let hostile = [
        request("a", "salaries", &[]),
        request("b", "__consumer_offsets", &[]),
        request("c", "replies.nowhere", &[]),
        request("d", "replies", &[("reply_partition", "9")]),
        request("e", "replies", &[("reply_partition", "x")]),
        request("f", "replies/..", &[]),
        TestRecord::new("g").key("k"),
        request("h", "replies", &[("reply_partition", "0")]),
    ];
    broker.produce("shouts", 0, hostile);
    let running = app(&broker).on("shouts", shout, |policy| policy.order(Order::Partition));
    let running = running.start().await.unwrap();
    committed(&broker, GROUP, "shouts", 0, 8).await;
    let counts = running.counts().remove(0);
    assert_eq!((counts.replies, counts.replies_unaddressed), (1, 1), "{counts:?}");
    assert_eq!(
        (counts.replies_refused, counts.replies_undeliverable),
        (4, 2),
        "{counts:?}"
    );
    assert_eq!((counts.dead_non_retriable, counts.failed), (0, 0), "{counts:?}");
    running.stop().await.unwrap();
    assert_eq!(broker.produce("salaries", 0, ["the first"]), 0);
    assert!(!topics(&broker).await.contains(&"replies.nowhere".to_owned()));
    let replies = read(&broker, "replies", 1, 1).await;
    assert_eq!(
        (
            text(replies[0].value()),
            header(&replies[0], "correlation_id").unwrap().as_str()
        ),
        ("H", "id-1")
    );
}

#[tokio::test]
async fn the_requester_of_a_dead_letter_gets_the_error() {
    let broker = TestBroker::start();
    broker.create_topic("shouts", 1);
    let refuse = |_: Raw| async { Err::<(), _>(Fault::poison("no voice").with_class("throat")) };
    let running = app(&broker).on("shouts", refuse, |policy| policy.replies(Replies::default()));
    let running = running.start().await.unwrap();
    let requester = requester(&broker).await;
    let error = within("a reply", requester.request("shouts", "k", "hello").send())
        .await
        .unwrap_err();
    match error {
        RequestError::Failed { class, message, .. } => {
            assert_eq!((class.as_str(), message.as_str()), ("throat", "no voice"))
        }
        other => panic!("{other}"),
    }
    committed(&broker, GROUP, "shouts", 0, 1).await;
    assert_eq!(read(&broker, "shouts.dlq", 1, 1).await.len(), 1);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_reply_and_events_are_written_together() {
    let broker = TestBroker::start();
    broker.create_topic("shouts", 1);
    broker.create_topic("events", 1);
    let both = |Value(value): Value<String>| async move {
        OutReply::new(value.clone())
            .and_emit(OutRecord::new("events").value(value))
            .into()
    };
    let both = move |value: Value<String>| {
        let done = both(value);
        async {
            let done: Done = done.await;
            done
        }
    };
    for delivery in ["at least once", "exactly once"] {
        let app = app(&broker)
            .group(delivery.replace(' ', "-"))
            .instance("one")
            .consumer("auto.offset.reset", "latest");
        let app = match delivery {
            "exactly once" => app.exactly_once("shouts", both, |policy| policy.replies(Replies::default())),
            _ => app.on("shouts", both, |policy| policy.replies(Replies::default())),
        };
        let running = app.start().await.unwrap();
        until("the assignment", || !running.status().partitions.is_empty()).await;
        let requester = requester(&broker).await;
        let reply = within("a reply", requester.request("shouts", "k", delivery).send())
            .await
            .unwrap();
        assert_eq!(value(&reply), delivery);
        running.stop().await.unwrap();
    }
    let events = read_with(&broker, "events", 1, 2, "read_committed").await;
    assert_eq!(
        (text(events[0].value()), text(events[1].value())),
        ("at least once", "exactly once")
    );
}

#[tokio::test]
async fn pending_requests_are_bounded() {
    let broker = TestBroker::start();
    broker.create_topic("shouts", 1);
    let full = config(&broker).pending_max(1).when_full(WhenPendingFull::Fail);
    let requester = Requester::start(full).await.unwrap();
    let first = within("the send", requester.request("shouts", "k", "a").begin())
        .await
        .unwrap();
    let error = requester.request("shouts", "k", "b").send().await.unwrap_err();
    assert!(matches!(error, RequestError::Full { pending_max: 1 }), "{error}");
    drop(first);
    assert_eq!(requester.counts().cancelled, 1);
    let second = within("the send", requester.request("shouts", "k", "c").begin())
        .await
        .unwrap();
    let closing = tokio::spawn(second);
    requester.close().await;
    let error = within("the end", closing).await.unwrap().unwrap_err();
    assert!(matches!(error, RequestError::Closed), "{error}");

    let waiting = Requester::start(config(&broker).pending_max(1)).await.unwrap();
    let first = within("the send", waiting.request("shouts", "k", "a").begin())
        .await
        .unwrap();
    let second = tokio::spawn(waiting.request("shouts", "k", "b").send());
    tokio::task::yield_now().await;
    assert_eq!(waiting.counts().requests, 1);
    drop(first);
    until("room", || waiting.counts().requests == 2).await;
    second.abort();
}

#[tokio::test]
async fn a_handler_can_ask_another_service() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.create_topic("shouts", 1);
    let requester = requester(&broker).await;
    let ask = |Value(value): Value<String>, State(requester): State<Requester>| async move {
        let reply = requester.request("shouts", "k", value).send().await?;
        Ok::<_, RequestError>(Done::reply(reply.value().unwrap_or_default().to_vec()))
    };
    let running = app(&broker)
        .requester(requester.clone())
        .on("orders", ask, |policy| policy.replies(Replies::default()))
        .on("shouts", shout, |policy| policy.replies(Replies::default()))
        .start()
        .await
        .unwrap();
    let reply = within("a reply", requester.request("orders", "k", "hello").send())
        .await
        .unwrap();
    assert_eq!(value(&reply), "HELLO");
    assert!(
        running
            .to_prometheus()
            .contains("milena_requests_replied_total{replies=\"replies-")
    );
    running.stop().await.unwrap();
}

#[tokio::test]
async fn replies_survive_a_rebalance_of_the_services_and_a_restart_of_the_broker() {
    let broker = TestBroker::start();
    broker.create_topic("shouts", 4);
    let requester = requester(&broker).await;
    let service = || {
        app(&broker)
            .on("shouts", shout, |policy| policy.replies(Replies::default()))
            .start()
    };
    let first = service().await.unwrap();
    let ask = |number: usize| {
        let request = requester.request("shouts", format!("k{number}"), format!("n{number}"));
        async move {
            let reply = within("a reply", request.send()).await.unwrap();
            assert_eq!(value(&reply), format!("N{number}"));
        }
    };
    ask(0).await;
    let second = service().await.unwrap();
    for number in 1..20 {
        ask(number).await;
    }
    first.kill();
    for number in 20..30 {
        ask(number).await;
    }
    second.stop().await.unwrap();
    broker.restart();
    let third = service().await.unwrap();
    for number in 30..40 {
        ask(number).await;
    }
    let counts = requester.counts();
    assert_eq!((counts.replied, counts.timed_out), (40, 0), "{counts:?}");
    third.stop().await.unwrap();
}

#[tokio::test]
async fn a_duplicate_reply_is_counted() {
    let broker = TestBroker::start();
    broker.create_topic("shouts", 1);
    let requester = requester(&broker).await;
    let go_on = Arc::new(Notify::new());
    let twice = {
        let go_on = Arc::clone(&go_on);
        move |Value(value): Value<String>, cx: Cx| {
            let go_on = Arc::clone(&go_on);
            async move {
                let address = cx.reply_address().unwrap().unwrap();
                let again = OutRecord::new(address.topic)
                    .partition(address.partition.unwrap())
                    .header(address.correlation_header, address.correlation_id);
                go_on.notified().await;
                Done::from(OutReply::new(value).and_emit(again))
            }
        }
    };
    let running = app(&broker).on("shouts", twice, |policy| policy).start().await.unwrap();
    let pending = within("the send", requester.request("shouts", "k", "a").begin())
        .await
        .unwrap();
    go_on.notify_one();
    within("a reply", pending).await.unwrap();
    until("the second", || requester.counts().duplicate == 1).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_reply_topic_of_its_own_is_deleted_at_the_end() {
    let broker = TestBroker::start();
    broker.create_topic("shouts", 1);
    let running = app(&broker).on("shouts", shout, |policy| policy.replies(Replies::default()));
    let running = running.start().await.unwrap();
    let requester = Requester::start(config(&broker).own_topic("svc-a")).await.unwrap();
    assert_eq!(requester.reply_partition().to_string(), "replies.svc-a-0");
    within("a reply", requester.request("shouts", "k", "a").send())
        .await
        .unwrap();
    requester.close().await;
    assert!(!topics(&broker).await.contains(&"replies.svc-a".to_owned()));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn settings_that_cannot_work_are_errors() {
    let broker = TestBroker::start();
    broker.create_topic("replies", 2);
    let error = |config: RequesterConfig| async { Requester::start(config).await.unwrap_err().to_string() };
    let wrong = error(config(&broker).reply_partition(2)).await;
    assert_eq!(
        wrong,
        "reply topic replies has 2 partitions, so there is no partition 2"
    );
    let wrong = error(config(&broker).reply_topic("nowhere").existing_topic_only()).await;
    assert!(wrong.starts_with("reply topic nowhere does not exist"), "{wrong}");
    assert!(
        error(config(&broker).reply_topic("a b"))
            .await
            .contains("not a legal topic name")
    );
    assert!(
        error(config(&broker).consumer("group.id", "g"))
            .await
            .starts_with("group.id cannot be set")
    );
    assert!(error(config(&broker).pending_max(0)).await.contains("pending_max"));
    let started = app(&broker).on("replies", shout, |policy| {
        policy.replies(Replies::default().topics(["^("]))
    });
    assert!(started.start().await.unwrap_err().to_string().contains("^("));
}
