//! Log-ins and renewals with a server that follows a script, and peers of another protocol.

use std::{net::TcpListener, sync::mpsc, thread::sleep, time::Duration};

use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    frame::RequestFrame,
    messages::{FetchResponse, SaslAuthenticateResponse, SaslHandshakeResponse},
};

use super::rig::*;
use crate::{
    config::{SaslConfig, SecurityConfig},
    net::{CallError, ClientSettings, Connection, Connections, SendOptions},
};

/// The shortest time after which a session is renewed, and some more.
const RENEWAL: Duration = Duration::from_millis(1_200);

fn with_password() -> ClientSettings {
    ClientSettings {
        security: SecurityConfig {
            sasl: Some(SaslConfig::Plain {
                username: "alice".to_owned(),
                password: "secret".into(),
            }),
            ..SecurityConfig::default()
        },
        ..ClientSettings::default()
    }
}

/// Responds to a handshake and to the message of PLAIN.
fn log_in(peer: &mut Peer, session_lifetime_ms: i64) {
    let request = expect(peer, ApiKey::SaslHandshake);
    assert_eq!(request.version, 1);
    peer.respond(
        &request,
        &SaslHandshakeResponse {
            mechanisms: vec!["PLAIN".into()],
            ..Default::default()
        },
    );
    let request = expect(peer, ApiKey::SaslAuthenticate);
    assert_eq!(request.version, 2);
    let response = SaslAuthenticateResponse {
        session_lifetime_ms,
        ..Default::default()
    };
    peer.respond(&request, &response);
}

fn refuse(peer: &mut Peer, text: &str) {
    let request = expect(peer, ApiKey::SaslHandshake);
    peer.respond(&request, &SaslHandshakeResponse::default());
    let request = expect(peer, ApiKey::SaslAuthenticate);
    let response = SaslAuthenticateResponse {
        error_code: ErrorCode::SaslAuthenticationFailed.code(),
        error_message: Some(text.into()),
        ..Default::default()
    };
    peer.respond(&request, &response);
}

fn expect(peer: &mut Peer, api: ApiKey) -> RequestFrame {
    let request = peer.request().unwrap();
    assert_eq!(request.key, api);
    request
}

fn agreed(listener: &TcpListener, session_lifetime_ms: i64) -> Peer {
    let mut peer = Peer::agree(listener);
    log_in(&mut peer, session_lifetime_ms);
    peer
}

type Results = mpsc::Receiver<Result<(), CallError>>;

fn send(connection: &Connection) -> Results {
    let (done, result) = mpsc::channel();
    connection.send(fetch(), SendOptions::default(), move |result| {
        done.send(result.map(drop)).unwrap();
    });
    result
}

fn received(results: &Results) {
    results.recv_timeout(PATIENCE).unwrap().unwrap();
}

#[test]
fn a_session_is_renewed_before_the_next_request_when_nothing_is_in_flight() {
    let (in_flight, is_in_flight) = mpsc::channel();
    let (release, is_released) = mpsc::channel::<()>();
    let server = scripted(move |listener| {
        let mut peer = agreed(&listener, 1_000);
        let first = expect(&mut peer, ApiKey::Fetch);
        let second = expect(&mut peer, ApiKey::Fetch);
        in_flight.send(()).unwrap();
        is_released.recv().unwrap();
        // The third request waits: it must not be here yet.
        peer.stream.set_nonblocking(true).unwrap();
        let early = std::io::Read::read(&mut peer.stream, &mut [0]);
        assert!(early.is_err(), "{early:?}");
        peer.stream.set_nonblocking(false).unwrap();
        peer.respond(&first, &FetchResponse::default());
        peer.respond(&second, &FetchResponse::default());
        let mut correlation_id = second.correlation_id;
        let renewal = expect(&mut peer, ApiKey::SaslHandshake);
        assert!(renewal.correlation_id > correlation_id);
        correlation_id = renewal.correlation_id;
        peer.respond(&renewal, &SaslHandshakeResponse::default());
        let renewal = expect(&mut peer, ApiKey::SaslAuthenticate);
        assert!(renewal.correlation_id > correlation_id);
        // No lifetime: there is no further renewal.
        peer.respond(&renewal, &SaslAuthenticateResponse::default());
        for _ in 0..2 {
            let request = expect(&mut peer, ApiKey::Fetch);
            assert!(request.correlation_id > renewal.correlation_id);
            peer.respond(&request, &FetchResponse::default());
        }
    });
    let connections = connections(with_password());
    let connection = server.connection(&connections);
    let (first, second) = (send(&connection), send(&connection));
    is_in_flight.recv_timeout(PATIENCE).unwrap();
    sleep(RENEWAL);
    let third = send(&connection);
    sleep(Duration::from_millis(50));
    release.send(()).unwrap();
    for results in [&first, &second, &third] {
        received(results);
    }
    sleep(RENEWAL);
    received(&send(&connection));
    server.finish();
    let numbers = connections.numbers();
    assert_eq!(
        (
            numbers.authentications,
            numbers.reauthentications,
            numbers.connections_made
        ),
        (1, 1, 1)
    );
}

#[test]
fn an_idle_connection_is_not_renewed() {
    let server = scripted(|listener| {
        let mut peer = agreed(&listener, 1_000);
        let request = expect(&mut peer, ApiKey::Fetch);
        peer.respond(&request, &FetchResponse::default());
        peer.stream.set_read_timeout(Some(RENEWAL * 2)).unwrap();
        assert!(peer.request().is_none());
    });
    let connections = connections(with_password());
    received(&send(&server.connection(&connections)));
    server.finish();
}

#[test]
fn a_refused_renewal_logs_in_again_and_loses_no_request() {
    let server = scripted(|listener| {
        let mut peer = agreed(&listener, 1_000);
        let request = expect(&mut peer, ApiKey::Fetch);
        peer.respond(&request, &FetchResponse::default());
        refuse(&mut peer, "not any more");
        let mut peer = agreed(&listener, 0);
        let request = expect(&mut peer, ApiKey::Fetch);
        peer.respond(&request, &FetchResponse::default());
    });
    let connections = connections(with_password());
    let connection = server.connection(&connections);
    received(&send(&connection));
    sleep(RENEWAL);
    received(&send(&connection));
    server.finish();
    let numbers = connections.numbers();
    assert_eq!((numbers.authentications, numbers.reauthentications_failed), (2, 1));
}

#[test]
fn a_renewal_that_takes_long_fails_only_requests_whose_time_is_over() {
    let (release, is_released) = mpsc::channel::<()>();
    let server = scripted(move |listener| {
        let mut peer = agreed(&listener, 1_000);
        let request = expect(&mut peer, ApiKey::Fetch);
        peer.respond(&request, &FetchResponse::default());
        let renewal = expect(&mut peer, ApiKey::SaslHandshake);
        is_released.recv().unwrap();
        peer.respond(&renewal, &SaslHandshakeResponse::default());
        let renewal = expect(&mut peer, ApiKey::SaslAuthenticate);
        peer.respond(&renewal, &SaslAuthenticateResponse::default());
        let request = expect(&mut peer, ApiKey::Fetch);
        peer.respond(&request, &FetchResponse::default());
    });
    let connections = connections(with_password());
    let connection = server.connection(&connections);
    received(&send(&connection));
    sleep(RENEWAL);
    let (done, short) = mpsc::channel();
    connection.send(fetch(), SendOptions::timeout_ms(100), move |result| {
        done.send(result.map(drop)).unwrap();
    });
    let long = send(&connection);
    let error = short.recv_timeout(PATIENCE).unwrap().unwrap_err();
    assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
    release.send(()).unwrap();
    received(&long);
    server.finish();
}

/// The error of a request to a server that follows this script.
fn error_of(settings: ClientSettings, script: impl FnOnce(TcpListener) + Send + 'static) -> (CallError, Connections) {
    let server = scripted(script);
    let connections = connections(settings);
    let result = send(&server.connection(&connections)).recv_timeout(PATIENCE).unwrap();
    server.finish();
    (result.unwrap_err(), connections)
}

#[test]
fn a_refused_log_in_fails_the_request_with_the_brokers_text() {
    let (error, connections) = error_of(with_password(), |listener| {
        refuse(
            &mut Peer::agree(&listener),
            "Authentication failed: Invalid username or password",
        );
    });
    assert!(!error.is_retriable());
    let refused = error.authentication().unwrap();
    assert_eq!(
        (refused.mechanism.as_str(), refused.text.as_str()),
        ("PLAIN", "Authentication failed: Invalid username or password")
    );
    assert_eq!(connections.authentication().after(0).unwrap().1, *refused);
    assert!(!format!("{error:?}").contains("secret"));
}

#[test]
fn a_mechanism_that_is_not_enabled_is_an_error_with_those_that_are() {
    let (error, _) = error_of(with_password(), |listener| {
        let mut peer = Peer::agree(&listener);
        let request = expect(&mut peer, ApiKey::SaslHandshake);
        let response = SaslHandshakeResponse {
            error_code: ErrorCode::UnsupportedSaslMechanism.code(),
            mechanisms: vec!["SCRAM-SHA-512".into(), "OAUTHBEARER".into()],
        };
        peer.respond(&request, &response);
    });
    let text = error.to_string();
    assert!(
        text.contains("enabled mechanisms are [SCRAM-SHA-512, OAUTHBEARER]"),
        "{text}"
    );
}

#[test]
fn a_connection_that_ends_during_the_log_in_is_not_a_wrong_password() {
    let (error, connections) = error_of(with_password(), |listener| {
        let mut peer = Peer::agree(&listener);
        expect(&mut peer, ApiKey::SaslHandshake);
    });
    assert!(error.is_retriable(), "{error}");
    assert_eq!(connections.authentication().after(0), None);
    let slow = ClientSettings {
        request_timeout_ms: 200,
        ..with_password()
    };
    let (done, is_done) = mpsc::channel::<()>();
    let server = scripted(move |listener| {
        let mut peer = Peer::agree(&listener);
        expect(&mut peer, ApiKey::SaslHandshake);
        is_done.recv().unwrap();
    });
    let connections = super::rig::connections(slow);
    let options = SendOptions::timeout_ms(30_000);
    let error = wait(server.connection(&connections).call(fetch(), options)).unwrap_err();
    assert!(error.is_retriable());
    assert!(
        error.to_string().contains("no SaslHandshake response within 200 ms"),
        "{error}"
    );
    done.send(()).unwrap();
    server.finish();
}

#[test]
fn a_listener_that_wants_sasl_is_named() {
    let (error, _) = error_of(ClientSettings::default(), |listener| {
        let mut peer = Peer::agree(&listener);
        expect(&mut peer, ApiKey::Fetch);
    });
    assert!(
        error
            .to_string()
            .contains("if its listener requires SASL, set security.protocol"),
        "{error}"
    );
}

#[test]
fn a_peer_of_another_protocol_is_named() {
    for (bytes, hint) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "the peer speaks HTTP"),
        (&[0x15, 3, 3, 0, 2, 2, 40], "set security.protocol to SSL or SASL_SSL"),
    ] {
        let (error, _) = error_of(ClientSettings::default(), move |listener| {
            let mut peer = Peer::accept(&listener);
            peer.request().unwrap();
            peer.send(bytes);
        });
        assert!(error.to_string().contains(hint), "{error}");
    }
}
