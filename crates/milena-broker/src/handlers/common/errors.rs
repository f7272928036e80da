//! What the answers of several APIs have in common: one outcome for each thing that a request names.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_log::StorageError;
use milena_wire::errors::ErrorCode;

use crate::node::Refusal;

/// What a request names. Naming a thing more than once is refused, for every time it is named.
pub(super) struct Named<K>(BTreeMap<K, usize>);

impl<K: Ord> Named<K> {
    pub(super) fn count(keys: impl Iterator<Item = K>) -> Self {
        let mut times = BTreeMap::new();
        for key in keys {
            *times.entry(key).or_default() += 1;
        }
        Self(times)
    }

    /// Refuses a key that was named more than once; `what` says what it is.
    pub(super) fn check_once(&self, key: &K, what: &str) -> Result<(), Refusal> {
        match self.0.get(key) {
            Some(1) => Ok(()),
            _ => {
                let reason = format!("the request names the {what} more than once");
                Err(Refusal::new(ErrorCode::InvalidRequest, reason))
            }
        }
    }
}

/// What to answer where a log cannot do what was asked; `problem` says for people what that was. That a topic was deleted
/// meanwhile is no news to them.
pub(super) fn storage_error(error: &StorageError, problem: &str) -> ErrorCode {
    // An offline partition was logged at the start.
    if !matches!(error, StorageError::Retired { .. } | StorageError::Offline { .. }) {
        tracing::error!(%error, "{problem}");
    }
    error.error_code()
}

/// An outcome as most answers tell it.
pub(super) fn code_and_message(outcome: Result<(), Refusal>) -> (i16, Option<ByteString>) {
    match outcome {
        Ok(()) => (ErrorCode::None.code(), None),
        Err(refusal) => (refusal.code.code(), Some(refusal.reason.into())),
    }
}
