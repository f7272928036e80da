//! Errors of configurations, and of requests that change them.

use super::{AlterOpKind, Scope};

/// A setting that is refused, or a change that is not possible.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    #[error(transparent)]
    Setting(#[from] milena_config::ConfigError),
    /// The value has the right type and range, but is wrong for another reason.
    #[error("{name} cannot be {value:?}: {problem}")]
    Wrong {
        name: String,
        value: String,
        problem: String,
    },
    #[error("{key}: the broker has no such listener; its listeners are {listeners}")]
    UnknownListener { key: String, listeners: String },
    /// A setting of a listener's security that cannot work. Never contains a secret.
    #[error("listener {listener}: {problem}")]
    Security { listener: String, problem: String },
    /// A reference to a secret that cannot be resolved.
    #[error("{key}: {problem}")]
    Reference { key: String, problem: String },
    #[error("Invalid update version {level} for feature {name}: {problem}")]
    Feature { name: String, level: i16, problem: String },

    #[error("{name} appears twice in the request")]
    DuplicateInRequest { name: String },
    #[error("{name} has no value in the request")]
    NoValueInRequest { name: String },
    #[error("{name} cannot be changed by {op}: it is not a list")]
    NotAList { name: String, op: AlterOpKind },
    #[error("{name} cannot be changed while the broker runs")]
    NotDynamic { name: &'static str },
    #[error("{name} can be changed for one broker only, not for all")]
    NotClusterWide { name: &'static str },
    #[error("{name} can be changed for single listeners only, as listener.name.<listener>.{name}")]
    NotForAllListeners { name: &'static str },
    #[error(
        "{name} is not stored in clear; put it into a file or the environment of the broker and set a reference, as in \
         ${{file:/etc/milena/secrets.properties:password}} or ${{env:PASSWORD}}"
    )]
    SecretInRequest { name: String },
}

/// The error code of the response to a request with such an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// INVALID_CONFIG.
    Config,
    /// INVALID_REQUEST.
    Request,
}

impl ConfigError {
    /// The error code that Kafka uses, which for keys of brokers differs from that for topics and groups.
    pub fn fault(&self, scope: Scope) -> Fault {
        match (self, scope) {
            (Self::DuplicateInRequest { .. } | Self::NoValueInRequest { .. }, _) => Fault::Request,
            (Self::NotAList { .. }, _) | (_, Scope::Topic | Scope::Group) => Fault::Config,
            (Self::Wrong { .. }, Scope::ClientMetrics) => Fault::Config,
            (_, Scope::Broker | Scope::ClientMetrics) => Fault::Request,
        }
    }
}
