//! The first log-in of a connection.

use bytes::Bytes;
use milena_machines::sasl::{
    ClientExchange, ClientStep, FailureResponse, Mechanism, SaltedPassword, ScramLogin, ScramMechanism, ServerAction,
};
use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    messages::{ApiVersionsRequest, MetadataRequest, ProduceRequest, SaslAuthenticateRequest},
};

use super::rig::{SCRAM_256, SCRAM_512, Seen, authenticate_response, bare, handshake_response, plain, rig, rig_with};

/// A whole exchange of SCRAM, with SaslAuthenticate requests.
fn scram(rig: &mut super::rig::Rig, mechanism: ScramMechanism, username: &str, password: &str) -> Seen {
    rig.choose(Mechanism::Scram(mechanism));
    let mut client = ClientExchange::scram(mechanism, username, ScramLogin::User, [9; 18]).unwrap();
    let Ok(ClientStep::Send(first)) = client.start() else {
        panic!("no first message");
    };
    let challenge = rig.token(&first).challenge();
    let Ok(ClientStep::DeriveSaltedPassword { salt, iterations }) = client.handle_challenge(&challenge) else {
        panic!("no salt");
    };
    let password = SaltedPassword::derive(mechanism, password.as_bytes(), &salt, iterations);
    let Ok(ClientStep::Send(proof)) = client.handle_salted_password(&password) else {
        panic!("no proof");
    };
    let seen = rig.token(&proof);
    if let Seen::Complete(response, _) = &seen {
        let signature = authenticate_response(response, 2).auth_bytes;
        assert_eq!(client.handle_challenge(&signature), Ok(ClientStep::Done));
    }
    seen
}

#[test]
fn plain_logs_in() {
    let mut rig = rig();
    let session = rig.log_in("alice").session();
    assert_eq!((&*session.principal, session.mechanism), ("alice", Mechanism::Plain));
    assert_eq!((session.lifetime_ms, session.reauthentication), (None, None));
    assert!(session.client_reauthenticates);
}

#[test]
fn refusals_of_plain_have_kafkas_texts() {
    for (token, text) in [
        ("\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (
            "\0mallory\0mallory",
            "Authentication failed: Invalid username or password",
        ),
        ("\0\0alice", "Authentication failed: username not specified"),
        ("\0alice\0", "Authentication failed: password not specified"),
        ("alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (
            "bob\0alice\0alice",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        // The password is compared first.
        (
            "bob\0alice\0wrong",
            "Authentication failed: Invalid username or password",
        ),
    ] {
        let mut rig = rig();
        rig.choose(Mechanism::Plain);
        assert_eq!(rig.token(token.as_bytes()).text(), text);
    }
}

#[test]
fn scram_logs_in() {
    for mechanism in ScramMechanism::ALL {
        for user in ["alice", "a,b=c"] {
            let session = scram(&mut rig(), mechanism, user, user).session();
            assert_eq!(
                (&*session.principal, session.mechanism),
                (user, Mechanism::Scram(mechanism))
            );
        }
    }
}

#[test]
fn wrong_passwords_and_unknown_users_of_scram_look_the_same() {
    let text =
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512";
    assert_eq!(scram(&mut rig(), ScramMechanism::Sha512, "alice", "wrong").text(), text);
    assert_eq!(
        scram(&mut rig(), ScramMechanism::Sha512, "mallory", "mallory").text(),
        text
    );
}

#[test]
fn delegation_tokens_are_refused_with_a_reason() {
    let mut rig = rig();
    rig.choose(SCRAM_256);
    let text = rig.token(b"n,,n=token,r=abc,tokenauth=true").text();
    assert!(text.contains("no delegation tokens"), "{text}");
}

#[test]
fn other_first_messages_of_scram_fail_without_details() {
    for message in ["", "y,,n=alice,r=abc", "n,,n=alice", "n,,n=zoë,r=abc"] {
        let mut rig = rig();
        rig.choose(SCRAM_256);
        let text = rig.token(message.as_bytes()).text();
        assert!(
            text.ends_with("due to invalid credentials with SASL mechanism SCRAM-SHA-256"),
            "{text}"
        );
    }
    let mut rig = rig();
    rig.choose(SCRAM_512);
    let text = rig.token(b"n,a=bob,n=alice,r=abc").text();
    assert!(
        text.contains("authorization id that is different from username"),
        "{text}"
    );
}

#[test]
fn tokens_log_in_and_limit_the_session() {
    let mut rig = rig();
    rig.token_ms = 1234;
    rig.choose(Mechanism::OAuthBearer);
    let Seen::Complete(response, session) = rig.token(b"n,,\x01auth=Bearer alice\x01traceId=7\x01\x01") else {
        panic!("no session");
    };
    assert_eq!((&*session.principal, session.lifetime_ms), ("alice", Some(1234)));
    assert_eq!(session.extensions["traceId"], "7");
    let response = authenticate_response(&response, 2);
    assert_eq!((response.auth_bytes.len(), response.session_lifetime_ms), (0, 1234));
}

#[test]
fn a_refused_token_is_told_as_json_and_acknowledged() {
    for (token, json) in [
        ("mallory", "{\"status\":\"invalid_token\"}"),
        ("narrow", "{\"status\":\"insufficient_scope\", \"scope\":\"write\"}"),
    ] {
        for (acknowledgement, text) in [
            (&b"\x01"[..], json),
            (
                b"n,,\x01auth=Bearer alice\x01\x01",
                "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER",
            ),
        ] {
            let mut rig = rig();
            rig.choose(Mechanism::OAuthBearer);
            let message = format!("n,,\u{1}auth=Bearer {token}\u{1}\u{1}");
            assert_eq!(rig.token(message.as_bytes()).challenge(), json);
            assert_eq!(rig.token(acknowledgement).text(), text);
        }
    }
}

#[test]
fn other_failures_of_tokens() {
    let generic =
        "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER";
    for (message, text) in [
        ("n,,\u{1}auth=Bearer offline\u{1}\u{1}", generic),
        ("n,,\u{1}\u{1}", generic),
        ("\u{1}", generic),
        (
            "n,a=bob,\u{1}auth=Bearer alice\u{1}\u{1}",
            "Authentication failed: Client requested an authorization id (bob) that is different from the token's \
             principal name (alice)",
        ),
    ] {
        let mut rig = rig();
        rig.choose(Mechanism::OAuthBearer);
        assert_eq!(rig.token(message.as_bytes()).text(), text);
    }
    let mut rig = rig();
    rig.choose(Mechanism::OAuthBearer);
    assert_eq!(
        &*rig
            .token(b"n,a=alice,\x01auth=Bearer alice\x01\x01")
            .session()
            .principal,
        "alice"
    );
}

#[test]
fn the_handshake_lists_all_enabled_mechanisms() {
    let enabled = [(SCRAM_512, None), (Mechanism::Plain, None)];
    for version in [0, 1] {
        for (name, error) in [
            ("PLAIN", ErrorCode::None),
            ("SCRAM-SHA-256", ErrorCode::UnsupportedSaslMechanism),
            ("GSSAPI", ErrorCode::UnsupportedSaslMechanism),
            ("plain", ErrorCode::UnsupportedSaslMechanism),
            ("", ErrorCode::UnsupportedSaslMechanism),
        ] {
            let response = match rig_with(&enabled).handshake(name, version) {
                Seen::Response(response) => response,
                Seen::Failed(Some(FailureResponse::Sasl(response)), _) => response,
                other => panic!("{other:?}"),
            };
            let response = handshake_response(&response, version);
            assert_eq!(response.error_code, error.code(), "{name}");
            assert_eq!(response.mechanisms, ["SCRAM-SHA-512", "PLAIN"]);
        }
    }
}

#[test]
fn bare_tokens_have_no_header_and_no_errors() {
    let mut rig = rig_with(&[(Mechanism::Plain, None), (SCRAM_256, Some(5000))]);
    assert!(matches!(rig.handshake("PLAIN", 0), Seen::Response(_)));
    let Seen::Complete(response, session) = rig.frame(Bytes::from(plain("alice"))) else {
        panic!("no session");
    };
    assert_eq!(bare(&response).len(), 0);
    assert!(!session.client_reauthenticates);

    let mut rig = rig_with(&[(Mechanism::Plain, None)]);
    rig.handshake("PLAIN", 0);
    assert!(matches!(
        rig.frame(Bytes::from_static(b"\0alice\0wrong")),
        Seen::Failed(None, _)
    ));

    // A session ends without the client being told, as with version 0 of SaslAuthenticate.
    let mut rig = rig_with(&[(SCRAM_256, Some(5000))]);
    rig.handshake("SCRAM-SHA-256", 0);
    let mut client = ClientExchange::scram(ScramMechanism::Sha256, "alice", ScramLogin::User, [9; 18]).unwrap();
    let Ok(ClientStep::Send(first)) = client.start() else {
        panic!("no first message");
    };
    let Seen::Response(response) = rig.frame(first) else {
        panic!("no challenge");
    };
    let Ok(ClientStep::DeriveSaltedPassword { salt, iterations }) = client.handle_challenge(&bare(&response)) else {
        panic!("no salt");
    };
    let password = SaltedPassword::derive(ScramMechanism::Sha256, b"alice", &salt, iterations);
    let Ok(ClientStep::Send(proof)) = client.handle_salted_password(&password) else {
        panic!("no proof");
    };
    let Seen::Complete(response, session) = rig.frame(proof) else {
        panic!("no session");
    };
    assert_eq!(client.handle_challenge(&bare(&response)), Ok(ClientStep::Done));
    assert_eq!(session.lifetime_ms, Some(5000));
}

#[test]
fn version_0_of_sasl_authenticate_has_no_lifetime() {
    let mut rig = rig_with(&[(Mechanism::Plain, Some(5000))]);
    rig.choose(Mechanism::Plain);
    let Seen::Complete(response, session) = rig.token_at(plain("alice").as_bytes(), 0) else {
        panic!("no session");
    };
    assert_eq!(authenticate_response(&response, 0).session_lifetime_ms, 0);
    assert_eq!(
        (session.lifetime_ms, session.client_reauthenticates),
        (Some(5000), false)
    );
}

#[test]
fn api_versions_is_served_before_the_handshake_once() {
    let versions = ApiVersionsRequest::default();
    let mut rig = rig();
    for error in [
        ErrorCode::UnsupportedVersion,
        ErrorCode::InvalidRequest,
        ErrorCode::None,
    ] {
        assert!(matches!(rig.request(&versions, 3), Seen::Versions), "{error}");
        assert!(!rig.server.wants_frame());
        rig.server.handle_api_versions(error);
        assert!(rig.server.wants_frame());
    }
    let mut again = rig_after_versions();
    assert!(matches!(again.request(&versions, 3), Seen::Closed(_)));
    rig.log_in("alice").session();

    // After the handshake it is a request in the wrong state.
    let mut rig = super::rig::rig();
    rig.choose(Mechanism::Plain);
    assert_illegal(rig.request(&versions, 3), ApiKey::ApiVersions);
}

fn rig_after_versions() -> super::rig::Rig {
    let mut rig = rig();
    rig.request(&ApiVersionsRequest::default(), 0);
    rig.server.handle_api_versions(ErrorCode::None);
    rig
}

#[test]
fn other_requests_before_the_handshake_close_the_connection() {
    for mut rig in [rig(), rig_after_versions()] {
        assert!(matches!(rig.request(&MetadataRequest::default(), 12), Seen::Closed(_)));
    }
    // The body is not looked at.
    let mut rig = rig();
    assert!(matches!(
        rig.frame(Bytes::from_static(&[0, 3, 0, 12, 0, 0, 0, 1])),
        Seen::Closed(_)
    ));
    let mut rig = super::rig::rig();
    let Seen::Closed(reason) = rig.request(&SaslAuthenticateRequest::default(), 2) else {
        panic!("not closed");
    };
    assert!(reason.contains("wrong security.protocol"), "{reason}");
}

#[test]
fn frames_of_other_protocols_close_the_connection() {
    for frame in [
        &b""[..],
        b"\x60\x82garbage",
        b"GET / HTTP/1.1\r\n",
        &[0xff; 40],
        &[0, 17, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 9],
    ] {
        assert!(
            matches!(rig().frame(Bytes::from_static(frame)), Seen::Closed(_)),
            "{frame:?}"
        );
    }
    // A handshake of a version that does not exist.
    let frame = [0, 17, 0, 2, 0, 0, 0, 1, 0xff, 0xff, 0, 5, b'P', b'L', b'A', b'I', b'N'];
    assert!(matches!(rig().frame(Bytes::copy_from_slice(&frame)), Seen::Closed(_)));
    // A version of SaslAuthenticate that does not exist.
    let mut rig = rig();
    rig.choose(Mechanism::Plain);
    let frame = [0, 36, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0];
    assert!(matches!(rig.frame(Bytes::copy_from_slice(&frame)), Seen::Closed(_)));
}

#[test]
fn a_frame_that_is_too_long_fails_the_log_in() {
    let mut rig = rig();
    let action = rig.server.handle_oversized_frame();
    assert!(
        matches!(action, ServerAction::Fail { response: None, .. }),
        "{action:?}"
    );
    assert!(!rig.server.wants_frame());
}

#[test]
fn requests_between_the_tokens_get_their_own_error_response() {
    let mut rig = rig();
    rig.choose(Mechanism::Plain);
    assert_illegal(rig.request(&ProduceRequest::default(), 9), ApiKey::Produce);
    let mut rig = super::rig::rig();
    rig.choose(SCRAM_256);
    rig.token(b"n,,n=alice,r=abc").challenge();
    assert_illegal(rig.handshake("PLAIN", 1), ApiKey::SaslHandshake);
}

fn assert_illegal(seen: Seen, key: ApiKey) {
    let Seen::Failed(Some(FailureResponse::Request { request, error }), _) = seen else {
        panic!("{seen:?}");
    };
    assert_eq!((request.key, error), (key, ErrorCode::IllegalSaslState));
}

#[test]
fn no_debug_output_has_a_secret() {
    let mut rig = rig();
    rig.choose(Mechanism::Plain);
    let request = SaslAuthenticateRequest {
        auth_bytes: Bytes::from_static(b"\0alice\0hunter2"),
        ..Default::default()
    };
    let frame = milena_wire::frame::encode_request(&request, 2, 1, None)
        .unwrap()
        .into_bytes()
        .slice(4..);
    let action = rig.server.handle_frame(frame, 0);
    let shown = format!("{action:?} {:?}", rig.server);
    assert!(shown.contains("alice") && !shown.contains("hunter2"), "{shown}");
    let client = ClientExchange::plain("alice", "hunter2").unwrap();
    assert!(!format!("{client:?}").contains("hunter2"));
}
