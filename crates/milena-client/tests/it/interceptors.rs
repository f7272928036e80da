//! Interceptors of the producer.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use milena_client::{
    config::{ConsumerConfig, ProducerConfig},
    consumer::{Consumer, TopicPartition},
    producer::{OutgoingRecord, Producer, ProducerInterceptor, ProducerRecord, RecordMetadata, SendError},
};

use crate::broker::TestBroker;

/// The outcomes of records: the topic, and the offset or the error.
type Heard = Arc<Mutex<Vec<(String, Result<i64, SendError>)>>>;

/// Appends its name to the value and to a header, and records outcomes.
struct Signature(&'static str, Heard);

impl ProducerInterceptor for Signature {
    fn on_send<'a>(&self, mut record: OutgoingRecord<'a>) -> OutgoingRecord<'a> {
        if let Some(value) = &mut record.value {
            value.to_mut().extend_from_slice(self.0.as_bytes());
        }
        record.header("by", self.0)
    }

    fn on_acknowledgement(&self, topic: &str, outcome: Result<&RecordMetadata, &SendError>) {
        let outcome = outcome.map(|written| written.offset.unwrap()).map_err(SendError::clone);
        self.1.lock().unwrap().push((topic.to_owned(), outcome));
    }
}

struct Broken;

impl ProducerInterceptor for Broken {
    fn on_send<'a>(&self, mut record: OutgoingRecord<'a>) -> OutgoingRecord<'a> {
        record.value = None;
        panic!("a fault of the interceptor's");
    }

    fn on_acknowledgement(&self, _topic: &str, _outcome: Result<&RecordMetadata, &SendError>) {
        panic!("another one");
    }
}

/// Values and headers of a topic, in order.
async fn read(broker: &TestBroker, topic: &str, count: usize) -> Vec<(String, Vec<String>)> {
    let config = ConsumerConfig::builder(broker.address()).set("auto.offset.reset", "earliest");
    let mut consumer = Consumer::new(config).unwrap();
    consumer.assign([TopicPartition::new(topic, 0)]).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut read = vec![];
    while read.len() < count {
        for record in &consumer.poll(Duration::from_secs(60)).await.unwrap() {
            let headers = record.headers().map(|header| text(header.value.unwrap()));
            read.push((text(record.value().unwrap()), headers.collect()));
        }
    }
    read
}

#[tokio::test]
async fn interceptors_change_records_and_hear_of_them_whatever_one_does() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    let config = ProducerConfig::builder(broker.address()).set("max.request.size", 100_000);
    let producer = Producer::new(config).unwrap();
    let heard: Heard = Arc::default();
    producer.add_interceptor(Signature("m", Arc::clone(&heard)));
    producer.add_interceptor(Broken);
    producer.add_interceptor(Signature("f", Arc::clone(&heard)));
    // Several batches, sent with all methods.
    for number in 0..5_000 {
        let value = number.to_string();
        let record = ProducerRecord::new("letters").value(&value);
        if number == 0 {
            producer.send(record).await.unwrap();
        } else if number % 2 == 0 {
            drop(producer.enqueue(record).await.unwrap());
        } else {
            drop(producer.try_enqueue(record).unwrap());
        }
    }
    let large = vec![0; 100_000];
    let refused = ProducerRecord::new("letters").value(&large);
    let refused = producer.send(refused).await.unwrap_err();
    producer.close().await.unwrap();

    for (number, (value, headers)) in read(&broker, "letters", 5_000).await.into_iter().enumerate() {
        assert_eq!(value, format!("{number}mf"));
        assert_eq!(headers, ["m", "f"]);
    }
    let mut heard = std::mem::take(&mut *heard.lock().unwrap());
    heard.sort_by_key(|(_, outcome)| outcome.clone().ok());
    let mut expected = vec![("letters".to_owned(), Err(refused)); 2];
    expected.extend((0..10_000).map(|number| ("letters".to_owned(), Ok(number / 2))));
    assert_eq!(heard, expected);
}

/// Sends a copy of each letter to another topic, and a reply when it is acknowledged.
struct Replying(Arc<OnceLock<Producer>>);

impl ProducerInterceptor for Replying {
    fn on_send<'a>(&self, mut record: OutgoingRecord<'a>) -> OutgoingRecord<'a> {
        if record.topic == "letters" {
            record.topic = Cow::Borrowed("postbox");
        }
        record
    }

    fn on_acknowledgement(&self, topic: &str, outcome: Result<&RecordMetadata, &SendError>) {
        let producer = self.0.get().unwrap();
        if topic == "postbox" && outcome.is_ok() {
            assert!(producer.metrics().iter().count() > 0);
            drop(
                producer
                    .try_enqueue(ProducerRecord::new("replies").value("Thanks"))
                    .unwrap(),
            );
        }
    }
}

#[tokio::test]
async fn an_interceptor_may_use_the_producer() {
    let broker = TestBroker::start();
    for topic in ["letters", "postbox", "replies"] {
        broker.create_topic(topic, 1);
    }
    let producer = Producer::new(ProducerConfig::builder(broker.address())).unwrap();
    producer
        .send(ProducerRecord::new("replies").value("Hello"))
        .await
        .unwrap();
    let itself = Arc::new(OnceLock::new());
    itself.set(producer.clone()).unwrap();
    producer.add_interceptor(Replying(itself));
    let letter = ProducerRecord::new("letters").value("Dear Milena,");
    let written = producer.send(letter).await.unwrap();
    assert_eq!((&*written.topic, written.offset), ("postbox", Some(0)));
    let replies: Vec<String> = read(&broker, "replies", 2)
        .await
        .into_iter()
        .map(|(value, _)| value)
        .collect();
    assert_eq!(replies, ["Hello", "Thanks"]);
}
