//! The checks of credentials that clients log in with.

use milena_machines::sasl::PlainCredentials;
use milena_security::Secret;

use super::endpoint::SaslEndpoint;

/// Compares a password in constant time. An unknown user costs as much as a known one.
pub(super) fn verify_plain(sasl: &SaslEndpoint, credentials: &PlainCredentials) -> bool {
    let given = Secret::from(credentials.password());
    let known = sasl.plain_users.get(credentials.username());
    let expected = known.cloned().unwrap_or_else(|| given.clone());
    (given == expected) & known.is_some()
}
