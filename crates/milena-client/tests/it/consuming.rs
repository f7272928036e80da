//! The consumer against a broker in this process.

use std::{collections::BTreeMap, time::Duration};

use milena_client::{
    config::{ConsumerConfig, ProducerConfig},
    consumer::{
        Consumer, ConsumerInterceptor, ConsumerRecords, OffsetAndMetadata, TopicPartition,
        deserialize::{Json, Plain},
    },
    producer::{Producer, ProducerRecord},
};

use crate::broker::TestBroker;

const SECOND: Duration = Duration::from_secs(1);

/// Polls until there are `count` records.
async fn read(consumer: &mut Consumer, count: usize) -> Vec<String> {
    let mut values = vec![];
    while values.len() < count {
        let records = consumer.poll(60 * SECOND).await.unwrap();
        values.extend(texts(&records));
    }
    values
}

fn texts(records: &ConsumerRecords) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    records.iter().map(|record| text(record.value().unwrap())).collect()
}

#[tokio::test]
async fn partitions_assigned_by_hand_are_read_in_order() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 2);
    broker.produce("letters", 0, &["a", "b", "c"]);
    broker.produce("letters", 1, &["x"]);
    let config = ConsumerConfig::builder(broker.address()).set("auto.offset.reset", "earliest");
    let mut consumer = Consumer::new(config).unwrap();
    consumer.assign([TopicPartition::new("letters", 0)]).unwrap();
    assert_eq!(read(&mut consumer, 3).await, ["a", "b", "c"]);
    broker.produce("letters", 0, &["d"]);
    assert_eq!(read(&mut consumer, 1).await, ["d"]);
    let position = consumer.position(&TopicPartition::new("letters", 0)).await.unwrap();
    assert_eq!(position.offset, 4);
    consumer.close().await.unwrap();
}

#[tokio::test]
async fn a_group_reads_commits_and_goes_on_where_it_was() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    broker.produce("letters", 0, &["a", "b", "c"]);
    for protocol in ["classic", "consumer"] {
        let config = || {
            ConsumerConfig::builder(broker.address())
                .group_id(protocol)
                .set("group.protocol", protocol)
                .set("auto.offset.reset", "earliest")
                .set("enable.auto.commit", false)
                .set("max.poll.records", 2)
        };
        let mut consumer = Consumer::new(config()).unwrap();
        consumer.subscribe(["letters"]).unwrap();
        let records = loop {
            let records = consumer.poll(60 * SECOND).await.unwrap();
            if !records.is_empty() {
                break records;
            }
        };
        assert_eq!(texts(&records), ["a", "b"]);
        consumer.commit_sync().await.unwrap();
        consumer.close().await.unwrap();

        let mut consumer = Consumer::new(config()).unwrap();
        consumer.subscribe(["letters"]).unwrap();
        assert_eq!(read(&mut consumer, 1).await, ["c"]);
        consumer.close().await.unwrap();
    }
}

fn letters(partition: i32) -> TopicPartition {
    TopicPartition::new("letters", partition)
}

/// A consumer with partition 0 of `letters`, which has the records `a` to `e`.
fn reader(broker: &TestBroker, settings: &[(&str, &str)]) -> Consumer {
    broker.create_topic("letters", 1);
    for value in ["a", "b", "c", "d", "e"] {
        broker.produce("letters", 0, &[value]);
    }
    let config = ConsumerConfig::builder(broker.address()).set("auto.offset.reset", "earliest");
    let config = settings
        .iter()
        .fold(config, |config, (key, value)| config.set(*key, *value));
    let mut consumer = Consumer::new(config).unwrap();
    consumer.assign([letters(0)]).unwrap();
    consumer
}

#[tokio::test]
async fn a_seek_goes_anywhere_and_what_was_buffered_is_void() {
    let broker = TestBroker::start();
    let mut consumer = reader(&broker, &[("max.poll.records", "2")]);
    assert_eq!(read(&mut consumer, 2).await, ["a", "b"]);
    consumer.seek(&letters(0), 4).unwrap();
    assert_eq!(read(&mut consumer, 1).await, ["e"]);
    consumer.seek_to_beginning(&[letters(0)]).unwrap();
    assert_eq!(read(&mut consumer, 2).await, ["a", "b"]);
    consumer.seek_to_end(&[letters(0)]).unwrap();
    assert_eq!(consumer.position(&letters(0)).await.unwrap().offset, 5);
    broker.produce("letters", 0, &["f"]);
    assert_eq!(read(&mut consumer, 1).await, ["f"]);
    let error = consumer.seek(&letters(7), 0).unwrap_err();
    assert_eq!(error.to_string(), "letters-7 is not assigned to this consumer");
    assert!(consumer.seek(&letters(0), -1).is_err());
}

#[tokio::test]
async fn what_is_paused_waits_and_is_not_fetched_again() {
    let broker = TestBroker::start();
    let mut consumer = reader(&broker, &[("max.poll.records", "1")]);
    assert_eq!(read(&mut consumer, 1).await, ["a"]);
    consumer.pause(&[letters(0)]).unwrap();
    assert!(consumer.poll(Duration::from_millis(20)).await.unwrap().is_empty());
    assert_eq!(consumer.paused().len(), 1);
    consumer.resume(&[letters(0)]).unwrap();
    assert_eq!(read(&mut consumer, 4).await, ["b", "c", "d", "e"]);
}

/// While a broker waits for one partition, another cannot be fetched from it.
#[tokio::test]
async fn what_was_paused_for_a_moment_does_not_wait_for_a_fetch_of_others() {
    let broker = TestBroker::start();
    let silent = TopicPartition::new("silent", 0);
    broker.create_topic(&silent.topic, 1);
    broker.create_topic("letters", 1);
    broker.produce("letters", 0, &["a"]);
    let hours = [("fetch.max.wait.ms", "3600000"), ("request.timeout.ms", "7200000")];
    let config = ConsumerConfig::builder(broker.address()).set("auto.offset.reset", "earliest");
    let config = hours
        .into_iter()
        .fold(config, |config, (key, value)| config.set(key, value));
    let mut consumer = Consumer::new(config).unwrap();
    consumer.assign([letters(0), silent]).unwrap();
    consumer.pause(&[letters(0)]).unwrap();
    assert!(consumer.poll(Duration::from_millis(100)).await.unwrap().is_empty());
    consumer.resume(&[letters(0)]).unwrap();
    let records = consumer.poll(60 * SECOND).await.unwrap();
    assert_eq!(texts(&records), ["a"]);
}

#[tokio::test]
async fn offsets_can_be_queried() {
    let broker = TestBroker::start();
    let mut consumer = reader(&broker, &[]);
    broker.create_topic("unassigned", 1);
    let other = TopicPartition::new("unassigned", 0);
    let ends = consumer.end_offsets([&letters(0), &other]).await.unwrap();
    assert_eq!(ends.into_values().collect::<Vec<_>>(), [5, 0]);
    let beginnings = consumer.beginning_offsets([&letters(0)]).await.unwrap();
    assert_eq!(beginnings[&letters(0)], 0);
    let times = [(letters(0), 1_700_000_000_000), (other.clone(), 0)];
    let found = consumer.offsets_for_times(times).await.unwrap();
    assert_eq!(found[&letters(0)].offset, 0);
    assert!(!found.contains_key(&other), "there is no record there");
    let found = consumer
        .offsets_for_times([(letters(0), 1_700_000_000_001)])
        .await
        .unwrap();
    assert!(found.is_empty());
    read(&mut consumer, 2).await;
    assert_eq!(consumer.current_lag(&letters(0)).unwrap(), Some(0));
    let error = consumer.committed([&letters(0)]).await.unwrap_err();
    assert!(error.to_string().contains("set group.id"), "{error}");
}

#[tokio::test]
async fn a_topic_that_does_not_exist_is_waited_for() {
    let broker = TestBroker::start();
    let config = ConsumerConfig::builder(broker.address())
        .set("auto.offset.reset", "earliest")
        .set("default.api.timeout.ms", 400);
    let mut consumer = Consumer::new(config).unwrap();
    consumer.assign([letters(0)]).unwrap();
    let error = consumer.end_offsets([&letters(0)]).await.unwrap_err();
    assert!(error.to_string().contains("letters-0"), "{error}");
    broker.create_topic("letters", 1);
    broker.produce("letters", 0, &["a"]);
    assert_eq!(read(&mut consumer, 1).await, ["a"]);
}

#[tokio::test]
async fn without_a_policy_the_application_decides() {
    let broker = TestBroker::start();
    let mut consumer = reader(&broker, &[("auto.offset.reset", "none")]);
    for _ in 0..2 {
        let error = consumer.poll(60 * SECOND).await.unwrap_err();
        assert!(
            error.to_string().contains("letters-0 has no committed offset"),
            "{error}"
        );
    }
    consumer.seek(&letters(0), 99).unwrap();
    let error = consumer.poll(60 * SECOND).await.unwrap_err();
    assert!(error.to_string().contains("no record at offset 99"), "{error}");
    consumer.seek(&letters(0), 3).unwrap();
    assert_eq!(read(&mut consumer, 2).await, ["d", "e"]);
}

#[tokio::test]
async fn an_offset_out_of_range_follows_the_policy() {
    let broker = TestBroker::start();
    let mut consumer = reader(&broker, &[]);
    consumer.seek(&letters(0), 99).unwrap();
    assert_eq!(read(&mut consumer, 5).await, ["a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn a_wakeup_ends_one_poll_and_loses_nothing() {
    let broker = TestBroker::start();
    let mut consumer = reader(&broker, &[]);
    let handle = consumer.wakeup_handle();
    handle.wakeup();
    let error = consumer.poll(60 * SECOND).await.unwrap_err();
    assert_eq!(error.to_string(), "poll interrupted by wakeup()");
    assert_eq!(read(&mut consumer, 5).await.len(), 5);
    let waker = std::thread::spawn(move || handle.wakeup());
    assert!(consumer.poll(600 * SECOND).await.is_err());
    waker.join().unwrap();
}

#[tokio::test]
async fn a_poll_that_is_dropped_loses_nothing() {
    let broker = TestBroker::start();
    let mut consumer = reader(&broker, &[("max.poll.records", "1")]);
    let mut values = vec![];
    let mut tries = 0;
    while values.len() < 5 {
        tries += 1;
        let polled = tokio::select! {
            biased;
            () = yields(tries % 7) => continue,
            polled = consumer.poll(60 * SECOND) => polled.unwrap(),
        };
        values.extend(texts(&polled));
    }
    assert_eq!(values, ["a", "b", "c", "d", "e"]);
}

/// Ready after `times` polls.
async fn yields(times: usize) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn records_are_kept_for_the_price_of_a_reference() {
    let broker = TestBroker::start();
    let mut consumer = reader(&broker, &[]);
    let mut kept = vec![];
    while kept.len() < 5 {
        let records = consumer.poll(60 * SECOND).await.unwrap();
        kept.extend(records.iter().map(|record| record.to_owned()));
        for (partition, next) in records.next_offsets() {
            assert_eq!(partition, &letters(0));
            assert_eq!(next.offset, kept.last().unwrap().offset() + 1);
        }
    }
    let detached = kept[1].detach();
    drop(consumer);
    assert_eq!(kept[0].value(), Some(&b"a"[..]));
    assert_eq!(
        (detached.offset(), detached.key(), detached.value()),
        (1, Some(&b"key"[..]), Some(&b"b"[..]))
    );
    assert_eq!(detached.timestamp(), 1_700_000_000_000);
    assert_eq!(detached.headers().count(), 0);
}

#[tokio::test]
async fn subscriptions_exclude_each_other_and_say_so() {
    let broker = TestBroker::start();
    let mut consumer = reader(&broker, &[("group.id", "g")]);
    let error = consumer.subscribe(["letters"]).unwrap_err();
    assert!(error.to_string().contains("unsubscribe first"), "{error}");
    consumer.unsubscribe().await.unwrap();
    let error = consumer.poll(SECOND).await.unwrap_err();
    assert!(
        error.to_string().contains("no subscription and no assignment"),
        "{error}"
    );
    consumer.subscribe(["letters"]).unwrap();
    assert!(consumer.assign([letters(0)]).is_err());
    assert!(consumer.subscribe([" "]).is_err());
    consumer.unsubscribe().await.unwrap();
    assert!(consumer.subscribe_pattern("letters(").is_err());
    let error = consumer.subscribe_broker_pattern("l.*").unwrap_err();
    assert!(error.to_string().contains("group.protocol=consumer"), "{error}");
    let mut alone = Consumer::new(ConsumerConfig::builder(broker.address())).unwrap();
    assert!(
        alone
            .subscribe(["letters"])
            .unwrap_err()
            .to_string()
            .contains("group.id")
    );
    assert!(alone.commit_async().is_err());
}

#[tokio::test]
async fn commits_go_out_in_order_and_the_last_one_counts() {
    let broker = TestBroker::start();
    let mut consumer = reader(
        &broker,
        &[
            ("group.id", "manual"),
            ("max.poll.records", "1"),
            ("enable.auto.commit", "false"),
        ],
    );
    let mut commits = vec![];
    for _ in 0..5 {
        read(&mut consumer, 1).await;
        commits.push(consumer.commit_async().unwrap());
    }
    consumer.commit_sync().await.unwrap();
    for commit in commits {
        commit.await.unwrap();
    }
    let committed = consumer.committed([&letters(0)]).await.unwrap();
    assert_eq!(committed[&letters(0)].offset, 5);
}

#[tokio::test]
async fn positions_are_committed_when_a_consumer_is_closed_or_dropped() {
    let broker = TestBroker::start();
    let mut consumer = reader(&broker, &[("group.id", "closing"), ("max.poll.records", "1")]);
    read(&mut consumer, 2).await;
    consumer.close().await.unwrap();
    let config = || {
        ConsumerConfig::builder(broker.address())
            .group_id("closing")
            .set("max.poll.records", 1)
    };
    let mut consumer = Consumer::new(config()).unwrap();
    consumer.assign([letters(0)]).unwrap();
    assert_eq!(read(&mut consumer, 1).await, ["c"]);
    drop(consumer);
    let mut consumer = Consumer::new(config()).unwrap();
    // After a drop, the remaining work is done in the background.
    while consumer.committed([&letters(0)]).await.unwrap()[&letters(0)].offset != 3 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_stream_hands_out_record_by_record() {
    let broker = TestBroker::start();
    let mut consumer = reader(&broker, &[]);
    let mut values = vec![];
    let mut stream = consumer.stream();
    while values.len() < 3 {
        let record = stream.next().await.unwrap();
        values.push(String::from_utf8(record.value().unwrap().to_vec()).unwrap());
    }
    drop(stream);
    assert_eq!(values, ["a", "b", "c"]);
    assert_eq!(consumer.position(&letters(0)).await.unwrap().offset, 3);
    assert_eq!(
        read(&mut consumer, 2).await,
        ["d", "e"],
        "the stream took no more than it handed out"
    );
}

#[tokio::test]
async fn records_of_one_partition_stand_together() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 2);
    broker.produce("letters", 0, &["a", "b"]);
    broker.produce("letters", 1, &["x"]);
    let config = ConsumerConfig::builder(broker.address()).set("auto.offset.reset", "earliest");
    let mut consumer = Consumer::new(config).unwrap();
    consumer.assign([letters(0), letters(1)]).unwrap();
    let first = consumer.stream().next().await.unwrap().partition();
    let lag_is = async |consumer: &Consumer, partition, lag| {
        while consumer.current_lag(&letters(partition)).unwrap() != Some(lag) {
            tokio::task::yield_now().await;
        }
    };
    // Later fetches queue behind those of the other partition.
    for partition in [0, 1] {
        let left = if partition == 0 { 2 } else { 1 } - i64::from(first == partition);
        lag_is(&consumer, partition, left).await;
        broker.produce("letters", partition, &["later"]);
        lag_is(&consumer, partition, left + 1).await;
    }
    let records = consumer.poll(60 * SECOND).await.unwrap();
    assert_eq!(records.len(), 4);
    let partitions: Vec<i32> = records.iter().map(|record| record.partition()).collect();
    assert!(
        partitions.is_sorted() || partitions.is_sorted_by(|a, b| a >= b),
        "{partitions:?}"
    );
    assert_eq!(records.partitions().count(), 2);
    let mut next: Vec<_> = records.next_offsets().collect();
    next.sort_by_key(|(partition, _)| *partition);
    let next: Vec<i64> = next.into_iter().map(|(_, position)| position.offset).collect();
    assert_eq!(next, [3, 2]);
}

#[tokio::test]
async fn a_topic_made_anew_is_read_from_its_beginning() {
    let broker = TestBroker::start();
    let mut consumer = reader(&broker, &[("metadata.max.age.ms", "100")]);
    assert_eq!(read(&mut consumer, 5).await.len(), 5);
    broker.delete_topic("letters");
    broker.create_topic("letters", 1);
    broker.produce("letters", 0, &["A", "B"]);
    assert_eq!(read(&mut consumer, 2).await, ["A", "B"]);
}

#[tokio::test]
async fn a_bad_record_is_a_value_and_the_others_are_read() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    broker.produce("letters", 0, &["1", "two", "3"]);
    let config = ConsumerConfig::builder(broker.address()).set("auto.offset.reset", "earliest");
    let mut consumer = Consumer::new(config).unwrap();
    consumer.assign([letters(0)]).unwrap();
    let records = consumer.poll(60 * SECOND).await.unwrap();
    let typed: Vec<_> = records.typed::<String, u32>(&Plain, &Json).collect();
    let numbers: Vec<u32> = typed.iter().flatten().map(|record| record.value).collect();
    assert_eq!(numbers, [1, 3]);
    let error = typed[1].as_ref().unwrap_err();
    assert_eq!((error.offset, error.value.as_deref()), (1, Some(&b"two"[..])));
    assert_eq!(typed[0].as_ref().unwrap().key, "key");
    assert_eq!(consumer.position(&letters(0)).await.unwrap().offset, 3);
}

#[tokio::test]
async fn metrics_tell_what_happened_under_kafkas_names() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    broker.produce("letters", 0, &["a", "b", "c"]);
    let config = ConsumerConfig::builder(broker.address())
        .group_id("measured")
        .client_id("reader")
        .set("auto.offset.reset", "earliest");
    let mut consumer = Consumer::new(config).unwrap();
    consumer.subscribe(["letters"]).unwrap();
    read(&mut consumer, 3).await;
    consumer.commit_sync().await.unwrap();
    let metrics = consumer.metrics();
    for (name, value) in [
        ("records-consumed-total", 3.0),
        ("assigned-partitions", 1.0),
        ("rebalance-total", 1.0),
        ("failed-rebalance-total", 0.0),
        ("commit-total", 1.0),
        ("join-total", 2.0),
        ("sync-total", 1.0),
        ("records-lag-max", 0.0),
        ("records-per-request-avg", 3.0),
    ] {
        let metric = metrics
            .iter()
            .find(|metric| metric.name == name && metric.tag("topic").is_none());
        assert_eq!(metric.map(|metric| metric.value), Some(value), "{name}");
    }
    assert_eq!(metrics.get_of("records-lag", "letters", 0), Some(0.0));
    assert_eq!(metrics.get_of("records-lead", "letters", 0), Some(3.0));
    assert!(metrics.get("bytes-consumed-total").unwrap() > 9.0);
    assert!(metrics.get("incoming-byte-total").unwrap() > 100.0);
    assert!(metrics.get("fetch-latency-avg").unwrap() >= 0.0);
    assert!(metrics.get("commit-sync-time-ns-total").unwrap() > 0.0);
    let text = metrics.to_prometheus();
    let lag = r#"kafka_consumer_records_lag{client_id="reader",group="measured",topic="letters",partition="0"} 0"#;
    assert!(text.lines().any(|line| line == lag), "{text}");
    let group = r#"kafka_consumer_rebalance_total{client_id="reader",group="measured"} 1"#;
    assert!(text.lines().any(|line| line == group), "{text}");
}

/// Counts records and remembers committed offsets.
struct Watcher(std::sync::Arc<std::sync::Mutex<(usize, Vec<i64>)>>);

impl ConsumerInterceptor for Watcher {
    fn on_consume(&mut self, records: ConsumerRecords) -> ConsumerRecords {
        self.0.lock().unwrap().0 += records.len();
        records
    }

    fn on_commit(&mut self, offsets: &BTreeMap<TopicPartition, OffsetAndMetadata>) {
        self.0.lock().unwrap().1.push(offsets[&letters(0)].offset);
    }
}

#[tokio::test]
async fn interceptors_see_records_and_commits() {
    let broker = TestBroker::start();
    let settings = [
        ("group.id", "watched"),
        ("max.poll.records", "1"),
        ("enable.auto.commit", "false"),
    ];
    let mut consumer = reader(&broker, &settings);
    let seen = std::sync::Arc::default();
    consumer.add_interceptor(Watcher(std::sync::Arc::clone(&seen)));
    read(&mut consumer, 2).await;
    consumer.commit_async().unwrap();
    read(&mut consumer, 1).await;
    consumer.commit_sync().await.unwrap();
    consumer.close().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), (3, vec![2, 3]));
}

#[tokio::test]
async fn calls_that_are_dropped_leave_the_consumer_as_it_was() {
    let broker = TestBroker::start();
    let mut consumer = reader(&broker, &[("group.id", "dropped"), ("enable.auto.commit", "false")]);
    let place = letters(0);
    for tries in 0..30 {
        tokio::select! {
            biased;
            () = yields(tries) => {}
            position = consumer.position(&place) => assert_eq!(position.unwrap().offset, 0),
        }
        tokio::select! {
            biased;
            () = yields(tries) => {}
            ends = consumer.end_offsets([&place]) => assert_eq!(ends.unwrap()[&place], 5),
        }
        tokio::select! {
            biased;
            () = yields(tries) => {}
            committed = consumer.commit_sync() => committed.unwrap(),
        }
    }
    assert_eq!(read(&mut consumer, 5).await, ["a", "b", "c", "d", "e"]);
    consumer.commit_sync().await.unwrap();
    assert_eq!(consumer.committed([&letters(0)]).await.unwrap()[&letters(0)].offset, 5);
}

#[tokio::test]
async fn a_duration_leads_back_in_time() {
    let broker = TestBroker::start();
    // The records are from 2023: none is younger than an hour, all are younger than 10,000 days.
    let mut consumer = reader(&broker, &[("auto.offset.reset", "by_duration:PT1H")]);
    assert_eq!(consumer.position(&letters(0)).await.unwrap().offset, 5);
    consumer.close().await.unwrap();
    let config = ConsumerConfig::builder(broker.address()).set("auto.offset.reset", "by_duration:P10000D");
    let mut consumer = Consumer::new(config).unwrap();
    consumer.assign([letters(0)]).unwrap();
    assert_eq!(consumer.position(&letters(0)).await.unwrap().offset, 0);
}

/// Requires a future that can be spawned.
fn sendable<F: Future + Send>(future: F) -> F {
    future
}

#[tokio::test]
async fn a_consumer_can_live_in_a_task_of_its_own() {
    let broker = TestBroker::start();
    let mut consumer = reader(&broker, &[]);
    let task = tokio::spawn(sendable(async move {
        let values = read(&mut consumer, 5).await;
        consumer.unsubscribe().await.unwrap();
        consumer.close().await.unwrap();
        values
    }));
    assert_eq!(task.await.unwrap(), ["a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn a_query_without_a_response_says_why() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap().to_string();
    drop(nobody);
    let config = ConsumerConfig::builder(&*address).set("default.api.timeout.ms", 200);
    let mut consumer = Consumer::new(config).unwrap();
    let error = consumer.end_offsets([&letters(0)]).await.unwrap_err().to_string();
    assert!(error.contains("letters-0") && error.contains(&address), "{error}");
    consumer.assign([letters(0)]).unwrap();
    let error = consumer.position(&letters(0)).await.unwrap_err().to_string();
    assert!(error.contains("letters-0") && error.contains(&address), "{error}");
}

#[tokio::test]
async fn records_are_decoded_as_the_configuration_says() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    let producer = Producer::new(ProducerConfig::builder(broker.address())).unwrap();
    for (key, value) in [("a", &7_i64.to_be_bytes()[..]), ("b", b"seven")] {
        producer
            .send(ProducerRecord::new("letters").key(key).value(value))
            .await
            .unwrap();
    }
    let config = ConsumerConfig::builder(broker.address())
        .set("key.deserializer", "string")
        .set(
            "value.deserializer",
            "org.apache.kafka.common.serialization.LongDeserializer",
        )
        .set("auto.offset.reset", "earliest");
    let mut consumer = Consumer::new(config).unwrap();
    consumer.assign([letters(0)]).unwrap();
    let mut read = vec![];
    while read.len() < 2 {
        let records = consumer.poll(60 * SECOND).await.unwrap();
        for record in &records {
            read.push(match consumer.decode(record) {
                Ok(decoded) => format!("{} = {}", decoded.key, decoded.value),
                Err(error) => error.to_string(),
            });
        }
    }
    let expected = [
        "a = 7",
        "the value of letters-0 at offset 1 cannot be read: expected 8 bytes, found 5",
    ];
    assert_eq!(read, expected);
}

#[tokio::test]
async fn a_commit_that_retries_commits_positions() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    broker.produce("letters", 0, &["a", "b", "c"]);
    let config = ConsumerConfig::builder(broker.address())
        .group_id("retrying")
        .set("auto.offset.reset", "earliest")
        .at_least_once();
    let mut consumer = Consumer::new(config).unwrap();
    consumer.subscribe(["letters"]).unwrap();
    read(&mut consumer, 3).await;
    consumer.commit_async_retrying().unwrap().await.unwrap();
    let committed = consumer.committed(&[letters(0)]).await.unwrap();
    assert_eq!(committed[&letters(0)].offset, 3);
    consumer.close().await.unwrap();
}
