//! The values that a key accepts, beyond its type.

use std::fmt;

use crate::ConfigValue;

/// The values that a key accepts, beyond its type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Allowed {
    Any,
    /// Any text but the empty one.
    NotEmpty,
    AtLeast(i64),
    /// From the first to the last, both included.
    Between(i64, i64),
    /// A range, and one value outside of it.
    BetweenOr(i64, i64, i64),
    OneOf(&'static [&'static str]),
    OneOfInAnyCase(&'static [&'static str]),
    /// A list whose elements are all of these.
    Each(&'static [&'static str]),
    /// A name as Kafka allows it for topics and static members.
    ResourceName,
    /// A rule of the crate that owns the key.
    Custom(&'static Validator),
}

/// A rule for values that a crate brings along.
pub struct Validator {
    pub accepts: fn(&ConfigValue) -> bool,
    /// The rest of the sentence "it must be …" in errors.
    pub expected: fn() -> String,
    /// The entry in the column "allowed" of the reference; the type of the key if it is empty.
    pub summary: fn() -> String,
}

impl Allowed {
    pub fn accepts(self, value: &ConfigValue) -> bool {
        match (self, value) {
            (Self::Any, _) => true,
            (Self::NotEmpty, ConfigValue::Text(text)) => !text.is_empty(),
            (Self::AtLeast(min), ConfigValue::Integer(number)) => *number >= min,
            (Self::Between(min, max), ConfigValue::Integer(number)) => (min..=max).contains(number),
            (Self::Between(min, max), ConfigValue::Double(number)) => (min as f64..=max as f64).contains(number),
            (Self::BetweenOr(min, max, other), ConfigValue::Integer(number)) => {
                (min..=max).contains(number) || *number == other
            }
            (Self::OneOf(names), ConfigValue::Text(text)) => names.contains(&text.as_str()),
            (Self::OneOfInAnyCase(names), ConfigValue::Text(text)) => {
                names.iter().any(|name| name.eq_ignore_ascii_case(text))
            }
            (Self::Each(names), ConfigValue::List(elements)) => {
                elements.iter().all(|element| names.contains(&element.as_str()))
            }
            (Self::ResourceName, ConfigValue::Text(text)) => is_resource_name(text),
            (Self::Custom(validator), value) => (validator.accepts)(value),
            _ => false,
        }
    }
}

fn is_resource_name(text: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=249).contains(&text.len()) && text.chars().all(is_legal) && text != "." && text != ".."
}

/// The rest of the sentence "it must be …".
impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any value"),
            Self::NotEmpty => f.write_str("non-empty text; leave the key out if there is none"),
            Self::AtLeast(min) => write!(f, "at least {min}"),
            Self::Between(min, max) => write!(f, "{min} to {max}"),
            Self::BetweenOr(min, max, other) => write!(f, "{min} to {max}, or {other}"),
            Self::OneOf(names) => write!(f, "one of {}", names.join(", ")),
            Self::OneOfInAnyCase(names) => write!(f, "one of {}", names.join(", ").to_lowercase()),
            Self::Each(names) => write!(f, "a list of {}", names.join(", ")),
            Self::ResourceName => {
                f.write_str("1 to 249 ASCII letters, digits, dots, underscores and dashes, and neither . nor ..")
            }
            Self::Custom(validator) => f.write_str(&(validator.expected)()),
        }
    }
}

impl fmt::Debug for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Validator").field(&(self.expected)()).finish()
    }
}

/// Two rules are equal if they ask for the same.
impl PartialEq for Validator {
    fn eq(&self, other: &Self) -> bool {
        (self.expected)() == (other.expected)()
    }
}
