//! What can be wrong with a configuration.

use super::{Allowed, AlterOpKind, ConfigType};

/// Each variant names the key, and where there is one the value and what would have been right.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    #[error("there is no {scope} config {name:?}{}", hint(suggestion.as_deref()))]
    Unknown {
        scope: Scope,
        name: String,
        suggestion: Option<String>,
    },
    #[error("{name} is not supported by this broker: {reason}")]
    Unsupported { name: String, reason: &'static str },
    #[error("{name} cannot be changed on this broker: {reason}")]
    CannotChange { name: &'static str, reason: &'static str },
    #[error("{name} is {value:?}, but must be {expected}")]
    NotOfType {
        name: &'static str,
        value: String,
        expected: ConfigType,
    },
    #[error("{name} is {value:?}, but must be {allowed}")]
    NotAllowed {
        name: &'static str,
        value: String,
        allowed: Allowed,
    },
    #[error("{name} is needed, and not set")]
    Missing { name: &'static str },
    /// The value is of the right type, and yet wrong for a reason of its own.
    #[error("{name} is {value:?}: {problem}")]
    Wrong {
        name: String,
        value: String,
        problem: &'static str,
    },
    #[error("{name} is {value}, which does not go with {other} = {other_value}")]
    Contradiction {
        name: String,
        value: String,
        other: String,
        other_value: String,
    },
    #[error("Invalid update version {level} for feature {name}: {problem}")]
    Feature { name: String, level: i16, problem: String },
    #[error("{name} is given twice, with different values")]
    GivenTwice { name: String },

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

    #[error("line {line}: {problem}")]
    Properties { line: usize, problem: &'static str },
    #[error("{problem}")]
    Toml { problem: String },
    #[error("{argument:?} is not of the form key=value")]
    NotKeyValue { argument: String },
}

/// Whose keys are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Topic,
    Broker,
    Group,
    /// A subscription to the metrics of clients.
    ClientMetrics,
}

/// What the broker answers to a request that carries such an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// INVALID_CONFIG.
    Config,
    /// INVALID_REQUEST.
    Request,
}

impl ConfigError {
    /// Sorts the errors as Kafka answers them, which for a broker's keys is not as for those of topics and groups.
    pub fn fault(&self, scope: Scope) -> Fault {
        match (self, scope) {
            (Self::DuplicateInRequest { .. } | Self::NoValueInRequest { .. }, _) => Fault::Request,
            (Self::NotAList { .. }, _) | (_, Scope::Topic | Scope::Group) => Fault::Config,
            (Self::Wrong { .. }, Scope::ClientMetrics) => Fault::Config,
            (_, Scope::Broker | Scope::ClientMetrics) => Fault::Request,
        }
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Topic => "topic",
            Self::Broker => "broker",
            Self::Group => "group",
            Self::ClientMetrics => "client metrics",
        })
    }
}

fn hint(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}
