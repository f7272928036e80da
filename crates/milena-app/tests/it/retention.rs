//! Failed records that are older than the retention of the retry and dead letter topics.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use milena_app::{failure, prelude::*};
use milena_client::{
    admin::{Admin, ConfigResource, OffsetSpec},
    config::ConfigMap,
    consumer::TopicPartition,
};
use milena_test::{TestBroker, TestKit, TestRecord};

use crate::rig::{header, text, within};

const MINUTE: Duration = Duration::from_secs(60);
/// January 1, 2020.
const IN_2020: i64 = 1_577_836_800_000;

/// Attempt, timestamp and original timestamp of each call.
type Calls = Arc<Mutex<Vec<(u32, i64, i64)>>>;

async fn fails(cx: Cx, State(calls): State<Calls>) -> Result<(), Fault> {
    let times = (cx.attempt(), cx.record().timestamp(), cx.origin().timestamp);
    calls.lock().unwrap().push(times);
    Err(Fault::retry("no money"))
}

/// A broker that applies retention continuously. Retry and dead letter topics exist, with a retention of 30 days.
fn broker() -> TestBroker {
    let broker = TestBroker::builder().set("log.retention.check.interval.ms", 20).start();
    broker.create_topic_with("orders", 1, &[("retention.ms", "-1")]);
    broker.create_topic_with("canary", 1, &[("retention.ms", "1000")]);
    for suffix in ["retry-1m", "retry-5m", "held", "dlq"] {
        broker.create_topic_with(&format!("orders.{suffix}"), 1, &[("retention.ms", "2592000000")]);
    }
    broker
}

fn admin(broker: &TestBroker) -> Admin {
    let mut settings = ConfigMap::new();
    settings.set("bootstrap.servers", broker.bootstrap_servers());
    Admin::new(settings).unwrap()
}

/// Waits until retention has run over all topics since this call: it deletes two sentinel records that were written
/// before.
async fn retention_ran(broker: &TestBroker) {
    let (admin, canary) = (admin(broker), TopicPartition::new("canary", 0));
    for _ in 0..2 {
        let old = TestRecord::new("old").timestamp(IN_2020);
        let offset = broker.produce("canary", 0, [old]);
        within("the deletion of a record of 2020", async {
            loop {
                let asked = [(canary.clone(), OffsetSpec::Earliest)];
                let found = admin.list_offsets(asked).await.remove(&canary).unwrap().unwrap();
                if found.is_some_and(|found| found.offset > offset) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

#[tokio::test]
async fn records_of_2020_outlive_retention_in_retry_topics_and_dead_letters() {
    let calls = Calls::default();
    let app = App::new("")
        .group("billing")
        .state(calls.clone())
        .on("orders", fails, |policy| {
            policy.retry(Retry::none()).then_topics([MINUTE, 5 * MINUTE])
        });
    let began_ms = now_ms();
    let kit = TestKit::start_on(broker(), app).await;
    kit.publish("orders", TestRecord::new("unpaid").key("anna").timestamp(IN_2020))
        .await;
    kit.settled().await;
    for (waits, topic) in [(MINUTE, "orders.retry-1m"), (5 * MINUTE, "orders.retry-5m")] {
        retention_ran(kit.broker()).await;
        let waiting = kit.records(topic).await;
        assert_eq!(waiting.len(), 1, "{topic}");
        assert!(waiting[0].timestamp() >= began_ms, "{topic}: {:?}", waiting[0]);
        kit.advance(waits).await;
    }
    retention_ran(kit.broker()).await;
    let dead = kit.assert_dlq("orders", 1).await;
    assert!(dead[0].timestamp() >= began_ms, "{:?}", dead[0]);
    assert_eq!(
        header(&dead[0], "dlq.original.timestamp").as_deref(),
        Some("1577836800000")
    );
    assert_eq!(text(dead[0].value()), "unpaid");
    let calls = calls.lock().unwrap().clone();
    assert_eq!(
        calls,
        [(1, IN_2020, IN_2020), (2, IN_2020, IN_2020), (3, IN_2020, IN_2020)]
    );
}

#[tokio::test]
async fn a_record_of_a_held_key_outlives_retention_and_keeps_its_timestamp() {
    let calls = Calls::default();
    let app = App::new("")
        .group("billing")
        .state(calls.clone())
        .on("orders", fails, |policy| {
            let dead_letters = DeadLetters::default().schemes([failure::Scheme::Connect]);
            policy
                .retry(Retry::none())
                .then_topics([MINUTE])
                .keep_key_order()
                .dead_letters(dead_letters)
        });
    let kit = TestKit::start_on(broker(), app).await;
    kit.publish("orders", TestRecord::new("unpaid").key("anna").timestamp(IN_2020))
        .await;
    kit.settled().await;
    retention_ran(kit.broker()).await;
    kit.advance(MINUTE).await;
    retention_ran(kit.broker()).await;
    let dead = kit.assert_dlq("orders", 1).await;
    let failure_record = failure::read(dead[0].headers()).unwrap();
    assert_eq!((failure_record.origin.timestamp, failure_record.attempts), (IN_2020, 2));
    assert_eq!(*calls.lock().unwrap(), [(1, IN_2020, IN_2020), (2, IN_2020, IN_2020)]);
}

#[tokio::test]
async fn what_goes_back_to_its_topic_has_its_own_time_there() {
    let calls = Calls::default();
    let app = App::new("")
        .group("billing")
        .state(calls.clone())
        .on("orders", fails, |policy| {
            policy.retry(Retry::none()).then_topics([MINUTE]).return_to_origin()
        });
    let kit = TestKit::start_on(broker(), app).await;
    kit.publish("orders", TestRecord::new("unpaid").key("anna").timestamp(IN_2020))
        .await;
    kit.settled().await;
    retention_ran(kit.broker()).await;
    kit.advance(MINUTE).await;
    let orders = kit.records("orders").await;
    let times: Vec<i64> = orders.iter().map(|record| record.timestamp()).collect();
    assert_eq!(times, [IN_2020, IN_2020]);
}

#[tokio::test]
async fn topics_for_failed_records_keep_them_as_long_as_the_topic_they_are_from() {
    let broker = TestBroker::start();
    broker.create_topic_with("orders", 1, &[("retention.ms", "-1")]);
    let days = |days: i64| (days * 86_400_000).to_string();
    broker.create_topic_with("long", 1, &[("retention.ms", &days(90))]);
    broker.create_topic_with("short", 1, &[("retention.ms", &days(1))]);
    let mut app = App::new(broker.bootstrap_servers())
        .group("billing")
        .state(Calls::default());
    for topic in ["orders", "long", "short"] {
        app = app.on(topic, fails, |policy| policy.then_topics([MINUTE]));
    }
    app.start().await.unwrap().stop().await.unwrap();
    let (day_ms, minute_ms) = (86_400_000_i64, 60_000);
    let expected = [
        ("orders.dlq", -1),
        ("orders.retry-1m", -1),
        ("long.dlq", 90 * day_ms),
        ("long.retry-1m", 90 * day_ms + minute_ms),
        ("short.dlq", 30 * day_ms),
        ("short.retry-1m", 30 * day_ms + minute_ms),
    ];
    let admin = admin(&broker);
    for (topic, retention_ms) in expected {
        let resource = ConfigResource::topic(topic);
        let mut configs = admin.describe_configs([resource.clone()]).await;
        let configs = configs.remove(&resource).unwrap().unwrap();
        let value = |name: &str| {
            let found = configs.iter().find(|entry| entry.name == name).unwrap();
            found.value.clone().unwrap().to_string()
        };
        assert_eq!(value("retention.ms"), retention_ms.to_string(), "{topic}");
        assert_eq!(value("retention.bytes"), "-1", "{topic}");
        assert_eq!(value("cleanup.policy"), "delete", "{topic}");
    }
}
