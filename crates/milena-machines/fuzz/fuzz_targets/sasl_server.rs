//! Frames of clients that are not logged in: any bytes, in any order, with every mechanism enabled.
//!
//! The input is a sequence of tokens, each with a length of two bytes and a form: a raw frame, or the body of a request that
//! has a valid header. An error ends the log-in; it never panics, and nothing but the right password completes it.
#![no_main]

use std::sync::Arc;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use milena_machines::sasl::{
    Mechanism, NONCE_BYTES, SaltedPassword, SaslServerConfig, ScramCredential, ScramMechanism, ServerAction,
    ServerAuthenticator, TokenRejection,
};
use milena_wire::{
    errors::ErrorCode,
    frame,
    messages::{ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest},
};

fuzz_target!(|data: &[u8]| {
    let mechanisms = Mechanism::ALL.map(|mechanism| (mechanism, Some(10_000)));
    let config = SaslServerConfig {
        mechanisms: mechanisms.to_vec(),
        fake_salt_key: [1; 32],
    };
    let mut authenticator = ServerAuthenticator::new(Arc::new(config));
    let mut rest = data;
    while let Some((head, more)) = rest.split_first_chunk::<3>() {
        if !authenticator.wants_frame() {
            return;
        }
        let length = usize::from(u16::from_be_bytes([head[1], head[2]])).min(more.len());
        let (token, after) = more.split_at(length);
        rest = after;
        let mut action = authenticator.handle_frame(frame_of(head[0], token), 0);
        loop {
            action = match action {
                ServerAction::ServeApiVersions(_) => {
                    authenticator.handle_api_versions(ErrorCode::None);
                    break;
                }
                ServerAction::Respond(_) => break,
                ServerAction::VerifyPlain(_) => authenticator.handle_plain(false, 0),
                ServerAction::LookupScram { mechanism, username } => {
                    let known = (username.len() % 2 == 0).then(|| credential(mechanism));
                    authenticator.handle_scram(known, [2; NONCE_BYTES], 0)
                }
                ServerAction::VerifyToken(_) => {
                    authenticator.handle_token(Err(TokenRejection::InsufficientScope { scope: None }), 0)
                }
                ServerAction::Complete { .. } => panic!("logged in without a password"),
                ServerAction::Fail { .. } | ServerAction::Close(_) => return,
            };
        }
    }
});

/// A frame without its length.
fn frame_of(form: u8, token: &[u8]) -> Bytes {
    let version = i16::from(form / 8 % 4);
    let encoded = match form % 8 {
        0 => frame::encode_request(&ApiVersionsRequest::default(), version, 1, None),
        1..=4 => {
            let mechanism = Mechanism::ALL[usize::from(form % 8 - 1) % Mechanism::ALL.len()];
            let request = SaslHandshakeRequest {
                mechanism: mechanism.name().into(),
                ..Default::default()
            };
            frame::encode_request(&request, version.min(1), 1, None)
        }
        5 | 6 => {
            let request = SaslAuthenticateRequest {
                auth_bytes: Bytes::copy_from_slice(token),
                ..Default::default()
            };
            frame::encode_request(&request, version.min(2), 1, None)
        }
        _ => return Bytes::copy_from_slice(token),
    };
    encoded.map_or_else(|_| Bytes::new(), |frame| frame.into_bytes().slice(frame::LENGTH_SIZE..))
}

fn credential(mechanism: ScramMechanism) -> ScramCredential {
    let salted = vec![3; mechanism.hash_bytes()];
    let password = SaltedPassword::from_bytes(mechanism, &salted).expect("it has the length of the hash");
    ScramCredential::from_salted_password(&password, Bytes::from_static(b"salt"), 4096)
}
