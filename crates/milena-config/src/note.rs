//! Notes: facts about a valid configuration that its author should know.

use std::fmt;

use crate::Origin;

#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The key was given by another name.
    OtherName {
        key: String,
        origin: Origin,
        meant: &'static str,
    },
    /// The value was given by another name.
    OtherValue {
        key: String,
        origin: Origin,
        value: String,
        meant: &'static str,
    },
    /// A list has an element twice; it counts once.
    Repeated { key: String, origin: Origin },
    /// The key is accepted, but changes nothing.
    NoEffect {
        key: String,
        origin: Origin,
        why: &'static str,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherName { key, origin, meant } => {
                write!(f, "{key}{} is read as {meant}", origin.suffix())
            }
            Self::OtherValue {
                key,
                origin,
                value,
                meant,
            } => write!(f, "{key}{}: {value} is read as {meant}", origin.suffix()),
            Self::Repeated { key, origin } => {
                write!(f, "{key}{} has duplicate elements; each counts once", origin.suffix())
            }
            Self::NoEffect { key, origin, why } => write!(f, "{key}{} has no effect: {why}", origin.suffix()),
        }
    }
}
