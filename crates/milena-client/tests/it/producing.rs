//! The producer against a broker in this process.

use std::{collections::BTreeMap, time::Duration};

use milena_client::{
    config::{ConsumerConfig, ProducerConfig, ProducerConfigBuilder},
    consumer::{Consumer, OffsetAndMetadata, TopicPartition},
    producer::{Deliveries, Header, Producer, ProducerRecord, Remedy, SendError, TrySendError, WriteStatus},
};

use crate::broker::TestBroker;

const SECOND: Duration = Duration::from_secs(1);

fn config(broker: &TestBroker) -> ProducerConfigBuilder {
    ProducerConfig::builder(broker.address())
}

/// All values of a topic by partition, read with a consumer.
async fn values(broker: &TestBroker, topic: &str, partitions: i32, count: usize, level: &str) -> Vec<Vec<String>> {
    let config = ConsumerConfig::builder(broker.address())
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", level);
    let mut consumer = Consumer::new(config).unwrap();
    let all: Vec<TopicPartition> = (0..partitions).map(|index| TopicPartition::new(topic, index)).collect();
    consumer.assign(all.iter().cloned()).unwrap();
    let ends = consumer.end_offsets(&all).await.unwrap();
    let mut values = vec![vec![]; usize::try_from(partitions).unwrap()];
    let mut read = 0;
    while read < count {
        for record in &consumer.poll(60 * SECOND).await.unwrap() {
            let value = String::from_utf8(record.value().unwrap().to_vec()).unwrap();
            values[usize::try_from(record.partition()).unwrap()].push(value);
            read += 1;
        }
    }
    // There are no further records.
    for partition in &all {
        while consumer.position(partition).await.unwrap().offset < ends[partition] {
            let more = consumer.poll(60 * SECOND).await.unwrap();
            assert!(more.is_empty(), "{} records more than expected", more.len());
        }
    }
    values
}

#[tokio::test]
async fn a_record_is_acknowledged_with_its_place() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 2);
    let producer = Producer::new(config(&broker)).unwrap();
    for offset in 0..3 {
        let record = ProducerRecord::new("letters")
            .partition(1)
            .value("Dear Milena,")
            .timestamp(7);
        let written = producer.send(record).await.unwrap();
        assert_eq!((&*written.topic, written.partition), ("letters", 1));
        assert_eq!((written.offset, written.timestamp), (Some(offset), 7));
    }
    producer.close().await.unwrap();
}

#[tokio::test]
async fn many_records_keep_their_order_and_come_once() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 3);
    for (codec, acks) in [("none", "all"), ("lz4", "all"), ("zstd", "1"), ("none", "0")] {
        let topic = format!("letters-{codec}-{acks}");
        broker.create_topic(&topic, 3);
        let producer = Producer::new(config(&broker).set("compression.type", codec).set("acks", acks)).unwrap();
        let mut deliveries = Deliveries::default();
        for number in 0..20_000 {
            let (key, value) = (format!("{}", number % 100), format!("{number}"));
            let record = ProducerRecord::new(&topic).key(&key).value(&value);
            deliveries.push(producer.enqueue(record).await.unwrap());
        }
        producer.flush().await.unwrap();
        assert_eq!(deliveries.all().await.unwrap(), 20_000);
        let values = values(&broker, &topic, 3, 20_000, "read_uncommitted").await;
        for values in &values {
            let numbers: Vec<u32> = values.iter().map(|value| value.parse().unwrap()).collect();
            assert!(
                numbers.len() > 1000 && numbers.is_sorted_by(|a, b| a < b),
                "{codec} {acks}"
            );
        }
    }
}

#[tokio::test]
async fn keys_headers_and_tombstones_arrive_as_they_were_sent() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    let producer = Producer::new(config(&broker)).unwrap();
    let headers = [Header::new("from", b"Prague")];
    let full = ProducerRecord::new("letters").key("k").value("v").headers(&headers);
    producer.send(full).await.unwrap();
    producer.send(ProducerRecord::new("letters").key("k")).await.unwrap();
    let mut consumer =
        Consumer::new(ConsumerConfig::builder(broker.address()).set("auto.offset.reset", "earliest")).unwrap();
    consumer.assign([TopicPartition::new("letters", 0)]).unwrap();
    let mut seen = vec![];
    while seen.len() < 2 {
        for record in &consumer.poll(60 * SECOND).await.unwrap() {
            let headers: Vec<(String, Option<Vec<u8>>)> = record
                .headers()
                .map(|header| {
                    (
                        String::from_utf8_lossy(header.key).into_owned(),
                        header.value.map(<[u8]>::to_vec),
                    )
                })
                .collect();
            seen.push((
                record.key().map(<[u8]>::to_vec),
                record.value().map(<[u8]>::to_vec),
                headers,
            ));
        }
    }
    let from = ("from".to_owned(), Some(b"Prague".to_vec()));
    assert_eq!(seen[0], (Some(b"k".to_vec()), Some(b"v".to_vec()), vec![from]));
    assert_eq!(seen[1], (Some(b"k".to_vec()), None, vec![]));
}

#[tokio::test]
async fn what_cannot_be_sent_says_why() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 2);
    let producer = Producer::new(config(&broker).set("max.request.size", 1000).set("max.block.ms", 2000)).unwrap();
    let large = vec![0; 2000];
    let error = producer
        .send(ProducerRecord::new("letters").value(&large))
        .await
        .unwrap_err();
    assert!(matches!(error, SendError::TooLarge { limit: 1000, .. }), "{error}");
    assert_eq!(error.write_status(), WriteStatus::NotWritten);
    let error = producer
        .send(ProducerRecord::new("letters").partition(2))
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "letters has no partition 2; it has 2 partitions");
    let error = producer.send(ProducerRecord::new("no such/topic")).await.unwrap_err();
    assert!(error.to_string().contains("INVALID_TOPIC_EXCEPTION"), "{error}");
    let error = producer.begin().await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Misuse);
    assert!(error.to_string().contains("transactional.id"), "{error}");
    let left = producer.clone();
    producer.close().await.unwrap();
    assert_eq!(left.send(ProducerRecord::new("letters")).await, Err(SendError::Closed));
}

#[tokio::test]
async fn a_full_buffer_holds_the_sender_back_and_loses_nothing() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    let producer = Producer::new(config(&broker).set("buffer.memory", 4096).set("batch.size", 1024)).unwrap();
    producer
        .send(ProducerRecord::new("letters").value("first"))
        .await
        .unwrap();
    let value = "x".repeat(300);
    let mut refused = 0;
    let mut deliveries = Deliveries::default();
    for _ in 0..1000 {
        let record = ProducerRecord::new("letters").value(&value);
        match producer.try_enqueue(record) {
            Ok(delivery) => deliveries.push(delivery),
            Err(TrySendError::WouldBlock) => {
                refused += 1;
                deliveries.push(producer.enqueue(record).await.unwrap());
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 0);
    producer.flush().await.unwrap();
    assert_eq!(deliveries.all().await.unwrap(), 1000);
    assert_eq!(
        values(&broker, "letters", 1, 1001, "read_uncommitted").await[0].len(),
        1001
    );
}

#[tokio::test]
async fn a_batch_that_is_too_large_for_its_topic_goes_as_several() {
    let broker = TestBroker::start();
    broker
        .client()
        .create_topic("letters", 1, &[("max.message.bytes", "2000")]);
    let producer = Producer::new(config(&broker).set("linger.ms", 1000)).unwrap();
    let mut deliveries = vec![];
    for number in 0..40 {
        let value = format!("{number:0>300}");
        deliveries.push(
            producer
                .enqueue(ProducerRecord::new("letters").value(&value))
                .await
                .unwrap(),
        );
    }
    producer.flush().await.unwrap();
    for (offset, delivery) in (0..).zip(deliveries) {
        assert_eq!(delivery.await.unwrap().offset, Some(offset));
    }
    let values = values(&broker, "letters", 1, 40, "read_uncommitted").await;
    let numbers: Vec<u32> = values[0].iter().map(|value| value.parse().unwrap()).collect();
    assert_eq!(numbers, (0..40).collect::<Vec<_>>());
}

#[tokio::test]
async fn transactions_are_seen_whole_or_not_at_all() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 2);
    let producer = Producer::new(config(&broker).set("transactional.id", "writer")).unwrap();
    let outside = producer.send(ProducerRecord::new("letters").value("outside")).await;
    assert!(matches!(outside, Err(SendError::Transaction(_))), "{outside:?}");
    producer.init_transactions().await.unwrap();
    for (round, commits) in [(0, true), (1, false), (2, true)] {
        let mut transaction = producer.begin().await.unwrap();
        for partition in 0..2 {
            let value = format!("{round}");
            let record = ProducerRecord::new("letters").partition(partition).value(&value);
            transaction.send(record).await.unwrap();
        }
        match commits {
            true => transaction.commit().await.unwrap(),
            false => transaction.abort().await.unwrap(),
        }
    }
    // A dropped transaction is aborted, and the next can begin.
    let dropped = producer.begin().await.unwrap();
    dropped
        .send(ProducerRecord::new("letters").partition(0).value("dropped"))
        .await
        .unwrap();
    drop(dropped);
    producer.init_transactions().await.unwrap_err();
    let mut last = producer.begin().await.unwrap();
    last.send(ProducerRecord::new("letters").partition(0).value("last"))
        .await
        .unwrap();
    last.commit().await.unwrap();
    let committed = values(&broker, "letters", 2, 5, "read_committed").await;
    assert_eq!(committed, [vec!["0", "2", "last"], vec!["0", "2"]]);
    let all = values(&broker, "letters", 2, 8, "read_uncommitted").await;
    assert_eq!(all, [vec!["0", "1", "2", "dropped", "last"], vec!["0", "1", "2"]]);
}

#[tokio::test]
async fn offsets_are_committed_with_the_transaction() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    broker.produce("letters", 0, &["a", "b", "c"]);
    let reader = ConsumerConfig::builder(broker.address())
        .group_id("copiers")
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest");
    let mut consumer = Consumer::new(reader).unwrap();
    consumer.subscribe(["letters"]).unwrap();
    let mut read = 0;
    while read < 3 {
        read += consumer.poll(60 * SECOND).await.unwrap().len();
    }
    let producer = Producer::new(config(&broker).set("transactional.id", "copier")).unwrap();
    producer.init_transactions().await.unwrap();
    let place = TopicPartition::new("letters", 0);
    for (offset, commits) in [(2, true), (3, false)] {
        let mut transaction = producer.begin().await.unwrap();
        let offsets = BTreeMap::from([(place.clone(), OffsetAndMetadata::new(offset))]);
        transaction
            .send_offsets(&consumer.group_metadata().unwrap(), offsets)
            .await
            .unwrap();
        match commits {
            true => transaction.commit().await.unwrap(),
            false => transaction.abort().await.unwrap(),
        }
    }
    let committed = consumer.committed(std::slice::from_ref(&place)).await.unwrap();
    assert_eq!(committed[&place].offset, 2);
}

#[tokio::test]
async fn who_comes_later_with_the_same_id_fences() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    let make = || Producer::new(config(&broker).set("transactional.id", "writer")).unwrap();
    let old = make();
    old.init_transactions().await.unwrap();
    let mut transaction = old.begin().await.unwrap();
    transaction
        .send(ProducerRecord::new("letters").value("old"))
        .await
        .unwrap();
    let new = make();
    new.init_transactions().await.unwrap();
    let error = transaction.commit().await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::GiveUp, "{error}");
    let mut transaction = new.begin().await.unwrap();
    transaction
        .send(ProducerRecord::new("letters").value("new"))
        .await
        .unwrap();
    transaction.commit().await.unwrap();
    let committed = values(&broker, "letters", 1, 1, "read_committed").await;
    assert_eq!(committed, [["new"]]);
}

#[tokio::test]
async fn metrics_tell_what_was_sent_under_kafkas_names() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    let config = config(&broker)
        .set("client.id", "writer")
        .set("compression.type", "lz4");
    let producer = Producer::new(config).unwrap();
    let value = "x".repeat(1000);
    for _ in 0..10 {
        let _sent = producer
            .enqueue(ProducerRecord::new("letters").value(&value))
            .await
            .unwrap();
    }
    producer.flush().await.unwrap();
    let metrics = producer.metrics();
    for (name, value) in [
        ("record-send-total", 10.0),
        ("record-retry-total", 0.0),
        ("record-error-total", 0.0),
        ("requests-in-flight", 0.0),
        ("waiting-threads", 0.0),
        ("buffer-total-bytes", 33_554_432.0),
        ("buffer-available-bytes", 33_554_432.0),
    ] {
        assert_eq!(metrics.get(name), Some(value), "{name}");
    }
    assert!(metrics.get("compression-rate-avg").unwrap() < 0.5);
    assert!(metrics.get("record-size-max").unwrap() > 1000.0);
    assert!(metrics.get("flush-time-ns-total").unwrap() > 0.0);
    let of_topic = metrics.iter().find(|metric| metric.tag("topic") == Some("letters"));
    assert_eq!(of_topic.unwrap().group, "producer-topic-metrics");
}

/// Some are in a batch that was sent and refused, some in one that could not be sent.
#[tokio::test]
async fn records_for_a_topic_that_is_gone_fail_in_time() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    let config = config(&broker)
        .set("linger.ms", 0)
        .set("request.timeout.ms", 500)
        .set("delivery.timeout.ms", 1000)
        .set("max.block.ms", 1000);
    let producer = Producer::new(config).unwrap();
    producer
        .send(ProducerRecord::new("letters").value("there"))
        .await
        .unwrap();
    broker.delete_topic("letters");
    let mut sends = vec![];
    for _ in 0..50 {
        match producer.enqueue(ProducerRecord::new("letters").value("gone")).await {
            Ok(delivery) => sends.push(delivery),
            // The client knows by now that the topic does not exist.
            Err(error) => {
                assert_eq!(error.write_status(), WriteStatus::NotWritten);
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    assert!(!sends.is_empty());
    for delivery in sends {
        let outcome = tokio::time::timeout(60 * SECOND, delivery).await;
        outcome.expect("it never ends").unwrap_err();
    }
}
