//! Servers that violate the protocol.

use std::{net::Shutdown, sync::mpsc, time::Duration};

use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    messages::{ApiVersionsResponse, FetchResponse, MetadataResponse, api_versions_response::ApiVersion},
};

use super::rig::*;
use crate::net::{CallError, ClientSettings, Connection, SendOptions};

fn call(connection: &Connection) -> Result<(), CallError> {
    wait(connection.call(metadata_request(), SendOptions::default())).map(|_| ())
}

/// Sends `count` requests at once and returns their results.
fn calls(connection: &Connection, count: usize) -> Vec<Result<usize, CallError>> {
    let (done, results) = mpsc::channel();
    for _ in 0..count {
        let done = done.clone();
        connection.send(fetch(), SendOptions::default(), move |result| {
            done.send(result.map(|response| records_len(&response.body))).unwrap();
        });
    }
    drop(done);
    results.iter().collect()
}

fn records_len(response: &FetchResponse) -> usize {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    partitions
        .filter_map(|partition| partition.records.as_ref())
        .map(bytes::Bytes::len)
        .sum()
}

fn lost_because(result: &Result<usize, CallError>, expected: &str) {
    match result {
        Err(CallError::Disconnected { cause, .. }) if cause.to_string().contains(expected) => {}
        other => panic!("{other:?}, but not {expected:?}"),
    }
}

#[test]
fn an_older_broker_gets_the_older_request() {
    let server = scripted(|listener| {
        let mut peer = Peer::accept(&listener);
        let first = peer.request().unwrap();
        let mut versions = all_versions();
        versions.error_code = ErrorCode::UnsupportedVersion.code();
        for api in versions
            .api_keys
            .iter_mut()
            .filter(|api| api.api_key == ApiKey::ApiVersions.id())
        {
            api.max_version = 1;
        }
        let mut oldest = first.clone();
        oldest.version = 0;
        peer.respond(&oldest, &versions);
        let second = peer.request().unwrap();
        assert_eq!((second.key, second.version), (ApiKey::ApiVersions, 1));
        versions.error_code = 0;
        peer.respond(&second, &versions);
        let request = peer.request().unwrap();
        assert_eq!(request.key, ApiKey::Metadata);
        peer.respond(&request, &MetadataResponse::default());
    });
    let connections = connections(ClientSettings::default());
    call(&server.connection(&connections)).unwrap();
    server.finish();
}

#[test]
fn the_client_says_who_it_is() {
    let server = scripted(|listener| {
        let request = Peer::accept(&listener).request().unwrap();
        assert_eq!(request.client_id.as_deref(), Some("me"));
        let body = request.body::<milena_wire::messages::ApiVersionsRequest>().unwrap();
        assert_eq!(body.client_software_name, "milena");
        assert_eq!(body.client_software_version, env!("CARGO_PKG_VERSION"));
    });
    let connections = connections(ClientSettings {
        client_id: "me".into(),
        ..ClientSettings::default()
    });
    let error = call(&server.connection(&connections)).unwrap_err();
    assert!(matches!(error, CallError::ConnectFailed { .. }), "{error}");
    server.finish();
}

#[test]
fn a_version_that_the_broker_lacks_fails_only_its_request() {
    let server = scripted(|listener| {
        let mut peer = Peer::accept(&listener);
        let request = peer.request().unwrap();
        let metadata = ApiVersion {
            api_key: ApiKey::Metadata.id(),
            min_version: 0,
            max_version: 8,
            ..ApiVersion::default()
        };
        let versions = ApiVersionsResponse {
            api_keys: vec![metadata],
            ..ApiVersionsResponse::default()
        };
        peer.respond(&request, &versions);
        let request = peer.request().unwrap();
        assert_eq!((request.key, request.version), (ApiKey::Metadata, 8));
        peer.respond(&request, &MetadataResponse::default());
    });
    let connections = connections(ClientSettings::default());
    let connection = server.connection(&connections);
    let error = wait(connection.call(fetch(), SendOptions::default())).unwrap_err();
    assert!(
        matches!(
            &error,
            CallError::UnsupportedVersion {
                api: ApiKey::Fetch,
                theirs: None,
                ..
            }
        ),
        "{error}"
    );
    assert!(!error.is_retriable());
    call(&connection).unwrap();
    server.finish();
}

#[test]
fn bytes_may_come_one_by_one() {
    let server = scripted(|listener| {
        let mut peer = Peer::accept(&listener);
        let request = peer.request().unwrap();
        for byte in encoded(&request, &all_versions()) {
            peer.send(&[byte]);
        }
        let request = peer.request().unwrap();
        for byte in encoded(&request, &fetch_response(5000)) {
            peer.send(&[byte]);
        }
    });
    let connections = connections(ClientSettings::default());
    let results = calls(&server.connection(&connections), 1);
    assert!(matches!(results[0], Ok(5000)), "{results:?}");
    server.finish();
}

#[test]
fn responses_may_come_all_at_once() {
    let server = scripted(|listener| {
        let mut peer = Peer::agree(&listener);
        let sizes = [0, 10, 100_000, 0, 3000, 2000];
        let responses = sizes.map(|size| encoded(&peer.request().unwrap(), &fetch_response(size)));
        peer.send(&responses.concat());
    });
    let connections = connections(ClientSettings::default());
    let sizes: Vec<_> = calls(&server.connection(&connections), 6)
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(sizes, [0, 10, 100_000, 0, 3000, 2000]);
    server.finish();
}

#[test]
fn a_connection_that_ends_inside_a_response_fails_all_that_were_sent_and_is_made_again() {
    let server = scripted(|listener| {
        let mut peer = Peer::agree(&listener);
        let request = peer.request().unwrap();
        let response = encoded(&request, &fetch_response(50_000));
        while peer.request().unwrap().correlation_id < request.correlation_id + 2 {}
        peer.send(&response[..20_000]);
        drop(peer);
        let mut peer = Peer::agree(&listener);
        let request = peer.request().unwrap();
        peer.respond(&request, &MetadataResponse::default());
    });
    let connections = connections(ClientSettings::default());
    let connection = server.connection(&connections);
    for result in calls(&connection, 3) {
        lost_because(&result, "in the middle of a response");
    }
    call(&connection).unwrap();
    assert_eq!(connections.numbers().connections_made, 2);
    server.finish();
}

#[test]
fn a_broker_that_is_silent_loses_its_connection() {
    let (received, requests) = mpsc::channel();
    let server = scripted(move |listener| {
        let mut peer = Peer::agree(&listener);
        while let Some(request) = peer.request() {
            let _ = received.send(request.key);
        }
    });
    let connections = connections(ClientSettings::default());
    let connection = server.connection(&connections);
    let (done, patient) = mpsc::channel();
    connection.send(fetch(), SendOptions::timeout_ms(3_600_000), move |result| {
        done.send(result.map(|response| records_len(&response.body))).unwrap();
    });
    assert_eq!(requests.recv_timeout(PATIENCE), Ok(ApiKey::Fetch));
    let expected = CallError::TimedOut {
        address: server.endpoint.clone(),
        api: ApiKey::Metadata,
        timeout_ms: 30,
    };
    // On a busy machine the request may time out before it is written, which ends no connection. Then another one is
    // sent.
    let result = loop {
        let impatient = connection.call(metadata_request(), SendOptions::timeout_ms(30));
        assert_eq!(wait(impatient).unwrap_err(), expected);
        if let Ok(result) = patient.recv_timeout(Duration::from_secs(1)) {
            break result;
        }
    };
    lost_because(&result, "did not respond to Metadata within 30 ms");
    server.finish();
}

#[test]
fn a_frame_that_is_too_long_is_refused_before_there_is_memory_for_it() {
    let server = scripted(|listener| {
        let mut peer = Peer::agree(&listener);
        peer.request().unwrap();
        peer.send(&i32::MAX.to_be_bytes());
        assert!(peer.request().is_none());
    });
    let connections = connections(ClientSettings::default());
    let results = calls(&server.connection(&connections), 1);
    lost_because(&results[0], "2147483647 is more than the 1073741824 bytes allowed");
    server.finish();
}

#[test]
fn a_negative_length_and_a_server_with_tls_are_named() {
    for (bytes, expected) in [
        ([0xff; 4], "does not speak Kafka's protocol"),
        ([0x15, 3, 3, 0], "speaks TLS"),
    ] {
        let server = scripted(move |listener| {
            let mut peer = Peer::accept(&listener);
            peer.request().unwrap();
            peer.send(&bytes);
            peer.stream.shutdown(Shutdown::Write).unwrap();
            assert!(peer.request().is_none());
        });
        let connections = connections(ClientSettings::default());
        let error = call(&server.connection(&connections)).unwrap_err();
        assert!(matches!(error, CallError::ConnectFailed { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        server.finish();
    }
}

#[test]
fn responses_out_of_order_end_the_connection() {
    let server = scripted(|listener| {
        let mut peer = Peer::agree(&listener);
        let requests = [peer.request().unwrap(), peer.request().unwrap()];
        peer.respond(&requests[1], &FetchResponse::default());
        assert!(peer.request().is_none());
    });
    let connections = connections(ClientSettings::default());
    let results = calls(&server.connection(&connections), 2);
    assert!(
        matches!(
            &results[0],
            Err(CallError::MalformedResponse { api: ApiKey::Fetch, .. })
        ),
        "{results:?}"
    );
    lost_because(&results[1], "it is for request 3, but the next response is due for 2");
    server.finish();
}

#[test]
fn a_response_that_cannot_be_read_ends_the_connection() {
    for garbage in [&[][..], &[0, 0], &[0xff; 30]] {
        let server = scripted(move |listener| {
            let mut peer = Peer::agree(&listener);
            let request = peer.request().unwrap();
            let mut response = request.correlation_id.to_be_bytes().to_vec();
            response.extend(garbage);
            peer.send(&(response.len() as i32).to_be_bytes());
            peer.send(&response);
            assert!(peer.request().is_none());
        });
        let connections = connections(ClientSettings::default());
        let results = calls(&server.connection(&connections), 1);
        assert!(
            matches!(&results[0], Err(CallError::MalformedResponse { .. })),
            "{results:?}"
        );
        server.finish();
    }
}

#[test]
fn a_response_to_nothing_ends_the_connection() {
    let server = scripted(|listener| {
        let mut peer = Peer::agree(&listener);
        let request = peer.request().unwrap();
        let response = encoded(&request, &MetadataResponse::default());
        peer.send(&[response.clone(), response].concat());
        assert!(peer.request().is_none());
    });
    let connections = connections(ClientSettings::default());
    call(&server.connection(&connections)).unwrap();
    server.finish();
}

#[test]
fn a_server_that_never_agrees_is_given_up() {
    let server = scripted(|listener| {
        let mut peer = Peer::accept(&listener);
        peer.request().unwrap();
        assert!(peer.request().is_none());
    });
    let connections = connections(ClientSettings {
        request_timeout_ms: 50,
        ..ClientSettings::default()
    });
    // Queued requests have their own timeout.
    let connection = server.connection(&connections);
    let error = wait(connection.call(metadata_request(), SendOptions::timeout_ms(60_000))).unwrap_err();
    assert!(
        error.to_string().ends_with("no ApiVersions response within 50 ms"),
        "{error}"
    );
    server.finish();
}
