//! Errors of configurations.

use std::{convert::Infallible, fmt};

use crate::{Origin, Setting};

/// One error. The text names the key, its origin, the problem and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    #[error("{key}{} is not a key of {schema}{}", origin.suffix(), hint(*nearest, *page))]
    UnknownKey {
        /// The configuration that the key was given to, as in "the consumer".
        schema: &'static str,
        /// The document that lists all keys.
        page: Option<&'static str>,
        key: String,
        origin: Origin,
        /// The key that was probably meant.
        nearest: Option<&'static str>,
    },
    #[error(
        "{key}{} is a key of {owner}, not of {schema}; move it to the configuration of {owner}",
        origin.suffix()
    )]
    OtherOwner {
        schema: &'static str,
        key: String,
        origin: Origin,
        /// The configuration that has the key, as in "the admin client".
        owner: &'static str,
    },
    #[error("{key}{} cannot be {value:?}; it must be {expected}", origin.suffix())]
    Invalid {
        key: String,
        origin: Origin,
        value: String,
        expected: String,
    },
    #[error("{first} conflicts with {second}: {rule}")]
    Contradiction {
        first: Box<Setting>,
        second: Box<Setting>,
        /// The reason and the remedy.
        rule: &'static str,
    },
    #[error("{key}{} is not supported: {why}", origin.suffix())]
    Unsupported {
        key: String,
        origin: Origin,
        why: &'static str,
    },
    /// The value is well-formed, but what it refers to cannot be used. The text has no secret.
    #[error("{key}{} cannot be used: {problem}", origin.suffix())]
    Unusable {
        key: String,
        origin: Origin,
        problem: String,
    },
    #[error("{key} is missing; set it {hint}")]
    Missing { key: &'static str, hint: &'static str },
    #[error("{origin}: {problem}")]
    Syntax { origin: Origin, problem: String },
    #[error("cannot read {path}: {problem}")]
    Unreadable { path: String, problem: String },
}

fn hint(nearest: Option<&str>, page: Option<&str>) -> String {
    match (nearest, page) {
        (Some(name), _) => format!("; did you mean {name}?"),
        (None, Some(page)) => format!("; {page} lists all keys"),
        (None, None) => String::new(),
    }
}

/// All errors of a configuration, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// Returns the errors as an error, unless there are none.
    pub fn check(errors: Vec<ConfigError>) -> Result<(), Self> {
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

/// For functions that take anything that converts to a configuration, also a configuration itself.
impl From<Infallible> for ConfigErrors {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl std::error::Error for ConfigErrors {}

/// One line for each error.
impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}
