//! Sessions that end, and their renewal.

use bytes::Bytes;
use milena_machines::sasl::{FailureResponse, Mechanism, RequestVerdict};
use milena_wire::{api::ApiKey, errors::ErrorCode, messages::MetadataRequest};

use super::rig::{Rig, SCRAM_256, Seen, authenticate_response, handshake_response, plain, rig_with};

/// A connection of `alice` by PLAIN, with a session of this length.
fn logged_in(session_ms: Option<u64>) -> Rig {
    let mut rig = rig_with(&[
        (Mechanism::Plain, session_ms),
        (SCRAM_256, session_ms),
        (Mechanism::OAuthBearer, session_ms),
    ]);
    let session = rig.log_in("alice").session();
    assert_eq!(session.lifetime_ms, session_ms);
    rig
}

fn reauthenticate(rig: &mut Rig, username: &str) -> Seen {
    assert_eq!(rig.verdict(ApiKey::SaslHandshake), RequestVerdict::Reauthenticate);
    rig.log_in(username)
}

#[test]
fn without_a_limit_a_session_never_ends_and_is_not_renewed() {
    let mut rig = logged_in(None);
    rig.now_ms += 1 << 40;
    assert_eq!(rig.verdict(ApiKey::Produce), RequestVerdict::Serve);
    // The handler responds with ILLEGAL_SASL_STATE.
    assert_eq!(rig.verdict(ApiKey::SaslHandshake), RequestVerdict::Serve);
    assert_eq!(rig.verdict(ApiKey::SaslAuthenticate), RequestVerdict::Serve);
}

#[test]
fn a_session_ends_after_its_lifetime_with_the_next_request() {
    let mut rig = logged_in(Some(5000));
    rig.now_ms += 5000;
    assert_eq!(rig.verdict(ApiKey::Produce), RequestVerdict::Serve);
    rig.now_ms += 1;
    assert_eq!(rig.verdict(ApiKey::Produce), RequestVerdict::Expired);
    assert_eq!(rig.verdict(ApiKey::ApiVersions), RequestVerdict::Expired);
    // It can still be renewed.
    rig.now_ms += 1 << 40;
    reauthenticate(&mut rig, "alice").session();
    assert_eq!(rig.verdict(ApiKey::Produce), RequestVerdict::Serve);
}

#[test]
fn a_renewed_session_has_a_new_lifetime_and_the_old_principal() {
    let mut rig = logged_in(Some(5000));
    rig.now_ms += 4000;
    assert_eq!(rig.verdict(ApiKey::SaslHandshake), RequestVerdict::Reauthenticate);
    assert!(rig.server.wants_frame());
    rig.choose(Mechanism::Plain);
    rig.now_ms += 30;
    let Seen::Complete(response, session) = rig.token(plain("alice").as_bytes()) else {
        panic!("no session");
    };
    assert_eq!(authenticate_response(&response, 2).session_lifetime_ms, 5000);
    assert_eq!(session.reauthentication.map(|one| one.latency_ms), Some(30));
    assert_eq!(&*session.principal, "alice");
    rig.now_ms += 5000;
    assert_eq!(rig.verdict(ApiKey::Fetch), RequestVerdict::Serve);
    rig.now_ms += 1;
    assert_eq!(rig.verdict(ApiKey::Fetch), RequestVerdict::Expired);
}

#[test]
fn a_token_limits_the_session_and_so_does_the_broker() {
    for (limit, token_ms, expected) in [
        (None, 700, 700),
        (Some(0), 700, 700),
        (Some(500), 700, 500),
        (Some(900), 700, 700),
        (Some(500), 0, 0),
        (None, u64::MAX, u64::MAX),
    ] {
        let mut rig = rig_with(&[(Mechanism::OAuthBearer, limit)]);
        rig.token_ms = token_ms;
        rig.choose(Mechanism::OAuthBearer);
        let Seen::Complete(response, session) = rig.token(b"n,,\x01auth=Bearer alice\x01\x01") else {
            panic!("no session");
        };
        assert_eq!(session.lifetime_ms, Some(expected));
        let sent = authenticate_response(&response, 2).session_lifetime_ms;
        assert_eq!(sent, i64::try_from(expected).unwrap_or(i64::MAX));
        if let Some(end) = rig.now_ms.checked_add(expected + u64::from(expected < u64::MAX)) {
            rig.now_ms = end;
            assert_eq!(rig.verdict(ApiKey::Produce), RequestVerdict::Expired);
        }
    }
}

#[test]
fn a_client_renews_at_most_once_a_second() {
    let mut rig = logged_in(Some(5000));
    // The first renewal may follow the log-in at once.
    reauthenticate(&mut rig, "alice").session();
    rig.now_ms += 999;
    assert_eq!(rig.verdict(ApiKey::SaslHandshake), RequestVerdict::Serve);
    rig.now_ms += 1;
    reauthenticate(&mut rig, "alice").session();
}

#[test]
fn a_renewal_that_is_too_early_does_not_save_an_ended_session() {
    let mut rig = logged_in(Some(500));
    reauthenticate(&mut rig, "alice").session();
    rig.now_ms += 501;
    assert_eq!(rig.verdict(ApiKey::SaslHandshake), RequestVerdict::Expired);
}

#[test]
fn the_principal_cannot_change() {
    let mut rig = logged_in(Some(5000));
    let text = reauthenticate(&mut rig, "bob").text();
    assert_eq!(
        text,
        "Cannot change principals during re-authentication from User.alice: User.bob"
    );
    assert_eq!(rig.server.session().map(|session| &*session.principal), Some("alice"));
}

#[test]
fn the_mechanism_cannot_change() {
    let mut rig = logged_in(Some(5000));
    assert_eq!(rig.verdict(ApiKey::SaslHandshake), RequestVerdict::Reauthenticate);
    // As in Kafka, the handshake succeeds, and the next frame fails without a response.
    rig.choose(SCRAM_256);
    let Seen::Failed(None, reason) = rig.token(b"n,,n=alice,r=abc") else {
        panic!("not failed");
    };
    assert!(
        reason.contains("SCRAM-SHA-256") && reason.starts_with("re-authentication"),
        "{reason}"
    );
}

#[test]
fn a_renewal_with_an_unknown_mechanism_fails_at_the_handshake() {
    let mut rig = logged_in(Some(5000));
    assert_eq!(rig.verdict(ApiKey::SaslHandshake), RequestVerdict::Reauthenticate);
    let Seen::Failed(Some(FailureResponse::Sasl(response)), _) = rig.handshake("GSSAPI", 1) else {
        panic!("not failed");
    };
    assert_eq!(
        handshake_response(&response, 1).error_code,
        ErrorCode::UnsupportedSaslMechanism.code()
    );
}

#[test]
fn a_renewal_with_a_wrong_password_says_so() {
    let mut rig = logged_in(Some(5000));
    assert_eq!(rig.verdict(ApiKey::SaslHandshake), RequestVerdict::Reauthenticate);
    rig.choose(Mechanism::Plain);
    assert_eq!(
        rig.token(b"\0alice\0wrong").text(),
        "Authentication failed: Invalid username or password"
    );
    let mut rig = rig_with(&[(SCRAM_256, Some(5000))]);
    rig.handshake("SCRAM-SHA-256", 1);
    let text = rig.token(b"garbage").text();
    assert!(text.contains("during authentication"), "{text}");
}

#[test]
fn nothing_but_the_exchange_is_allowed_while_a_session_is_renewed() {
    let mut rig = logged_in(Some(5000));
    assert_eq!(rig.verdict(ApiKey::SaslHandshake), RequestVerdict::Reauthenticate);
    rig.choose(Mechanism::Plain);
    let seen = rig.request(&MetadataRequest::default(), 12);
    assert!(
        matches!(seen, Seen::Failed(Some(FailureResponse::Request { .. }), _)),
        "{seen:?}"
    );
    // The frame that begins it is the handshake; anything else is a mistake of the driver, and closes.
    let mut rig = logged_in(Some(5000));
    assert_eq!(rig.verdict(ApiKey::SaslHandshake), RequestVerdict::Reauthenticate);
    assert!(matches!(rig.request(&MetadataRequest::default(), 12), Seen::Closed(_)));
}

#[test]
fn a_session_can_be_renewed_with_bare_tokens() {
    let mut rig = logged_in(Some(5000));
    assert_eq!(rig.verdict(ApiKey::SaslHandshake), RequestVerdict::Reauthenticate);
    assert!(matches!(rig.handshake("PLAIN", 0), Seen::Response(_)));
    rig.frame(Bytes::from(plain("alice"))).session();
    assert!(
        rig.server
            .session()
            .is_some_and(|session| session.client_reauthenticates)
    );
}
