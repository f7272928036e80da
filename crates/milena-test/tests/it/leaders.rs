//! Leaders that move between nodes.

use std::time::Duration;

use milena_test::{
    ErrorCode, TestBroker,
    messages::{FetchRequest, MetadataRequest},
};

use crate::{
    consumers::{config, letters, read, reader},
    wire::Wire,
};

fn everything() -> MetadataRequest {
    MetadataRequest {
        topics: None,
        ..Default::default()
    }
}

fn broker() -> TestBroker {
    let broker = TestBroker::builder().nodes(2).start();
    broker.create_topic("letters", 1);
    broker
}

#[test]
fn clients_see_two_nodes_and_who_leads() {
    let broker = broker();
    let lead = |broker: &TestBroker| {
        let told = Wire::connect(broker).call(&everything(), 12);
        let addresses: Vec<String> = told
            .brokers
            .iter()
            .map(|node| format!("{}:{}", node.host, node.port))
            .collect();
        assert_eq!(addresses.join(","), broker.bootstrap_servers());
        let partition = &told.topics[0].partitions[0];
        (partition.leader_id, partition.leader_epoch)
    };
    let (node, epoch) = lead(&broker);
    assert_eq!(node, 1);
    assert_eq!(broker.faults().move_leader("letters", 0), 2);
    assert_eq!(lead(&broker), (2, epoch + 1));
    assert_eq!(broker.faults().move_leader("letters", 0), 1);
    assert_eq!(lead(&broker), (1, epoch + 2));
}

#[tokio::test]
async fn a_reader_follows_its_leader() {
    let broker = broker();
    let mut consumer = reader(config(&broker));
    for round in 0..6 {
        broker.produce("letters", 0, [round.to_string()]);
        assert_eq!(read(&mut consumer, 1).await, [round.to_string()]);
        broker.faults().move_leader("letters", 0);
    }
    assert_eq!(consumer.position(&letters()).await.unwrap().offset, 6);
}

#[tokio::test]
async fn a_reader_finds_its_leader_without_being_told() {
    let broker = broker();
    let mut consumer = reader(config(&broker));
    let silent = broker.faults().on::<FetchRequest>().change_response(|_, response| {
        response.node_endpoints.clear();
        for partition in response.responses.iter_mut().flat_map(|topic| &mut topic.partitions) {
            partition.current_leader = Default::default();
        }
    });
    for round in 0..4 {
        broker.produce("letters", 0, [round.to_string()]);
        assert_eq!(read(&mut consumer, 1).await, [round.to_string()]);
        broker.faults().move_leader("letters", 0);
    }
    assert!(silent.struck() > 0);
}

#[tokio::test]
async fn a_stalled_node_does_not_keep_another_waiting() {
    let broker = TestBroker::builder().nodes(2).start();
    broker.create_topic("letters", 2);
    broker.faults().move_leader("letters", 1);
    let mut consumer = reader(config(&broker).set("request.timeout.ms", 60_000));
    let other = milena_client::consumer::TopicPartition::new("letters", 1);
    consumer.assign([letters(), other.clone()]).unwrap();
    broker.produce("letters", 0, ["a"]);
    broker.produce("letters", 1, ["b"]);
    let mut both = read(&mut consumer, 2).await;
    both.sort();
    assert_eq!(both, ["a", "b"]);
    // Only fetches of the first node can have this partition in them.
    let slow = broker
        .faults()
        .on::<FetchRequest>()
        .when(|request| {
            request
                .topics
                .iter()
                .any(|topic| topic.partitions.iter().any(|it| it.partition == 0))
        })
        .delay(Duration::from_secs(3600));
    slow.struck_times(1).await;
    for round in 0..5 {
        broker.produce("letters", 1, [round.to_string()]);
        assert_eq!(read(&mut consumer, 1).await, [round.to_string()]);
    }
}

#[test]
#[should_panic(expected = "start the broker with .nodes(2)")]
fn one_node_has_nobody_to_move_to() {
    TestBroker::start().faults().move_leader("letters", 0);
}

#[test]
fn the_old_leader_says_who_leads() {
    let broker = broker();
    let mut wire = Wire::connect(&broker);
    wire.call(&everything(), 12);
    broker.faults().move_leader("letters", 0);
    let request = FetchRequest {
        topics: vec![milena_test::messages::fetch_request::FetchTopic {
            topic: "letters".into(),
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    let answer = wire.call(&request, 12);
    let partition = &answer.responses[0].partitions[0];
    assert_eq!(partition.error_code, ErrorCode::NotLeaderOrFollower.code());
    assert_eq!(partition.current_leader.leader_id, 2);
}
