//! The broker in a test.

use std::net::TcpStream;

use milena_test::{
    TestBroker, TestRecord,
    messages::{FetchRequest, fetch_request},
};
use milena_wire::{
    pool::BufferPool,
    records::{Batches, RecordDecoder, RecordSet},
};

use crate::wire::Wire;

/// Offset, key, value, headers.
type Read = (i64, Option<String>, Option<String>, Vec<String>);

fn read(broker: &TestBroker) -> Vec<Read> {
    let topic = fetch_request::FetchTopic {
        topic: "letters".into(),
        partitions: vec![fetch_request::FetchPartition {
            partition_max_bytes: 1 << 20,
            ..Default::default()
        }],
        ..Default::default()
    };
    let request = FetchRequest {
        max_bytes: 1 << 20,
        topics: vec![topic],
        ..Default::default()
    };
    let mut fetched = Wire::connect(broker).call(&request, 12);
    let records = fetched.responses.remove(0).partitions.remove(0).records.unwrap();
    let mut decoder = RecordDecoder::new(BufferPool::new(0), 1 << 20);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut found = vec![];
    for batch in Batches::new(records) {
        let mut set = RecordSet::default();
        batch.unwrap().decode_into(&mut decoder, &mut set).unwrap();
        found.extend(set.iter().map(|record| {
            let headers = record.headers().map(|header| text(header.key)).collect();
            (
                record.offset(),
                record.key().map(text),
                record.value().map(text),
                headers,
            )
        }));
    }
    found
}

fn works(broker: &TestBroker) {
    broker.create_topic("letters", 1);
    let records = [
        TestRecord::from("a"),
        ("k", "b").into(),
        TestRecord::new("c").header("h", "1").header("h", "2").timestamp(77),
        TestRecord::tombstone("k"),
    ];
    assert_eq!(broker.produce("letters", 0, records), 0);
    assert_eq!(broker.produce("letters", 0, ["e"]), 4);
    let found = read(broker);
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(found[0], (0, None, text("a"), vec![]));
    assert_eq!(found[1], (1, text("k"), text("b"), vec![]));
    assert_eq!(found[2], (2, None, text("c"), vec!["h".to_owned(), "h".to_owned()]));
    assert_eq!(found[3], (3, text("k"), None, vec![]));
    assert_eq!(found[4].0, 4);
}

#[test]
fn it_works_without_a_runtime() {
    works(&TestBroker::start());
}

#[tokio::test]
async fn it_works_on_a_runtime_of_one_thread() {
    works(&TestBroker::start());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_works_on_a_runtime_of_many_threads() {
    works(&TestBroker::start());
}

#[test]
fn a_restart_keeps_data_and_port_however_the_broker_ended() {
    let broker = TestBroker::start();
    works(&broker);
    broker.commit("group", "letters", 0, 3);
    let address = broker.bootstrap_servers();
    let mut open = Wire::connect(&broker);
    broker.kill();
    assert!(open.has_ended());
    assert!(TcpStream::connect(&address).is_err(), "nobody listens");
    broker.restart();
    assert_eq!(broker.bootstrap_servers(), address);
    assert_eq!(read(&broker).len(), 5);
    broker.restart();
    assert_eq!(read(&broker).len(), 5);
    assert_eq!(broker.committed("group", "letters", 0), Some(3));
    assert_eq!(broker.committed("other", "letters", 0), None);
    assert!(broker.group_members("group").is_empty());
}

#[test]
fn settings_and_topics_can_be_chosen() {
    let broker = TestBroker::builder()
        .set("milena.durability", "memory")
        .set("auto.create.topics.enable", false)
        .start();
    broker.create_topic_with("letters", 2, &[("retention.ms", "1000000")]);
    broker.create_partitions("letters", 3);
    assert_eq!(broker.produce("letters", 2, ["a"]), 0);
    broker.delete_topic("letters");
    broker.create_topic("letters", 1);
    assert_eq!(broker.produce("letters", 0, ["a"]), 0);
}

#[test]
#[should_panic(expected = "the broker does not start")]
fn a_setting_that_does_not_exist_is_refused() {
    TestBroker::builder().set("no.such.setting", 1).start();
}
