//! Fetches of committed offsets.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use milena_machines::{
    TopicPartition,
    assign::TopicLayout,
    member::{
        CallCause, CallFailure, FetchId, ForVersion, GroupMetadata, MemberMetadata, Membership, OffsetAndMetadata,
        OffsetCall, OffsetCalls, OffsetConfig, OffsetError, OffsetEvent, OffsetRequest, OffsetResponse,
    },
};
use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    message::Message,
    messages::{
        OffsetFetchRequest, OffsetFetchResponse,
        offset_fetch_response::{
            OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
            OffsetFetchResponseTopic, OffsetFetchResponseTopics,
        },
    },
};

use super::rig::{BACKOFF_MS, topic_id};

fn calls() -> OffsetCalls {
    let config = OffsetConfig {
        group_id: "group".into(),
        request_timeout_ms: 30_000,
        retry_backoff_ms: 100,
        retry_backoff_max_ms: BACKOFF_MS,
    };
    OffsetCalls::new(config, 1)
}

fn member(generation: i32, is_epoch: bool) -> Membership {
    let identity = GroupMetadata {
        group_id: "group".into(),
        generation,
        member_id: "me".into(),
        instance_id: None,
    };
    Membership::Member { identity, is_epoch }
}

fn places(partitions: &[i32]) -> BTreeSet<TopicPartition> {
    partitions
        .iter()
        .map(|partition| TopicPartition::new("t", *partition))
        .collect()
}

fn request(call: &OffsetCall) -> &OffsetFetchRequest {
    match &call.request {
        OffsetRequest::Fetch(request) => request,
        OffsetRequest::Commit(request) => panic!("{request:?}"),
    }
}

fn asked(call: &OffsetCall) -> Vec<i32> {
    request(call).groups[0].topics.as_ref().unwrap()[0]
        .partition_indexes
        .clone()
}

/// Group error, then partition, offset and error.
fn response_with(error: ErrorCode, partitions: &[(i32, i64, ErrorCode)]) -> Result<OffsetResponse, CallFailure> {
    let partitions = partitions
        .iter()
        .map(|(partition_index, offset, error)| OffsetFetchResponsePartitions {
            partition_index: *partition_index,
            committed_offset: *offset,
            committed_leader_epoch: 2,
            metadata: Some("text".into()),
            error_code: error.code(),
            ..Default::default()
        });
    let topic = OffsetFetchResponseTopics {
        name: "t".into(),
        partitions: partitions.collect(),
        ..Default::default()
    };
    let group = OffsetFetchResponseGroup {
        group_id: "group".into(),
        topics: vec![topic],
        error_code: error.code(),
        ..Default::default()
    };
    Ok(OffsetResponse::Fetch(OffsetFetchResponse {
        groups: vec![group],
        ..Default::default()
    }))
}

fn committed(offset: i64) -> Result<Option<OffsetAndMetadata>, OffsetError> {
    Ok(Some(OffsetAndMetadata {
        offset,
        leader_epoch: Some(2),
        metadata: "text".into(),
    }))
}

type Fetched = Result<Option<OffsetAndMetadata>, OffsetError>;

fn done(id: FetchId, results: Vec<(i32, Fetched)>) -> OffsetEvent {
    let results = results
        .into_iter()
        .map(|(partition, result)| (TopicPartition::new("t", partition), result));
    let results: BTreeMap<TopicPartition, Fetched> = results.collect();
    OffsetEvent::Fetched { id, results }
}

#[test]
fn offsets_are_fetched_or_there_are_none() {
    let mut calls = calls();
    let id = calls.fetch(places(&[0, 1]), 10_000);
    let call = calls.poll_request(0, &member(1, false)).unwrap();
    assert_eq!(asked(&call), [0, 1]);
    assert!(request(&call).require_stable);
    assert_eq!(calls.poll_request(0, &member(1, false)), None);
    let codes = [(0, 7, ErrorCode::None), (1, -1, ErrorCode::None)];
    calls.handle_response(0, call.id, response_with(ErrorCode::None, &codes), &member(1, false));
    assert_eq!(
        calls.poll_event(),
        Some(done(id, vec![(0, committed(7)), (1, Ok(None))]))
    );
    assert_eq!(calls.poll_timeout(), None);
}

#[test]
fn only_members_of_the_consumer_protocol_say_who_they_are() {
    for (membership, expected) in [
        (member(4, true), (Some("me"), 4)),
        (member(4, false), (None, -1)),
        (Membership::NotMember, (None, -1)),
        (Membership::Rebalancing, (None, -1)),
        (Membership::Standalone, (None, -1)),
    ] {
        let mut calls = calls();
        calls.fetch(places(&[0]), 10_000);
        let call = calls.poll_request(0, &membership).unwrap();
        let group = &request(&call).groups[0];
        assert_eq!((group.member_id.as_deref(), group.member_epoch), expected);
    }
}

#[test]
fn unstable_offsets_are_asked_for_again_and_the_others_are_not() {
    let mut calls = calls();
    let id = calls.fetch(places(&[0, 1]), 10_000);
    let call = calls.poll_request(0, &Membership::Standalone).unwrap();
    let codes = [(0, 7, ErrorCode::None), (1, -1, ErrorCode::UnstableOffsetCommit)];
    calls.handle_response(
        0,
        call.id,
        response_with(ErrorCode::None, &codes),
        &Membership::Standalone,
    );
    assert_eq!(calls.poll_event(), None);
    let retry_at = calls.poll_timeout().unwrap();
    assert_eq!(calls.poll_request(retry_at - 1, &Membership::Standalone), None);
    let call = calls.poll_request(retry_at, &Membership::Standalone).unwrap();
    assert_eq!(asked(&call), [1]);
    calls.handle_response(
        retry_at,
        call.id,
        response_with(ErrorCode::None, &[(1, 8, ErrorCode::None)]),
        &Membership::Standalone,
    );
    assert_eq!(
        calls.poll_event(),
        Some(done(id, vec![(0, committed(7)), (1, committed(8))]))
    );
}

#[test]
fn what_passes_is_tried_until_the_deadline() {
    for error in [
        ErrorCode::CoordinatorLoadInProgress,
        ErrorCode::NotCoordinator,
        ErrorCode::StaleMemberEpoch,
        ErrorCode::UnknownMemberId,
    ] {
        let mut calls = calls();
        let id = calls.fetch(places(&[0]), 10_000);
        let call = calls.poll_request(0, &member(1, true)).unwrap();
        calls.handle_response(0, call.id, response_with(error, &[]), &member(1, true));
        assert_eq!(calls.take_coordinator_moved(), error == ErrorCode::NotCoordinator);
        assert_eq!(calls.poll_event(), None);
        let call = calls.poll_request(BACKOFF_MS, &member(2, true)).unwrap();
        assert_eq!(request(&call).groups[0].member_epoch, 2);
        calls.handle_timeout(10_000);
        let last_cause = Some(CallCause::Error(error));
        assert_eq!(
            calls.poll_event(),
            Some(done(id, vec![(0, Err(OffsetError::TimedOut { last_cause }))]))
        );
        calls.handle_response(
            10_001,
            call.id,
            response_with(ErrorCode::None, &[(0, 1, ErrorCode::None)]),
            &Membership::NotMember,
        );
        assert_eq!(calls.poll_event(), None);
    }
}

#[test]
fn what_does_not_pass_is_an_error_of_its_partition_or_of_all() {
    let mut calls = calls();
    let id = calls.fetch(places(&[0, 1]), 10_000);
    let call = calls.poll_request(0, &Membership::Standalone).unwrap();
    let codes = [(0, 7, ErrorCode::None), (1, -1, ErrorCode::TopicAuthorizationFailed)];
    calls.handle_response(
        0,
        call.id,
        response_with(ErrorCode::None, &codes),
        &Membership::Standalone,
    );
    let refused = |error| Err(OffsetError::Refused(error));
    let expected = vec![(0, committed(7)), (1, refused(ErrorCode::TopicAuthorizationFailed))];
    assert_eq!(calls.poll_event(), Some(done(id, expected)));
    let id = calls.fetch(places(&[0]), 10_000);
    let call = calls.poll_request(0, &Membership::Standalone).unwrap();
    calls.handle_response(
        0,
        call.id,
        response_with(ErrorCode::GroupAuthorizationFailed, &[]),
        &Membership::Standalone,
    );
    assert_eq!(
        calls.poll_event(),
        Some(done(id, vec![(0, refused(ErrorCode::GroupAuthorizationFailed))]))
    );
    let id = calls.fetch(places(&[0]), 10_000);
    let call = calls.poll_request(0, &Membership::Standalone).unwrap();
    let api = ApiKey::OffsetFetch;
    calls.handle_response(
        0,
        call.id,
        Err(CallFailure::Unsupported { api }),
        &Membership::Standalone,
    );
    assert_eq!(
        calls.poll_event(),
        Some(done(id, vec![(0, Err(OffsetError::Unsupported { api }))]))
    );
}

#[test]
fn many_fetches_are_in_flight_and_a_dropped_one_has_no_event() {
    let mut calls = calls();
    let first = calls.fetch(places(&[0]), 10_000);
    let second = calls.fetch(places(&[1]), 10_000);
    let third = calls.fetch(BTreeSet::new(), 10_000);
    let [one, two] = [(); 2].map(|()| calls.poll_request(0, &Membership::Standalone).unwrap());
    assert_eq!(calls.poll_event(), Some(done(third, vec![])));
    calls.forget_fetch(first);
    calls.handle_response(
        0,
        two.id,
        response_with(ErrorCode::None, &[(1, 8, ErrorCode::None)]),
        &Membership::Standalone,
    );
    calls.handle_response(
        0,
        one.id,
        response_with(ErrorCode::None, &[(0, 7, ErrorCode::None)]),
        &Membership::Standalone,
    );
    assert_eq!(calls.poll_event(), Some(done(second, vec![(1, committed(8))])));
    assert_eq!(calls.poll_event(), None);
}

#[test]
fn old_versions_have_one_group_in_other_fields() {
    let mut calls = calls();
    let id = calls.fetch(places(&[0]), 10_000);
    let call = calls.poll_request(0, &member(1, true)).unwrap();
    for version in OffsetFetchRequest::VERSIONS.min..=call.max_version {
        let OffsetRequest::Fetch(request) = call.request.clone() else {
            unreachable!()
        };
        let written = request.for_version(version);
        assert_eq!(written.require_stable, version >= 7);
        written.encode(version).unwrap();
    }
    let partition = OffsetFetchResponsePartition {
        committed_offset: 7,
        committed_leader_epoch: 2,
        metadata: Some("text".into()),
        ..Default::default()
    };
    let topic = OffsetFetchResponseTopic {
        name: "t".into(),
        partitions: vec![partition],
        ..Default::default()
    };
    let response = OffsetFetchResponse {
        topics: vec![topic],
        ..Default::default()
    };
    calls.handle_response(0, call.id, Ok(OffsetResponse::Fetch(response)), &member(1, true));
    assert_eq!(calls.poll_event(), Some(done(id, vec![(0, committed(7))])));
}

#[test]
fn the_newest_version_needs_the_ids_of_all_topics() {
    let mut calls = calls();
    calls.fetch(places(&[0]), 10_000);
    assert_eq!(calls.poll_request(0, &Membership::Standalone).unwrap().max_version, 9);
    let mut metadata = MemberMetadata::default();
    metadata.insert("t".into(), Some(topic_id("t")), TopicLayout::without_racks(1));
    calls.handle_metadata(Arc::new(metadata));
    let id = calls.fetch(places(&[0]), 10_000);
    let call = calls.poll_request(0, &Membership::Standalone).unwrap();
    assert_eq!(call.max_version, 10);
    let Ok(OffsetResponse::Fetch(mut response)) = response_with(ErrorCode::None, &[(0, 7, ErrorCode::None)]) else {
        unreachable!()
    };
    let topic = &mut response.groups[0].topics[0];
    (topic.name, topic.topic_id) = ("".into(), topic_id("t"));
    calls.handle_response(0, call.id, Ok(OffsetResponse::Fetch(response)), &Membership::Standalone);
    assert_eq!(calls.poll_event(), Some(done(id, vec![(0, committed(7))])));
}
