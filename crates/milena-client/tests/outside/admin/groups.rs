//! Groups of Java consumers.

use std::collections::BTreeSet;

use milena_client::{
    admin::{Admin, ErrorCode, GroupDescription, GroupFilter, GroupType, MemberToRemove, OffsetTarget},
    consumer::TopicPartition,
};

use super::{admin, has_all, only, tool};
use crate::{
    bed::{self, Bed},
    patience::{SHORT, in_time},
};

#[tokio::test]
async fn classic_groups_of_java_are_described_and_moved() {
    let described = look_after(bed::kafka(), "classic").await;
    assert_eq!(
        (&described.group_type, &*described.assignor),
        (&GroupType::Classic, "range")
    );
}

#[tokio::test]
async fn groups_of_java_in_which_the_broker_assigns_are_described_and_moved() {
    let described = look_after(bed::kafka(), "consumer").await;
    assert_eq!(
        (&described.group_type, &*described.assignor),
        (&GroupType::Consumer, "uniform")
    );
    assert_eq!(
        described.members[0].target.as_ref(),
        Some(&described.members[0].assignment)
    );
}

/// Describes a group after its member has read everything.
async fn look_after(bed: &Bed, protocol: &str) -> GroupDescription {
    let admin = admin(bed);
    let topic = bed.topic("watched", 2, "").await;
    bed.send(&topic, 0, "none", 0, 10).await;
    let group = format!("java-{topic}");
    let member = format!("member-{topic}");
    bed.peer
        .call(&format!("join {member} {group} {topic} group.protocol={protocol}"))
        .await;
    let all: BTreeSet<TopicPartition> = [0, 1].map(|number| TopicPartition::new(&*topic, number)).into();
    let described = in_time("the member has its partitions", wait_for(&admin, &group, &all)).await;
    assert_eq!(
        (&*described.state, &*described.members[0].client_id),
        ("Stable", &*member)
    );
    let listed = admin.list_groups(GroupFilter::default()).await.unwrap().all().unwrap();
    let listed = listed.iter().find(|one| *one.group_id == *group).unwrap();
    assert_eq!(listed.group_type.as_ref(), Some(&described.group_type));

    let first = TopicPartition::new(&*topic, 0);
    while offset(&admin, &group, &first).await != Some(10) {
        tokio::time::sleep(SHORT).await;
    }
    let busy = admin
        .reset_group_offsets(&*group, [first.clone()], OffsetTarget::Earliest)
        .await;
    assert!(
        busy.unwrap_err()
            .to_string()
            .contains("has 1 member, which would overwrite the offsets; stop it first")
    );
    let busy = admin.delete_groups([&*group]).await;
    assert_eq!(
        busy[&*group].as_ref().unwrap_err().code(),
        Some(ErrorCode::NonEmptyGroup)
    );
    bed.peer.call(&format!("leave {member}")).await;
    in_time("the member is gone", wait_for(&admin, &group, &BTreeSet::new())).await;
    move_about(bed, &group, &first).await;
    only(admin.delete_groups([&*group]).await);
    assert!(
        !tool(bed, "consumer-groups --list")
            .await
            .lines()
            .any(|name| name == group)
    );
    described
}

async fn wait_for(admin: &Admin, group: &str, assignment: &BTreeSet<TopicPartition>) -> GroupDescription {
    loop {
        // The group exists after its first member has joined.
        if let Some(Ok(described)) = admin.describe_groups([group]).await.remove(group) {
            let assigned = described.members.iter().flat_map(|member| &member.assignment);
            let is_gone = assignment.is_empty() && described.members.is_empty();
            if is_gone || (!assignment.is_empty() && assigned.cloned().collect::<BTreeSet<_>>() == *assignment) {
                return described;
            }
        }
        tokio::time::sleep(SHORT).await;
    }
}

async fn offset(admin: &Admin, group: &str, partition: &TopicPartition) -> Option<i64> {
    let committed = only(admin.list_group_offsets([group]).await);
    committed.get(partition).map(|committed| committed.offset)
}

/// Resets the group several times; Kafka's tool reports the offset after each reset.
async fn move_about(bed: &Bed, group: &str, partition: &TopicPartition) {
    let admin = admin(bed);
    for (target, expected) in [
        (OffsetTarget::ShiftBy(-4), 6),
        (OffsetTarget::Timestamp(crate::records::timestamp(3)), 3),
        (OffsetTarget::Latest, 10),
    ] {
        let moved = admin
            .reset_group_offsets(group, [partition.clone()], target)
            .await
            .unwrap();
        assert_eq!(only(moved).to, expected, "{target}");
        assert_eq!(offset(&admin, group, partition).await, Some(expected));
    }
    let moved = admin
        .reset_group_offsets(group, [partition.clone()], OffsetTarget::Offset(2))
        .await;
    assert_eq!(only(moved.unwrap()).from, Some(10));
    let output = tool(bed, &format!("consumer-groups --describe --group {group}")).await;
    let rows = output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.clone().find(|row| row.get(2) == Some(&"0"));
    // Group, topic, partition, current offset, end, lag.
    assert_eq!(row.unwrap()[3..6], ["2", "10", "8"], "{output}");
    only(admin.delete_group_offsets(group, [partition.clone()]).await);
    assert!(
        !bed.peer
            .call(&format!("offsets {group}"))
            .await
            .contains(&format!("{partition}="))
    );
}

#[tokio::test]
async fn a_static_member_of_java_is_removed_by_its_name() {
    let bed = bed::kafka();
    let admin = admin(bed);
    let topic = bed.topic("static", 1, "").await;
    let group = format!("fixed-{topic}");
    let member = format!("member-{topic}");
    bed.peer
        .call(&format!(
            "join {member} {group} {topic} group.instance.id=first session.timeout.ms=300000"
        ))
        .await;
    let all = [TopicPartition::new(&*topic, 0)].into();
    let described = in_time("the member has its partition", wait_for(&admin, &group, &all)).await;
    assert_eq!(described.members[0].instance_id.as_deref(), Some("first"));
    // A static member does not leave on close.
    bed.peer.call(&format!("leave {member}")).await;
    let output = tool(bed, &format!("consumer-groups --describe --members --group {group}")).await;
    has_all(&output, &["first"]);
    let removed = admin
        .remove_members(&*group, [MemberToRemove::Instance("first".into())])
        .await;
    only(removed);
    in_time("the member is gone", wait_for(&admin, &group, &BTreeSet::new())).await;
}
