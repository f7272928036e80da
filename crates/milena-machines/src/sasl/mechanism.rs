//! The SASL mechanisms.

use std::fmt;

/// A mechanism that both sides implement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mechanism {
    Plain,
    Scram(ScramMechanism),
    OAuthBearer,
}

/// The hash of a SCRAM mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScramMechanism {
    Sha256,
    Sha512,
}

impl Mechanism {
    pub const ALL: [Self; 4] = [
        Self::Plain,
        Self::Scram(ScramMechanism::Sha256),
        Self::Scram(ScramMechanism::Sha512),
        Self::OAuthBearer,
    ];

    /// The registered name, as the handshake carries it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Scram(mechanism) => mechanism.name(),
            Self::OAuthBearer => "OAUTHBEARER",
        }
    }

    /// The mechanism of this name, in upper case as on the wire.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }
}

impl ScramMechanism {
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// The code in the requests about SCRAM users.
    pub fn code(self) -> i8 {
        match self {
            Self::Sha256 => 1,
            Self::Sha512 => 2,
        }
    }

    pub fn from_code(code: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.code() == code)
    }

    /// Bytes of a hash, and so of every key.
    pub fn hash_bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for ScramMechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
