//! Connections: start, reuse, loss and end.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
};

use milena_wire::messages::MetadataResponse;

use super::rig::*;
use crate::net::{CallError, ClientSettings, Connection, Endpoint, Role, SendOptions, Status};

#[test]
fn a_closed_port_is_an_error_and_then_waited_for() {
    let closed = ClosedPort::new();
    let endpoint = closed.endpoint();
    let connections = connections(ClientSettings {
        reconnect_backoff_ms: 3_600_000,
        reconnect_backoff_max_ms: 3_600_000,
        ..ClientSettings::default()
    });
    let (lost, losses) = mpsc::channel();
    connections.watch_losses(move |node| lost.send(node).unwrap());
    let connection = connections.node(7, Role::Data, &endpoint);
    let error = wait(connection.call(metadata_request(), SendOptions::default())).unwrap_err();
    assert!(
        matches!(&error, CallError::ConnectFailed { address, .. } if *address == endpoint),
        "{error}"
    );
    assert!(error.is_retriable());
    assert_eq!(losses.recv_timeout(PATIENCE).unwrap(), 7);
    assert!(matches!(connection.status(), Status::BackingOff { .. }));
    assert_eq!(connections.numbers().connections_failed, 1);
    // The next request waits for the backoff, within its own timeout.
    let error = wait(connection.call(metadata_request(), SendOptions::timeout_ms(20))).unwrap_err();
    assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
    assert_eq!(connections.numbers().connections_failed, 1);
}

#[test]
fn a_name_that_does_not_exist_is_an_error() {
    let connections = connections(ClientSettings::default());
    let connection = connections.node(1, Role::Data, &Endpoint::new("no-such-host.invalid", 9092));
    let error = wait(connection.call(metadata_request(), SendOptions::default()))
        .unwrap_err()
        .to_string();
    let expected = "cannot connect to no-such-host.invalid:9092: cannot resolve the host name: ";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn an_idle_connection_is_closed_and_opened_again() {
    let server = scripted(|listener| {
        for _ in 0..2 {
            let mut peer = Peer::agree(&listener);
            let request = peer.request().unwrap();
            peer.respond(&request, &MetadataResponse::default());
            assert!(peer.request().is_none(), "the client should have closed");
        }
    });
    let connections = connections(ClientSettings {
        connections_max_idle_ms: 20,
        // Long enough to notice a loss.
        reconnect_backoff_ms: 3_600_000,
        reconnect_backoff_max_ms: 3_600_000,
        ..ClientSettings::default()
    });
    connections.watch_losses(|_| panic!("being idle is no loss"));
    let connection = server.connection(&connections);
    for _ in 0..2 {
        wait(connection.call(metadata_request(), SendOptions::default())).unwrap();
        until(|| connection.status() == Status::Unconnected);
    }
    server.finish();
}

#[test]
fn a_broker_that_throttles_is_left_in_peace() {
    let server = scripted(|listener| {
        let mut peer = Peer::agree(&listener);
        let request = peer.request().unwrap();
        let response = MetadataResponse {
            throttle_time_ms: 3_600_000,
            ..MetadataResponse::default()
        };
        peer.respond(&request, &response);
        assert!(peer.request().is_none(), "nothing may come for an hour");
    });
    let connections = connections(ClientSettings::default());
    let connection = server.connection(&connections);
    wait(connection.call(metadata_request(), SendOptions::default())).unwrap();
    let error = wait(connection.call(metadata_request(), SendOptions::timeout_ms(20))).unwrap_err();
    assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
    // The broker is not at fault: the connection stays.
    assert_eq!(connection.status(), Status::Ready);
    assert_eq!(connections.numbers().throttled_ms, 3_600_000);
    connections.close();
    server.finish();
}

#[test]
fn after_the_throttle_time_requests_go_on() {
    let server = scripted(|listener| {
        let mut peer = Peer::agree(&listener);
        for throttle_time_ms in [30, 0] {
            let request = peer.request().unwrap();
            let response = MetadataResponse {
                throttle_time_ms,
                ..MetadataResponse::default()
            };
            peer.respond(&request, &response);
        }
    });
    let connections = connections(ClientSettings::default());
    let connection = server.connection(&connections);
    for _ in 0..2 {
        wait(connection.call(metadata_request(), SendOptions::default())).unwrap();
    }
    server.finish();
}

#[test]
fn closing_fails_what_waits_and_what_was_sent() {
    let (received, requests) = mpsc::channel();
    let server = scripted(move |listener| {
        let mut peer = Peer::agree(&listener);
        peer.request().unwrap();
        received.send(()).unwrap();
        assert!(peer.request().is_none());
    });
    // Connections end with the last handle to all of them, not with the handle to one.
    let connections = connections(ClientSettings::default());
    let connection = server.connection(&connections);
    let sent = connection.call(metadata_request(), SendOptions::default());
    requests.recv_timeout(PATIENCE).unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let waits = Endpoint::new("127.0.0.1", silent.local_addr().unwrap().port());
    let waits = connections
        .node(2, Role::Data, &waits)
        .call(metadata_request(), SendOptions::default());
    drop(connections);
    assert_eq!(wait(sent).unwrap_err(), CallError::Closed);
    assert_eq!(wait(waits).unwrap_err(), CallError::Closed);
    assert_eq!(connection.status(), Status::Closed);
    assert_eq!(
        wait(connection.call(metadata_request(), SendOptions::default())).unwrap_err(),
        CallError::Closed
    );
    server.finish();
}

#[test]
fn a_handler_that_panics_harms_no_other_request() {
    let broker = broker();
    let connections = connections(ClientSettings::default());
    let connection = connections.node(1, Role::Data, &broker.endpoint);
    connection.send(metadata_request(), SendOptions::default(), |_| panic!("on purpose"));
    wait(connection.call(metadata_request(), SendOptions::default())).unwrap();
    let built = |_| -> milena_wire::messages::MetadataRequest { panic!("on purpose") };
    let (done, failed) = mpsc::channel();
    connection.send_built(built, SendOptions::default(), move |result| {
        done.send(result.unwrap_err()).unwrap();
    });
    assert!(matches!(
        failed.recv_timeout(PATIENCE).unwrap(),
        CallError::EncodeFailed { .. }
    ));
    wait(connection.call(metadata_request(), SendOptions::default())).unwrap();
    assert_eq!(connections.numbers().connections_made, 1);
}

/// Sends a request that cannot be encoded, over and over, until `stop`.
fn insist(connection: Connection, stop: Arc<AtomicBool>) {
    let again = connection.clone();
    let impossible = SendOptions::default().version_min(i16::MAX);
    connection.send(metadata_request(), impossible, move |result| {
        assert!(matches!(result, Err(CallError::UnsupportedVersion { .. })));
        if !stop.load(Relaxed) {
            insist(again, stop);
        }
    });
}

#[test]
fn a_handler_that_insists_does_not_stop_the_others() {
    let broker = broker();
    let connections = connections(ClientSettings::default());
    let connection = connections.node(1, Role::Data, &broker.endpoint);
    let stop = Arc::default();
    insist(connection.clone(), Arc::clone(&stop));
    wait(connection.call(metadata_request(), SendOptions::default())).unwrap();
    let other = connections.node(2, Role::Data, &broker.endpoint);
    wait(other.call(metadata_request(), SendOptions::default())).unwrap();
    stop.store(true, Relaxed);
}

#[test]
fn the_buffer_of_a_large_response_is_used_again() {
    let server = scripted(|listener| {
        let mut peer = Peer::agree(&listener);
        for size in [2_000_000, 2_000_100] {
            let request = peer.request().unwrap();
            peer.respond(&request, &fetch_response(size));
        }
    });
    let connections = connections(ClientSettings::default());
    let connection = server.connection(&connections);
    let mut buffers = Vec::new();
    for size in [2_000_000, 2_000_100] {
        let mut response = wait(connection.call(fetch(), SendOptions::default())).unwrap();
        let records = response.body.responses[0].partitions[0].records.take().unwrap();
        assert!(records.len() == size && records.iter().all(|&byte| byte == 7));
        buffers.push(records.as_ptr() as usize);
    }
    // The bytes before the records have the same length in both responses.
    assert!(buffers[0].abs_diff(buffers[1]) < 100, "{buffers:?}");
    server.finish();
}

#[test]
fn requests_that_wait_are_bounded() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::new("127.0.0.1", silent.local_addr().unwrap().port());
    let connections = connections(ClientSettings::default());
    let connection = connections.node(1, Role::Data, &endpoint);
    for _ in 0..1000 {
        connection.send(metadata_request(), SendOptions::default(), |_| {});
    }
    assert_eq!(connection.load(), 1000);
    let error = wait(connection.call(metadata_request(), SendOptions::default())).unwrap_err();
    assert!(
        matches!(error, CallError::TooManyWaiting { waiting: 1000, .. }),
        "{error}"
    );
}

#[test]
fn a_node_that_moved_gets_a_new_connection() {
    let (old, new) = (broker(), broker());
    let connections = connections(ClientSettings::default());
    let before = connections.node(1, Role::Data, &old.endpoint);
    wait(before.call(metadata_request(), SendOptions::default())).unwrap();
    let after = connections.node(1, Role::Data, &new.endpoint);
    assert_eq!(before.status(), Status::Closed);
    let error = wait(before.call(metadata_request(), SendOptions::default())).unwrap_err();
    assert!(matches!(error, CallError::Disconnected { .. }), "{error}");
    wait(after.call(metadata_request(), SendOptions::default())).unwrap();
}

#[test]
fn nodes_that_left_are_forgotten_when_they_are_unused() {
    let broker = broker();
    let connections = connections(ClientSettings::default());
    let used = connections.node(1, Role::Data, &broker.endpoint);
    wait(used.call(metadata_request(), SendOptions::default())).unwrap();
    let unused = connections.node(2, Role::Data, &broker.endpoint);
    let known = connections.node(3, Role::Data, &broker.endpoint);
    connections.retain(&[3].into());
    assert_eq!(used.status(), Status::Ready);
    assert_eq!(unused.status(), Status::Closed);
    assert_eq!(known.status(), Status::Unconnected);
}

#[test]
fn what_a_handler_holds_is_free_when_all_is_closed() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::new("127.0.0.1", silent.local_addr().unwrap().port());
    let connections = connections(ClientSettings::default());
    let held = Arc::new(());
    let (theirs, (done, ended)) = (Arc::clone(&held), mpsc::channel::<()>());
    connections
        .node(1, Role::Data, &endpoint)
        .send(metadata_request(), SendOptions::default(), move |_| {
            drop(theirs);
            drop(done);
        });
    connections.close();
    assert!(ended.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Disconnected));
    assert_eq!(Arc::strong_count(&held), 1);
}
