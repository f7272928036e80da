//! SaslAuthenticate 0–2, outside of a log-in. Log-ins do not reach the handlers.

use bytestring::ByteString;
use milena_wire::{
    errors::ErrorCode,
    messages::{SaslAuthenticateRequest, SaslAuthenticateResponse},
};

use super::common::{Outcome, RequestContext};

pub(super) fn handle(_: &RequestContext<'_>, _: SaslAuthenticateRequest) -> Outcome<SaslAuthenticateResponse> {
    // Kafka's text, also where no log-in took place.
    let text = "SaslAuthenticate request received after successful authentication";
    Outcome::Ready(SaslAuthenticateResponse {
        error_code: ErrorCode::IllegalSaslState.code(),
        error_message: Some(ByteString::from_static(text)),
        ..Default::default()
    })
}
