//! Times of metadata requests.

use super::*;
use crate::{
    config::MetadataRecovery,
    metadata::{MetadataError, Refresh},
    net::CallError,
};

fn orders_response(epoch: i32) -> MetadataResponse {
    response_with(vec![topic("orders", id(1), vec![partition(0, 1, epoch)])])
}

fn fail(refresher: &mut Refresher, error: MetadataError) -> i64 {
    let now_ms = refresher.poll_timeout().unwrap().max(0);
    let call = refresher.poll_request(now_ms).unwrap();
    refresher.handle_response(now_ms, call.id, Err(error));
    now_ms
}

fn brokers(refresher: &Refresher) -> usize {
    refresher.cache().brokers().len()
}

#[test]
fn it_asks_at_once_and_one_at_a_time() {
    let mut refresher = Refresher::new(&ClientSettings::default(), 1);
    let call = refresher.poll_request(0).unwrap();
    assert_eq!(call.request.topics, Some(vec![]));
    assert_eq!(refresher.poll_timeout(), None);
    assert_eq!(refresher.poll_request(i64::MAX), None);
    assert!(!refresher.handle_response(5, call.id + 1, Ok((VERSION, response_with(vec![])))));
    assert!(refresher.handle_response(5, call.id, Ok((VERSION, response_with(vec![])))));
    assert!(!refresher.handle_response(5, call.id, Ok((VERSION, response_with(vec![])))));
    assert_eq!(refresher.poll_timeout(), Some(5 + 300_000));
}

#[test]
fn what_is_newly_wanted_is_asked_for_at_once() {
    let mut refresher = refresher();
    let call = refresher.poll_request(0).unwrap();
    refresher.select(names(&["orders", "others"]));
    refresher.handle_response(1, call.id, Ok((VERSION, orders_response(1))));
    // The response in flight could not contain it.
    let call = refresher.poll_request(1).unwrap();
    assert_eq!(call.request.topics.as_ref().unwrap().len(), 2);
    refresher.handle_response(2, call.id, Ok((VERSION, orders_response(1))));
    // A smaller selection is nothing new.
    refresher.select(names(&["others"]));
    assert_eq!(refresher.poll_timeout(), Some(2 + 300_000));
    refresher.select(TopicSelection::All);
    assert_eq!(refresher.poll_request(2).unwrap().request.topics, None);
}

#[test]
fn responses_that_bring_nothing_new_are_asked_for_less_and_less_often() {
    let mut refresher = refresher();
    learn(&mut refresher, VERSION, orders_response(1));
    let mut last_ms = 0;
    let mut waits = Vec::new();
    for _ in 0..6 {
        refresher.request_update(Refresh::Stale);
        let now_ms = learn(&mut refresher, VERSION, orders_response(1));
        waits.push(now_ms - last_ms);
        last_ms = now_ms;
    }
    for (wait, middle) in waits.iter().zip([100, 100, 200, 400, 800, 1000]) {
        assert!(
            *wait >= middle * 8 / 10 && *wait <= (middle * 12 / 10).min(1000),
            "{waits:?}"
        );
    }
    // Progress or a new selection resets the interval.
    refresher.request_update(Refresh::Stale);
    last_ms = learn(&mut refresher, VERSION, orders_response(2));
    refresher.request_update(Refresh::Stale);
    assert!(refresher.poll_timeout().unwrap() - last_ms <= 120);
}

#[test]
fn a_response_that_is_not_the_last_word_is_asked_for_again() {
    for stale in [
        failed("orders", ErrorCode::UnknownTopicOrPartition),
        topic(
            "orders",
            id(1),
            vec![MetadataResponsePartition {
                error_code: ErrorCode::LeaderNotAvailable.code(),
                ..partition(0, -1, 1)
            }],
        ),
    ] {
        let mut refresher = refresher();
        let now_ms = learn(&mut refresher, VERSION, response_with(vec![stale]));
        assert!(refresher.poll_timeout().unwrap() - now_ms <= 120);
    }
    let mut refresher = refresher();
    let invalid = failed("orders", ErrorCode::InvalidTopicException);
    let now_ms = learn(&mut refresher, VERSION, response_with(vec![invalid]));
    assert_eq!(refresher.poll_timeout(), Some(now_ms + 300_000));
}

#[test]
fn failures_are_kept_and_tried_again_later_and_later() {
    let mut refresher = refresher();
    let mut last_ms = fail(&mut refresher, CallError::Closed.into());
    for middle in [100, 200, 400, 800, 1000, 1000] {
        let now_ms = fail(&mut refresher, MetadataError::NoBootstrap);
        assert!(
            now_ms - last_ms >= middle * 8 / 10 && now_ms - last_ms <= 1000,
            "{middle}"
        );
        assert_eq!(refresher.last_error(), Some(&MetadataError::NoBootstrap));
        last_ms = now_ms;
    }
    // A new selection does not shorten the backoff of a broken network.
    let due_ms = refresher.poll_timeout();
    refresher.select(names(&["others"]));
    assert_eq!(refresher.poll_timeout(), due_ms);
    learn(&mut refresher, VERSION, orders_response(1));
    assert_eq!(refresher.last_error(), None);
}

#[test]
fn a_response_without_brokers_is_a_failure() {
    let mut refresher = refresher();
    learn(&mut refresher, VERSION, orders_response(1));
    refresher.request_update(Refresh::New);
    let now_ms = refresher.poll_timeout().unwrap();
    let call = refresher.poll_request(now_ms).unwrap();
    let empty = Ok((VERSION, MetadataResponse::default()));
    assert!(!refresher.handle_response(now_ms, call.id, empty));
    assert_eq!(refresher.last_error(), Some(&MetadataError::NoBrokers));
    assert_eq!(brokers(&refresher), 3);
}

#[test]
fn a_broker_can_send_us_back_to_the_bootstrap_servers() {
    for (recovery, left) in [(MetadataRecovery::Rebootstrap, 0), (MetadataRecovery::None, 3)] {
        let settings = ClientSettings {
            metadata_recovery: recovery,
            ..ClientSettings::default()
        };
        let mut refresher = Refresher::new(&settings, 1);
        learn(&mut refresher, VERSION, orders_response(1));
        refresher.request_update(Refresh::New);
        let now_ms = refresher.poll_timeout().unwrap();
        let call = refresher.poll_request(now_ms).unwrap();
        let required = MetadataResponse {
            error_code: ErrorCode::RebootstrapRequired.code(),
            ..orders_response(1)
        };
        refresher.handle_response(now_ms, call.id, Ok((VERSION, required)));
        assert_eq!(brokers(&refresher), left);
        // Topics are still known; their leaders are not.
        assert_eq!(partition_count(refresher.cache(), "orders"), Some(1));
        assert_eq!(leader(&refresher).is_some(), left > 0);
    }
}

#[test]
fn brokers_that_cannot_be_reached_are_forgotten() {
    let mut refresher = refresher();
    assert!(!refresher.handle_unreachable(), "no brokers are known");
    learn(&mut refresher, VERSION, orders_response(1));
    assert!(refresher.handle_unreachable());
    assert_eq!(brokers(&refresher), 0);
}

#[test]
fn after_a_long_time_without_success_it_begins_anew() {
    let mut refresher = refresher();
    let mut now_ms = learn(&mut refresher, VERSION, orders_response(1));
    refresher.request_update(Refresh::Stale);
    let since_ms = refresher.poll_timeout().unwrap();
    while now_ms - since_ms <= 300_000 {
        assert_eq!(brokers(&refresher), 3);
        now_ms = fail(&mut refresher, MetadataError::Call(CallError::Closed));
    }
    assert_eq!(brokers(&refresher), 0);
}

#[test]
fn topics_are_created_only_if_they_are_wanted_by_name_and_it_is_allowed() {
    let auto_create = |allow_auto_create_topics, selection| {
        let settings = ClientSettings {
            allow_auto_create_topics,
            ..ClientSettings::default()
        };
        let mut refresher = Refresher::new(&settings, 1);
        refresher.select(selection);
        let call = refresher.poll_request(0).unwrap();
        (call.request.allow_auto_topic_creation, call.versions.min)
    };
    assert_eq!(auto_create(true, names(&["orders"])), (true, 4));
    assert_eq!(auto_create(false, names(&["orders"])), (false, 4));
    assert_eq!(auto_create(true, TopicSelection::All), (false, 4));
    assert_eq!(auto_create(true, TopicSelection::Ids([id(1)].into())), (false, 12));
}
