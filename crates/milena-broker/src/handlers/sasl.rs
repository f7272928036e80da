//! SaslHandshake 0–1 and SaslAuthenticate 0–2, where no log-in is due.
//!
//! Log-ins and their renewals are served by `net/login.rs`. These requests come here on listeners without SASL, and from
//! clients that are logged in and have no session to renew.

use milena_wire::{
    errors::ErrorCode,
    messages::{SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse},
};

use super::common::{Outcome, RequestContext};

pub(super) fn handshake(_: &RequestContext<'_>, _: SaslHandshakeRequest) -> Outcome<SaslHandshakeResponse> {
    Outcome::Ready(SaslHandshakeResponse {
        error_code: ErrorCode::IllegalSaslState.code(),
        ..Default::default()
    })
}

pub(super) fn authenticate(_: &RequestContext<'_>, _: SaslAuthenticateRequest) -> Outcome<SaslAuthenticateResponse> {
    Outcome::Ready(SaslAuthenticateResponse {
        error_code: ErrorCode::IllegalSaslState.code(),
        error_message: Some("SaslAuthenticate request received after successful authentication".into()),
        ..Default::default()
    })
}
