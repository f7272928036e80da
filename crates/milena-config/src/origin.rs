//! The origin of a value, for messages.

use std::{fmt, sync::Arc};

/// The place where a value was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Set by the application.
    Code,
    File {
        name: Arc<str>,
        line: usize,
    },
    /// Another source with a name, such as an argument of a command.
    Named(Arc<str>),
    /// The request that is being handled. Messages leave it out: they are part of its response.
    Request,
}

impl Origin {
    /// Whether both are in one file, where no value is stronger than another.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { name, .. }, Self::File { name: other, .. }) => name == other,
            _ => false,
        }
    }

    /// The origin in brackets, behind the name of a key.
    pub(crate) fn suffix(&self) -> String {
        match self {
            Self::Request => String::new(),
            origin => format!(" ({origin})"),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code => f.write_str("code"),
            Self::File { name, line } => write!(f, "{name}:{line}"),
            Self::Named(name) => f.write_str(name),
            Self::Request => f.write_str("request"),
        }
    }
}

/// A key with its value and the source of the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub key: String,
    pub value: String,
    pub source: Source,
}

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Default,
    /// A default of `milena.profile`.
    Profile,
    Given(Origin),
}

impl Setting {
    /// A key that has no value.
    pub fn unset(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            value: String::new(),
            source: Source::Default,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Profile => f.write_str("milena.profile"),
            Self::Given(origin) => write!(f, "{origin}"),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, source } = self;
        match source {
            Source::Given(origin) => write!(f, "{key}={value}{}", origin.suffix()),
            source => write!(f, "{key}={value} ({source})"),
        }
    }
}
