//! Faults, one by one, as a client that knows nothing but frames sees them.

use std::time::Duration;

use milena_test::{
    ErrorCode, TestBroker,
    messages::{
        ApiVersionsRequest, FetchRequest, FindCoordinatorRequest, HeartbeatRequest, JoinGroupRequest,
        ListOffsetsRequest, MetadataRequest, OffsetCommitRequest, fetch_request, list_offsets_request,
        metadata_request, offset_commit_request,
    },
};

use crate::wire::Wire;

fn versions() -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: "tests".into(),
        client_software_version: "1".into(),
        ..Default::default()
    }
}

fn works(wire: &mut Wire) -> bool {
    wire.try_call(&versions(), 3)
        .is_some_and(|answer| answer.error_code == 0)
}

fn commit(offset: i64) -> OffsetCommitRequest {
    OffsetCommitRequest {
        group_id: "group".into(),
        generation_id_or_member_epoch: -1,
        topics: vec![offset_commit_request::OffsetCommitRequestTopic {
            name: "letters".into(),
            partitions: vec![offset_commit_request::OffsetCommitRequestPartition {
                committed_offset: offset,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[tokio::test]
async fn a_lost_request_is_not_done_and_a_lost_answer_is() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    let lost = broker.faults().on::<OffsetCommitRequest>().once().drop_request();
    let mut wire = Wire::connect(&broker);
    wire.send(&commit(1), 8).unwrap();
    lost.struck_times(1).await;
    assert_eq!(broker.committed("group", "letters", 0), None);
    wire.send(&versions(), 3).unwrap();
    assert!(wire.is_silent(), "what is behind it gets no answer either");

    let lost = broker.faults().on::<OffsetCommitRequest>().once().drop_response();
    let mut wire = Wire::connect(&broker);
    wire.send(&commit(2), 8).unwrap();
    lost.struck_times(1).await;
    assert_eq!(broker.committed("group", "letters", 0), Some(2));
    assert!(wire.is_silent());
    let mut wire = Wire::connect(&broker);
    wire.call(&commit(3), 8);
    assert_eq!(lost.struck(), 1);
    assert_eq!(broker.committed("group", "letters", 0), Some(3));
}

#[test]
fn connections_end_before_and_after() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    broker.faults().on::<OffsetCommitRequest>().once().close_before();
    assert!(Wire::connect(&broker).try_call(&commit(1), 8).is_none());
    assert_eq!(broker.committed("group", "letters", 0), None);
    let after = broker.faults().on::<OffsetCommitRequest>().once().close_after();
    assert!(Wire::connect(&broker).try_call(&commit(2), 8).is_none());
    assert_eq!(broker.committed("group", "letters", 0), Some(2));
    assert_eq!(after.struck(), 1);
}

#[test]
fn a_fault_strikes_those_it_is_for() {
    let broker = TestBroker::start();
    let mut wire = Wire::connect(&broker);
    let beat = |group: &str| HeartbeatRequest {
        group_id: group.into(),
        ..Default::default()
    };
    let counted = broker.faults().on::<HeartbeatRequest>().count();
    let others = broker
        .faults()
        .on::<HeartbeatRequest>()
        .client_id("somebody")
        .close_before();
    let third = broker
        .faults()
        .on::<HeartbeatRequest>()
        .when(|request| request.group_id == "mine")
        .nth(3)
        .respond_error(ErrorCode::RebalanceInProgress);
    let mut codes = vec![];
    for group in ["mine", "yours", "mine", "yours", "mine", "mine"] {
        codes.push(wire.call(&beat(group), 4).error_code);
    }
    let unknown = ErrorCode::UnknownMemberId.code();
    let mut expected = [unknown; 6];
    expected[4] = ErrorCode::RebalanceInProgress.code();
    assert_eq!(codes, expected);
    assert_eq!((counted.struck(), others.struck(), third.struck()), (6, 0, 1));

    let always = broker
        .faults()
        .on::<HeartbeatRequest>()
        .respond_error(ErrorCode::NotCoordinator);
    assert_eq!(wire.call(&beat("mine"), 4).error_code, ErrorCode::NotCoordinator.code());
    always.remove();
    assert_eq!(wire.call(&beat("mine"), 4).error_code, unknown);
}

#[test]
fn errors_stand_where_kafka_has_them() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    let faults = broker.faults();
    let mut wire = Wire::connect(&broker);
    let code = ErrorCode::CoordinatorLoadInProgress;

    faults.on::<FindCoordinatorRequest>().times(2).respond_error(code);
    let request = FindCoordinatorRequest {
        key: "group".into(),
        ..Default::default()
    };
    assert_eq!(wire.call(&request, 3).error_code, code.code());
    let request = FindCoordinatorRequest {
        coordinator_keys: vec!["group".into()],
        ..Default::default()
    };
    let found = wire.call(&request, 4);
    assert_eq!(
        (&*found.coordinators[0].key, found.coordinators[0].error_code),
        ("group", code.code())
    );

    faults
        .on::<MetadataRequest>()
        .once()
        .respond_error(ErrorCode::LeaderNotAvailable);
    let topic = metadata_request::MetadataRequestTopic {
        name: Some("letters".into()),
        ..Default::default()
    };
    let request = MetadataRequest {
        topics: Some(vec![topic]),
        ..Default::default()
    };
    let told = wire.call(&request, 12);
    assert_eq!(told.topics[0].error_code, ErrorCode::LeaderNotAvailable.code());
    assert_eq!(told.brokers.len(), 1, "the brokers are known all the same");

    faults
        .on::<ListOffsetsRequest>()
        .once()
        .respond_error(ErrorCode::NotLeaderOrFollower);
    let request = ListOffsetsRequest {
        topics: vec![list_offsets_request::ListOffsetsTopic {
            name: "letters".into(),
            partitions: vec![list_offsets_request::ListOffsetsPartition {
                timestamp: -1,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let told = wire.call(&request, 8);
    assert_eq!(
        told.topics[0].partitions[0].error_code,
        ErrorCode::NotLeaderOrFollower.code()
    );

    for version in 2..=9 {
        faults.on::<JoinGroupRequest>().once().respond_error(code);
        let joined = wire.call(&JoinGroupRequest::default(), version);
        assert_eq!(joined.error_code, code.code(), "version {version}");
    }
}

fn fetch(session_id: i32, session_epoch: i32) -> FetchRequest {
    let topic = fetch_request::FetchTopic {
        topic: "letters".into(),
        partitions: vec![fetch_request::FetchPartition {
            partition_max_bytes: 1 << 20,
            ..Default::default()
        }],
        ..Default::default()
    };
    FetchRequest {
        max_bytes: 1 << 20,
        session_id,
        session_epoch,
        topics: if session_epoch == 0 { vec![topic] } else { vec![] },
        ..Default::default()
    }
}

#[test]
fn an_error_of_a_fetch_is_for_all_partitions_of_its_session() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    broker.produce("letters", 0, ["a"]);
    let mut wire = Wire::connect(&broker);
    let first = wire.call(&fetch(0, 0), 12);
    let session = first.session_id;
    assert_ne!(session, 0);
    broker
        .faults()
        .on::<FetchRequest>()
        .once()
        .respond_error(ErrorCode::FencedLeaderEpoch);
    let second = wire.call(&fetch(session, 1), 12);
    let partition = &second.responses[0].partitions[0];
    assert_eq!(partition.error_code, ErrorCode::FencedLeaderEpoch.code());
    assert_eq!((second.session_id, second.error_code), (session, 0));
    // The session continues.
    let third = wire.call(&fetch(session, 2), 12);
    assert_eq!((third.session_id, third.error_code), (session, 0));
    broker
        .faults()
        .on::<FetchRequest>()
        .once()
        .respond_error(ErrorCode::FetchSessionIdNotFound);
    let fourth = wire.call(&fetch(session, 3), 12);
    assert_eq!(fourth.error_code, ErrorCode::FetchSessionIdNotFound.code());
    assert!(fourth.responses.is_empty());
}

#[test]
fn answers_are_changed_throttled_late_or_made_up() {
    let broker = TestBroker::start();
    let mut wire = Wire::connect(&broker);
    let faults = broker.faults();
    faults.on::<ApiVersionsRequest>().once().throttle(77);
    assert_eq!(wire.call(&versions(), 3).throttle_time_ms, 77);
    faults
        .on::<ApiVersionsRequest>()
        .once()
        .change_response(|request, answer| {
            assert_eq!(request.client_software_name, "tests");
            answer.api_keys.truncate(1);
        });
    assert_eq!(wire.call(&versions(), 3).api_keys.len(), 1);
    faults
        .on::<ApiVersionsRequest>()
        .once()
        .respond(|_, _| milena_test::messages::ApiVersionsResponse {
            error_code: 35,
            ..Default::default()
        });
    assert_eq!(wire.call(&versions(), 3).error_code, 35);
    let late = faults.on::<ApiVersionsRequest>().once().delay(Duration::from_millis(5));
    assert!(works(&mut wire));
    assert_eq!(late.struck(), 1);
    faults
        .on::<ApiVersionsRequest>()
        .once()
        .delay(Duration::from_secs(3600));
    wire.send(&versions(), 3).unwrap();
    assert!(wire.is_silent());
}

#[test]
fn connections_are_cut_refused_and_lost() {
    let broker = TestBroker::start();
    let faults = broker.faults();
    let mut wires = [Wire::connect(&broker), Wire::connect(&broker)];
    assert!(wires.iter_mut().all(works));
    faults.cut_connections();
    assert!(wires.iter_mut().all(Wire::has_ended));
    assert_eq!(faults.connections_made(), 2);

    let mut before = Wire::connect(&broker);
    assert!(works(&mut before));
    let refused = faults.refuse_connections();
    assert!(!works(&mut Wire::connect(&broker)));
    assert_eq!(refused.struck(), 1);
    assert!(works(&mut before), "an open connection is well");
    refused.remove();
    assert!(works(&mut Wire::connect(&broker)));

    faults.half_open();
    before.send(&versions(), 3).unwrap();
    assert!(before.is_silent());
    assert!(works(&mut Wire::connect(&broker)));
    assert!(before.is_silent());
}

#[tokio::test]
async fn requests_stall_wait_and_drip() {
    let broker = TestBroker::start();
    let faults = broker.faults();
    let stalled = faults.stall();
    let mut wire = Wire::connect(&broker);
    wire.send(&versions(), 3).unwrap();
    stalled.struck_times(1).await;
    stalled.remove();
    assert!(wire.is_silent(), "what was swallowed stays so");
    let mut wire = Wire::connect(&broker);
    assert!(works(&mut wire));

    let paused = faults.pause();
    wire.send(&versions(), 3).unwrap();
    paused.struck_times(1).await;
    assert!(wire.is_silent());
    paused.remove();
    assert!(wire.receive::<ApiVersionsRequest>(3).is_some());

    let dripping = faults.drip(1, Duration::ZERO);
    assert!(works(&mut wire));
    assert_eq!(dripping.struck(), 1);
    faults.clear();
    assert!(works(&mut wire));
    assert_eq!(dripping.struck(), 1);
}
