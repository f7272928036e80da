//! Rebalances of consumers against a broker in this process: listener calls and their order.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use milena_client::{
    config::{ConsumerConfig, ConsumerConfigBuilder},
    consumer::{Consumer, ListenerError, OffsetAndMetadata, RebalanceConsumer, RebalanceListener, TopicPartition},
};

use crate::{broker::TestBroker, events};

const SHORT: Duration = Duration::from_millis(50);

/// All protocols and assignors.
const KINDS: [(&str, &str); 5] = [
    ("range", "classic"),
    ("roundrobin", "classic"),
    ("sticky", "classic"),
    ("cooperative-sticky", "classic"),
    ("", "consumer"),
];

fn config(broker: &TestBroker, group: &str, (assignor, protocol): (&str, &str)) -> ConsumerConfigBuilder {
    let config = ConsumerConfig::builder(broker.address())
        .group_id(group)
        .set("group.protocol", protocol)
        .set("auto.offset.reset", "earliest");
    match assignor {
        "" => config,
        assignor => config
            .set("partition.assignment.strategy", assignor)
            .set("heartbeat.interval.ms", 50),
    }
}

type Heard = Arc<Mutex<Vec<String>>>;

/// Records the listener calls, and commits where possible.
struct Notes(Heard);

impl Notes {
    fn note(&self, what: &str, partitions: &[TopicPartition]) {
        let partitions: Vec<i32> = partitions.iter().map(|partition| partition.partition).collect();
        self.0.lock().unwrap().push(format!("{what} {partitions:?}"));
    }
}

impl RebalanceListener for Notes {
    async fn assigned(
        &mut self,
        consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        assert!(
            partitions
                .iter()
                .all(|partition| consumer.assignment().contains(partition))
        );
        self.note("assigned", partitions);
        Ok(())
    }

    async fn revoked(
        &mut self,
        consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        assert!(
            partitions
                .iter()
                .all(|partition| consumer.assignment().contains(partition))
        );
        consumer.commit_sync().await?;
        self.note("revoked", partitions);
        Ok(())
    }

    async fn lost(
        &mut self,
        _consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        self.note("lost", partitions);
        Ok(())
    }
}

fn joined(config: ConsumerConfigBuilder, topic: &str) -> (Consumer, Heard) {
    let heard = Heard::default();
    let mut consumer = Consumer::new(config).unwrap();
    consumer.subscribe_with([topic], Notes(Arc::clone(&heard))).unwrap();
    (consumer, heard)
}

/// Polls all consumers until the assignment is as expected.
async fn settle(consumers: &mut [&mut Consumer], done: impl Fn(&[usize]) -> bool) {
    loop {
        for consumer in consumers.iter_mut() {
            consumer.poll(SHORT).await.unwrap();
        }
        let counts: Vec<usize> = consumers.iter().map(|consumer| consumer.assignment().len()).collect();
        if done(&counts) {
            return;
        }
    }
}

#[tokio::test]
async fn partitions_are_shared_given_up_and_taken_over() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 4);
    for kind in KINDS {
        let group = format!("shared-{}-{}", kind.0, kind.1);
        let (mut first, heard) = joined(config(&broker, &group, kind), "orders");
        settle(&mut [&mut first], |counts| counts == [4]).await;
        assert_eq!(
            heard.lock().unwrap().last().unwrap(),
            "assigned [0, 1, 2, 3]",
            "{kind:?}"
        );

        let (mut second, heard_by_second) = joined(config(&broker, &group, kind), "orders");
        settle(&mut [&mut first, &mut second], |counts| counts == [2, 2]).await;
        let both: BTreeSet<_> = first.assignment().union(&second.assignment()).cloned().collect();
        assert_eq!(both.len(), 4, "{kind:?}: each partition has one owner");
        let revoked = heard.lock().unwrap().iter().any(|heard| heard.starts_with("revoked"));
        assert!(revoked, "{kind:?}: {:?}", heard.lock().unwrap());
        let lost = |heard: &Heard| heard.lock().unwrap().iter().any(|heard| heard.starts_with("lost"));
        assert!(!lost(&heard) && !lost(&heard_by_second), "{kind:?}: nothing was lost");

        first.close().await.unwrap();
        let last = heard.lock().unwrap().last().cloned().unwrap();
        assert!(last.starts_with("revoked"), "{kind:?}: {last}");
        settle(&mut [&mut second], |counts| counts == [4]).await;
        second.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_handover_loses_nothing_and_doubles_nothing() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 4);
    for kind in KINDS {
        let topic = format!("handover-{}-{}", kind.0, kind.1);
        broker.create_topic(&topic, 4);
        let mut produced = BTreeSet::new();
        let mut produce = |round: usize| {
            for partition in 0..4 {
                let value = format!("{round}/{partition}");
                broker.produce(&topic, partition, &[&value]);
                produced.insert(value);
            }
            produced.len()
        };
        let mut seen: Vec<String> = vec![];
        let (mut first, _) = joined(config(&broker, &topic, kind), &topic);
        let (mut second, _) = joined(config(&broker, &topic, kind), &topic);
        let mut round = 0;
        loop {
            if round < 30 {
                produce(round);
            }
            round += 1;
            // The second joins while the first reads.
            let mut consumers = vec![&mut first];
            if round > 5 {
                consumers.push(&mut second);
            }
            for consumer in consumers {
                let records = consumer.poll(SHORT).await.unwrap();
                let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
                seen.extend(records.iter().map(|record| text(record.value().unwrap())));
            }
            if round >= 30 && seen.len() >= 120 && second.assignment().len() == 2 {
                break;
            }
        }
        seen.sort();
        let total = seen.len();
        seen.dedup();
        assert_eq!((seen.len(), total), (120, 120), "{kind:?}");
    }
}

#[tokio::test]
async fn who_does_not_poll_in_time_loses_its_partitions_and_comes_back() {
    events::listen();
    let broker = TestBroker::start();
    broker.create_topic("orders", 2);
    for kind in KINDS {
        let group = format!("late-{}-{}", kind.0, kind.1);
        let config = config(&broker, &group, kind).set("max.poll.interval.ms", 300);
        let (mut consumer, heard) = joined(config, "orders");
        settle(&mut [&mut consumer], |counts| counts == [2]).await;
        // The member leaves by itself: the group is empty then.
        loop {
            if broker.members_of(&group) == 0 {
                break;
            }
            tokio::task::yield_now().await;
        }
        // The warning comes while the application is still busy.
        let warning = events::wait_for(&["WARN", "max_poll_interval_exceeded", &group]);
        assert!(warning.contains("max.poll.interval.ms=300"), "{warning}");
        assert_eq!(consumer.metrics().get("poll-interval-exceeded-total"), Some(1.0));
        // An unobserved commit is logged too.
        let offsets = [(TopicPartition::new("orders", 0), OffsetAndMetadata::new(0))];
        drop(consumer.commit_offsets_async(offsets.into()).unwrap());
        let warning = events::wait_for(&["WARN", "commit_failed", &group]);
        assert!(warning.contains("cause=\"not_a_member\""), "{warning}");
        assert_eq!(consumer.metrics().get("failed-commit-total"), Some(1.0));
        settle(&mut [&mut consumer], |_| heard.lock().unwrap().len() >= 3).await;
        let heard = heard.lock().unwrap().clone();
        let from = heard.iter().position(|heard| heard == "lost [0, 1]").unwrap();
        assert_eq!(heard[from + 1], "assigned [0, 1]", "{kind:?}: {heard:?}");
    }
}

#[tokio::test]
async fn a_static_member_comes_back_to_what_it_had() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 4);
    for kind in [("range", "classic"), ("", "consumer")] {
        let group = format!("static-{}", kind.1);
        let member = |name: &str| config(&broker, &group, kind).group_instance_id(name);
        let (mut first, _) = joined(member("one"), "orders");
        let (mut second, heard) = joined(member("two"), "orders");
        settle(&mut [&mut first, &mut second], |counts| counts == [2, 2]).await;
        let before = first.assignment();
        let events = heard.lock().unwrap().len();
        first.close().await.unwrap();
        let (mut first, _) = joined(member("one"), "orders");
        settle(&mut [&mut first, &mut second], |counts| counts == [2, 2]).await;
        assert_eq!(first.assignment(), before, "{kind:?}");
        assert_eq!(heard.lock().unwrap().len(), events, "{kind:?}: the other heard nothing");
    }
}

#[tokio::test]
async fn a_pattern_picks_up_topics_that_appear() {
    let broker = TestBroker::start();
    broker.create_topic("orders-eu", 1);
    broker.create_topic("other", 1);
    for kind in KINDS {
        let group = format!("pattern-{}-{}", kind.0, kind.1);
        let config = config(&broker, &group, kind).set("metadata.max.age.ms", 100);
        let mut consumer = Consumer::new(config).unwrap();
        consumer.subscribe_pattern("orders-.*").unwrap();
        settle(&mut [&mut consumer], |counts| counts[0] > 0).await;
        let new = format!("orders-{group}");
        broker.create_topic(&new, 1);
        let has_new = |consumer: &Consumer| consumer.subscription().contains(&new);
        while !(has_new(&consumer) && consumer.assignment().iter().any(|partition| partition.topic == *new)) {
            consumer.poll(SHORT).await.unwrap();
        }
        assert!(
            consumer
                .assignment()
                .iter()
                .all(|partition| partition.topic.starts_with("orders-"))
        );
        consumer.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_function_can_choose_the_topics() {
    let broker = TestBroker::start();
    for topic in ["orders-eu", "orders-eu.dlq", "other"] {
        broker.create_topic(topic, 1);
    }
    for kind in KINDS {
        let group = format!("chosen-{}-{}", kind.0, kind.1);
        let mut consumer = Consumer::new(config(&broker, &group, kind)).unwrap();
        let is_read = |topic: &str| topic.starts_with("orders-") && !topic.ends_with(".dlq");
        consumer.subscribe_matching(is_read).unwrap();
        settle(&mut [&mut consumer], |counts| counts[0] > 0).await;
        assert_eq!(consumer.subscription().into_iter().collect::<Vec<_>>(), ["orders-eu"]);
        assert_eq!(consumer.assignment().len(), 1);
        consumer.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_pattern_can_be_the_brokers_affair() {
    let broker = TestBroker::start();
    broker.create_topic("orders-eu", 2);
    broker.create_topic("other", 1);
    let mut consumer = Consumer::new(config(&broker, "broker-pattern", ("", "consumer"))).unwrap();
    consumer.subscribe_broker_pattern("orders-.*").unwrap();
    settle(&mut [&mut consumer], |counts| counts == [2]).await;
    broker.produce("orders-eu", 1, &["a"]);
    let mut records = consumer.poll(SHORT).await.unwrap();
    while records.is_empty() {
        records = consumer.poll(SHORT).await.unwrap();
    }
    assert_eq!(records.iter().next().unwrap().topic(), "orders-eu");
}

#[tokio::test]
async fn who_closes_in_the_middle_of_a_rebalance_has_committed() {
    let broker = TestBroker::start();
    for kind in [
        ("range", "classic"),
        ("cooperative-sticky", "classic"),
        ("", "consumer"),
    ] {
        for polls in 0..15 {
            let topic = format!("closing-{}-{}-{polls}", kind.0, kind.1);
            broker.create_topic(&topic, 4);
            for partition in 0..4 {
                broker.produce(&topic, partition, &["a", "b", "c"]);
            }
            let (mut first, _) = joined(config(&broker, &topic, kind), &topic);
            let mut read = 0;
            while read < 12 {
                read += first.poll(SHORT).await.unwrap().len();
            }
            // The second one joins at a different point for each number of polls.
            let (mut second, _) = joined(config(&broker, &topic, kind), &topic);
            for _ in 0..polls {
                for consumer in [&mut first, &mut second] {
                    let records = consumer.poll(Duration::from_millis(5)).await.unwrap();
                    assert!(records.is_empty(), "{kind:?}, {polls}: read twice");
                }
            }
            // If another rebalance starts now, the listener is called with lost partitions, as in Kafka's consumer.
            first.close().await.unwrap();
            while second.assignment().len() < 4 {
                let records = second.poll(SHORT).await.unwrap();
                assert!(records.is_empty(), "{kind:?}, {polls}: read twice");
            }
            for partition in second.assignment() {
                assert_eq!(
                    second.position(&partition).await.unwrap().offset,
                    3,
                    "{kind:?}, {polls}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_topic_that_comes_back_is_read_again() {
    let broker = TestBroker::start();
    for kind in KINDS {
        let topic = format!("back-{}-{}", kind.0, kind.1);
        broker.create_topic(&topic, 2);
        broker.produce(&topic, 0, &["a", "b"]);
        let config = config(&broker, &topic, kind).set("metadata.max.age.ms", 100);
        let mut consumer = Consumer::new(config).unwrap();
        consumer.subscribe([topic.as_str()]).unwrap();
        while consumer.poll(SHORT).await.unwrap().is_empty() {}
        broker.delete_topic(&topic);
        settle(&mut [&mut consumer], |counts| counts == [0]).await;
        broker.create_topic(&topic, 2);
        broker.produce(&topic, 1, &["c"]);
        let mut records = consumer.poll(SHORT).await.unwrap();
        while records.is_empty() {
            records = consumer.poll(SHORT).await.unwrap();
        }
        assert_eq!(consumer.assignment().len(), 2, "{kind:?}");
        broker.delete_topic(&topic);
        consumer.close().await.unwrap();
    }
}
