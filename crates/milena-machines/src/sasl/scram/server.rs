//! The broker's side of SCRAM.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use bytes::Bytes;

use super::{
    ITERATIONS_MIN, NONCE_BYTES,
    keys::ScramCredential,
    messages::{ClientFinalMessage, ClientFirstMessage, Problem},
};
use crate::sasl::ScramMechanism;

/// The client's first message.
pub(crate) struct ClientFirst {
    pub(crate) username: String,
    pub(crate) is_token_login: bool,
    authorization_id: String,
    gs2_header: String,
    bare: String,
    nonce: String,
}

impl ClientFirst {
    pub(crate) fn parse(message: &[u8]) -> Result<Self, Problem> {
        let message = std::str::from_utf8(message).map_err(|_| "it is not text")?;
        let message = ClientFirstMessage::parse(message)?;
        Ok(Self {
            username: message.username,
            is_token_login: message.is_token_login,
            authorization_id: message.authorization_id,
            gs2_header: message.gs2_header.to_owned(),
            bare: message.bare.to_owned(),
            nonce: message.nonce.to_owned(),
        })
    }

    /// Whether the client asks to act as another user than the one it names.
    pub(crate) fn has_foreign_authorization_id(&self) -> bool {
        !self.authorization_id.is_empty() && self.authorization_id != self.username
    }
}

/// The exchange after the broker's first message.
pub(crate) struct ScramServer {
    mechanism: ScramMechanism,
    client_first: ClientFirst,
    server_first: String,
    nonce: String,
    credential: ScramCredential,
    /// Whether the user exists. If not, the exchange goes on to its end, and fails there as with a wrong password.
    is_known: bool,
}

impl ScramServer {
    /// Begins with the credential of the user, or without one for an unknown user. Returns the broker's message too.
    pub(crate) fn start(
        mechanism: ScramMechanism,
        client_first: ClientFirst,
        credential: Option<ScramCredential>,
        nonce: &str,
        unknown_user_key: &[u8],
    ) -> (Self, Bytes) {
        // Keys of another length or too few iterations: a credential that no log-in may use.
        let usable = credential.filter(|credential| {
            let length = mechanism.hash_bytes();
            let has_keys = credential.stored_key.len() == length && credential.server_key.len() == length;
            has_keys && credential.iterations >= ITERATIONS_MIN
        });
        let is_known = usable.is_some();
        let credential = usable
            .unwrap_or_else(|| ScramCredential::of_unknown_user(mechanism, unknown_user_key, &client_first.username));
        let nonce = format!("{}{nonce}", client_first.nonce);
        let salt = STANDARD.encode(&credential.salt);
        let server_first = format!("r={nonce},s={salt},i={}", credential.iterations);
        let message = Bytes::from(server_first.clone());
        let server = Self {
            mechanism,
            client_first,
            server_first,
            nonce,
            credential,
            is_known,
        };
        (server, message)
    }

    /// Checks the client's proof. Returns the user name and the broker's last message.
    pub(crate) fn finish(self, message: &[u8]) -> Result<(String, Bytes), Problem> {
        let message = std::str::from_utf8(message).map_err(|_| "the client's final message is not text")?;
        let message = ClientFinalMessage::parse(message)?;
        if message.nonce != self.nonce {
            return Err("the nonce of the client's final message is not the broker's");
        }
        // Kafka's client repeats the empty header whatever it has sent first.
        let binding = message.channel_binding.as_slice();
        if binding != self.client_first.gs2_header.as_bytes() && binding != b"n,," {
            return Err("the channel binding is not the header of the client's first message");
        }
        let auth_message = format!(
            "{},{},{}",
            self.client_first.bare, self.server_first, message.without_proof
        );
        let is_accepted = self
            .credential
            .accepts(self.mechanism, auth_message.as_bytes(), &message.proof);
        if !self.is_known {
            return Err("the user is unknown, or its credential is unusable");
        }
        if !is_accepted {
            return Err("the password is wrong");
        }
        let signature = self
            .credential
            .server_signature(self.mechanism, auth_message.as_bytes());
        let message = format!("v={}", STANDARD.encode(signature));
        Ok((self.client_first.username, Bytes::from(message)))
    }
}

/// The text of a nonce.
pub(crate) fn nonce_text(nonce: [u8; NONCE_BYTES]) -> String {
    URL_SAFE_NO_PAD.encode(nonce)
}
