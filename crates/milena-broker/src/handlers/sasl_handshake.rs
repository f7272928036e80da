//! SaslHandshake 0–1, outside of a log-in: the listener has none, or the client is logged in and has no session to renew.
//! Log-ins do not reach the handlers.

use milena_wire::{
    errors::ErrorCode,
    messages::{SaslHandshakeRequest, SaslHandshakeResponse},
};

use super::common::{Outcome, RequestContext};

pub(super) fn handle(_: &RequestContext<'_>, _: SaslHandshakeRequest) -> Outcome<SaslHandshakeResponse> {
    Outcome::Ready(SaslHandshakeResponse {
        error_code: ErrorCode::IllegalSaslState.code(),
        ..Default::default()
    })
}
