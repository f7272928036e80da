//! The client's requests.

use std::collections::BTreeMap;

use bytes::Bytes;
use milena_machines::sasl::{
    ClientAction, ClientAuthError, ClientAuthenticator, ClientExchange, Mechanism, SaslError, ScramLogin,
    ScramMechanism,
};
use milena_wire::{
    errors::ErrorCode,
    messages::{SaslAuthenticateResponse, SaslHandshakeResponse},
};

fn plain() -> ClientAuthenticator {
    ClientAuthenticator::new(ClientExchange::plain("alice", "hunter2").unwrap())
}

fn handshake(error: ErrorCode) -> SaslHandshakeResponse {
    SaslHandshakeResponse {
        error_code: error.code(),
        mechanisms: vec!["OAUTHBEARER".into(), "GSSAPI".into()],
    }
}

fn authenticated(auth_bytes: &'static [u8], session_lifetime_ms: i64) -> SaslAuthenticateResponse {
    SaslAuthenticateResponse {
        auth_bytes: Bytes::from_static(auth_bytes),
        session_lifetime_ms,
        ..Default::default()
    }
}

fn failed(error: ErrorCode, text: Option<&'static str>) -> SaslAuthenticateResponse {
    SaslAuthenticateResponse {
        error_code: error.code(),
        error_message: text.map(Into::into),
        ..Default::default()
    }
}

#[test]
fn a_lifetime_of_zero_is_none() {
    for (sent, session_lifetime_ms) in [
        (0, None),
        (-5, None),
        (5000, Some(5000)),
        (i64::MAX, Some(i64::MAX as u64)),
    ] {
        let mut client = plain();
        assert_eq!(client.handshake_request().mechanism, "PLAIN");
        let Ok(ClientAction::Authenticate(request)) = client.handle_handshake(&handshake(ErrorCode::None)) else {
            panic!("no token");
        };
        assert_eq!(request.auth_bytes, &b"\0alice\0hunter2"[..]);
        let done = client.handle_authenticate(&authenticated(b"", sent));
        assert_eq!(done, Ok(ClientAction::Done { session_lifetime_ms }));
        assert!(client.handle_authenticate(&authenticated(b"", sent)).is_err());
    }
}

#[test]
fn a_mechanism_that_is_not_enabled_names_those_that_are() {
    let error = plain()
        .handle_handshake(&handshake(ErrorCode::UnsupportedSaslMechanism))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "client SASL mechanism 'PLAIN' not enabled in the server, enabled mechanisms are [OAUTHBEARER, GSSAPI]"
    );
}

#[test]
fn a_refusal_has_the_brokers_text() {
    let refuse = |error, text| {
        let mut client = plain();
        client.handle_handshake(&handshake(ErrorCode::None)).unwrap();
        client.handle_authenticate(&failed(error, text)).unwrap_err()
    };
    let error = refuse(ErrorCode::SaslAuthenticationFailed, Some("wrong password"));
    assert!(
        matches!(&error, ClientAuthError::Rejected { text, .. } if text == "wrong password"),
        "{error}"
    );
    let error = refuse(ErrorCode::SaslAuthenticationFailed, None);
    assert!(error.to_string().contains("SASL_AUTHENTICATION_FAILED"), "{error}");
    let error = refuse(ErrorCode::IllegalSaslState, Some("after successful authentication"));
    assert!(matches!(error, ClientAuthError::IllegalState { .. }), "{error}");
    let error = plain()
        .handle_handshake(&handshake(ErrorCode::IllegalSaslState))
        .unwrap_err();
    assert!(matches!(error, ClientAuthError::IllegalState { .. }), "{error}");
}

#[test]
fn plain_expects_no_message() {
    let mut client = plain();
    client.handle_handshake(&handshake(ErrorCode::None)).unwrap();
    let error = client.handle_authenticate(&authenticated(b"x", 0)).unwrap_err();
    assert!(
        matches!(error, ClientAuthError::Exchange(SaslError::InvalidMessage { .. })),
        "{error}"
    );
}

#[test]
fn a_refused_token_is_acknowledged_and_its_error_is_kept() {
    let exchange = || ClientExchange::oauth_bearer("token", "", &BTreeMap::new()).unwrap();
    let mut client = ClientAuthenticator::new(exchange());
    client.handle_handshake(&handshake(ErrorCode::None)).unwrap();
    let json = br#"{"status":"invalid_token"}"#;
    let Ok(ClientAction::Authenticate(request)) = client.handle_authenticate(&authenticated(json, 0)) else {
        panic!("no acknowledgement");
    };
    assert_eq!(request.auth_bytes, &b"\x01"[..]);
    let text = r#"{"status":"invalid_token"}"#;
    let error = client.handle_authenticate(&failed(ErrorCode::SaslAuthenticationFailed, Some(text)));
    assert!(error.unwrap_err().to_string().contains("invalid_token"));
    // A broker that goes on as if nothing had happened is not believed.
    let mut client = ClientAuthenticator::new(exchange());
    client.handle_handshake(&handshake(ErrorCode::None)).unwrap();
    client.handle_authenticate(&authenticated(json, 0)).unwrap();
    let error = client.handle_authenticate(&authenticated(b"", 0)).unwrap_err();
    assert!(error.to_string().contains("invalid_token"), "{error}");
}

#[test]
fn a_delegation_token_is_announced() {
    let exchange = ClientExchange::scram(ScramMechanism::Sha256, "id", ScramLogin::DelegationToken, [1; 18]).unwrap();
    assert_eq!(exchange.mechanism(), Mechanism::Scram(ScramMechanism::Sha256));
    let mut client = ClientAuthenticator::new(exchange);
    let Ok(ClientAction::Authenticate(request)) = client.handle_handshake(&handshake(ErrorCode::None)) else {
        panic!("no message");
    };
    assert_eq!(
        request.auth_bytes,
        &b"n,,n=id,r=AQEBAQEBAQEBAQEBAQEBAQEB,tokenauth=true"[..]
    );
}

#[test]
fn no_debug_output_has_a_secret() {
    let mut client = plain();
    let action = client.handle_handshake(&handshake(ErrorCode::None));
    let shown = format!("{client:?} {action:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
}
