//! What can be wrong with a configuration.

use std::{convert::Infallible, fmt};

use super::{ClientKind, Origin, Setting};

/// One thing that is wrong. The text names the key, where it came from, what is wrong, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    #[error("{key} ({origin}) is not a key of {client}{}", hint(*client, *nearest))]
    UnknownKey {
        client: ClientKind,
        key: String,
        origin: Origin,
        /// The key that was probably meant.
        nearest: Option<&'static str>,
    },
    #[error("{key} ({origin}) is a key of {owner}, not of {client}; keep it in a configuration of its own")]
    OtherClient {
        client: ClientKind,
        key: String,
        origin: Origin,
        /// Whose key it is, as in "the admin client".
        owner: &'static str,
    },
    #[error("{key} ({origin}) cannot be {value:?}; it must be {expected}")]
    Invalid {
        key: String,
        origin: Origin,
        value: String,
        expected: String,
    },
    #[error("{first} does not go with {second}: {rule}")]
    Contradiction {
        first: Box<Setting>,
        second: Box<Setting>,
        /// Why not, and what to do.
        rule: &'static str,
    },
    #[error("{key} ({origin}) cannot be honoured: {why}")]
    Unsupported {
        key: String,
        origin: Origin,
        why: &'static str,
    },
    #[error("{key} is missing; set it {hint}")]
    Missing { key: &'static str, hint: &'static str },
    #[error("{origin}: {problem}")]
    Syntax { origin: Origin, problem: String },
    #[error("cannot read {path}: {problem}")]
    Unreadable { path: String, problem: String },
}

fn hint(client: ClientKind, nearest: Option<&str>) -> String {
    match nearest {
        Some(name) => format!("; did you mean {name}?"),
        None => format!("; {} lists all of them", client.page()),
    }
}

/// Everything that is wrong with a configuration, at least one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// Nothing is wrong if there are no errors.
    pub(super) fn check(errors: Vec<ConfigError>) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self(errors)) }
    }

    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

/// For callers that take all that can become a configuration.
impl From<Infallible> for ConfigErrors {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl std::error::Error for ConfigErrors {}

/// One line for each.
impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, error) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}
