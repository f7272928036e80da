//! The SCRAM users in memory, for log-ins, and the form in which the metadata log keeps them.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{PoisonError, RwLock},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use milena_machines::sasl::{ScramCredential, ScramMechanism};
use serde::{Deserialize, Serialize};

/// Credentials by user and by the name of the mechanism.
pub(crate) type UserCredentials = BTreeMap<String, BTreeMap<String, StoredCredential>>;

/// A credential as the metadata log has it. There is no password, and none can be computed from it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredCredential {
    /// Base64, as the keys are.
    salt: String,
    stored_key: String,
    server_key: String,
    iterations: u32,
}

impl StoredCredential {
    pub(crate) fn new(credential: &ScramCredential) -> Self {
        Self {
            salt: STANDARD.encode(&credential.salt),
            stored_key: STANDARD.encode(&credential.stored_key),
            server_key: STANDARD.encode(&credential.server_key),
            iterations: credential.iterations,
        }
    }

    /// `None` if the log has something else than base64.
    fn decode(&self) -> Option<ScramCredential> {
        let bytes = |text: &str| STANDARD.decode(text).ok().map(Bytes::from);
        Some(ScramCredential {
            salt: bytes(&self.salt)?,
            stored_key: bytes(&self.stored_key)?,
            server_key: bytes(&self.server_key)?,
            iterations: self.iterations,
        })
    }
}

/// Without the keys.
impl fmt::Debug for StoredCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredCredential({} iterations)", self.iterations)
    }
}

/// The SCRAM users. Log-ins read them without waiting for changes that are being written.
pub(crate) struct ScramUsers {
    users: RwLock<BTreeMap<String, BTreeMap<ScramMechanism, ScramCredential>>>,
    unknown_user_key: [u8; 32],
}

impl ScramUsers {
    /// `unknown_user_key` is the key of the salts that unknown users get.
    pub(crate) fn new(stored: &UserCredentials, unknown_user_key: [u8; 32]) -> Self {
        let users = Self {
            users: RwLock::default(),
            unknown_user_key,
        };
        for (user, credentials) in stored {
            for (mechanism, credential) in credentials {
                users.put(user, mechanism, Some(credential));
            }
        }
        users
    }

    /// The credential of a user.
    pub(crate) fn find(&self, mechanism: ScramMechanism, user: &str) -> Option<ScramCredential> {
        let users = self.users.read().unwrap_or_else(PoisonError::into_inner);
        users.get(user)?.get(&mechanism).cloned()
    }

    /// The key of the salts that unknown users get. It stays the same over restarts, as the salts of known users do.
    pub(crate) fn unknown_user_key(&self) -> [u8; 32] {
        self.unknown_user_key
    }

    /// The number of iterations of every credential.
    pub(crate) fn iterations(&self) -> BTreeMap<String, Vec<(ScramMechanism, u32)>> {
        let users = self.users.read().unwrap_or_else(PoisonError::into_inner);
        let rows = users.iter().map(|(user, credentials)| {
            let credentials = credentials.iter();
            let credentials = credentials.map(|(mechanism, credential)| (*mechanism, credential.iterations));
            (user.clone(), credentials.collect())
        });
        rows.collect()
    }

    /// Sets a credential, or removes it.
    pub(crate) fn put(&self, user: &str, mechanism: &str, credential: Option<&StoredCredential>) {
        let Some(mechanism) = ScramMechanism::ALL.into_iter().find(|one| one.name() == mechanism) else {
            tracing::error!(
                event = "scram_credential_unusable",
                user,
                mechanism,
                "the metadata log has a credential of an unknown mechanism; set the password again"
            );
            return;
        };
        let decoded = credential.and_then(StoredCredential::decode);
        if credential.is_some() && decoded.is_none() {
            tracing::error!(
                event = "scram_credential_unusable",
                user,
                %mechanism,
                "the metadata log has a credential that cannot be decoded; set the password again"
            );
        }
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        match decoded {
            Some(decoded) => drop(users.entry(user.to_owned()).or_default().insert(mechanism, decoded)),
            None => {
                let left = users.get_mut(user).map(|credentials| {
                    credentials.remove(&mechanism);
                    credentials.len()
                });
                if left == Some(0) {
                    users.remove(user);
                }
            }
        }
    }
}

/// Without users and keys.
impl fmt::Debug for ScramUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users = self.users.read().unwrap_or_else(PoisonError::into_inner);
        write!(f, "ScramUsers({})", users.len())
    }
}
