//! Where a value came from.

use std::{fmt, sync::Arc};

/// Where a value came from, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The application set it.
    Code,
    File {
        name: Arc<str>,
        line: usize,
    },
    /// Something else with a name, such as an argument of a command.
    Named(Arc<str>),
}

impl Origin {
    /// Whether both are of one file: there, no value is later than another.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { name, .. }, Self::File { name: other, .. }) => name == other,
            _ => false,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code => f.write_str("code"),
            Self::File { name, line } => write!(f, "{name}:{line}"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// A key with its value, and where that came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub key: String,
    pub value: String,
    pub source: Source,
}

/// Who decided on a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Default,
    /// `milena.profile` has it as its default.
    Profile,
    Given(Origin),
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
        write!(f, "{}={} ({})", self.key, self.value, self.source)
    }
}
