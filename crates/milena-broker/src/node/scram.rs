//! Changes of SCRAM users.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytestring::ByteString;
use milena_wire::{errors::ErrorCode, messages::AlterUserScramCredentialsRequest};

use super::{Node, Refusal};
use crate::{
    auth::{self, ScramChange},
    metadata_log::{Change, Metadata},
};

impl Node {
    /// Alters SCRAM users, which is durable and in force when this returns. Returns the outcome of each user.
    pub(crate) fn alter_scram_users(
        &self,
        request: &AlterUserScramCredentialsRequest,
    ) -> Vec<(ByteString, Result<(), Refusal>)> {
        // The lock is held, so that no change is based on users that another has just removed.
        let mut metadata = self.metadata();
        let users_max = self.config().scram_users_max;
        let planned = auth::plan(request, &metadata.metadata().scram_users, users_max);
        let changes: Vec<ScramChange> = planned.iter().filter_map(|(_, outcome)| outcome.clone().ok()).collect();
        let written = match changes.is_empty() {
            true => Ok(()),
            false => metadata.append(changes.iter().map(record).collect()),
        };
        let failure = written.err().map(Refusal::from);
        if failure.is_none() {
            for change in &changes {
                self.scram
                    .put(&change.user, change.mechanism.name(), change.credential.as_ref());
            }
        }
        let outcomes = planned.into_iter().map(|(user, outcome)| {
            let outcome = outcome.and_then(|_| failure.clone().map_or(Ok(()), Err));
            (user, outcome)
        });
        outcomes.collect()
    }
}

fn record(change: &ScramChange) -> Change {
    let (user, mechanism) = (change.user.clone(), change.mechanism.name().to_owned());
    match change.credential.clone() {
        Some(credential) => Change::ScramCredential {
            user,
            mechanism,
            credential,
        },
        None => Change::ScramCredentialDeleted { user, mechanism },
    }
}

/// The key of the salts that unknown users get: the stored one, or a new one with the change that stores it.
pub(super) fn unknown_user_key(metadata: &Metadata) -> Result<([u8; 32], Option<Change>), Refusal> {
    let stored = metadata.unknown_user_key.as_ref();
    let stored = stored.and_then(|key| STANDARD.decode(key.expose()).ok()?.try_into().ok());
    if let Some(key) = stored {
        return Ok((key, None));
    }
    let mut key = [0; 32];
    let mut filled = 0;
    while let Some(rest) = key.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()).map_err(|error| {
            let reason = format!("the system has no random bytes: {error}");
            Refusal::new(ErrorCode::UnknownServerError, reason)
        })?;
    }
    let change = Change::UnknownUserKey {
        key: STANDARD.encode(key).into(),
    };
    Ok((key, Some(change)))
}
