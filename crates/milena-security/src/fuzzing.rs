//! Entrances to private parsers, compiled only for fuzzing.

use crate::{Secret, store};

/// Reads bytes as everything that a key store or trust store could be.
pub fn read_store(bytes: &[u8]) {
    let password = Secret::from("secret");
    let _ = store::read_identity(bytes, Some(&password), None);
    let _ = store::read_identity(bytes, None, Some(&password));
    let _ = store::read_trusted(bytes, None);
    let _ = store::read_trusted(bytes, Some(&password));
    let _ = store::read_revocation_lists(bytes);
    let _ = store::read_key(bytes, Some(&password));
}
