//! Three brokers: reassignments, leader elections, and the death of a broker.

use milena_client::{
    admin::{Admin, ElectionType, ErrorCode, GroupFilter, NewTopic, OffsetSpec, OffsetTarget},
    consumer::TopicPartition,
};
use tokio::task::block_in_place;

use super::{admin, has_all, only, tool};
use crate::{
    bed::{self, Bed},
    patience::{SHORT, in_time},
};

#[tokio::test(flavor = "multi_thread")]
async fn partitions_move_and_calls_follow_them() {
    let (bed, _turn) = bed::three_brokers().await;
    let admin = admin(bed);
    let cluster = admin.describe_cluster().await.unwrap();
    let ids: Vec<i32> = cluster.brokers.iter().map(|broker| broker.node.id).collect();
    assert_eq!(ids, [1, 2, 3]);
    let topic = NewTopic::new("moved").assignment([vec![1, 2], vec![2, 3]]);
    only(admin.create_topics([topic]).await);
    in_time("all brokers know the topic", async {
        while admin.describe_topics(["moved"]).await["moved"].is_err() {
            tokio::time::sleep(SHORT).await;
        }
    })
    .await;
    let partitions = [0, 1].map(|number| TopicPartition::new("moved", number));
    move_partition(bed, &admin, &partitions[0]).await;
    broker_dies(bed, &admin, &partitions).await;
}

async fn move_partition(bed: &Bed, admin: &Admin, partition: &TopicPartition) {
    only(admin.alter_reassignments([(partition.clone(), Some(vec![3, 2]))]).await);
    in_time("the partition has moved", async {
        while !admin.list_reassignments([partition.clone()]).await.unwrap().is_empty() {
            tokio::time::sleep(SHORT).await;
        }
    })
    .await;
    let output = tool(bed, "topics --describe --topic moved").await;
    has_all(&output, &["Partition: 0", "Replicas: 3,2"]);
    let cancelled = admin.alter_reassignments([(partition.clone(), None)]).await;
    let code = cancelled[partition].as_ref().unwrap_err().code();
    assert_eq!(code, Some(ErrorCode::NoReassignmentInProgress));
    // Its leader may already be the preferred one.
    let elected = admin.elect_leaders(ElectionType::Preferred, [partition.clone()]).await;
    let code = elected[partition].as_ref().err().and_then(|error| error.code());
    assert!(matches!(code, None | Some(ErrorCode::ElectionNotNeeded)), "{elected:?}");
    assert_eq!(bed.peer.call("leader moved-0").await, "3");
    let again = admin.elect_leaders(ElectionType::Preferred, [partition.clone()]).await;
    let code = again[partition].as_ref().unwrap_err().code();
    assert_eq!(code, Some(ErrorCode::ElectionNotNeeded));
}

/// Requests during the outage of the leader succeed after the election.
async fn broker_dies(bed: &Bed, admin: &Admin, partitions: &[TopicPartition]) {
    bed.send("moved", 0, "none", 0, 5).await;
    bed.send("moved", 1, "none", 0, 5).await;
    let cluster = bed.cluster.as_ref().unwrap();
    let admin = admin.within(crate::patience::PATIENCE);
    block_in_place(|| cluster.kill(3));
    let ends = partitions
        .iter()
        .map(|partition| (partition.clone(), OffsetSpec::Latest));
    let ends = in_time("the offsets", admin.list_offsets(ends)).await;
    for partition in partitions {
        assert_eq!(ends[partition].as_ref().unwrap().unwrap().offset, 5, "{ends:?}");
    }
    // Groups on all three brokers, whose coordinators may have moved.
    let groups: Vec<String> = (0..20).map(|number| format!("after-{number}")).collect();
    for group in &groups {
        let moved = admin.reset_group_offsets(group.as_str(), partitions.iter().cloned(), OffsetTarget::Latest);
        let moved = in_time("offsets are committed", moved).await.unwrap();
        assert!(moved.values().all(Result::is_ok), "{moved:?}");
    }
    let offsets = in_time("offsets", admin.list_group_offsets(groups.iter().map(String::as_str))).await;
    for group in &groups {
        let committed = offsets[group.as_str()].as_ref().unwrap();
        assert!(
            committed.len() == 2 && committed.values().all(|at| at.offset == 5),
            "{committed:?}"
        );
    }
    block_in_place(|| cluster.start_again(3));
    in_time("all groups are listed again", async {
        loop {
            let listed = admin.list_groups(GroupFilter::default()).await.unwrap();
            let ours = listed.found.iter().filter(|group| group.group_id.starts_with("after-"));
            if listed.failed.is_empty() && ours.count() == groups.len() {
                return;
            }
            tokio::time::sleep(SHORT).await;
        }
    })
    .await;
}
