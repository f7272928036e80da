//! Authentication of a connection, after ApiVersions and before the first request of the client.
//!
//! No SASL mechanism exists yet: the configuration refuses `security.protocol` and `sasl.*` settings that need one. A
//! mechanism is a variant of [`Mechanism`] with a file of its own here; its exchange runs over [`Handshake::call`].

use super::{error::ConnectError, handshake::Handshake};

/// The way in which a client authenticates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Mechanism {
    /// `security.protocol=PLAINTEXT`: nothing is sent.
    #[default]
    None,
}

impl Mechanism {
    /// Authenticates the client. The connection carries no other request before this is done.
    pub(super) async fn authenticate(self, _handshake: &mut Handshake<'_>) -> Result<(), ConnectError> {
        match self {
            Self::None => Ok(()),
        }
    }
}
