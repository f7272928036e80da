//! Committed offsets of groups: list, alter, delete and reset.

use std::{collections::BTreeMap, time::Duration};

use milena_client::{
    admin::{Admin, ErrorCode, OffsetAndMetadata, OffsetTarget, PlannedOffset},
    config::ConsumerConfig,
    consumer::{Consumer, TopicPartition},
};

use super::{admin, code, only, only_error};
use crate::broker::TestBroker;

fn letters(number: i32) -> TopicPartition {
    TopicPartition::new("letters", number)
}

fn at(offset: i64) -> OffsetAndMetadata {
    OffsetAndMetadata {
        offset,
        leader_epoch: None,
        metadata: "by hand".into(),
    }
}

async fn committed(admin: &Admin, group: &str) -> BTreeMap<i32, i64> {
    let offsets = only(admin.list_group_offsets([group]).await).into_iter();
    offsets
        .map(|(partition, at)| (partition.partition, at.offset))
        .collect()
}

#[tokio::test]
async fn offsets_are_committed_for_a_group_and_forgotten() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 2);
    broker.produce("letters", 0, &["a", "b", "c"]);
    let admin = admin(&broker);
    assert_eq!(committed(&admin, "readers").await, BTreeMap::new());
    let altered = admin
        .alter_group_offsets(
            "readers",
            [(letters(0), at(2)), (letters(1), at(0)), (letters(7), at(1))],
        )
        .await;
    assert!(altered[&letters(0)].is_ok() && altered[&letters(1)].is_ok());
    assert_eq!(code(&altered[&letters(7)]), Some(ErrorCode::UnknownTopicOrPartition));
    let offsets = admin.list_group_offsets(["readers", "others"]).await;
    let readers = offsets["readers"].as_ref().unwrap();
    assert_eq!(readers.keys().cloned().collect::<Vec<_>>(), [letters(0), letters(1)]);
    assert_eq!(
        (readers[&letters(0)].offset, &*readers[&letters(0)].metadata),
        (2, "by hand")
    );
    assert!(offsets["others"].as_ref().unwrap().is_empty());
    only(admin.delete_group_offsets("readers", [letters(1)]).await);
    assert_eq!(committed(&admin, "readers").await, [(0, 2)].into());
    let nobody = only_error(admin.delete_group_offsets("nobody", [letters(1)]).await);
    assert_eq!(nobody.code(), Some(ErrorCode::GroupIdNotFound));
}

#[tokio::test]
async fn a_group_is_moved_to_wherever_it_is_wanted() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 2);
    for value in ["a", "b", "c", "d", "e"] {
        broker.produce("letters", 0, &[value]);
    }
    let admin = admin(&broker);
    only(admin.delete_records([(letters(0), Some(1))]).await);
    let far = 4_000_000_000_000;
    for (target, expected, clamped) in [
        (OffsetTarget::Earliest, 1, None),
        (OffsetTarget::Latest, 5, None),
        (OffsetTarget::Offset(3), 3, None),
        (OffsetTarget::ShiftBy(-1), 2, None),
        (OffsetTarget::ShiftBy(2), 4, None),
        (OffsetTarget::Current, 4, None),
        (OffsetTarget::ShiftBy(100), 5, Some(104)),
        (OffsetTarget::ShiftBy(i64::MIN), 1, Some(i64::MIN + 5)),
        (OffsetTarget::Offset(0), 1, Some(0)),
        (OffsetTarget::Offset(77), 5, Some(77)),
        (OffsetTarget::Timestamp(0), 1, None),
        (OffsetTarget::Timestamp(far), 5, None),
    ] {
        let before = committed(&admin, "readers").await.get(&0).copied();
        let planned = admin.plan_group_offsets("readers", [letters(0)], target).await.unwrap();
        let expected = PlannedOffset {
            from: before,
            to: expected,
            clamped,
        };
        assert_eq!(only(planned), expected, "{target}");
        assert_eq!(committed(&admin, "readers").await.get(&0).copied(), before);
        let moved = admin
            .reset_group_offsets("readers", [letters(0)], target)
            .await
            .unwrap();
        assert_eq!(only(moved), expected, "{target}");
        assert_eq!(committed(&admin, "readers").await, [(0, expected.to)].into());
    }
    let nothing = admin
        .reset_group_offsets("readers", [letters(1), letters(9)], OffsetTarget::ShiftBy(1))
        .await
        .unwrap();
    let text = nothing[&letters(1)].as_ref().unwrap_err().to_string();
    assert!(text.contains("has no committed offset to shift"), "{text}");
    assert_eq!(code(&nothing[&letters(9)]), Some(ErrorCode::UnknownTopicOrPartition));
}

#[tokio::test]
async fn a_group_with_members_stays_where_it_is() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    broker.produce("letters", 0, &["a", "b"]);
    let admin = admin(&broker);
    let mut consumer = Consumer::new(ConsumerConfig::builder(broker.address()).group_id("readers")).unwrap();
    consumer.subscribe(["letters"]).unwrap();
    while consumer.assignment().is_empty() {
        consumer.poll(Duration::from_millis(10)).await.unwrap();
    }
    let refused = admin
        .reset_group_offsets("readers", [letters(0)], OffsetTarget::Earliest)
        .await
        .unwrap_err();
    let expected = "group readers: it is Stable and has 1 member, which would overwrite the offsets; stop it first";
    assert_eq!(refused.to_string(), expected);
    let refused = only_error(admin.alter_group_offsets("readers", [(letters(0), at(1))]).await);
    assert_eq!(refused.code(), Some(ErrorCode::UnknownMemberId));
    consumer.close().await.unwrap();
}
