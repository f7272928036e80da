//! Reading continues through faults of connections, brokers and sessions.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use milena_client::consumer::PollError;
use milena_test::{
    ErrorCode, TestBroker,
    messages::{FetchRequest, ListOffsetsRequest, MetadataRequest},
};

use crate::consumers::{LONG, SHORT, config, letters, poll_until_struck, read, reader, texts};

/// A broker with one topic of one partition.
fn broker() -> TestBroker {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    broker
}

fn produce_numbers(broker: &TestBroker, count: usize) {
    for first in (0..count).step_by(20) {
        broker.produce("letters", 0, (first..first + 20).map(|number| number.to_string()));
    }
}

fn assert_numbers(values: &[String], count: usize) {
    let expected: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    assert!(
        values == expected,
        "something was lost, doubled or in disorder: {values:?}"
    );
}

#[tokio::test]
async fn cut_connections_lose_nothing_and_double_nothing() {
    let broker = broker();
    produce_numbers(&broker, 2_000);
    let config = config(&broker)
        .set("max.partition.fetch.bytes", 600)
        .set("max.poll.records", 7);
    let mut consumer = reader(config);
    let mut values = vec![];
    let mut polls = 0;
    while values.len() < 2_000 {
        values.extend(texts(&consumer.poll(LONG).await.unwrap()));
        polls += 1;
        if polls % 20 == 0 {
            broker.faults().cut_connections();
        }
    }
    assert_numbers(&values, 2_000);
    assert!(broker.faults().connections_made() > 10);
}

#[tokio::test]
async fn requests_that_end_their_connection_are_sent_again() {
    let broker = broker();
    produce_numbers(&broker, 400);
    let faults = broker.faults();
    faults.on::<MetadataRequest>().once().close_before();
    faults.on::<ListOffsetsRequest>().once().close_after();
    let before = faults.on::<FetchRequest>().skip(2).times(3).close_before();
    let after = faults.on::<FetchRequest>().skip(9).times(3).close_after();
    let mut consumer = reader(config(&broker).set("max.partition.fetch.bytes", 600));
    assert_numbers(&read(&mut consumer, 400).await, 400);
    assert_eq!((before.struck(), after.struck()), (3, 3));
}

#[tokio::test]
async fn a_broker_that_does_not_answer_is_asked_again_on_a_new_connection() {
    let broker = broker();
    broker.produce("letters", 0, ["a"]);
    let mut consumer = reader(config(&broker).set("request.timeout.ms", 300));
    assert_eq!(read(&mut consumer, 1).await, ["a"]);
    let before = broker.faults().connections_made();
    let stalled = broker.faults().stall();
    poll_until_struck(&mut consumer, &stalled, 1).await;
    stalled.remove();
    broker.produce("letters", 0, ["b"]);
    assert_eq!(read(&mut consumer, 1).await, ["b"]);
    assert!(broker.faults().connections_made() > before);
}

#[tokio::test]
async fn a_connection_that_has_died_in_silence_is_given_up() {
    let broker = broker();
    broker.produce("letters", 0, ["a"]);
    let mut consumer = reader(config(&broker).set("request.timeout.ms", 300));
    assert_eq!(read(&mut consumer, 1).await, ["a"]);
    broker.faults().half_open();
    broker.produce("letters", 0, ["b"]);
    assert_eq!(read(&mut consumer, 1).await, ["b"]);
}

#[tokio::test]
async fn answers_may_come_byte_by_byte() {
    let broker = broker();
    produce_numbers(&broker, 200);
    let dripping = broker.faults().drip(1, Duration::ZERO);
    let mut consumer = reader(config(&broker).set("max.partition.fetch.bytes", 600));
    assert_numbers(&read(&mut consumer, 200).await, 200);
    assert!(dripping.struck() > 5);
}

#[tokio::test]
async fn a_pause_of_the_network_changes_nothing() {
    let broker = broker();
    broker.produce("letters", 0, ["a"]);
    let mut consumer = reader(config(&broker));
    assert_eq!(read(&mut consumer, 1).await, ["a"]);
    let made = broker.faults().connections_made();
    let paused = broker.faults().pause();
    poll_until_struck(&mut consumer, &paused, 1).await;
    paused.remove();
    broker.produce("letters", 0, ["b"]);
    assert_eq!(read(&mut consumer, 1).await, ["b"]);
    assert_eq!(broker.faults().connections_made(), made, "the connections are the same");
}

#[tokio::test]
async fn errors_that_pass_are_not_the_applications_affair() {
    let broker = broker();
    let mut consumer = reader(config(&broker));
    broker.produce("letters", 0, ["first"]);
    assert_eq!(read(&mut consumer, 1).await, ["first"]);
    for code in [
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::UnknownTopicId,
        ErrorCode::InconsistentTopicId,
        ErrorCode::FencedLeaderEpoch,
        ErrorCode::UnknownLeaderEpoch,
        ErrorCode::ReplicaNotAvailable,
        ErrorCode::KafkaStorageError,
        ErrorCode::OffsetNotAvailable,
        ErrorCode::UnknownServerError,
        ErrorCode::FetchSessionIdNotFound,
        ErrorCode::InvalidFetchSessionEpoch,
        ErrorCode::FetchSessionTopicIdError,
    ] {
        let fault = broker.faults().on::<FetchRequest>().times(2).respond_error(code);
        poll_until_struck(&mut consumer, &fault, 1).await;
        broker.produce("letters", 0, [code.name()]);
        assert_eq!(read(&mut consumer, 1).await, [code.name()]);
        assert_eq!(fault.struck(), 2, "{code}");
    }
    assert_eq!(consumer.position(&letters()).await.unwrap().offset, 14);
}

#[tokio::test]
async fn errors_about_offsets_and_topics_pass_too() {
    let broker = broker();
    broker.produce("letters", 0, ["a"]);
    for code in [
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::LeaderNotAvailable,
        ErrorCode::FencedLeaderEpoch,
        ErrorCode::UnknownLeaderEpoch,
        ErrorCode::OffsetNotAvailable,
        ErrorCode::KafkaStorageError,
    ] {
        let offsets = broker.faults().on::<ListOffsetsRequest>().times(2).respond_error(code);
        let mut consumer = reader(config(&broker));
        assert_eq!(read(&mut consumer, 1).await, ["a"], "{code}");
        assert_eq!(offsets.struck(), 2, "{code}");
    }
    for code in [ErrorCode::UnknownTopicOrPartition, ErrorCode::LeaderNotAvailable] {
        let topics = broker.faults().on::<MetadataRequest>().times(3).respond_error(code);
        let mut consumer = reader(config(&broker));
        assert_eq!(read(&mut consumer, 1).await, ["a"], "{code}");
        assert_eq!(topics.struck(), 3, "{code}");
    }
}

#[tokio::test]
async fn what_is_forbidden_is_told_and_may_be_allowed_later() {
    let broker = broker();
    broker.produce("letters", 0, ["a"]);
    let fault = broker
        .faults()
        .on::<FetchRequest>()
        .respond_error(ErrorCode::TopicAuthorizationFailed);
    let mut consumer = reader(config(&broker));
    let error = consumer.poll(LONG).await.unwrap_err();
    assert!(matches!(error, PollError::Fetch(_)), "{error:?}");
    fault.remove();
    // Earlier requests may still get this response.
    loop {
        match consumer.poll(LONG).await {
            Ok(records) if records.is_empty() => {}
            Ok(records) => break assert_eq!(texts(&records), ["a"]),
            Err(error) => assert!(matches!(error, PollError::Fetch(_)), "{error:?}"),
        }
    }
}

/// The same records with another last byte, which their checksum does not fit.
fn corrupted(records: &Bytes) -> Bytes {
    let mut changed = BytesMut::from(&records[..]);
    *changed.last_mut().unwrap() ^= 1;
    changed.freeze()
}

#[tokio::test]
async fn a_broken_batch_is_told_with_its_place_and_read_again() {
    let broker = broker();
    broker.produce("letters", 0, ["a", "b"]);
    let mut consumer = reader(config(&broker));
    assert_eq!(read(&mut consumer, 2).await, ["a", "b"]);
    let fault = broker.faults().on::<FetchRequest>().change_response(|_, response| {
        for partition in response.responses.iter_mut().flat_map(|topic| &mut topic.partitions) {
            let records = partition.records.take().filter(|records| !records.is_empty());
            partition.records = records.map(|records| corrupted(&records));
        }
    });
    poll_until_struck(&mut consumer, &fault, 1).await;
    broker.produce("letters", 0, ["c"]);
    for _ in 0..2 {
        let error = consumer.poll(LONG).await.unwrap_err();
        let PollError::Unreadable { partition, offset, .. } = &error else {
            panic!("{error:?}");
        };
        assert_eq!((partition, *offset), (&letters(), 2));
    }
    fault.remove();
    // One more may have been on its way.
    let records = loop {
        match consumer.poll(LONG).await {
            Ok(records) if records.is_empty() => {}
            Ok(records) => break records,
            Err(error) => assert!(matches!(error, PollError::Unreadable { .. }), "{error:?}"),
        }
    };
    assert_eq!(texts(&records), ["c"]);
}

#[tokio::test]
async fn a_throttled_client_is_quiet() {
    let broker = broker();
    broker.produce("letters", 0, ["a"]);
    let mut consumer = reader(config(&broker));
    assert_eq!(read(&mut consumer, 1).await, ["a"]);
    let began = Instant::now();
    let throttled = broker.faults().on::<FetchRequest>().once().throttle(400);
    poll_until_struck(&mut consumer, &throttled, 1).await;
    let next = broker.faults().on::<FetchRequest>().count();
    poll_until_struck(&mut consumer, &next, 1).await;
    assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_dead_broker_is_tried_with_growing_pauses() {
    let broker = broker();
    broker.produce("letters", 0, ["a"]);
    let config = config(&broker)
        .set("reconnect.backoff.ms", 50)
        .set("reconnect.backoff.max.ms", 400);
    let mut consumer = reader(config);
    assert_eq!(read(&mut consumer, 1).await, ["a"]);
    let began = Instant::now();
    let refused = broker.faults().refuse_connections();
    broker.faults().cut_connections();
    poll_until_struck(&mut consumer, &refused, 8).await;
    // Two connections at most (to the node, and to find others), with 20 % less than 50, 100 and 200 ms in between.
    assert!(began.elapsed() >= Duration::from_millis(280), "{:?}", began.elapsed());
    refused.remove();
    broker.produce("letters", 0, ["b"]);
    assert_eq!(read(&mut consumer, 1).await, ["b"]);
}

#[tokio::test]
async fn a_broker_that_comes_back_is_read_on() {
    let broker = broker();
    let mut consumer = reader(config(&broker));
    for round in 0..3 {
        broker.produce("letters", 0, [round.to_string()]);
        assert_eq!(read(&mut consumer, 1).await, [round.to_string()]);
        broker.kill();
        assert!(consumer.poll(SHORT).await.unwrap().is_empty());
        broker.restart();
    }
    assert_eq!(consumer.position(&letters()).await.unwrap().offset, 3);
}
