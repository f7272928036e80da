//! AlterUserScramCredentials 0. Clients send salted passwords; the broker keeps only the keys that follow from them.
//!
//! Besides Kafka's checks, a salted password has the length of its hash, and names and salts are not longer than needed.

use milena_wire::messages::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse,
    alter_user_scram_credentials_response::AlterUserScramCredentialsResult,
};

use super::common::{Outcome, RequestContext, code_and_message};
use crate::node::Refusal;

pub(super) fn handle(
    cx: &RequestContext<'_>,
    request: AlterUserScramCredentialsRequest,
) -> Outcome<AlterUserScramCredentialsResponse> {
    let results = cx.node.alter_scram_users(&request);
    let results = results.into_iter().map(|(user, outcome)| {
        match &outcome {
            Ok(()) => tracing::info!(
                event = "scram_user_altered",
                %user,
                by = %cx.peer.principal,
                peer = %cx.peer.address,
                "SCRAM credential of a user altered"
            ),
            Err(Refusal { code, reason }) => {
                tracing::debug!(event = "scram_user_refused", %user, %code, reason, "SCRAM credential refused");
            }
        }
        let (error_code, error_message) = code_and_message(outcome);
        AlterUserScramCredentialsResult {
            user,
            error_code,
            error_message,
            ..Default::default()
        }
    });
    let results = results.collect();
    Outcome::Ready(AlterUserScramCredentialsResponse {
        results,
        ..Default::default()
    })
}
