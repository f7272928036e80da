//! The features of a mock.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use milena_client::{
    config::ConsumerConfig,
    consumer::{
        CommitError, ConsumerApi, ListenerError, OffsetError, PollError, RebalanceApi, RebalanceListener,
        SubscribeError, TopicPartition,
        deserialize::{Json, Plain},
    },
};
use milena_test::{Call, ErrorCode, MockConsumer, MockRebalanceConsumer, TestRecord};

use crate::consumers::{letters, texts};

const SECOND: Duration = Duration::from_secs(1);

fn part(partition: i32) -> TopicPartition {
    TopicPartition::new("letters", partition)
}

#[derive(Clone, Default)]
struct Notes {
    heard: Arc<Mutex<Vec<String>>>,
    fails: bool,
}

impl Notes {
    fn note(&self, what: &str, partitions: &[TopicPartition]) -> Result<(), ListenerError> {
        let numbers: Vec<i32> = partitions.iter().map(|partition| partition.partition).collect();
        self.heard.lock().unwrap().push(format!("{what} {numbers:?}"));
        if self.fails { Err("no".into()) } else { Ok(()) }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }
}

impl RebalanceListener<MockRebalanceConsumer> for Notes {
    async fn assigned(
        &mut self,
        _consumer: &mut MockRebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        self.note("assigned", partitions)
    }

    async fn revoked(
        &mut self,
        consumer: &mut MockRebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        assert!(
            partitions
                .iter()
                .all(|partition| consumer.assignment().contains(partition))
        );
        // A refused call can be awaited without harm.
        tokio::task::yield_now().await;
        self.note("revoked", partitions)
    }

    async fn lost(
        &mut self,
        _consumer: &mut MockRebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        self.note("lost", partitions)
    }
}

fn subscribed(notes: &Notes) -> MockConsumer {
    let mut consumer = MockConsumer::default();
    consumer.subscribe_with(["letters"], notes.clone()).unwrap();
    consumer
}

#[tokio::test]
async fn partitions_come_and_go_in_kafkas_order() {
    let notes = Notes::default();
    let mut consumer = subscribed(&notes);
    let script = consumer.script();
    script.rebalance([part(0), part(1)]);
    script.rebalance([part(1), part(2)]);
    script.rebalance_eagerly([part(2), part(3)]);
    script.lose_partitions();
    script.rebalance([part(3)]);
    let mut heard = vec![];
    for _ in 0..5 {
        consumer.poll(SECOND).await.unwrap();
        heard.push(notes.take().join(", "));
    }
    assert_eq!(
        heard,
        [
            "assigned [0, 1]",
            "revoked [0], assigned [2]",
            "revoked [1, 2], assigned [2, 3]",
            "lost [2, 3]",
            "assigned [3]",
        ]
    );
    consumer.unsubscribe().await.unwrap();
    assert_eq!(notes.take(), ["revoked [3]"]);
}

#[tokio::test]
async fn what_stays_keeps_its_place_and_what_comes_back_begins_at_the_commit() {
    let mut consumer = subscribed(&Notes::default());
    let script = consumer.script();
    script.add_records(&part(0), ["a", "b"]);
    script.add_records(&part(1), ["x"]);
    script.rebalance([part(0)]);
    assert_eq!(texts(&consumer.poll(SECOND).await.unwrap()), ["a", "b"]);
    script.rebalance([part(0), part(1)]);
    assert_eq!(texts(&consumer.poll(SECOND).await.unwrap()), ["x"]);
    script.rebalance([]);
    script.rebalance([part(0)]);
    assert!(consumer.poll(SECOND).await.unwrap().is_empty());
    assert_eq!(
        texts(&consumer.poll(SECOND).await.unwrap()),
        ["a", "b"],
        "nothing was committed"
    );
}

#[tokio::test]
async fn a_listener_that_fails_is_told_of_and_the_change_stands() {
    let notes = Notes {
        fails: true,
        ..Notes::default()
    };
    let mut consumer = subscribed(&notes);
    consumer.script().rebalance([letters()]);
    assert!(matches!(consumer.poll(SECOND).await, Err(PollError::Listener(_))));
    assert_eq!(consumer.assignment(), BTreeSet::from([letters()]));
    assert!(consumer.poll(SECOND).await.is_ok());
}

#[tokio::test]
async fn a_poll_that_is_dropped_in_a_listener_runs_it_again() {
    let notes = Notes::default();
    let mut consumer = subscribed(&notes);
    let script = consumer.script();
    script.rebalance([part(0)]);
    consumer.poll(SECOND).await.unwrap();
    notes.take();
    script.rebalance([]);
    tokio::select! {
        biased;
        _ = consumer.poll(SECOND) => panic!("the listener waits"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(notes.take(), [""; 0]);
    consumer.poll(SECOND).await.unwrap();
    assert_eq!(notes.take(), ["revoked [0]", "assigned []"]);
}

#[tokio::test]
async fn a_pattern_matches_whole_names() {
    let mut consumer = MockConsumer::default();
    let script = consumer.script();
    assert!(matches!(
        consumer.subscribe_pattern("("),
        Err(SubscribeError::BadPattern { .. })
    ));
    consumer.subscribe_pattern("let+ers").unwrap();
    assert!(matches!(consumer.subscribe(["other"]), Err(SubscribeError::Exclusive)));
    assert!(matches!(consumer.assign([letters()]), Err(SubscribeError::Exclusive)));
    script.add_records(&letters(), ["a"]);
    script.add_records(&TopicPartition::new("letters-old", 0), ["b"]);
    assert_eq!(consumer.subscription(), ["letters".to_owned()].into());
    script.rebalance([letters()]);
    assert_eq!(texts(&consumer.poll(SECOND).await.unwrap()), ["a"]);
    assert!(matches!(&script.calls()[0], Call::SubscribePattern(pattern) if pattern == "let+ers"));
    consumer.unsubscribe().await.unwrap();
    consumer.subscribe(["other"]).unwrap();
}

#[tokio::test]
async fn polls_fail_and_are_empty_as_the_script_says() {
    let mut consumer = MockConsumer::default();
    let script = consumer.script();
    consumer.assign([letters()]).unwrap();
    script.add_records(&letters(), ["a"]);
    let code = ErrorCode::TopicAuthorizationFailed;
    let topic = "letters".to_owned();
    script.fail_poll(PollError::Topic { topic, code });
    script.poll_nothing();
    script.run_in_poll(|script| script.add_records(&letters(), ["b"]));
    assert!(matches!(consumer.poll(SECOND).await, Err(PollError::Topic { .. })));
    assert!(consumer.poll(SECOND).await.unwrap().is_empty());
    assert_eq!(script.now(), SECOND, "only a poll without records takes time");
    assert_eq!(texts(&consumer.poll(SECOND).await.unwrap()), ["a", "b"]);
    assert!(consumer.poll(3 * SECOND).await.unwrap().is_empty());
    assert_eq!(script.now(), 4 * SECOND);
}

#[tokio::test]
async fn commits_fail_as_the_script_says_and_are_remembered() {
    let mut consumer = MockConsumer::default();
    let script = consumer.script();
    consumer.assign([letters()]).unwrap();
    script.add_records(&letters(), ["a"]);
    consumer.poll(SECOND).await.unwrap();
    script.fail_commit(OffsetError::CommitFailed);
    script.fail_commit(OffsetError::RebalanceInProgress);
    let error = consumer.commit_sync().await.unwrap_err();
    let CommitError::Partitions(failed) = error else {
        panic!("{error}");
    };
    assert_eq!(failed[&letters()], OffsetError::CommitFailed);
    assert!(consumer.commit_async().unwrap().await.unwrap_err().is_retriable());
    assert_eq!(script.committed(&letters()), None);
    consumer.commit_sync().await.unwrap();
    assert_eq!(script.committed(&letters()), Some(1));
    consumer.close().await.unwrap();
    let calls = script.calls();
    assert!(matches!(
        &calls[..],
        [
            Call::Assign(_),
            Call::Poll(SECOND),
            Call::CommitSync(_),
            Call::CommitAsync(_),
            Call::CommitSync(offsets),
            Call::Close
        ] if offsets[&letters()].offset == 1
    ));
}

#[tokio::test]
async fn automatic_commits_follow_the_clock_of_the_script() {
    let config = ConsumerConfig::builder("mock:9092")
        .group_id("group")
        .set("auto.offset.reset", "earliest")
        .set("auto.commit.interval.ms", 5_000);
    let mut consumer = MockConsumer::new(config).unwrap();
    let script = consumer.script();
    consumer.subscribe(["letters"]).unwrap();
    script.rebalance([part(0), part(1)]);
    script.add_records(&part(0), ["a"]);
    consumer.poll(SECOND).await.unwrap();
    consumer.poll(4 * SECOND).await.unwrap();
    assert_eq!(script.committed(&part(0)), None);
    script.advance(SECOND);
    consumer.poll(SECOND).await.unwrap();
    assert_eq!(script.committed(&part(0)), Some(1));
    script.add_records(&part(1), ["x"]);
    consumer.poll(SECOND).await.unwrap();
    script.rebalance([part(0)]);
    consumer.poll(SECOND).await.unwrap();
    assert_eq!(
        script.committed(&part(1)),
        Some(1),
        "what is revoked is committed before"
    );
    script.add_records(&part(0), ["b"]);
    consumer.poll(SECOND).await.unwrap();
    consumer.close().await.unwrap();
    assert_eq!(
        script.committed(&part(0)),
        Some(2),
        "and so is all when the consumer is closed"
    );
}

#[tokio::test]
async fn partitions_lose_their_beginning_have_gaps_and_are_read_in_turn() {
    let config = ConsumerConfig::builder("mock:9092")
        .set("auto.offset.reset", "earliest")
        .set("max.poll.records", 2);
    let mut consumer = MockConsumer::new(config).unwrap();
    let script = consumer.script();
    consumer.assign([part(0), part(1)]).unwrap();
    script.add_records(&part(0), ["a", "b", "c"]);
    script.add_record_at(&part(0), 7, TestRecord::new("h").key("k").header("name", "value"));
    script.set_beginning_offset(&part(0), 1);
    script.add_records(&part(1), ["x", "y"]);
    let first = texts(&consumer.poll(SECOND).await.unwrap());
    let second = texts(&consumer.poll(SECOND).await.unwrap());
    assert_eq!((first, second), (texts_of(["b", "c"]), texts_of(["x", "y"])));
    let last = consumer.poll(SECOND).await.unwrap();
    let record = last.iter().next().unwrap();
    assert_eq!(
        (record.offset(), record.key(), record.headers().count()),
        (7, Some(&b"k"[..]), 1)
    );
    assert_eq!(script.position(&part(0)), Some(8));
    script.set_end_offset(&part(1), 9);
    assert_eq!(consumer.end_offsets(&[part(1)]).await.unwrap()[&part(1)], 9);
}

fn texts_of<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test]
async fn a_consumer_can_wait_for_its_script() {
    let mut consumer = MockConsumer::default();
    let script = consumer.script();
    consumer.assign([letters()]).unwrap();
    script.wait_for_records();
    let wakeup = consumer.wakeup_handle();
    let application = tokio::spawn(async move {
        let records = consumer.poll(Duration::ZERO).await.unwrap();
        let woken = consumer.poll(Duration::ZERO).await;
        assert!(matches!(woken, Err(PollError::Wakeup)));
        texts(&records)
    });
    tokio::task::yield_now().await;
    assert!(!application.is_finished());
    script.add_records(&letters(), ["a"]);
    while script.calls().len() < 3 {
        tokio::task::yield_now().await;
    }
    wakeup.wakeup();
    assert_eq!(application.await.unwrap(), ["a"]);
}

#[tokio::test]
async fn records_have_types_as_from_a_broker() {
    let mut consumer = MockConsumer::default();
    let script = consumer.script();
    consumer.assign([letters()]).unwrap();
    script.add_records(&letters(), [("k", "1"), ("k", "two")]);
    let records = consumer.poll(SECOND).await.unwrap();
    let typed: Vec<_> = records.typed::<String, u32>(&Plain, &Json).collect();
    assert_eq!(typed[0].as_ref().unwrap().value, 1);
    assert_eq!(typed[1].as_ref().unwrap_err().offset, 1);
}

#[tokio::test]
#[should_panic(expected = "the consumer has subscribed to {\"letters\"}")]
async fn a_script_that_cannot_be_is_told_so() {
    let mut consumer = subscribed(&Notes::default());
    consumer.script().rebalance([TopicPartition::new("numbers", 0)]);
    let _ = consumer.poll(SECOND).await;
}
