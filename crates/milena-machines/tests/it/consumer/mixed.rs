//! Members of both protocols in one group, and groups that change from one to the other.

use bytes::Bytes;
use bytestring::ByteString;
use milena_machines::group::{GroupConfig, GroupReply, GroupRequest, MigrationPolicy};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        ConsumerProtocolAssignment, ConsumerProtocolSubscription, HeartbeatRequest, JoinGroupRequest,
        JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest, consumer_protocol_assignment,
        consumer_protocol_subscription, join_group_request::JoinGroupRequestProtocol,
        leave_group_request::MemberIdentity, sync_group_request::SyncGroupRequestAssignment,
    },
    prefixed::{decode_newest, encode_versioned},
};

use super::harness::*;

const SESSION_MS: i32 = 10_000;

/// A member of the classic protocol.
#[derive(Default)]
pub(super) struct Classic {
    pub(super) member_id: ByteString,
    instance_id: Option<ByteString>,
    pub(super) generation_id: i32,
    /// Partitions of the topic "t", the only one that it reads.
    pub(super) owned: Vec<i32>,
}

impl Classic {
    fn join_request(&self) -> JoinGroupRequest {
        let subscription = ConsumerProtocolSubscription {
            topics: names(&["t"]),
            owned_partitions: vec![consumer_protocol_subscription::TopicPartition {
                topic: "t".into(),
                partitions: self.owned.clone(),
            }],
            ..Default::default()
        };
        JoinGroupRequest {
            group_id: GROUP.into(),
            session_timeout_ms: SESSION_MS,
            rebalance_timeout_ms: REBALANCE_TIMEOUT_MS,
            member_id: self.member_id.clone(),
            group_instance_id: self.instance_id.clone(),
            protocol_type: "consumer".into(),
            protocols: vec![JoinGroupRequestProtocol {
                name: "range".into(),
                metadata: encode_versioned(&subscription, 1).unwrap(),
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    /// Sends JoinGroup; returns the reply if it comes at once.
    pub(super) fn join(&mut self, world: &mut World) -> Option<JoinGroupResponse> {
        let reply = ask(world, 5, GroupRequest::Join(self.join_request()));
        let Some(GroupReply::Join(response)) = reply else {
            return None;
        };
        if response.error_code == ErrorCode::MemberIdRequired.code() {
            self.member_id = response.member_id;
            return self.join(world);
        }
        if response.error_code == 0 {
            self.member_id = response.member_id.clone();
            self.generation_id = response.generation_id;
        }
        Some(response)
    }

    pub(super) fn sync(&mut self, world: &mut World, assignments: &[(&ByteString, &[i32])]) -> ErrorCode {
        let assignments = assignments
            .iter()
            .map(|(member_id, partitions)| SyncGroupRequestAssignment {
                member_id: (*member_id).clone(),
                assignment: assignment_bytes(partitions),
                ..Default::default()
            });
        let request = SyncGroupRequest {
            group_id: GROUP.into(),
            generation_id: self.generation_id,
            member_id: self.member_id.clone(),
            group_instance_id: self.instance_id.clone(),
            protocol_type: Some("consumer".into()),
            protocol_name: Some("range".into()),
            assignments: assignments.collect(),
            ..Default::default()
        };
        match ask(world, 5, GroupRequest::Sync(request)) {
            Some(GroupReply::Sync(response)) => {
                if response.error_code == 0 {
                    self.owned = partitions_in(&response.assignment);
                }
                ErrorCode::from_code(response.error_code).unwrap()
            }
            reply => panic!("{reply:?}"),
        }
    }

    pub(super) fn heartbeat(&self, world: &mut World) -> ErrorCode {
        let request = HeartbeatRequest {
            group_id: GROUP.into(),
            generation_id: self.generation_id,
            member_id: self.member_id.clone(),
            group_instance_id: self.instance_id.clone(),
            ..Default::default()
        };
        match ask(world, 4, GroupRequest::Heartbeat(request)) {
            Some(GroupReply::Heartbeat(response)) => ErrorCode::from_code(response.error_code).unwrap(),
            reply => panic!("{reply:?}"),
        }
    }

    /// The reaction of a client that must rejoin: it revokes nothing that it need not.
    pub(super) fn rejoin(&mut self, world: &mut World) {
        let response = self.join(world).expect("an immediate reply");
        assert_eq!(response.error_code, 0, "{response:?}");
        assert_eq!(self.sync(world, &[]), ErrorCode::None);
    }

    pub(super) fn leave(&self, world: &mut World) -> ErrorCode {
        let request = LeaveGroupRequest {
            group_id: GROUP.into(),
            members: vec![MemberIdentity {
                member_id: self.member_id.clone(),
                group_instance_id: self.instance_id.clone(),
                ..Default::default()
            }],
            ..Default::default()
        };
        match ask(world, 5, GroupRequest::Leave(request)) {
            Some(GroupReply::Leave(response)) => ErrorCode::from_code(response.members[0].error_code).unwrap(),
            reply => panic!("{reply:?}"),
        }
    }
}

fn ask(world: &mut World, version: i16, request: GroupRequest) -> Option<GroupReply> {
    world.version = version;
    let mut replies = world.ask(request);
    world.version = 1;
    replies.pop()
}

fn assignment_bytes(partitions: &[i32]) -> Bytes {
    let assignment = ConsumerProtocolAssignment {
        assigned_partitions: vec![consumer_protocol_assignment::TopicPartition {
            topic: "t".into(),
            partitions: partitions.to_vec(),
        }],
        user_data: None,
    };
    encode_versioned(&assignment, 1).unwrap()
}

fn partitions_in(assignment: &Bytes) -> Vec<i32> {
    let assignment: ConsumerProtocolAssignment = decode_newest(assignment).unwrap();
    let topics = assignment.assigned_partitions.into_iter();
    topics.flat_map(|topic| topic.partitions).collect()
}

pub(super) fn world_with(policy: MigrationPolicy) -> World {
    let config = GroupConfig {
        migration_policy: policy,
        ..GroupConfig::default()
    };
    let mut world = World::new(config);
    world.create_topic("t", 4);
    world
}

/// A classic group with one member that reads everything.
fn classic_group(world: &mut World) -> Classic {
    let mut member = Classic::default();
    member.join(world);
    if member.generation_id == 0 {
        // The reply comes when the (empty) delay of the first rebalance is over.
        world.pass(0);
        member.generation_id = 1;
    }
    let member_id = member.member_id.clone();
    assert_eq!(member.sync(world, &[(&member_id, &[0, 1, 2, 3])]), ErrorCode::None);
    assert_eq!(member.owned, [0, 1, 2, 3]);
    member
}

#[test]
fn a_classic_group_is_upgraded_when_a_new_member_joins() {
    let mut world = world_with(MigrationPolicy::Upgrade);
    let mut old = classic_group(&mut world);
    let mut new = world.join("new", &["t"]);
    assert_eq!(new.count(), 0, "all is still with the old member");
    let group = world.describe(GROUP);
    assert_eq!(group.error_code, 0);
    let types: Vec<i8> = group.members.iter().map(|member| member.member_type).collect();
    assert_eq!(types.iter().map(|kind| i32::from(*kind)).sum::<i32>(), 1, "one of each");
    world.restart();

    assert_eq!(old.heartbeat(&mut world), ErrorCode::RebalanceInProgress);
    old.rejoin(&mut world);
    assert_eq!(old.owned.len(), 2, "it must give up two first");
    new.beat(&mut world);
    assert_eq!(new.count(), 0);
    assert_eq!(old.heartbeat(&mut world), ErrorCode::RebalanceInProgress);
    old.rejoin(&mut world);
    assert_eq!(old.heartbeat(&mut world), ErrorCode::None);
    new.beat(&mut world);
    assert_eq!(new.count(), 2);
    world.settle(&mut [&mut new]);
    world.restart();
}

/// Found by the simulator: members of a cooperative group may own partitions that their leader has taken from them.
#[test]
fn an_upgrade_gives_away_nothing_that_a_cooperative_member_has_yet_to_let_go_of() {
    let mut world = world_with(MigrationPolicy::Upgrade);
    let mut old = classic_group(&mut world);
    old.join(&mut world).expect("it is the only member");
    let member_id = old.member_id.clone();
    // It will revoke the others, and then rejoin.
    assert_eq!(old.sync(&mut world, &[(&member_id, &[0, 1])]), ErrorCode::None);
    let mut new = world.join("new", &["t"]);
    new.beat(&mut world);
    assert_eq!(new.count(), 0, "the old member may still read all");
    assert_eq!(old.heartbeat(&mut world), ErrorCode::RebalanceInProgress);
    old.rejoin(&mut world);
    new.beat(&mut world);
    assert_eq!((old.owned.len(), new.count()), (2, 2));
}

#[test]
fn a_policy_that_forbids_it_leaves_a_classic_group_classic() {
    for policy in [MigrationPolicy::Disabled, MigrationPolicy::Downgrade] {
        let mut world = world_with(policy);
        classic_group(&mut world);
        assert_eq!(world.refused(joining("new", &["t"])), ErrorCode::GroupIdNotFound);
    }
}

#[test]
fn an_empty_classic_group_makes_room() {
    let mut world = world_with(MigrationPolicy::Disabled);
    let old = classic_group(&mut world);
    assert_eq!(old.leave(&mut world), ErrorCode::None);
    let mut new = world.join("new", &["t"]);
    assert_eq!(new.count(), 4);
    world.settle(&mut [&mut new]);
    world.restart();
}

#[test]
fn a_classic_member_joins_a_group_of_the_consumer_protocol() {
    let mut world = world_with(MigrationPolicy::Bidirectional);
    let mut new = world.join("new", &["t"]);
    let mut old = Classic::default();
    old.rejoin(&mut world);
    assert_eq!(old.owned, []);
    assert_eq!(old.heartbeat(&mut world), ErrorCode::None, "it waits for the other");
    new.beat(&mut world);
    new.beat(&mut world);
    assert_eq!(old.heartbeat(&mut world), ErrorCode::RebalanceInProgress);
    old.rejoin(&mut world);
    assert_eq!(old.owned.len(), 2);
    world.settle(&mut [&mut new]);
    world.restart();
}

#[test]
fn a_classic_member_is_refused_for_what_it_is() {
    let mut world = world_with(MigrationPolicy::Bidirectional);
    world.join("new", &["t"]);
    let mut old = Classic::default();
    old.rejoin(&mut world);

    let mut request = old.join_request();
    request.protocol_type = "connect".into();
    let Some(GroupReply::Join(response)) = ask(&mut world, 5, GroupRequest::Join(request)) else {
        panic!("no reply");
    };
    assert_eq!(response.error_code, ErrorCode::InconsistentGroupProtocol.code());
    let mut request = old.join_request();
    request.protocols[0].name = "sticky".into();
    let Some(GroupReply::Join(response)) = ask(&mut world, 5, GroupRequest::Join(request)) else {
        panic!("no reply");
    };
    assert_eq!(response.error_code, ErrorCode::InconsistentGroupProtocol.code());

    let stranger = Classic {
        member_id: "stranger".into(),
        ..Classic::default()
    };
    assert_eq!(stranger.heartbeat(&mut world), ErrorCode::UnknownMemberId);
    let other = Classic {
        member_id: "new".into(),
        generation_id: 2,
        ..Classic::default()
    };
    assert_eq!(other.heartbeat(&mut world), ErrorCode::UnknownMemberId);
    old.generation_id += 1;
    assert_eq!(old.heartbeat(&mut world), ErrorCode::IllegalGeneration);
    assert_eq!(old.sync(&mut world, &[]), ErrorCode::IllegalGeneration);
}

#[test]
fn with_migration_disabled_classic_members_are_not_let_in() {
    let mut world = world_with(MigrationPolicy::Disabled);
    world.join("new", &["t"]);
    let response = Classic::default().join(&mut world).unwrap();
    assert_eq!(response.error_code, ErrorCode::InconsistentGroupProtocol.code());
}

#[test]
fn a_classic_member_that_does_not_join_again_in_time_is_fenced() {
    let mut world = world_with(MigrationPolicy::Bidirectional);
    let old = classic_group(&mut world);
    let mut new = world.join("new", &["t"]);
    let mut waited_ms = 0;
    while old.heartbeat(&mut world) == ErrorCode::RebalanceInProgress {
        world.pass(5_000);
        waited_ms += 5_000;
        new.beat(&mut world);
    }
    assert_eq!(old.heartbeat(&mut world), ErrorCode::UnknownMemberId);
    assert_eq!(waited_ms, REBALANCE_TIMEOUT_MS);
    world.settle(&mut [&mut new]);
    assert_eq!(new.count(), 4);
}

/// Found by the simulator: it was let in as if it were new, did not learn that it had lost anything, and committed
/// partitions of others.
#[test]
fn a_classic_member_that_expired_without_its_knowing_must_come_as_a_new_one() {
    let mut world = world_with(MigrationPolicy::Bidirectional);
    let mut new = world.join("new", &["t"]);
    let mut old = Classic::default();
    old.rejoin(&mut world);
    world.pass(i64::from(SESSION_MS));
    world.settle(&mut [&mut new]);
    let mut request = old.join_request();
    let subscription = |generation_id| ConsumerProtocolSubscription {
        topics: names(&["t"]),
        generation_id,
        ..Default::default()
    };
    request.protocols[0].metadata = encode_versioned(&subscription(old.generation_id), 3).unwrap();
    let code = |world: &mut World, request: &JoinGroupRequest| match ask(world, 9, GroupRequest::Join(request.clone()))
    {
        Some(GroupReply::Join(response)) => ErrorCode::from_code(response.error_code).unwrap(),
        reply => panic!("{reply:?}"),
    };
    assert_eq!(code(&mut world, &request), ErrorCode::UnknownMemberId);
    // A client without a generation has nothing to lose, like one that was just given its id.
    request.protocols[0].metadata = encode_versioned(&subscription(-1), 3).unwrap();
    assert_eq!(code(&mut world, &request), ErrorCode::None);
}

#[test]
fn a_classic_member_keeps_its_own_session() {
    let mut world = world_with(MigrationPolicy::Bidirectional);
    let mut new = world.join("new", &["t"]);
    let mut old = Classic::default();
    old.rejoin(&mut world);
    world.pass(i64::from(SESSION_MS));
    assert_eq!(old.heartbeat(&mut world), ErrorCode::UnknownMemberId);
    world.settle(&mut [&mut new]);
}

#[test]
fn when_the_last_member_of_the_consumer_protocol_leaves_the_group_is_classic() {
    let mut world = world_with(MigrationPolicy::Bidirectional);
    let mut new = world.join("new", &["t"]);
    let mut old = Classic::default();
    old.rejoin(&mut world);
    new.leave(&mut world);
    assert_eq!(world.describe(GROUP).error_code, ErrorCode::GroupIdNotFound.code());
    assert_eq!(old.heartbeat(&mut world), ErrorCode::RebalanceInProgress);
    let generation_id = old.generation_id;
    let response = old.join(&mut world).expect("it is the only member");
    assert_eq!((response.error_code, response.generation_id), (0, generation_id + 1));
    let member_id = old.member_id.clone();
    assert_eq!(old.sync(&mut world, &[(&member_id, &[0, 1, 2, 3])]), ErrorCode::None);
    world.restart();
    assert_eq!(old.heartbeat(&mut world), ErrorCode::None);
}

/// Found by the simulator: a downgrade stored the target, and an upgrade right after it gave away the rest.
#[test]
fn a_downgrade_and_an_upgrade_give_away_nothing_that_a_classic_member_holds() {
    let mut world = world_with(MigrationPolicy::Bidirectional);
    classic_group(&mut world);
    let mut first = world.join("first", &["t"]);
    first.leave(&mut world);
    assert_eq!(world.describe(GROUP).error_code, ErrorCode::GroupIdNotFound.code());
    let mut second = world.join("second", &["t"]);
    second.beat(&mut world);
    assert_eq!(
        second.count(),
        0,
        "the old member has heard of nothing and reads everything"
    );
}

#[test]
fn a_policy_that_forbids_it_leaves_a_group_in_the_consumer_protocol() {
    let mut world = world_with(MigrationPolicy::Upgrade);
    let mut new = world.join("new", &["t"]);
    let mut old = Classic::default();
    old.rejoin(&mut world);
    new.leave(&mut world);
    assert_eq!(world.describe(GROUP).error_code, 0);
    old.rejoin(&mut world);
    old.rejoin(&mut world);
    assert_eq!(old.owned, [0, 1, 2, 3]);
    assert_eq!(old.leave(&mut world), ErrorCode::None);
    assert_eq!(world.state(), "Empty");
    world.restart();
}

#[test]
fn the_last_static_member_may_come_back_with_the_classic_protocol() {
    let mut world = world_with(MigrationPolicy::Bidirectional);
    let mut new = Client::new("new");
    new.topics = names(&["t"]);
    new.instance_id = Some("one".into());
    world.settle(&mut [&mut new]);
    let mut old = Classic {
        instance_id: Some("one".into()),
        ..Classic::default()
    };
    let response = old.join(&mut world).unwrap();
    assert_eq!(response.error_code, 0, "{response:?}");
    assert_eq!(world.describe(GROUP).error_code, ErrorCode::GroupIdNotFound.code());
    assert_eq!(old.sync(&mut world, &[]), ErrorCode::None);
    assert_eq!(old.owned, [0, 1, 2, 3], "it has what it had");
    world.restart();
}

#[test]
fn members_of_a_group_that_became_classic_know_all_their_protocols() {
    let mut world = world_with(MigrationPolicy::Bidirectional);
    let mut new = world.join("new", &["t"]);
    let old = Classic {
        member_id: "old".into(),
        ..Classic::default()
    };
    let mut request = old.join_request();
    let mut second = request.protocols[0].clone();
    second.name = "sticky".into();
    request.protocols.push(second);
    ask(&mut world, 3, GroupRequest::Join(request));
    new.leave(&mut world);
    let mut request = old.join_request();
    request.member_id = "".into();
    request.protocols[0].name = "sticky".into();
    let reply = ask(&mut world, 3, GroupRequest::Join(request.clone()));
    assert_eq!(reply, None, "it waits for the old member, which knows its protocol too");
    request.protocols[0].name = "roundrobin".into();
    let Some(GroupReply::Join(response)) = ask(&mut world, 3, GroupRequest::Join(request)) else {
        panic!("no reply");
    };
    assert_eq!(response.error_code, ErrorCode::InconsistentGroupProtocol.code());
}

#[test]
fn a_classic_group_whose_members_share_a_partition_is_not_upgraded() {
    for (second_reads, expected) in [(&[2, 3], None), (&[1, 2], Some(ErrorCode::GroupIdNotFound))] {
        let mut world = world_with(MigrationPolicy::Upgrade);
        let mut first = classic_group(&mut world);
        let mut second = Classic::default();
        assert!(second.join(&mut world).is_none(), "it waits for the first");
        world.version = 5;
        let responses = world.ask(GroupRequest::Join(first.join_request()));
        world.version = 1;
        assert_eq!(responses.len(), 2, "both get a reply");
        (first.generation_id, second.generation_id) = (2, 2);
        let (first_id, second_id) = (first.member_id.clone(), second.member_id.clone());
        first.sync(&mut world, &[(&first_id, &[0, 1]), (&second_id, second_reads)]);
        second.sync(&mut world, &[]);
        assert_eq!(
            (first.owned.as_slice(), second.owned.as_slice()),
            (&[0, 1][..], &second_reads[..])
        );
        match expected {
            None => assert_eq!(world.join("new", &["t"]).count(), 0),
            Some(code) => {
                assert_eq!(world.refused(joining("new", &["t"])), code);
                assert_eq!(first.heartbeat(&mut world), ErrorCode::None, "it goes on");
            }
        }
    }
}
