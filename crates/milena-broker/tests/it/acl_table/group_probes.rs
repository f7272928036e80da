//! Probes of groups and committed offsets.

use milena_wire::messages::*;

use super::bed::{Bed, GROUP, MISSING, TOPIC, TRANSACTION, WORKERS};

#[expect(clippy::too_many_lines, reason = "a list: one request for each probe")]
pub fn run(bed: &mut Bed, probe: &str) -> Option<String> {
    let topic = if probe.ends_with("missing") { MISSING } else { TOPIC };
    Some(match probe {
        "FindCoordinator" => bed.codes(&find_coordinator(0, GROUP), 4),
        "FindCoordinator transaction" => bed.codes(&find_coordinator(1, TRANSACTION), 4),
        "FindCoordinator old" => {
            let request = FindCoordinatorRequest {
                key: GROUP.into(),
                ..Default::default()
            };
            bed.codes(&request, 3)
        }
        "JoinGroup" => bed.codes(&join_group(), 9),
        "SyncGroup" => {
            let request = SyncGroupRequest {
                group_id: GROUP.into(),
                member_id: "member".into(),
                generation_id: 1,
                protocol_type: Some("consumer".into()),
                protocol_name: Some("range".into()),
                ..Default::default()
            };
            bed.codes(&request, 5)
        }
        "Heartbeat" => {
            let request = HeartbeatRequest {
                group_id: GROUP.into(),
                member_id: "member".into(),
                generation_id: 1,
                ..Default::default()
            };
            bed.codes(&request, 4)
        }
        "LeaveGroup" => {
            let request = LeaveGroupRequest {
                group_id: GROUP.into(),
                members: vec![leave_group_request::MemberIdentity {
                    member_id: "member".into(),
                    ..Default::default()
                }],
                ..Default::default()
            };
            bed.codes(&request, 5)
        }
        "ConsumerGroupHeartbeat" => bed.codes(&consumer_heartbeat(0, &[TOPIC]), 1),
        "ConsumerGroupHeartbeat both" => bed.codes(&consumer_heartbeat(0, &[TOPIC, MISSING]), 1),
        "ConsumerGroupHeartbeat leave" => bed.codes(&consumer_heartbeat(-1, &[]), 1),
        "ConsumerGroupHeartbeat regex" => consumer_regex(bed),
        "OffsetCommit" | "OffsetCommit missing" => bed.codes(&offset_commit(GROUP, topic), 9),
        "OffsetCommit id" => {
            let mut request = offset_commit(GROUP, "");
            request.topics[0].topic_id = bed.topic_id;
            bed.codes(&request, 10)
        }
        "OffsetFetch" | "OffsetFetch missing" => bed.codes(&offset_fetch(Some(topic)), 8),
        "OffsetFetch all" => {
            bed.commit();
            bed.codes_and(&offset_fetch(None), 8, |response| {
                let topics = response.groups.iter().map(|group| group.topics.len());
                format!("topics={}", topics.sum::<usize>())
            })
        }
        "OffsetFetch old" => {
            let request = OffsetFetchRequest {
                group_id: GROUP.into(),
                topics: Some(vec![offset_fetch_request::OffsetFetchRequestTopic {
                    name: TOPIC.into(),
                    partition_indexes: vec![0],
                    ..Default::default()
                }]),
                ..Default::default()
            };
            bed.codes(&request, 7)
        }
        "OffsetDelete" | "OffsetDelete missing" => {
            bed.commit();
            bed.codes(&offset_delete(topic), 0)
        }
        "DescribeGroups" => {
            bed.commit();
            describe_groups(bed)
        }
        "ConsumerGroupDescribe" => {
            bed.keep_worker();
            consumer_group_describe(bed)
        }
        "ListGroups" => {
            bed.commit();
            bed.codes_and(&ListGroupsRequest::default(), 5, |response| {
                format!("listed={}", response.groups.iter().any(|group| group.group_id == GROUP))
            })
        }
        "DeleteGroups" => {
            let request = DeleteGroupsRequest {
                groups_names: vec![GROUP.into()],
                ..Default::default()
            };
            bed.commit();
            let seen = bed.codes(&request, 2);
            bed.commit();
            seen
        }
        _ => return None,
    })
}

fn find_coordinator(key_type: i8, key: &'static str) -> FindCoordinatorRequest {
    FindCoordinatorRequest {
        key_type,
        coordinator_keys: vec![key.into()],
        ..Default::default()
    }
}

fn join_group() -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: GROUP.into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: "consumer".into(),
        protocols: vec![join_group_request::JoinGroupRequestProtocol {
            name: "range".into(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A heartbeat in a group of its own, whose member leaves with epoch -1.
fn consumer_heartbeat(member_epoch: i32, topics: &[&'static str]) -> ConsumerGroupHeartbeatRequest {
    let is_join = member_epoch == 0;
    ConsumerGroupHeartbeatRequest {
        group_id: WORKERS.into(),
        member_id: "BBBBBBBBBBBBBBBBBBBBBB".into(),
        member_epoch,
        rebalance_timeout_ms: if is_join { 10_000 } else { -1 },
        subscribed_topic_names: is_join.then(|| topics.iter().map(|topic| (*topic).into()).collect()),
        topic_partitions: is_join.then(Vec::new),
        ..Default::default()
    }
}

/// A subscription by regular expression gets no error, and matches what the member may see.
fn consumer_regex(bed: &mut Bed) -> String {
    let request = ConsumerGroupHeartbeatRequest {
        subscribed_topic_names: Some(vec![]),
        subscribed_topic_regex: Some(format!("{TOPIC}.*").into()),
        ..consumer_heartbeat(0, &[])
    };
    bed.codes(&request, 1)
}

pub fn offset_commit(group: &'static str, topic: &'static str) -> OffsetCommitRequest {
    OffsetCommitRequest {
        group_id: group.into(),
        generation_id_or_member_epoch: -1,
        topics: vec![offset_commit_request::OffsetCommitRequestTopic {
            name: topic.into(),
            partitions: vec![offset_commit_request::OffsetCommitRequestPartition {
                committed_offset: 1,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn offset_fetch(topic: Option<&'static str>) -> OffsetFetchRequest {
    let topics = topic.map(|topic| {
        vec![offset_fetch_request::OffsetFetchRequestTopics {
            name: topic.into(),
            partition_indexes: vec![0],
            ..Default::default()
        }]
    });
    OffsetFetchRequest {
        groups: vec![offset_fetch_request::OffsetFetchRequestGroup {
            group_id: GROUP.into(),
            topics,
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn offset_delete(topic: &'static str) -> OffsetDeleteRequest {
    OffsetDeleteRequest {
        group_id: GROUP.into(),
        topics: vec![offset_delete_request::OffsetDeleteRequestTopic {
            name: topic.into(),
            partitions: vec![offset_delete_request::OffsetDeleteRequestPartition::default()],
        }],
    }
}

fn describe_groups(bed: &mut Bed) -> String {
    let request = DescribeGroupsRequest {
        groups: vec![GROUP.into()],
        include_authorized_operations: true,
        ..Default::default()
    };
    bed.codes_and(&request, 5, |response| {
        format!("operations={}", response.groups[0].authorized_operations)
    })
}

fn consumer_group_describe(bed: &mut Bed) -> String {
    let request = ConsumerGroupDescribeRequest {
        group_ids: vec![WORKERS.into()],
        include_authorized_operations: true,
        ..Default::default()
    };
    bed.codes_and(&request, 0, |response| {
        let group = &response.groups[0];
        let has_members = !group.members.is_empty();
        format!("members={has_members} operations={}", group.authorized_operations)
    })
}
