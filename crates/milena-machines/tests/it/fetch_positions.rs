//! Positions of a consumer, and the events that move them.

use milena_machines::{
    TopicPartition,
    fetch::{FetchError, FetchErrorAction, FetchFrom, Position, PositionEpoch, Positions, ResetPolicy, ResetTo},
};
use milena_wire::errors::ErrorCode;

const BACKOFF_MS: i64 = 100;
const LEADER: i32 = 1;
const FOLLOWER: i32 = 2;

fn place(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

fn leader(_: &TopicPartition) -> Option<FetchFrom> {
    Some(FetchFrom {
        node: LEADER,
        leader_epoch: 7,
    })
}

fn at(offset: i64, epoch: i32) -> Position {
    Position {
        offset,
        epoch: Some(epoch),
    }
}

fn all(_: &TopicPartition) -> bool {
    true
}

/// One partition that is read from offset 10 on.
fn reading(policy: ResetPolicy) -> (Positions, PositionEpoch) {
    let mut positions = Positions::new(policy, true, BACKOFF_MS);
    positions.assign([place(0)]);
    let (_, epoch) = positions.poll_committed(0).remove(0);
    positions.handle_committed(&place(0), epoch, Some(at(10, 3)));
    (positions, epoch)
}

#[test]
fn a_committed_offset_is_where_reading_begins() {
    let (mut positions, epoch) = reading(ResetPolicy::Latest);
    assert_eq!(positions.position(&place(0)), Some(at(10, 3)));
    let fetchable = positions.fetchable(0, LEADER, leader, all);
    assert_eq!(fetchable.len(), 1);
    assert_eq!(fetchable[0].position, at(10, 3));
    assert_eq!(fetchable[0].leader_epoch, 7);
    assert_eq!(fetchable[0].epoch, epoch);
    assert!(positions.fetchable(0, FOLLOWER, leader, all).is_empty());
}

#[test]
fn without_a_committed_offset_the_policy_decides() {
    let mut positions = Positions::new(ResetPolicy::ByDuration { millis: 5 }, true, BACKOFF_MS);
    positions.assign([place(0)]);
    let (_, epoch) = positions.poll_committed(0).remove(0);
    positions.handle_committed(&place(0), epoch, None);
    assert!(!positions.is_settled());
    let reset = positions.poll_resets(0).remove(0);
    assert_eq!(reset.to, ResetTo::Ago { millis: 5 });
    positions.handle_reset(&place(0), reset.epoch, at(42, 1));
    assert_eq!(positions.position(&place(0)), Some(at(42, 1)));
    assert!(positions.is_settled());
}

#[test]
fn without_a_policy_the_application_hears_of_it_until_it_seeks() {
    let mut positions = Positions::new(ResetPolicy::None, true, BACKOFF_MS);
    positions.assign([place(0)]);
    let (_, epoch) = positions.poll_committed(0).remove(0);
    positions.handle_committed(&place(0), epoch, None);
    let partition = place(0);
    assert_eq!(positions.stuck(), Some(&FetchError::NoOffset { partition }));
    assert!(positions.stuck().is_some(), "it is told with every poll");
    assert!(positions.seek(&place(0), Position::at(0)));
    assert_eq!(positions.stuck(), None);
}

#[test]
fn without_a_group_no_committed_offsets_are_fetched() {
    let mut positions = Positions::new(ResetPolicy::Earliest, false, BACKOFF_MS);
    positions.assign([place(0)]);
    assert!(positions.poll_committed(0).is_empty());
    assert_eq!(positions.poll_resets(0)[0].to, ResetTo::Earliest);
}

#[test]
fn what_is_asked_is_not_asked_again_before_a_failure_and_a_pause() {
    let mut positions = Positions::new(ResetPolicy::Earliest, true, BACKOFF_MS);
    positions.assign([place(0)]);
    let (partition, epoch) = positions.poll_committed(0).remove(0);
    assert!(positions.poll_committed(1_000).is_empty());
    positions.handle_lookup_failed(1_000, &partition, epoch);
    assert!(positions.poll_committed(1_099).is_empty());
    assert_eq!(positions.poll_timeout(1_000), Some(1_100));
    assert_eq!(positions.poll_committed(1_100), [(partition, epoch)]);
}

#[test]
fn a_seek_makes_requests_in_flight_stale() {
    let (mut positions, old) = reading(ResetPolicy::Latest);
    assert!(positions.seek_to(&place(0), ResetTo::Earliest));
    let reset = positions.poll_resets(0).remove(0);
    assert!(positions.seek(&place(0), Position::at(5)));
    positions.handle_reset(&place(0), reset.epoch, at(99, 1));
    assert!(!positions.handle_fetched(&place(0), old, 5, at(20, 3)));
    assert_eq!(positions.deliverable(&place(0), old), None);
    positions.handle_delivered(&place(0), old, at(20, 3));
    assert_eq!(positions.position(&place(0)), Some(Position::at(5)));
}

/// The old leader responds with the same records as the new one.
#[test]
fn only_the_first_of_two_responses_counts() {
    let (mut positions, epoch) = reading(ResetPolicy::Latest);
    assert!(positions.handle_fetched(&place(0), epoch, 10, at(12, 3)));
    assert!(!positions.handle_fetched(&place(0), epoch, 10, at(13, 3)));
    assert_eq!(positions.fetchable(0, LEADER, leader, all)[0].position, at(12, 3));
}

#[test]
fn what_is_fetched_runs_ahead_of_what_is_handed_out() {
    let (mut positions, epoch) = reading(ResetPolicy::Latest);
    assert!(positions.handle_fetched(&place(0), epoch, 10, at(30, 4)));
    assert_eq!(positions.position(&place(0)), Some(at(10, 3)));
    assert_eq!(positions.fetchable(0, LEADER, leader, all)[0].position, at(30, 4));
    positions.handle_delivered(&place(0), epoch, at(20, 4));
    assert_eq!(positions.consumed().collect::<Vec<_>>(), [(&place(0), at(20, 4))]);
}

#[test]
fn a_new_assignment_keeps_place_and_pause_of_what_stays() {
    let (mut positions, epoch) = reading(ResetPolicy::Latest);
    assert!(positions.pause(&place(0), true));
    positions.assign([place(0), place(1)]);
    assert_eq!(positions.position(&place(0)), Some(at(10, 3)));
    assert_eq!(positions.paused().collect::<Vec<_>>(), [&place(0)]);
    assert_eq!(positions.deliverable(&place(0), epoch), Some(false));
    positions.assign([place(1)]);
    assert_eq!(positions.deliverable(&place(0), epoch), None);
    positions.assign([place(0), place(1)]);
    assert_eq!(
        positions.deliverable(&place(0), epoch),
        None,
        "what it had before is stale"
    );
    assert_eq!(positions.paused().count(), 0);
}

#[test]
fn what_is_held_is_neither_asked_about_nor_read() {
    let mut positions = Positions::new(ResetPolicy::Earliest, true, BACKOFF_MS);
    positions.assign([place(0)]);
    positions.block([&place(0)], true);
    assert!(positions.poll_committed(0).is_empty());
    positions.block([&place(0)], false);
    let (_, epoch) = positions.poll_committed(0).remove(0);
    positions.handle_committed(&place(0), epoch, Some(Position::at(1)));
    positions.block([&place(0)], true);
    assert!(positions.fetchable(0, LEADER, leader, all).is_empty());
    assert_eq!(positions.deliverable(&place(0), epoch), Some(false));
}

#[test]
fn an_offset_that_does_not_exist_resets_once_the_buffer_is_drained() {
    let (mut positions, epoch) = reading(ResetPolicy::Earliest);
    let verdict = positions.handle_fetch_error(0, &place(0), epoch, ErrorCode::OffsetOutOfRange);
    assert_eq!(verdict, FetchErrorAction::ResetWhenDrained);
    assert_eq!(
        positions.position(&place(0)),
        Some(at(10, 3)),
        "what is buffered counts"
    );
    positions.handle_end_of_range(&place(0), epoch);
    assert_eq!(positions.poll_resets(0)[0].to, ResetTo::Earliest);

    let (mut positions, epoch) = reading(ResetPolicy::None);
    positions.handle_end_of_range(&place(0), epoch);
    let (partition, offset) = (place(0), 10);
    assert_eq!(
        positions.stuck(),
        Some(&FetchError::OffsetOutOfRange { partition, offset })
    );
}

#[test]
fn a_follower_that_is_behind_never_resets_a_position() {
    let (mut positions, epoch) = reading(ResetPolicy::Earliest);
    positions.handle_preferred_replica(&place(0), epoch, FOLLOWER, 1_000);
    // The first call learns the leader epoch, and drops a follower that was named before.
    positions.fetchable(0, LEADER, leader, all);
    positions.handle_preferred_replica(&place(0), epoch, FOLLOWER, 1_000);
    assert_eq!(positions.fetchable(0, FOLLOWER, leader, all).len(), 1);
    assert!(positions.fetchable(0, LEADER, leader, all).is_empty());
    let verdict = positions.handle_fetch_error(0, &place(0), epoch, ErrorCode::OffsetOutOfRange);
    assert_eq!(verdict, FetchErrorAction::Retry);
    assert_eq!(
        positions.fetchable(0, LEADER, leader, all).len(),
        1,
        "the leader is asked at once"
    );
}

#[test]
fn a_follower_is_left_when_its_lease_ends_it_is_lost_or_the_leader_changes() {
    let (mut positions, epoch) = reading(ResetPolicy::Earliest);
    positions.fetchable(0, LEADER, leader, all);
    positions.handle_preferred_replica(&place(0), epoch, FOLLOWER, 1_000);
    assert_eq!(positions.fetchable(999, FOLLOWER, leader, all).len(), 1);
    assert!(positions.fetchable(1_000, FOLLOWER, leader, all).is_empty());

    positions.handle_preferred_replica(&place(0), epoch, FOLLOWER, 9_000);
    positions.handle_node_lost(FOLLOWER);
    assert!(positions.fetchable(1_000, FOLLOWER, leader, all).is_empty());

    positions.handle_preferred_replica(&place(0), epoch, FOLLOWER, 9_000);
    let new_leader = |_: &TopicPartition| {
        Some(FetchFrom {
            node: LEADER,
            leader_epoch: 8,
        })
    };
    assert!(positions.fetchable(1_000, FOLLOWER, new_leader, all).is_empty());
    assert_eq!(positions.fetchable(1_000, LEADER, new_leader, all).len(), 1);
}

#[test]
fn errors_of_a_fetch_lead_to_a_pause_or_to_the_application() {
    let verdict = |code| {
        let (mut positions, epoch) = reading(ResetPolicy::Earliest);
        let verdict = positions.handle_fetch_error(0, &place(0), epoch, code);
        assert!(positions.fetchable(0, LEADER, leader, all).is_empty(), "{code}: pauses");
        assert_eq!(
            positions.fetchable(BACKOFF_MS, LEADER, leader, all).len(),
            1,
            "{code}: goes on"
        );
        verdict
    };
    for code in [
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::ReplicaNotAvailable,
        ErrorCode::KafkaStorageError,
        ErrorCode::FencedLeaderEpoch,
        ErrorCode::OffsetNotAvailable,
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::UnknownTopicId,
        ErrorCode::InconsistentTopicId,
    ] {
        assert_eq!(verdict(code), FetchErrorAction::RefreshMetadata, "{code}");
    }
    assert_eq!(verdict(ErrorCode::UnknownLeaderEpoch), FetchErrorAction::Retry);
    assert_eq!(verdict(ErrorCode::UnknownServerError), FetchErrorAction::Retry);
    let topic = "orders".to_owned();
    let denied = FetchErrorAction::Raise(FetchError::TopicAuthorization { topic });
    assert_eq!(verdict(ErrorCode::TopicAuthorizationFailed), denied);
    let (partition, offset, code) = (place(0), 10, ErrorCode::CorruptMessage);
    let corrupt = FetchErrorAction::Raise(FetchError::Broker {
        partition,
        offset,
        code,
    });
    assert_eq!(verdict(ErrorCode::CorruptMessage), corrupt);
}

#[test]
fn a_cut_off_log_is_read_again_from_where_it_parts() {
    // Only buffered records were truncated: none that the application saw.
    let (mut positions, epoch) = reading(ResetPolicy::Latest);
    positions.handle_fetched(&place(0), epoch, 10, at(30, 4));
    positions.handle_divergence(&place(0), epoch, at(20, 4));
    assert_eq!(
        positions.deliverable(&place(0), epoch),
        None,
        "what is buffered is void"
    );
    assert_eq!(positions.fetchable(0, LEADER, leader, all)[0].position, at(10, 3));

    // Records that the application saw were truncated too.
    let (mut positions, epoch) = reading(ResetPolicy::Latest);
    positions.handle_divergence(&place(0), epoch, at(4, 2));
    assert_eq!(positions.position(&place(0)), Some(at(4, 2)));

    let (mut positions, epoch) = reading(ResetPolicy::None);
    positions.handle_divergence(&place(0), epoch, at(4, 2));
    let (partition, offset, divergent) = (place(0), 10, Some(at(4, 2)));
    let truncated = FetchError::LogTruncation {
        partition,
        offset,
        divergent,
    };
    assert_eq!(positions.stuck(), Some(&truncated));
    let text = truncated.to_string();
    assert!(
        text.contains("orders-0") && text.contains("offset 10") && text.contains("offset 4"),
        "{text}"
    );
}

#[test]
fn lag_and_lead_are_known_after_the_first_fetch() {
    let (mut positions, _) = reading(ResetPolicy::Latest);
    assert_eq!(positions.lag(&place(0), false), None);
    positions.handle_ends(&place(0), 100, 60, 4);
    positions.handle_ends(&place(0), -1, -1, -1);
    assert_eq!(positions.lag(&place(0), false), Some(90));
    assert_eq!(positions.lag(&place(0), true), Some(50));
    assert_eq!(positions.lead(&place(0)), Some(6));
    assert_eq!(positions.lag(&place(9), false), None);
}

#[test]
fn a_topic_made_anew_is_read_as_the_policy_says() {
    let (mut positions, epoch) = reading(ResetPolicy::Earliest);
    positions.handle_recreated("other");
    assert_eq!(positions.deliverable(&place(0), epoch), Some(true));
    positions.handle_recreated("orders");
    assert_eq!(positions.deliverable(&place(0), epoch), None);
    assert_eq!(positions.poll_resets(0)[0].to, ResetTo::Earliest);
}

#[test]
fn a_blocked_partition_is_looked_up_only_on_request() {
    let mut positions = Positions::new(ResetPolicy::Earliest, true, 100);
    positions.assign([place(0), place(1)]);
    positions.block([&place(0), &place(1)], true);
    assert!(positions.is_settled());
    assert!(positions.poll_committed(0).is_empty());
    positions.request_position(&place(1));
    let asked = positions.poll_committed(0);
    assert_eq!(
        asked.iter().map(|(partition, _)| partition).collect::<Vec<_>>(),
        [&place(1)]
    );
    positions.handle_committed(&place(1), asked[0].1, None);
    assert_eq!(positions.poll_resets(0).len(), 1);
    // The epoch is stale.
    positions.block([&place(0), &place(1)], true);
    positions.handle_lookup_failed(0, &place(1), asked[0].1);
    assert!(positions.poll_resets(1_000).is_empty());
}

#[test]
fn it_is_known_for_how_long_a_partition_was_left_out() {
    let mut positions = Positions::new(ResetPolicy::Latest, true, BACKOFF_MS);
    positions.assign([place(0), place(1)]);
    for (partition, epoch) in positions.poll_committed(0) {
        positions.handle_committed(&partition, epoch, Some(at(10, 3)));
    }
    assert_eq!(positions.fetchable(0, LEADER, leader, all).len(), 2);
    assert_eq!(positions.left_out_ms(0, LEADER), None);
    positions.pause(&place(0), true);
    assert_eq!(positions.fetchable(100, LEADER, leader, all).len(), 1);
    assert_eq!(positions.fetchable(200, LEADER, leader, all).len(), 1);
    assert_eq!(positions.left_out_ms(250, LEADER), Some(150));
    assert_eq!(positions.left_out_ms(250, FOLLOWER), None, "it is asked for nothing");
    // The one that was left out last may be the first to come back.
    assert!(positions.fetchable(300, LEADER, leader, |_| false).is_empty());
    assert_eq!(positions.left_out_ms(310, LEADER), Some(10));
    positions.pause(&place(0), false);
    assert_eq!(positions.fetchable(400, LEADER, leader, all).len(), 2);
    assert_eq!(positions.left_out_ms(400, LEADER), None);
}
