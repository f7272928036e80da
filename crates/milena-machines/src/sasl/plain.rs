//! PLAIN: authorization id, user name and password in one message.

use std::fmt;

use bytes::Bytes;
use zeroize::Zeroizing;

use super::SaslError;

/// A user name and its password, for the driver to compare in constant time.
pub struct PlainCredentials {
    username: String,
    password: Zeroizing<String>,
    authorization_id: String,
}

impl PlainCredentials {
    pub fn username(&self) -> &str {
        &self.username
    }

    pub fn password(&self) -> &str {
        &self.password
    }

    /// Whether the client asks to act as another user than the one it names.
    pub(super) fn has_foreign_authorization_id(&self) -> bool {
        !self.authorization_id.is_empty() && self.authorization_id != self.username
    }
}

/// Without the password.
impl fmt::Debug for PlainCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainCredentials")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// Encodes the client's only message.
pub(super) fn encode(username: &str, password: &str) -> Result<Bytes, SaslError> {
    if username.is_empty() {
        return Err(SaslError::NoUsername);
    }
    if password.is_empty() {
        return Err(SaslError::NoPassword);
    }
    for (field, text) in [("user name", username), ("password", password)] {
        if text.contains('\0') {
            return Err(SaslError::Nul { field });
        }
    }
    Ok(Bytes::from(format!("\0{username}\0{password}")))
}

/// Reads the client's message. The errors are Kafka's texts, and clients see them.
pub(super) fn parse(message: &[u8]) -> Result<PlainCredentials, String> {
    // Java decodes invalid UTF-8 to replacement characters, too.
    let text = Zeroizing::new(String::from_utf8_lossy(message).into_owned());
    let fields: Vec<&str> = text.splitn(4, '\0').collect();
    let [authorization_id, username, password] = fields.as_slice() else {
        let count = fields.len();
        return Err(format!("Invalid SASL/PLAIN response: expected 3 tokens, got {count}"));
    };
    if username.is_empty() {
        return Err("Authentication failed: username not specified".to_owned());
    }
    if password.is_empty() {
        return Err("Authentication failed: password not specified".to_owned());
    }
    Ok(PlainCredentials {
        username: (*username).to_owned(),
        password: Zeroizing::new((*password).to_owned()),
        authorization_id: (*authorization_id).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_back() {
        let message = encode("alice", "pässwörd").unwrap();
        assert_eq!(message, "\0alice\0pässwörd".as_bytes());
        let credentials = parse(&message).unwrap();
        assert_eq!((credentials.username(), credentials.password()), ("alice", "pässwörd"));
        assert!(!credentials.has_foreign_authorization_id());
        assert!(!parse(b"alice\0alice\0p").unwrap().has_foreign_authorization_id());
        assert!(parse(b"bob\0alice\0p").unwrap().has_foreign_authorization_id());
        assert_eq!(
            format!("{credentials:?}"),
            "PlainCredentials { username: \"alice\", .. }"
        );
    }

    #[test]
    fn refusals_have_kafkas_texts() {
        for (message, text) in [
            (&b""[..], "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
            (b"a\0b", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
            (b"\0a\0b\0c", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
            (b"\0a\0b\0c\0d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
            (b"\0\0secret", "Authentication failed: username not specified"),
            (b"\0alice\0", "Authentication failed: password not specified"),
        ] {
            assert_eq!(parse(message).unwrap_err(), text);
        }
    }

    #[test]
    fn credentials_that_cannot_be_sent_are_refused() {
        assert_eq!(encode("", "p"), Err(SaslError::NoUsername));
        assert_eq!(encode("u", ""), Err(SaslError::NoPassword));
        assert!(matches!(encode("u\0", "p"), Err(SaslError::Nul { field: "user name" })));
        assert!(matches!(encode("u", "p\0"), Err(SaslError::Nul { field: "password" })));
    }
}
