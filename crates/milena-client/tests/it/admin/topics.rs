//! Topics: create, delete, list and describe.

use milena_client::admin::{ErrorCode, NewPartitions, NewTopic, Uuid};

use super::{admin, code, only, only_error};
use crate::broker::TestBroker;

#[tokio::test]
async fn topics_are_made_as_they_were_asked_for() {
    let broker = TestBroker::start();
    let admin = admin(&broker);
    let created = admin
        .create_topics([
            NewTopic::new("letters")
                .partitions(3)
                .replication_factor(1)
                .config("retention.ms", "1234"),
            NewTopic::new("by-default"),
            NewTopic::new("by-hand").assignment([vec![1], vec![1]]),
            NewTopic::new("no/such/name"),
        ])
        .await;
    let letters = created["letters"].as_ref().unwrap();
    assert_eq!((letters.partitions, letters.replication_factor), (Some(3), Some(1)));
    let retention = letters
        .configs
        .iter()
        .find(|config| config.name == "retention.ms")
        .unwrap();
    assert_eq!(retention.value.as_deref(), Some("1234"));
    assert_eq!(created["by-default"].as_ref().unwrap().partitions, Some(1));
    assert_eq!(created["by-hand"].as_ref().unwrap().partitions, Some(2));
    assert_eq!(code(&created["no/such/name"]), Some(ErrorCode::InvalidTopicException));

    let listed = admin.list_topics().await.unwrap();
    let names: Vec<&str> = listed.keys().map(|name| &**name).collect();
    assert_eq!(names, ["by-default", "by-hand", "letters"]);
    assert_eq!((listed["letters"].id, listed["letters"].internal), (letters.id, false));
    assert_eq!(
        (listed["letters"].partitions, listed["letters"].replication_factor),
        (3, 1)
    );

    let again = only_error(admin.create_topics([NewTopic::new("letters")]).await);
    assert_eq!(again.code(), Some(ErrorCode::TopicAlreadyExists));
    let text = again.to_string();
    assert!(text.starts_with("topic letters: TOPIC_ALREADY_EXISTS (36)"), "{text}");
    assert!(
        text.ends_with("; choose another name, or change the existing topic"),
        "{text}"
    );
}

#[tokio::test]
async fn a_topic_can_be_tried_without_being_made() {
    let broker = TestBroker::start();
    let admin = admin(&broker);
    let tried = only(admin.validate_topics([NewTopic::new("letters").partitions(7)]).await);
    assert_eq!(tried.partitions, Some(7));
    let bad = NewTopic::new("letters").config("retention.ms", "long");
    let refused = only_error(admin.validate_topics([bad]).await);
    assert_eq!(refused.code(), Some(ErrorCode::InvalidConfig));
    assert!(admin.list_topics().await.unwrap().is_empty());
}

#[tokio::test]
async fn topics_are_described_by_name_and_by_id() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 2);
    let admin = admin(&broker);
    let mut described = admin.describe_topics(["letters", "words"]).await;
    assert_eq!(code(&described["words"]), Some(ErrorCode::UnknownTopicOrPartition));
    let letters = described.remove("letters").unwrap().unwrap();
    assert_eq!(
        (&*letters.name, letters.internal, letters.partitions.len()),
        ("letters", false, 2)
    );
    for (number, info) in (0..).zip(&letters.partitions) {
        assert_eq!(
            (info.partition.partition, &info.replicas, &info.isr),
            (number, &vec![1], &vec![1])
        );
        let leader = info.leader.as_ref().unwrap();
        assert_eq!(format!("{}:{}", leader.host, leader.port), broker.address());
    }
    let id = letters.id.unwrap();
    let nobody = Uuid::from_bytes([7; 16]);
    let by_id = admin.describe_topics_by_id([id, nobody]).await;
    assert_eq!(by_id[&id].as_ref().unwrap(), &letters);
    assert_eq!(code(&by_id[&nobody]), Some(ErrorCode::UnknownTopicId));
}

#[tokio::test]
async fn topics_are_deleted_by_name_and_by_id() {
    let broker = TestBroker::start();
    for name in ["a", "b", "c"] {
        broker.create_topic(name, 1);
    }
    let admin = admin(&broker);
    let deleted = admin.delete_topics(["a", "x"]).await;
    assert!(deleted["a"].is_ok());
    assert_eq!(code(&deleted["x"]), Some(ErrorCode::UnknownTopicOrPartition));
    let id = admin.list_topics().await.unwrap()["b"].id.unwrap();
    only(admin.delete_topics_by_id([id]).await);
    let again = only_error(admin.delete_topics_by_id([id]).await);
    assert_eq!(again.code(), Some(ErrorCode::UnknownTopicId));
    assert!(
        again.to_string().starts_with(&format!("topic with the id {id}: ")),
        "{again}"
    );
    assert!(admin.list_topics().await.unwrap().keys().eq(["c"]));
}

#[tokio::test]
async fn partitions_are_added_and_never_taken_away() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    let admin = admin(&broker);
    only(
        admin
            .validate_partitions([("letters", NewPartitions::increase_to(3))])
            .await,
    );
    assert_eq!(admin.list_topics().await.unwrap()["letters"].partitions, 1);
    let by_hand = NewPartitions::increase_to(3).assignment([vec![1], vec![1]]);
    only(admin.create_partitions([("letters", by_hand)]).await);
    assert_eq!(admin.list_topics().await.unwrap()["letters"].partitions, 3);
    let fewer = only_error(
        admin
            .create_partitions([("letters", NewPartitions::increase_to(2))])
            .await,
    );
    assert_eq!(fewer.code(), Some(ErrorCode::InvalidPartitions));
}
