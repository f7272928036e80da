//! The finder, and a coordinator look-up with a real broker.

use std::sync::mpsc;

use milena_wire::{
    message::Message,
    messages::{FindCoordinatorRequest, find_coordinator_response},
};

use super::*;
use crate::net::{
    ClientSettings, DisconnectCause, Endpoint, RequestProblem, Role,
    tests::rig::{self, PATIENCE, connections, wait},
};

const FLAT: i16 = 3;
const LISTED: i16 = 6;

fn finder() -> Finder {
    Finder::new("readers".into(), Backoff::new(100, 1000), 1)
}

/// A response as encoded in this version.
fn response_for(version: i16, node_id: i32, error: ErrorCode) -> (i16, FindCoordinatorResponse) {
    let response = if version >= 4 {
        let coordinator = |key: &'static str, node_id| find_coordinator_response::Coordinator {
            key: key.into(),
            node_id,
            host: "host".into(),
            port: 9092,
            error_code: error.code(),
            error_message: Some("because".into()),
            ..Default::default()
        };
        FindCoordinatorResponse {
            coordinators: vec![coordinator("others", 99), coordinator("readers", node_id)],
            ..Default::default()
        }
    } else {
        FindCoordinatorResponse {
            node_id,
            host: "host".into(),
            port: 9092,
            error_code: error.code(),
            error_message: Some("because".into()),
            ..Default::default()
        }
    };
    (version, response)
}

fn lost() -> CallError {
    CallError::Disconnected {
        address: Endpoint::new("host", 9092),
        cause: DisconnectCause::BrokerRemoved,
    }
}

#[test]
fn nothing_is_looked_for_before_the_first_lookup() {
    let mut finder = finder();
    assert_eq!(finder.poll_timeout(), None);
    assert_eq!(finder.poll_request(0), None);
    assert!(finder.find().is_none());
    assert!(finder.poll_request(0).is_some());
    assert!(finder.find().is_none());
    assert_eq!(finder.poll_request(i64::MAX), None, "one look-up at a time");
}

#[test]
fn both_forms_of_the_response_are_read() {
    for version in [0, FLAT, 4, LISTED] {
        let mut finder = finder();
        finder.find();
        let id = finder.poll_request(0).unwrap();
        let event = finder.handle_response(1, id, Ok(response_for(version, 7, ErrorCode::None)));
        assert!(matches!(event, Some(CoordinatorEvent::Found(broker)) if broker.id == 7));
        assert_eq!(finder.find().unwrap().id, 7);
        assert_eq!(finder.poll_timeout(), None);
    }
}

#[test]
fn both_forms_of_the_request_can_be_written() {
    for version in FindCoordinatorRequest::VERSIONS.iter() {
        for (kind, since) in [(CoordinatorKind::Group, 0), (CoordinatorKind::Transaction, 1)] {
            if version >= since {
                let request = Finder::request(kind, "readers".into(), version);
                let bytes = request.encode(version).unwrap();
                assert_eq!(FindCoordinatorRequest::decode(&bytes, version).unwrap(), request);
            }
        }
    }
}

#[test]
fn what_may_pass_is_tried_again_later_and_later() {
    let mut finder = finder();
    finder.find();
    let mut last_ms = 0;
    let failures = [
        Err(lost()),
        Ok(response_for(LISTED, -1, ErrorCode::CoordinatorNotAvailable)),
        Ok(response_for(FLAT, -1, ErrorCode::CoordinatorLoadInProgress)),
        Ok((LISTED, FindCoordinatorResponse::default())),
    ];
    for (failure, middle) in failures.into_iter().zip([100, 200, 400, 800]) {
        let id = finder.poll_request(last_ms).unwrap();
        assert_eq!(finder.handle_response(last_ms, id, failure), None);
        let due_ms = finder.poll_timeout().unwrap();
        let wait = due_ms - last_ms;
        assert!(wait >= middle * 8 / 10 && wait <= middle * 12 / 10, "{wait}");
        assert_eq!(finder.poll_request(due_ms - 1), None);
        last_ms = due_ms;
    }
}

#[test]
fn a_refusal_is_reported_and_tried_with_the_next_lookup() {
    let unsupported = CallError::EncodeFailed {
        api: milena_wire::api::ApiKey::FindCoordinator,
        problem: RequestProblem::AlreadySent,
    };
    let refused = response_for(LISTED, -1, ErrorCode::GroupAuthorizationFailed);
    for failure in [Ok(refused), Err(unsupported)] {
        let mut finder = finder();
        finder.find();
        let id = finder.poll_request(0).unwrap();
        let event = finder.handle_response(0, id, failure);
        let Some(CoordinatorEvent::Failed(error)) = event else {
            panic!("{event:?}");
        };
        if let FindCoordinatorError::Refused { .. } = error {
            let expected = "the coordinator of readers cannot be found: GROUP_AUTHORIZATION_FAILED (30): because";
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!(finder.poll_timeout(), None);
        finder.find();
        assert!(finder.poll_request(0).is_some());
    }
}

#[test]
fn only_the_one_that_is_taken_for_it_can_prove_not_to_be() {
    let mut finder = finder();
    finder.find();
    let id = finder.poll_request(0).unwrap();
    finder.handle_response(0, id, Ok(response_for(LISTED, 7, ErrorCode::None)));
    assert!(!finder.mark_unknown(6));
    assert_eq!(finder.find().unwrap().id, 7);
    assert!(finder.mark_unknown(7));
    assert!(finder.find().is_none());
    // A stale response is ignored.
    assert_eq!(
        finder.handle_response(0, id, Ok(response_for(LISTED, 7, ErrorCode::None))),
        None
    );
    let next = finder.poll_request(0).unwrap();
    finder.handle_response(0, next, Ok(response_for(LISTED, 8, ErrorCode::None)));
    assert!(!finder.mark_unknown(7));
    assert_eq!(finder.find().unwrap().id, 8);
}

#[test]
fn a_real_broker_coordinates_on_a_connection_of_its_own() {
    let broker = rig::broker();
    let connections = connections(ClientSettings {
        bootstrap: vec![broker.endpoint.clone()],
        ..ClientSettings::default()
    });
    let metadata = Metadata::start(connections.clone());
    for kind in [CoordinatorKind::Group, CoordinatorKind::Transaction] {
        let coordinator = Coordinator::start(metadata.clone(), kind, "readers".into());
        let (sender, events) = mpsc::channel();
        coordinator.on_change(move |event| {
            let _ = sender.send(event.clone());
        });
        assert!(coordinator.connection().is_none());
        // Once for the first look-up, and once after it was marked as unknown.
        for _ in 0..2 {
            let event = events.recv_timeout(PATIENCE).unwrap();
            assert!(matches!(event, CoordinatorEvent::Found(_)), "{event:?}");
            let connection = coordinator.connection().unwrap();
            assert_eq!(*connection.endpoint(), broker.endpoint);
            wait(connection.call(rig::metadata_request(), SendOptions::default())).unwrap();
            coordinator.mark_unknown(connection.node_id());
        }
    }
    let roles: Vec<_> = connections.node_numbers().iter().map(|node| node.role).collect();
    assert!(roles.contains(&Role::Coordinator), "{roles:?}");
}
