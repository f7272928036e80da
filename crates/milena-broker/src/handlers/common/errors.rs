//! Errors in the form that responses have them.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_log::StorageError;
use milena_wire::errors::ErrorCode;

use super::context::CoordinatorResult;
use crate::node::Refusal;

/// How often a request names each key. A key that is named more than once is refused each time.
pub(crate) struct NameCounts<K>(BTreeMap<K, usize>);

impl<K: Ord> NameCounts<K> {
    pub(crate) fn count(keys: impl Iterator<Item = K>) -> Self {
        let mut counts = BTreeMap::new();
        for key in keys {
            *counts.entry(key).or_default() += 1;
        }
        Self(counts)
    }

    /// Refuses a key that was named more than once; `kind` is the noun for the reason, such as "topic".
    pub(crate) fn check_once(&self, key: &K, kind: &str) -> Result<(), Refusal> {
        match self.0.get(key) {
            Some(1) => Ok(()),
            _ => {
                let reason = format!("the request names the {kind} more than once");
                Err(Refusal::new(ErrorCode::InvalidRequest, reason))
            }
        }
    }
}

/// The error code of a failed storage operation, which is logged unless the log is known to be gone or offline.
pub(crate) fn storage_error(error: &StorageError, problem: &str) -> ErrorCode {
    // An offline partition was logged at the start; a retired log is that of a deleted topic.
    if !matches!(error, StorageError::Retired { .. } | StorageError::Offline { .. }) {
        tracing::error!(event = "storage_error", %error, "{problem}");
    }
    error.error_code()
}

/// Error code and message of one row.
pub(crate) fn code_and_message(outcome: Result<(), Refusal>) -> (i16, Option<ByteString>) {
    match outcome {
        Ok(()) => (ErrorCode::None.code(), None),
        Err(refusal) => (refusal.code.code(), Some(refusal.reason.into())),
    }
}

/// The error of a coordinator's result that is not the reply the request needs.
pub(crate) fn error_of<Reply>(result: &CoordinatorResult<Reply>) -> ErrorCode {
    result.as_ref().err().copied().unwrap_or(ErrorCode::UnknownServerError)
}
