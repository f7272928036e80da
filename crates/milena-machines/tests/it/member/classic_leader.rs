//! The leader of a classic group.

use std::collections::BTreeSet;

use bytestring::ByteString;
use milena_machines::{
    TopicPartition,
    assign::{MemberSubscription, RebalanceProtocol, TopicLayout, decode_assignment, encode_subscription},
    member::{CallId, MemberConfig, MemberError, MemberEvent, MemberResponse},
};
use milena_wire::{
    errors::ErrorCode,
    messages::{JoinGroupResponse, join_group_response::JoinGroupResponseMember},
};

use super::rig::*;

fn member(member_id: &'static str, topics: &[&str], owned: &[(&str, i32)]) -> JoinGroupResponseMember {
    let topics = topics.iter().map(|topic| ByteString::from(*topic)).collect();
    let subscription = MemberSubscription {
        owned: places(owned),
        ..MemberSubscription::new(member_id, topics)
    };
    JoinGroupResponseMember {
        member_id: member_id.into(),
        metadata: encode_subscription(&subscription).unwrap(),
        ..Default::default()
    }
}

fn elect(rig: &mut Rig, call: CallId, members: Vec<JoinGroupResponseMember>, skip_assignment: bool) {
    let response = JoinGroupResponse {
        generation_id: 1,
        protocol_type: Some("consumer".into()),
        protocol_name: Some("greedy".into()),
        leader: "me".into(),
        member_id: "me".into(),
        members,
        skip_assignment,
        ..Default::default()
    };
    rig.respond(call, MemberResponse::Join(response));
}

/// Leads a group of two; `u` is only the other's topic.
fn lead(rig: &mut Rig, skip_assignment: bool) {
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, _) = rig.expect_join();
    let members = vec![member("me", &["t"], &[]), member("other", &["u"], &[])];
    elect(rig, call, members, skip_assignment);
}

#[test]
fn a_leader_assigns_when_it_knows_all_topics_of_the_group() {
    let mut rig = Rig::eager();
    rig.set_topic("t", 2);
    lead(&mut rig, false);
    rig.expect_no_call();
    assert_eq!(rig.member.group_topics(), Some(&names(&["t", "u"])));
    assert_eq!(rig.member.metadata_needed().unwrap().topics, names(&["u"]));
    // Heartbeats go on meanwhile.
    rig.heartbeat(ErrorCode::None);
    // A topic that does not exist has no partitions, and no member waits for it.
    rig.set_topic("u", 0);
    assert_eq!(rig.member.metadata_needed(), None);
    let (call, sync) = rig.expect_sync();
    let given: Vec<(ByteString, Vec<TopicPartition>)> = sync
        .assignments
        .iter()
        .map(|given| {
            (
                given.member_id.clone(),
                decode_assignment(&given.assignment).unwrap().partitions,
            )
        })
        .collect();
    let expected = [("me".into(), places(&[("t", 0), ("t", 1)])), ("other".into(), vec![])];
    assert_eq!(given, expected);
    rig.respond_sync(call, &[("t", 0), ("t", 1)]);
    let both = [("t", 0), ("t", 1)];
    assert_eq!(rig.tell(), Some(assigned(&both, &both)));
}

#[test]
fn a_leader_rejoins_when_partitions_of_any_member_are_added() {
    let mut rig = Rig::eager();
    rig.set_topic("t", 2);
    rig.set_topic("u", 1);
    lead(&mut rig, false);
    let (call, _) = rig.expect_sync();
    rig.respond_sync(call, &[("t", 0), ("t", 1)]);
    rig.tell();
    rig.set_topic("of nobody", 5);
    rig.set_topic("t", 2);
    assert_eq!(rig.tell(), None);
    rig.set_topic("u", 2);
    assert_eq!(rig.tell(), Some(revoked(&[("t", 0), ("t", 1)])));
    assert_eq!(
        rig.expect_join().1.reason.as_deref(),
        Some("cached metadata has changed")
    );
    assert_eq!(rig.member.group_topics(), None);
}

/// A topic is deleted and created again while the application revokes its partitions: without another join it would
/// never get them again.
#[test]
fn who_has_given_back_joins_even_if_the_reason_has_gone() {
    let mut rig = Rig::eager();
    rig.set_topic("t", 1);
    rig.set_topic("u", 1);
    lead(&mut rig, false);
    let (call, _) = rig.expect_sync();
    rig.respond_sync(call, &[("t", 0)]);
    rig.tell();
    rig.set_topic("t", 0);
    assert_eq!(rig.tell(), Some(revoked(&[("t", 0)])));
    rig.set_topic("t", 1);
    rig.expect_join();
}

#[test]
fn a_follower_does_not_watch() {
    let mut rig = Rig::eager();
    rig.set_topic("t", 2);
    rig.settle(&["t"], &[("t", 0)]);
    rig.set_topic("t", 3);
    assert_eq!(rig.tell(), None);
    rig.expect_no_call();
}

#[test]
fn partitions_that_are_added_during_the_rebalance_lead_to_another() {
    let mut rig = Rig::eager();
    rig.set_topic("t", 1);
    rig.set_topic("u", 1);
    lead(&mut rig, false);
    let (call, _) = rig.expect_sync();
    rig.set_topic("t", 2);
    rig.respond_sync(call, &[("t", 0)]);
    assert_eq!(rig.tell(), Some(assigned(&[("t", 0)], &[("t", 0)])));
    assert_eq!(rig.tell(), Some(revoked(&[("t", 0)])));
    rig.expect_join();
}

#[test]
fn a_static_leader_that_comes_back_does_not_assign_but_watches() {
    let mut rig = Rig::of_instance(eager());
    rig.set_topic("t", 2);
    lead(&mut rig, true);
    let (call, sync) = rig.expect_sync();
    assert!(sync.assignments.is_empty());
    rig.respond_sync(call, &[("t", 0)]);
    assert_eq!(rig.tell(), Some(assigned(&[("t", 0)], &[("t", 0)])));
    rig.set_topic("u", 1);
    assert_eq!(rig.tell(), None);
    rig.set_topic("u", 2);
    assert_eq!(rig.tell(), Some(revoked(&[("t", 0)])));
}

#[test]
fn racks_count_only_for_members_that_have_one() {
    for (rack, rejoins) in [(None, false), (Some("a".into()), true)] {
        let mut rig = Rig::new(MemberConfig {
            rack,
            ..config(classic(vec![eager()]))
        });
        let layout = |rack: &'static str| TopicLayout {
            racks: vec![vec![rack.into()]],
        };
        rig.set_layout("t", layout("a"));
        rig.set_topic("u", 1);
        lead(&mut rig, false);
        let (call, _) = rig.expect_sync();
        rig.respond_sync(call, &[("t", 0)]);
        rig.tell();
        rig.set_layout("t", layout("b"));
        assert_eq!(rig.tell().is_some(), rejoins);
    }
}

#[test]
fn a_cooperative_assignor_that_moves_what_is_owned_is_an_error() {
    let mut rig = Rig::cooperative();
    rig.set_topic("t", 1);
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, _) = rig.expect_join();
    let members = vec![member("me", &["t"], &[]), member("other", &["t"], &[("t", 0)])];
    elect(&mut rig, call, members, false);
    rig.expect_no_call();
    let error = MemberError::AssignorMovesOwned {
        assignor: "greedy".into(),
        partitions: places(&[("t", 0)]),
    };
    assert_eq!(rig.tell(), Some(MemberEvent::Error(error)));
    rig.pass(BACKOFF_MS);
    rig.expect_join();
}

#[test]
fn a_subscription_of_nonsense_is_an_error_that_names_the_member() {
    let mut rig = Rig::eager();
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, _) = rig.expect_join();
    let nonsense = JoinGroupResponseMember {
        member_id: "strange".into(),
        metadata: vec![0, 3, 0xff].into(),
        ..Default::default()
    };
    elect(&mut rig, call, vec![member("me", &["t"], &[]), nonsense], false);
    match rig.tell() {
        Some(MemberEvent::Error(MemberError::BadSubscription { member_id, .. })) => assert_eq!(member_id, "strange"),
        event => panic!("{event:?}"),
    }
}

#[test]
fn an_assignor_that_we_do_not_have_is_an_error_that_names_it() {
    let mut rig = Rig::new(config(classic(vec![Box::new(Greedy {
        name: "mine",
        protocols: vec![RebalanceProtocol::Eager],
        user_data: None,
    })])));
    rig.set_topic("t", 1);
    rig.set_topic("u", 1);
    lead(&mut rig, false);
    assert_eq!(
        rig.tell(),
        Some(MemberEvent::Error(MemberError::UnknownAssignor {
            name: "greedy".into()
        }))
    );
    assert_eq!(rig.member.owned(), &BTreeSet::new());
}
