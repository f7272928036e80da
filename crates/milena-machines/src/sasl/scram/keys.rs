//! The keys of RFC 5802.
//!
//! ```text
//! SaltedPassword = PBKDF2(password, salt, iterations)
//! ClientKey      = HMAC(SaltedPassword, "Client Key")    StoredKey = H(ClientKey)
//! ServerKey      = HMAC(SaltedPassword, "Server Key")
//! ClientProof    = ClientKey XOR HMAC(StoredKey, AuthMessage)
//! ServerSignature = HMAC(ServerKey, AuthMessage)
//! ```

use std::fmt;

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::ITERATIONS_MIN;
use crate::sasl::ScramMechanism;

/// `SaltedPassword`: as good as the password itself for this salt and number of iterations.
#[derive(Clone)]
pub struct SaltedPassword {
    mechanism: ScramMechanism,
    bytes: Zeroizing<Vec<u8>>,
}

impl SaltedPassword {
    /// Derives it with PBKDF2. This takes milliseconds to seconds of CPU time: never on a task that serves connections.
    pub fn derive(mechanism: ScramMechanism, password: &[u8], salt: &[u8], iterations: u32) -> Self {
        let mut bytes = Zeroizing::new(vec![0; mechanism.hash_bytes()]);
        match mechanism {
            ScramMechanism::Sha256 => pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut bytes),
            ScramMechanism::Sha512 => pbkdf2::pbkdf2_hmac::<Sha512>(password, salt, iterations, &mut bytes),
        }
        Self { mechanism, bytes }
    }

    /// Takes a derived one; `None` if it does not have the length of the mechanism's hash.
    pub fn from_bytes(mechanism: ScramMechanism, bytes: &[u8]) -> Option<Self> {
        (bytes.len() == mechanism.hash_bytes()).then(|| Self {
            mechanism,
            bytes: Zeroizing::new(bytes.to_vec()),
        })
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn mechanism(&self) -> ScramMechanism {
        self.mechanism
    }

    fn client_key(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(hmac(self.mechanism, &self.bytes, &[b"Client Key"]))
    }

    pub(super) fn server_key(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(hmac(self.mechanism, &self.bytes, &[b"Server Key"]))
    }

    /// `ClientProof` for this conversation.
    pub(super) fn client_proof(&self, auth_message: &[u8]) -> Vec<u8> {
        let client_key = self.client_key();
        let stored_key = Zeroizing::new(hash(self.mechanism, &client_key));
        xor(&client_key, &hmac(self.mechanism, &stored_key, &[auth_message]))
    }
}

impl fmt::Debug for SaltedPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SaltedPassword({}, [hidden])", self.mechanism)
    }
}

/// The credential that a broker keeps. The password cannot be computed from it, but a client can be impersonated with
/// `stored_key` and one recorded log-in, and the broker with `server_key`.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramCredential {
    pub salt: Bytes,
    pub stored_key: Bytes,
    pub server_key: Bytes,
    pub iterations: u32,
}

impl ScramCredential {
    pub fn from_salted_password(password: &SaltedPassword, salt: Bytes, iterations: u32) -> Self {
        Self {
            salt,
            stored_key: Bytes::from(hash(password.mechanism, &password.client_key())),
            server_key: Bytes::copy_from_slice(&password.server_key()),
            iterations,
        }
    }

    /// The credential of a user who does not exist. Its salt is the same each time, as that of a real user is.
    pub(super) fn of_unknown_user(mechanism: ScramMechanism, key: &[u8], username: &str) -> Self {
        let derive = |hash, purpose: &[u8]| {
            let parts = [mechanism.name().as_bytes(), purpose, username.as_bytes()];
            Bytes::from(hmac(hash, key, &parts))
        };
        Self {
            salt: derive(ScramMechanism::Sha256, b" salt "),
            stored_key: derive(mechanism, b" stored key "),
            server_key: derive(mechanism, b" server key "),
            iterations: ITERATIONS_MIN,
        }
    }

    /// Whether `proof` shows that the client knows the password.
    pub(super) fn accepts(&self, mechanism: ScramMechanism, auth_message: &[u8], proof: &[u8]) -> bool {
        let signature = hmac(mechanism, &self.stored_key, &[auth_message]);
        let client_key = Zeroizing::new(xor(&signature, proof));
        let stored_key = hash(mechanism, &client_key);
        let is_equal: bool = stored_key.ct_eq(&self.stored_key).into();
        is_equal && proof.len() == mechanism.hash_bytes()
    }

    pub(super) fn server_signature(&self, mechanism: ScramMechanism, auth_message: &[u8]) -> Vec<u8> {
        hmac(mechanism, &self.server_key, &[auth_message])
    }
}

/// Without the keys.
impl fmt::Debug for ScramCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramCredential")
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

/// HMAC over the concatenation of `parts`.
pub(super) fn hmac(mechanism: ScramMechanism, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    fn compute<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        // HMAC takes keys of any length; the error is of other MACs.
        let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) else {
            milena_invariant::violated!("hmac_takes_keys_of_any_length");
            return vec![];
        };
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().to_vec()
    }
    match mechanism {
        ScramMechanism::Sha256 => compute::<Hmac<Sha256>>(key, parts),
        ScramMechanism::Sha512 => compute::<Hmac<Sha512>>(key, parts),
    }
}

fn hash(mechanism: ScramMechanism, bytes: &[u8]) -> Vec<u8> {
    match mechanism {
        ScramMechanism::Sha256 => Sha256::digest(bytes).to_vec(),
        ScramMechanism::Sha512 => Sha512::digest(bytes).to_vec(),
    }
}

/// Bytes behind the shorter one are dropped.
fn xor(left: &[u8], right: &[u8]) -> Vec<u8> {
    left.iter().zip(right).map(|(left, right)| left ^ right).collect()
}
