//! OffsetFetch, rule by rule.

use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::{
    Uuid,
    errors::ErrorCode,
    messages::{
        OffsetCommitRequest,
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics},
        offset_fetch_response::OffsetFetchResponseGroup,
    },
};

use crate::{
    offsets_commit::{commit, commit_error, request},
    world::{World, code, topic},
};

fn fetch(world: &mut World, topics: Option<Vec<OffsetFetchRequestTopics>>) -> OffsetFetchResponseGroup {
    let group = OffsetFetchRequestGroup {
        group_id: "g".into(),
        topics,
        ..Default::default()
    };
    let request = GroupRequest::OffsetFetch {
        group,
        require_stable: false,
    };
    match world.ask(8, request) {
        GroupReply::OffsetFetch(response) => response,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_never_committed_is_minus_one() {
    let mut world = World::new();
    commit(&mut world, "g", "orders", 0, 5);
    for (group_id, topic, partition) in [("nowhere", "orders", 0), ("g", "payments", 0), ("g", "orders", 1)] {
        let fetched = world.fetch(group_id, topic, partition);
        assert_eq!(code(fetched.error_code), ErrorCode::None);
        assert_eq!((fetched.committed_offset, fetched.committed_leader_epoch), (-1, -1));
        assert_eq!(fetched.metadata.as_deref(), Some(""));
    }
}

#[test]
fn without_topics_all_are_returned() {
    let mut world = World::new();
    assert_eq!(fetch(&mut world, None).topics, []);
    commit(&mut world, "g", "payments", 1, 6);
    commit(&mut world, "g", "orders", 0, 5);
    commit(&mut world, "other", "orders", 0, 7);
    let response = fetch(&mut world, None);
    assert_eq!(code(response.error_code), ErrorCode::None);
    let told: Vec<_> = response
        .topics
        .iter()
        .flat_map(|topic| {
            topic
                .partitions
                .iter()
                .map(move |one| (topic.name.as_ref(), one.partition_index, one.committed_offset))
        })
        .collect();
    assert_eq!(told, [("orders", 0, 5), ("payments", 1, 6)]);
}

#[test]
fn the_newest_commit_counts() {
    let mut world = World::new();
    commit(&mut world, "g", "orders", 0, 5);
    commit(&mut world, "g", "orders", 0, 3);
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, 3);
}

#[test]
fn an_offset_with_an_own_retention_time_is_of_no_topic_id() {
    let mut world = World::new();
    let request = OffsetCommitRequest {
        retention_time_ms: 1_000,
        ..request("g", "orders", 0, 5)
    };
    assert_eq!(commit_error(&mut world, 4, request), ErrorCode::None);
    for _ in 0..2 {
        let asked = OffsetFetchRequestTopics {
            name: "orders".into(),
            topic_id: topic(9).id,
            partition_indexes: vec![0],
            ..Default::default()
        };
        let fetched = fetch(&mut world, Some(vec![asked]));
        assert_eq!(fetched.topics[0].partitions[0].committed_offset, 5);
        world.restart();
    }
}

#[test]
fn an_offset_of_an_older_topic_of_the_same_name_is_not_returned() {
    let mut world = World::new();
    commit(&mut world, "g", "orders", 0, 5);
    let asked = |topic_id: Uuid| {
        Some(vec![OffsetFetchRequestTopics {
            name: "orders".into(),
            topic_id,
            partition_indexes: vec![0],
            ..Default::default()
        }])
    };
    let same = fetch(&mut world, asked(topic(1).id));
    assert_eq!(same.topics[0].topic_id, topic(1).id);
    assert_eq!(same.topics[0].partitions[0].committed_offset, 5);
    let other = fetch(&mut world, asked(topic(9).id));
    assert_eq!(other.topics[0].partitions[0].committed_offset, -1);
}
