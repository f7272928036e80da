//! The consumer against a broker in this process.

use std::time::Duration;

use milena_client::{
    config::ConsumerConfig,
    consumer::{Consumer, ConsumerRecords, TopicPartition},
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
