//! What is not wrong in a configuration, but should be known.

use std::fmt;

use super::Origin;

#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A key was given by another name.
    OtherName {
        key: String,
        origin: Origin,
        meant: &'static str,
    },
    /// A value was given by another name.
    OtherValue {
        key: String,
        origin: Origin,
        value: String,
        meant: &'static str,
    },
    /// A list has an element twice; it counts once.
    Repeated { key: String, origin: Origin },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherName { key, origin, meant } => write!(f, "{key} ({origin}) is taken for {meant}"),
            Self::OtherValue {
                key,
                origin,
                value,
                meant,
            } => write!(f, "{key} ({origin}): {value} is taken for {meant}"),
            Self::Repeated { key, origin } => write!(f, "{key} ({origin}) repeats itself; each element counts once"),
        }
    }
}
