//! Commits.

use std::{collections::BTreeMap, sync::Arc};

use milena_machines::{
    TopicPartition,
    assign::TopicLayout,
    member::{
        CallCause, CallFailure, CommitId, CommitMode, GroupMetadata, MemberMetadata, Membership, OffsetAndMetadata,
        OffsetCall, OffsetCalls, OffsetConfig, OffsetError, OffsetEvent, OffsetRequest, OffsetResponse,
    },
};
use milena_wire::{
    Uuid,
    errors::ErrorCode,
    messages::{
        OffsetCommitRequest, OffsetCommitResponse,
        offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic},
    },
};

use super::rig::{BACKOFF_MS, topic_id};

const SYNC: CommitMode = CommitMode::Sync { deadline_ms: 10_000 };

fn calls() -> OffsetCalls {
    let config = OffsetConfig {
        group_id: "group".into(),
        request_timeout_ms: 30_000,
        retry_backoff_ms: 100,
        retry_backoff_max_ms: BACKOFF_MS,
    };
    OffsetCalls::new(config, 1)
}

fn member(generation: i32) -> Membership {
    Membership::Member {
        identity: identity(generation),
        is_epoch: true,
    }
}

fn identity(generation: i32) -> GroupMetadata {
    GroupMetadata {
        group_id: "group".into(),
        generation,
        member_id: "me".into(),
        instance_id: Some("instance".into()),
    }
}

fn offsets(offsets: &[(i32, i64)]) -> BTreeMap<TopicPartition, OffsetAndMetadata> {
    let offsets = offsets.iter().map(|(partition, offset)| {
        let committed = OffsetAndMetadata {
            offset: *offset,
            leader_epoch: Some(3),
            metadata: "text".into(),
        };
        (TopicPartition::new("t", *partition), committed)
    });
    offsets.collect()
}

fn request(call: &OffsetCall) -> &OffsetCommitRequest {
    match &call.request {
        OffsetRequest::Commit(request) => request,
        OffsetRequest::Fetch(request) => panic!("{request:?}"),
    }
}

fn committed_offset(call: &OffsetCall) -> i64 {
    request(call).topics[0].partitions[0].committed_offset
}

fn response_with(codes: &[(i32, ErrorCode)]) -> Result<OffsetResponse, CallFailure> {
    let partitions = codes
        .iter()
        .map(|(partition_index, error)| OffsetCommitResponsePartition {
            partition_index: *partition_index,
            error_code: error.code(),
            ..Default::default()
        });
    let topic = OffsetCommitResponseTopic {
        name: "t".into(),
        partitions: partitions.collect(),
        ..Default::default()
    };
    Ok(OffsetResponse::Commit(OffsetCommitResponse {
        topics: vec![topic],
        ..Default::default()
    }))
}

fn done(id: CommitId, results: &[(i32, Result<(), OffsetError>)]) -> OffsetEvent {
    let results = results
        .iter()
        .map(|(partition, result)| (TopicPartition::new("t", *partition), *result));
    OffsetEvent::Committed {
        id,
        results: results.collect(),
    }
}

/// Commits partition 0 once; the response has `error`.
fn commit_with_response(mode: CommitMode, error: ErrorCode, then: &Membership) -> (OffsetCalls, CommitId) {
    let mut calls = calls();
    let id = calls.commit(offsets(&[(0, 5)]), mode);
    let call = calls.poll_request(0, &member(4)).unwrap();
    calls.handle_response(0, call.id, response_with(&[(0, error)]), then);
    (calls, id)
}

#[test]
fn a_commit_says_who_commits_what() {
    let mut calls = calls();
    let id = calls.commit(offsets(&[(0, 5), (1, 6)]), CommitMode::Async);
    let call = calls.poll_request(0, &member(4)).unwrap();
    assert_eq!(call.timeout_ms, 30_000);
    let sent = request(&call);
    assert_eq!(
        (&*sent.group_id, &*sent.member_id, sent.generation_id_or_member_epoch),
        ("group", "me", 4)
    );
    assert_eq!(sent.group_instance_id.as_deref(), Some("instance"));
    assert_eq!((sent.topics.len(), &*sent.topics[0].name), (1, "t"));
    let partition = &sent.topics[0].partitions[1];
    assert_eq!((partition.partition_index, partition.committed_offset), (1, 6));
    assert_eq!(
        (
            partition.committed_leader_epoch,
            partition.committed_metadata.as_deref()
        ),
        (3, Some("text"))
    );
    calls.handle_response(
        0,
        call.id,
        response_with(&[(0, ErrorCode::None), (1, ErrorCode::None)]),
        &member(4),
    );
    assert_eq!(calls.poll_event(), Some(done(id, &[(0, Ok(())), (1, Ok(()))])));
    assert!(!calls.has_commits());
}

#[test]
fn without_a_subscription_no_member_is_named() {
    let mut calls = calls();
    calls.commit(offsets(&[(0, 5)]), CommitMode::Async);
    let call = calls.poll_request(0, &Membership::Standalone).unwrap();
    let sent = request(&call);
    assert_eq!(
        (&*sent.group_id, &*sent.member_id, sent.generation_id_or_member_epoch),
        ("group", "", -1)
    );
    assert_eq!(sent.group_instance_id, None);
}

#[test]
fn commits_leave_one_at_a_time_in_the_order_of_the_calls() {
    let mut calls = calls();
    let first = calls.commit(offsets(&[(0, 1)]), SYNC);
    let second = calls.commit(offsets(&[(0, 2)]), CommitMode::Async);
    let empty = calls.commit(BTreeMap::new(), CommitMode::Async);
    let call = calls.poll_request(0, &member(1)).unwrap();
    assert_eq!(committed_offset(&call), 1);
    assert_eq!(calls.poll_request(0, &member(1)), None);
    // The first is retried before the second is sent.
    calls.handle_response(
        0,
        call.id,
        response_with(&[(0, ErrorCode::CoordinatorLoadInProgress)]),
        &member(1),
    );
    assert_eq!(calls.poll_request(0, &member(1)), None);
    let retry_at = calls.poll_timeout().unwrap();
    assert!((80..=120).contains(&retry_at));
    let call = calls.poll_request(retry_at, &member(1)).unwrap();
    assert_eq!(committed_offset(&call), 1);
    calls.handle_response(retry_at, call.id, response_with(&[(0, ErrorCode::None)]), &member(1));
    let call = calls.poll_request(retry_at, &member(1)).unwrap();
    assert_eq!(committed_offset(&call), 2);
    assert_eq!(calls.poll_event(), Some(done(first, &[(0, Ok(()))])));
    assert_eq!(calls.poll_event(), None);
    calls.handle_response(retry_at, call.id, response_with(&[(0, ErrorCode::None)]), &member(1));
    assert_eq!(calls.poll_request(retry_at, &member(1)), None);
    assert_eq!(calls.poll_event(), Some(done(second, &[(0, Ok(()))])));
    assert_eq!(calls.poll_event(), Some(done(empty, &[])));
}

#[test]
fn an_async_commit_is_never_sent_again() {
    let retriable = [
        ErrorCode::CoordinatorLoadInProgress,
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::NotCoordinator,
        ErrorCode::RequestTimedOut,
    ];
    for error in retriable {
        let (mut calls, id) = commit_with_response(CommitMode::Async, error, &member(4));
        let expected = OffsetError::Retriable(CallCause::Error(error));
        assert_eq!(calls.poll_event(), Some(done(id, &[(0, Err(expected))])));
        assert_eq!(calls.poll_request(60_000, &member(4)), None);
    }
    let mut calls = calls();
    let id = calls.commit(offsets(&[(0, 5)]), CommitMode::Async);
    let call = calls.poll_request(0, &member(4)).unwrap();
    calls.handle_response(0, call.id, Err(CallFailure::Disconnected), &member(4));
    assert!(calls.take_coordinator_moved());
    let expected = OffsetError::Retriable(CallCause::NoResponse(CallFailure::Disconnected));
    assert_eq!(calls.poll_event(), Some(done(id, &[(0, Err(expected))])));
    // Nor is one with a stale epoch, although there is a newer one.
    let (mut calls, id) = commit_with_response(CommitMode::Async, ErrorCode::StaleMemberEpoch, &member(5));
    let expected = OffsetError::Retriable(CallCause::Error(ErrorCode::StaleMemberEpoch));
    assert_eq!(calls.poll_event(), Some(done(id, &[(0, Err(expected))])));
}

#[test]
fn a_sync_commit_is_tried_until_its_deadline() {
    let (mut calls, id) = commit_with_response(SYNC, ErrorCode::NotCoordinator, &member(4));
    assert!(calls.take_coordinator_moved());
    assert_eq!(calls.poll_event(), None);
    let mut now = 0;
    let mut tries = 0;
    loop {
        now = calls.poll_timeout().unwrap().max(now);
        calls.handle_timeout(now);
        if let Some(event) = calls.poll_event() {
            let last_cause = Some(CallCause::NoResponse(CallFailure::TimedOut));
            assert_eq!(event, done(id, &[(0, Err(OffsetError::TimedOut { last_cause }))]));
            break;
        }
        let call = calls.poll_request(now, &member(4)).unwrap();
        calls.handle_response(now, call.id, Err(CallFailure::TimedOut), &member(4));
        tries += 1;
    }
    assert_eq!(now, 10_000);
    assert!(tries > 8, "{tries}");
}

#[test]
fn a_commit_over_its_deadline_stays_in_flight_until_its_response() {
    let mut calls = calls();
    let late = calls.commit(offsets(&[(0, 1)]), SYNC);
    calls.commit(offsets(&[(0, 2)]), CommitMode::Async);
    let call = calls.poll_request(0, &member(1)).unwrap();
    calls.handle_timeout(10_000);
    let expected = OffsetError::TimedOut { last_cause: None };
    assert_eq!(calls.poll_event(), Some(done(late, &[(0, Err(expected))])));
    assert_eq!(calls.poll_request(10_000, &member(1)), None);
    calls.handle_response(10_001, call.id, response_with(&[(0, ErrorCode::None)]), &member(1));
    assert_eq!(calls.poll_event(), None);
    let call = calls.poll_request(10_001, &member(1)).unwrap();
    assert_eq!(committed_offset(&call), 2);
}

#[test]
fn only_what_failed_is_sent_again() {
    let mut calls = calls();
    let id = calls.commit(offsets(&[(0, 1), (1, 2), (2, 3)]), SYNC);
    let call = calls.poll_request(0, &member(1)).unwrap();
    let codes = [
        (0, ErrorCode::None),
        (1, ErrorCode::UnknownTopicOrPartition),
        (2, ErrorCode::TopicAuthorizationFailed),
    ];
    calls.handle_response(0, call.id, response_with(&codes), &member(1));
    assert_eq!(calls.poll_event(), None);
    let call = calls.poll_request(BACKOFF_MS, &member(1)).unwrap();
    assert_eq!(request(&call).topics[0].partitions.len(), 1);
    assert_eq!(committed_offset(&call), 2);
    calls.handle_response(BACKOFF_MS, call.id, response_with(&[(1, ErrorCode::None)]), &member(1));
    let refused = Err(OffsetError::Refused(ErrorCode::TopicAuthorizationFailed));
    assert_eq!(
        calls.poll_event(),
        Some(done(id, &[(0, Ok(())), (1, Ok(())), (2, refused)]))
    );
}

#[test]
fn a_stale_epoch_is_tried_at_once_with_a_newer_one_and_has_failed_without() {
    let (mut calls, _) = commit_with_response(SYNC, ErrorCode::StaleMemberEpoch, &member(5));
    assert_eq!(calls.poll_event(), None);
    let call = calls.poll_request(0, &member(5)).unwrap();
    assert_eq!(request(&call).generation_id_or_member_epoch, 5);
    for then in [member(4), Membership::NotMember] {
        let (mut calls, id) = commit_with_response(SYNC, ErrorCode::StaleMemberEpoch, &then);
        assert_eq!(
            calls.poll_event(),
            Some(done(id, &[(0, Err(OffsetError::CommitFailed))]))
        );
    }
}

#[test]
fn a_last_commit_does_not_wait_for_a_topic_that_is_gone() {
    let last = CommitMode::Last { deadline_ms: 10_000 };
    for error in [ErrorCode::UnknownTopicOrPartition, ErrorCode::UnknownTopicId] {
        let (mut calls, id) = commit_with_response(last, error, &member(4));
        let refused = Err(OffsetError::Refused(error));
        assert_eq!(calls.poll_event(), Some(done(id, &[(0, refused)])));
    }
    // Otherwise it is like any synchronous commit.
    let (mut calls, id) = commit_with_response(last, ErrorCode::CoordinatorLoadInProgress, &member(4));
    assert!(calls.poll_request(BACKOFF_MS, &member(4)).is_some());
    calls.handle_timeout(10_000);
    let last_cause = Some(CallCause::Error(ErrorCode::CoordinatorLoadInProgress));
    let late = Err(OffsetError::TimedOut { last_cause });
    assert_eq!(calls.poll_event(), Some(done(id, &[(0, late)])));
}

#[test]
fn a_retry_is_made_in_the_newest_name() {
    let (mut calls, _) = commit_with_response(SYNC, ErrorCode::CoordinatorLoadInProgress, &member(4));
    let call = calls.poll_request(BACKOFF_MS, &member(9)).unwrap();
    assert_eq!(request(&call).generation_id_or_member_epoch, 9);
}

#[test]
fn a_rebalance_and_a_lost_membership_have_different_errors() {
    let failed = OffsetError::CommitFailed;
    let rebalancing = OffsetError::RebalanceInProgress;
    for (error, then, expected) in [
        (ErrorCode::RebalanceInProgress, member(4), rebalancing),
        (ErrorCode::UnknownMemberId, member(4), failed),
        (ErrorCode::IllegalGeneration, member(4), failed),
        (ErrorCode::IllegalGeneration, member(5), failed),
        (ErrorCode::IllegalGeneration, Membership::Rebalancing, rebalancing),
        (ErrorCode::FencedInstanceId, member(4), OffsetError::FencedInstance),
        (ErrorCode::FencedInstanceId, Membership::Rebalancing, rebalancing),
    ] {
        let (mut calls, id) = commit_with_response(SYNC, error, &then);
        // The member gets the error first.
        let sent = identity(4);
        assert_eq!(calls.poll_event(), Some(OffsetEvent::MemberRefused { sent, error }));
        assert_eq!(
            calls.poll_event(),
            Some(done(id, &[(0, Err(expected))])),
            "{error} {then:?}"
        );
    }
    for (membership, expected) in [(Membership::Rebalancing, rebalancing), (Membership::NotMember, failed)] {
        let mut calls = calls();
        let id = calls.commit(offsets(&[(0, 5)]), SYNC);
        assert_eq!(calls.poll_request(0, &membership), None);
        assert_eq!(calls.poll_event(), Some(done(id, &[(0, Err(expected))])));
    }
}

/// Found by the simulator: the commit came with the new epoch, and overwrote that of the new owner.
#[test]
fn what_is_released_while_a_commit_waits_is_not_committed_any_more() {
    let mut calls = calls();
    let first = calls.commit(offsets(&[(0, 1), (1, 1)]), SYNC);
    let waiting = calls.commit(offsets(&[(0, 2), (1, 2)]), CommitMode::Async);
    let call = calls.poll_request(0, &member(1)).unwrap();
    calls.handle_released(&[TopicPartition::new("t", 0)]);
    // The one in flight is not sent again.
    calls.handle_response(0, call.id, Err(CallFailure::Disconnected), &member(2));
    let call = calls.poll_request(BACKOFF_MS, &member(2)).unwrap();
    assert_eq!(request(&call).topics[0].partitions.len(), 1);
    calls.handle_response(BACKOFF_MS, call.id, response_with(&[(1, ErrorCode::None)]), &member(2));
    let failed = Err(OffsetError::CommitFailed);
    assert_eq!(calls.poll_event(), Some(done(first, &[(0, failed), (1, Ok(()))])));
    let call = calls.poll_request(BACKOFF_MS, &member(2)).unwrap();
    assert_eq!(request(&call).topics[0].partitions.len(), 1);
    calls.handle_response(BACKOFF_MS, call.id, response_with(&[(1, ErrorCode::None)]), &member(2));
    assert_eq!(calls.poll_event(), Some(done(waiting, &[(0, failed), (1, Ok(()))])));
    // A later commit is the application's own decision.
    calls.commit(offsets(&[(0, 3)]), CommitMode::Async);
    assert!(calls.poll_request(BACKOFF_MS, &member(2)).is_some());
}

#[test]
fn partitions_missing_in_the_response_have_failed() {
    let mut calls = calls();
    let id = calls.commit(offsets(&[(0, 1), (1, 2)]), SYNC);
    let call = calls.poll_request(0, &member(1)).unwrap();
    calls.handle_response(
        0,
        call.id,
        response_with(&[(0, ErrorCode::None), (7, ErrorCode::None)]),
        &member(1),
    );
    let forgotten = Err(OffsetError::Refused(ErrorCode::UnknownServerError));
    assert_eq!(calls.poll_event(), Some(done(id, &[(0, Ok(())), (1, forgotten)])));
}

#[test]
fn the_newest_version_needs_the_ids_of_all_topics() {
    let mut calls = calls();
    let mut metadata = MemberMetadata::default();
    metadata.insert("t".into(), Some(topic_id("t")), TopicLayout::without_racks(1));
    calls.handle_metadata(Arc::new(metadata.clone()));
    let id = calls.commit(offsets(&[(0, 1)]), SYNC);
    let call = calls.poll_request(0, &member(1)).unwrap();
    assert_eq!(
        (call.max_version, request(&call).topics[0].topic_id),
        (10, topic_id("t"))
    );
    // A response of that version has ids and no names.
    let Ok(OffsetResponse::Commit(mut response)) = response_with(&[(0, ErrorCode::UnknownTopicId)]) else {
        unreachable!()
    };
    (response.topics[0].name, response.topics[0].topic_id) = ("".into(), topic_id("t"));
    calls.handle_response(0, call.id, Ok(OffsetResponse::Commit(response)), &member(1));
    assert!(calls.take_metadata_outdated());
    let call = calls.poll_request(BACKOFF_MS, &member(1)).unwrap();
    calls.handle_response(0, call.id, response_with(&[(0, ErrorCode::None)]), &member(1));
    assert_eq!(calls.poll_event(), Some(done(id, &[(0, Ok(()))])));

    metadata.insert("t".into(), None, TopicLayout::without_racks(1));
    calls.handle_metadata(Arc::new(metadata));
    calls.commit(offsets(&[(0, 1)]), SYNC);
    let call = calls.poll_request(BACKOFF_MS, &member(1)).unwrap();
    assert_eq!(
        (call.max_version, request(&call).topics[0].topic_id),
        (9, Uuid::default())
    );
}

/// A topic that was deleted and created again has the name of the old one, and none of its records.
#[test]
fn a_commit_is_for_the_topic_that_was_read_not_for_its_successor() {
    let metadata = |id: Option<Uuid>| {
        let mut metadata = MemberMetadata::default();
        metadata.insert("t".into(), id, TopicLayout::without_racks(1));
        Arc::new(metadata)
    };
    let mut calls = calls();
    calls.handle_metadata(metadata(Some(topic_id("t"))));
    let id = calls.commit(offsets(&[(0, 5)]), SYNC);
    calls.handle_metadata(metadata(None));
    let call = calls.poll_request(0, &member(1)).unwrap();
    assert_eq!(
        (call.max_version, request(&call).topics[0].topic_id),
        (10, topic_id("t"))
    );
    calls.handle_metadata(metadata(Some(topic_id("its successor"))));
    calls.handle_response(0, call.id, Err(CallFailure::Disconnected), &member(1));
    assert_eq!(calls.poll_request(BACKOFF_MS, &member(1)), None);
    let gone = Err(OffsetError::Refused(ErrorCode::UnknownTopicId));
    assert_eq!(calls.poll_event(), Some(done(id, &[(0, gone)])));
}
