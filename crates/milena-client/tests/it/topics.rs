//! Topic queries of a consumer.

use std::net::TcpListener;

use milena_client::{
    config::ConsumerConfig,
    consumer::{Consumer, TopicPartition, TopicsError},
};
use milena_wire::errors::ErrorCode;

use crate::broker::TestBroker;

#[tokio::test]
async fn the_partitions_of_a_topic_come_by_number_with_their_leader() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 3);
    let mut consumer = Consumer::new(ConsumerConfig::builder(broker.address())).unwrap();
    let partitions = consumer.partitions_for("letters").await.unwrap();
    let numbers: Vec<_> = partitions.iter().map(|info| info.partition.clone()).collect();
    assert_eq!(numbers, [0, 1, 2].map(|number| TopicPartition::new("letters", number)));
    for info in &partitions {
        let leader = info.leader.as_ref().unwrap();
        assert_eq!(format!("{}:{}", leader.host, leader.port), broker.address());
        assert_eq!((&info.replicas, &info.isr), (&vec![leader.id], &vec![leader.id]));
        assert!(info.offline.is_empty());
    }
    consumer.close().await.unwrap();
}

#[tokio::test]
async fn what_is_being_read_need_not_be_asked_for() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    broker.produce("letters", 0, &["a"]);
    let config = ConsumerConfig::builder(broker.address()).set("auto.offset.reset", "earliest");
    let mut consumer = Consumer::new(config).unwrap();
    consumer.assign([TopicPartition::new("letters", 0)]).unwrap();
    while consumer
        .poll(std::time::Duration::from_secs(60))
        .await
        .unwrap()
        .is_empty()
    {}
    // No broker is left.
    drop(broker);
    let partitions = consumer.partitions_for("letters").await.unwrap();
    assert_eq!(partitions.len(), 1);
    assert_eq!(partitions[0].partition, TopicPartition::new("letters", 0));
}

#[tokio::test]
async fn a_topic_that_is_not_there_has_no_partitions() {
    let broker = TestBroker::start();
    let mut consumer = Consumer::new(ConsumerConfig::builder(broker.address())).unwrap();
    assert_eq!(consumer.partitions_for("letters").await.unwrap(), []);
    let refused = consumer.partitions_for("no/such/name").await.unwrap_err();
    assert!(
        matches!(&refused, TopicsError::Topic { topic, code: ErrorCode::InvalidTopicException } if topic == "no/such/name"),
        "{refused:?}"
    );
    consumer.close().await.unwrap();
}

#[tokio::test]
async fn all_topics_are_listed_also_while_one_of_them_is_read() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 2);
    broker.create_topic("words", 1);
    let mut consumer = Consumer::new(ConsumerConfig::builder(broker.address())).unwrap();
    consumer.assign([TopicPartition::new("words", 0)]).unwrap();
    let topics = consumer.list_topics().await.unwrap();
    let counts: Vec<_> = topics.iter().map(|(name, infos)| (&**name, infos.len())).collect();
    assert_eq!(counts, [("letters", 2), ("words", 1)]);
    consumer.close().await.unwrap();
}

#[tokio::test]
async fn without_a_broker_the_question_ends_in_time_and_says_why() {
    // The port is free again, so nothing listens on it.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = ConsumerConfig::builder(address.to_string()).set("default.api.timeout.ms", 200);
    let mut consumer = Consumer::new(config).unwrap();
    let error = consumer.partitions_for("letters").await.unwrap_err();
    let TopicsError::TimedOut { timeout_ms: 200, cause } = &error else {
        panic!("{error:?}")
    };
    assert!(cause.contains(&address.to_string()), "{cause}");
    assert!(cause.contains("refused"), "{cause}");
    consumer.close().await.unwrap();
}
