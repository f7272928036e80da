//! Topics that grow, are deleted, recreated and created while they are read.

use std::slice;

use milena_client::consumer::{Consumer, TopicPartition};

use crate::{
    bed::{self, Bed},
    members::{KINDS, Kind},
    patience::{poll_until, read},
};

#[tokio::test]
async fn topics_of_kafka_change() {
    topics_change(bed::kafka()).await;
}

#[tokio::test]
async fn topics_of_our_broker_change() {
    topics_change(bed::ours()).await;
}

async fn topics_change(bed: &Bed) {
    for kind in [Kind::classic("range"), Kind::CONSUMER] {
        partitions_are_added(bed, kind).await;
        a_topic_is_made_anew(bed, kind).await;
    }
    an_assigned_topic_is_made_anew(bed).await;
    for kind in KINDS {
        a_topic_appears(bed, kind, |consumer, pattern| {
            consumer.subscribe_pattern(pattern).unwrap()
        })
        .await;
    }
    let on_broker = |consumer: &mut Consumer, pattern: &str| consumer.subscribe_broker_pattern(pattern).unwrap();
    a_topic_appears(bed, Kind::CONSUMER, on_broker).await;
}

fn subscribed(bed: &Bed, kind: Kind, topic: &str) -> Consumer {
    let mut consumer = Consumer::new(bed.member(kind, topic)).unwrap();
    consumer.subscribe([topic]).unwrap();
    consumer
}

async fn partitions_are_added(bed: &Bed, kind: Kind) {
    let topic = bed.topic("grows", 1, "").await;
    bed.send(&topic, 0, "none", 0, 10).await;
    let mut consumer = subscribed(bed, kind, &topic);
    read(&mut consumer, 10, |_| ()).await;
    bed.peer.call(&format!("partitions {topic} 3")).await;
    // Kafka may report the new partitions to the producer later than to us.
    bed.send(&topic, 2, "none", 0, 10).await;
    let found = read(&mut consumer, 10, |record| (record.partition(), record.offset())).await;
    assert_eq!(found, (0..10).map(|offset| (2, offset)).collect::<Vec<_>>(), "{kind:?}");
    assert_eq!(consumer.assignment().len(), 3);
    consumer.close().await.unwrap();
}

/// The new topic has more records than were read of the old one, so that only its id differs.
async fn make_anew(bed: &Bed, topic: &str) {
    bed.peer.call(&format!("delete {topic}")).await;
    bed.peer.call(&format!("topic {topic} 1")).await;
    bed.send(topic, 0, "none", 0, 50).await;
}

async fn a_topic_is_made_anew(bed: &Bed, kind: Kind) {
    println!("made anew: {kind:?}");
    let topic = bed.topic("anew", 1, "").await;
    bed.send(&topic, 0, "none", 0, 20).await;
    let mut consumer = subscribed(bed, kind, &topic);
    read(&mut consumer, 20, |_| ()).await;
    make_anew(bed, &topic).await;
    let found = read(&mut consumer, 50, |record| record.offset()).await;
    assert_eq!(found, (0..50).collect::<Vec<_>>(), "{kind:?}");
    consumer.close().await.unwrap();
}

async fn an_assigned_topic_is_made_anew(bed: &Bed) {
    let topic = bed.topic("anew", 1, "").await;
    bed.send(&topic, 0, "none", 0, 20).await;
    let mut consumer = bed.reader(slice::from_ref(&TopicPartition::new(&*topic, 0)), &[]);
    read(&mut consumer, 20, |_| ()).await;
    make_anew(bed, &topic).await;
    assert_eq!(
        read(&mut consumer, 50, |record| record.offset()).await,
        (0..50).collect::<Vec<_>>()
    );
}

async fn a_topic_appears(bed: &Bed, kind: Kind, subscribe: impl Fn(&mut Consumer, &str)) {
    let topic = bed.topic("matches", 1, "").await;
    let mut consumer = Consumer::new(bed.member(kind, &topic)).unwrap();
    subscribe(&mut consumer, &format!("{topic}(-.*)?"));
    poll_until(&mut consumer, "the topic that is there", |consumer| {
        consumer.assignment().len() == 1
    })
    .await;
    bed.topic(&format!("other-{topic}"), 1, "").await;
    let new = bed.topic(&topic, 2, "").await;
    bed.send(&new, 1, "none", 0, 10).await;
    let found = read(&mut consumer, 10, |record| (record.topic().to_owned(), record.offset())).await;
    assert_eq!(
        found,
        (0..10).map(|offset| (new.clone(), offset)).collect::<Vec<_>>(),
        "{kind:?}"
    );
    assert_eq!(consumer.assignment().len(), 3);
    consumer.close().await.unwrap();
}
