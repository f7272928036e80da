//! Typed values: read from text, checked against a definition, printed as Kafka prints them.

use std::{collections::BTreeSet, fmt};

use crate::{Allowed, ConfigType, Definition, Support};

/// A value of the type that its definition asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum ConfigValue {
    Boolean(bool),
    /// INT, SHORT and LONG; parsing checks the range of the type.
    Integer(i64),
    Double(f64),
    /// STRING, CLASS and PASSWORD.
    Text(String),
    List(Vec<String>),
}

/// The reason why a text is not a value of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error("it must be {expected}")]
    Invalid { expected: String },
    /// Valid in Kafka, but only the default is supported.
    #[error("it is not supported: {why}")]
    Unsupported { why: &'static str },
}

impl ConfigValue {
    /// Parses a value as Kafka does and checks everything that concerns this key alone.
    pub fn parse(definition: &Definition, text: &str) -> Result<Self, ValueError> {
        let value = read(definition, text);
        let allowed = value.as_ref().is_none_or(|value| definition.allowed.accepts(value));
        match (value, definition.support) {
            (Some(value), Support::DefaultOnly { also, .. }) if is_harmless(&value, definition, also) => Ok(value),
            (Some(value), Support::Honoured | Support::Ignored { .. }) if allowed => Ok(value),
            (_, Support::DefaultOnly { reason, .. }) if allowed => Err(ValueError::Unsupported { why: reason }),
            (Some(_), _) => Err(invalid(definition.allowed)),
            (None, _) => Err(invalid(definition.config_type)),
        }
    }
}

fn invalid(expected: impl fmt::Display) -> ValueError {
    let expected = expected.to_string();
    ValueError::Invalid { expected }
}

/// Whether a value asks for the default behaviour.
fn is_harmless(value: &ConfigValue, definition: &Definition, also: &[&str]) -> bool {
    let mut harmless = definition.default.into_iter().chain(also.iter().copied());
    harmless.any(|text| match value {
        ConfigValue::Text(given) if matches!(definition.allowed, Allowed::OneOfInAnyCase(_)) => {
            given.eq_ignore_ascii_case(text)
        }
        _ => read(definition, text).as_ref() == Some(value),
    })
}

fn read(definition: &Definition, text: &str) -> Option<ConfigValue> {
    let text = trim(text);
    match definition.config_type {
        ConfigType::Boolean if text.eq_ignore_ascii_case("true") => Some(ConfigValue::Boolean(true)),
        ConfigType::Boolean if text.eq_ignore_ascii_case("false") => Some(ConfigValue::Boolean(false)),
        ConfigType::Boolean => None,
        ConfigType::Short => text.parse().ok().map(|number: i16| ConfigValue::Integer(number.into())),
        ConfigType::Int => text.parse().ok().map(|number: i32| ConfigValue::Integer(number.into())),
        ConfigType::Long => text.parse().ok().map(ConfigValue::Integer),
        // Kafka accepts NaN even where it asks for a range; no key has a use for it.
        ConfigType::Double => {
            let number = text.parse().ok().filter(|number: &f64| number.is_finite());
            number.map(ConfigValue::Double)
        }
        ConfigType::String | ConfigType::Class | ConfigType::Password => {
            Some(ConfigValue::Text(current_name(definition, text).to_owned()))
        }
        ConfigType::List => {
            let elements = Some(split_list(text)).filter(|elements| !elements.contains(&String::new()));
            elements.map(ConfigValue::List)
        }
    }
}

/// The current name of a value that was given by another name.
fn current_name<'a>(definition: &Definition, text: &'a str) -> &'a str {
    let mut aliases = definition.value_aliases.iter();
    aliases.find(|(other, _)| *other == text).map_or(text, |(_, name)| name)
}

/// The elements of a list, each once, as Kafka 4 keeps them. Empty text is an empty list.
pub fn split_list(text: &str) -> Vec<String> {
    let text = trim(text);
    if text.is_empty() {
        return Vec::new();
    }
    unique(text.split(',').map(trim))
        .into_iter()
        .map(str::to_owned)
        .collect()
}

/// Whether a list has an element twice.
pub(crate) fn has_duplicates(text: &str) -> bool {
    !trim(text).is_empty() && split_list(text).len() < text.split(',').count()
}

/// The first of equal elements each. Lists may come from strangers, so this must not be quadratic.
fn unique<T: Ord + Clone>(elements: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    elements
        .into_iter()
        .filter(|element| seen.insert(element.clone()))
        .collect()
}

/// Removes what Java's `String.trim` removes: every character up to the space.
pub fn trim(text: &str) -> &str {
    text.trim_matches(|character| character <= ' ')
}

/// As Kafka prints it.
impl fmt::Display for ConfigValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Double(value) => f.write_str(&java_double(*value)),
            Self::Text(value) => f.write_str(value),
            Self::List(elements) => f.write_str(&elements.join(",")),
        }
    }
}

/// Java uses an exponent below 10^-3 and from 10^7 on, and always writes a decimal point.
fn java_double(value: f64) -> String {
    if value == 0.0 || (1e-3..1e7).contains(&value.abs()) {
        return format!("{value:?}");
    }
    let text = format!("{value:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}

/// A type that a field of a typed configuration can have. `None` means that the table gives the key another type.
pub trait FromConfigValue: Sized {
    fn from_config_value(value: &ConfigValue) -> Option<Self>;
}

/// A type that is read from text: a field for a text, or a `Vec` of it for a list.
pub trait FromText: Sized {
    fn from_text(text: &str) -> Option<Self>;
}

impl FromText for String {
    fn from_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl<T: FromText> FromConfigValue for T {
    fn from_config_value(value: &ConfigValue) -> Option<Self> {
        match value {
            ConfigValue::Text(text) => Self::from_text(text),
            _ => None,
        }
    }
}

/// Each element once: it may have been named in two ways.
impl<T: FromText + Ord + Clone> FromConfigValue for Vec<T> {
    fn from_config_value(value: &ConfigValue) -> Option<Self> {
        match value {
            ConfigValue::List(elements) => {
                let parsed: Option<Self> = elements.iter().map(|element| T::from_text(element)).collect();
                parsed.map(unique)
            }
            _ => None,
        }
    }
}

impl FromConfigValue for bool {
    fn from_config_value(value: &ConfigValue) -> Option<Self> {
        match value {
            ConfigValue::Boolean(value) => Some(*value),
            _ => None,
        }
    }
}

impl FromConfigValue for f64 {
    fn from_config_value(value: &ConfigValue) -> Option<Self> {
        match value {
            ConfigValue::Double(value) => Some(*value),
            _ => None,
        }
    }
}

macro_rules! from_integer {
    ($($integer:ty),*) => {$(
        impl FromConfigValue for $integer {
            fn from_config_value(value: &ConfigValue) -> Option<Self> {
                match value {
                    ConfigValue::Integer(number) => Self::try_from(*number).ok(),
                    _ => None,
                }
            }
        }
    )*};
}
from_integer!(i16, i32, i64, u32, usize);
