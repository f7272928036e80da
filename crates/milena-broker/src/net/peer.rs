//! The other end of a connection.

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytestring::ByteString;

use crate::authorizer::PeerDecisions;

/// The other end of a connection: its host, its principal, and the listener that accepted it.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// In Kafka's form: `/127.0.0.1`.
    pub(crate) host: ByteString,
    pub(crate) address: SocketAddr,
    pub(crate) principal: Principal,
    /// The name of the listener, such as `PLAINTEXT`.
    pub(crate) listener: ByteString,
    software: Arc<Mutex<Software>>,
    decisions: Arc<Mutex<PeerDecisions>>,
}

/// The identity of a client. Without authentication every client is [`Principal::ANONYMOUS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    /// Kafka's principal type, `User` for all that clients can authenticate as.
    pub(crate) kind: ByteString,
    pub(crate) name: ByteString,
}

/// The client library, as it named itself in ApiVersions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Software {
    pub(crate) name: ByteString,
    pub(crate) version: ByteString,
}

impl Peer {
    /// A client before it has authenticated.
    pub(super) fn new(address: SocketAddr, listener: ByteString) -> Self {
        Self {
            host: format!("/{}", address.ip()).into(),
            address,
            principal: Principal::ANONYMOUS,
            listener,
            software: Arc::default(),
            decisions: Arc::default(),
        }
    }

    /// The broker itself, for requests to its own coordinators.
    pub(crate) fn internal() -> Self {
        Self::new(([127, 0, 0, 1], 0).into(), ByteString::new())
    }

    /// The decisions of the authorizer that the connection has met.
    pub(crate) fn decisions(&self) -> MutexGuard<'_, PeerDecisions> {
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn software(&self) -> Software {
        self.software.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_software(&self, software: Software) {
        *self.software.lock().unwrap_or_else(PoisonError::into_inner) = software;
    }
}

impl Principal {
    pub(crate) const ANONYMOUS: Self = Self {
        kind: ByteString::from_static("User"),
        name: ByteString::from_static("ANONYMOUS"),
    };

    pub(crate) fn user(name: ByteString) -> Self {
        Self {
            kind: ByteString::from_static("User"),
            name,
        }
    }
}

/// Kafka's form: `User:alice`.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_authentication_is_anonymous_as_in_kafka() {
        let peer = Peer::new(([127, 0, 0, 1], 4711).into(), "PLAINTEXT".into());
        assert_eq!(peer.principal.to_string(), "User:ANONYMOUS");
        assert_eq!(peer.host, "/127.0.0.1");
    }
}
