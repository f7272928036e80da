//! A value: read from text, checked against its definition, printed as Kafka prints it.

use std::fmt;

use super::{Allowed, ConfigError, ConfigType, Definition, Support};

#[derive(Debug, Clone, PartialEq)]
pub enum ConfigValue {
    Boolean(bool),
    /// INT, SHORT and LONG; the type's range is checked when it is read.
    Integer(i64),
    Double(f64),
    /// STRING, CLASS and PASSWORD.
    Text(String),
    List(Vec<String>),
}

/// What a field of a typed configuration can be made from. `None` says that the table gives the key another type.
pub trait FromConfigValue: Sized {
    fn from_config_value(value: ConfigValue) -> Option<Self>;
}

impl ConfigValue {
    /// Reads a value as Kafka does, and checks everything that can be said about it alone.
    pub fn parse(definition: &Definition, text: &str) -> Result<Self, ConfigError> {
        let value = read(definition.config_type, text).ok_or_else(|| ConfigError::NotOfType {
            name: definition.name,
            value: shown(definition, text),
            expected: definition.config_type,
        })?;
        if !is_allowed(&value, definition.allowed) {
            return Err(ConfigError::NotAllowed {
                name: definition.name,
                value: shown(definition, text),
                allowed: definition.allowed,
            });
        }
        if let Support::DefaultOnly { reason } = definition.support {
            let default = definition.default.and_then(|text| read(definition.config_type, text));
            if default.as_ref() != Some(&value) {
                return Err(ConfigError::CannotChange {
                    name: definition.name,
                    reason,
                });
            }
        }
        Ok(value)
    }
}

/// A secret does not get into an error message, and from there into a log.
fn shown(definition: &Definition, text: &str) -> String {
    if definition.is_sensitive() {
        "(hidden)".to_owned()
    } else {
        text.to_owned()
    }
}

fn read(config_type: ConfigType, text: &str) -> Option<ConfigValue> {
    let text = trim(text);
    match config_type {
        ConfigType::Boolean if text.eq_ignore_ascii_case("true") => Some(ConfigValue::Boolean(true)),
        ConfigType::Boolean if text.eq_ignore_ascii_case("false") => Some(ConfigValue::Boolean(false)),
        ConfigType::Boolean => None,
        ConfigType::Short => text.parse().ok().map(|number: i16| ConfigValue::Integer(number.into())),
        ConfigType::Int => text.parse().ok().map(|number: i32| ConfigValue::Integer(number.into())),
        ConfigType::Long => text.parse().ok().map(ConfigValue::Integer),
        // Kafka lets NaN pass, even where it asks for a range; nothing good can come of it.
        ConfigType::Double => {
            let number = text.parse().ok().filter(|number: &f64| number.is_finite());
            number.map(ConfigValue::Double)
        }
        ConfigType::String | ConfigType::Class | ConfigType::Password => Some(ConfigValue::Text(text.to_owned())),
        ConfigType::List => {
            let elements = Some(split_list(text)).filter(|elements| !elements.contains(&String::new()));
            elements.map(ConfigValue::List)
        }
    }
}

/// The elements of a list, each once, as Kafka 4 keeps them. Empty text is an empty list.
pub(super) fn split_list(text: &str) -> Vec<String> {
    let text = trim(text);
    let mut elements: Vec<String> = Vec::new();
    if text.is_empty() {
        return elements;
    }
    for element in text.split(',').map(trim) {
        if !elements.iter().any(|seen| seen == element) {
            elements.push(element.to_owned());
        }
    }
    elements
}

/// What Java calls white space here: everything up to the space.
fn trim(text: &str) -> &str {
    text.trim_matches(|character| character <= ' ')
}

pub(super) fn is_allowed(value: &ConfigValue, allowed: Allowed) -> bool {
    match (allowed, value) {
        (Allowed::AtLeast(least), ConfigValue::Integer(number)) => *number >= least,
        (Allowed::Between(least, most), ConfigValue::Integer(number)) => (least..=most).contains(number),
        (Allowed::Between(least, most), ConfigValue::Double(number)) => (least as f64..=most as f64).contains(number),
        (Allowed::BetweenOr(least, most, other), ConfigValue::Integer(number)) => {
            (least..=most).contains(number) || *number == other
        }
        (Allowed::OneOf(names), ConfigValue::Text(text)) => names.contains(&text.as_str()),
        (Allowed::OneOfInAnyCase(names), ConfigValue::Text(text)) => {
            names.iter().any(|name| name.eq_ignore_ascii_case(text))
        }
        (Allowed::Each(names), ConfigValue::List(elements)) => {
            elements.iter().all(|element| names.contains(&element.as_str()))
        }
        (Allowed::ThrottledReplicas, ConfigValue::List(elements)) => {
            *elements == ["*"] || elements.iter().all(|element| is_replica(element))
        }
        (allowed, _) => allowed == Allowed::Any,
    }
}

/// Whether this is `partition:broker`.
fn is_replica(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    matches!(text.split_once(':'), Some((partition, broker)) if is_number(partition) && is_number(broker))
}

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

/// Java switches to an exponent below a thousandth and from ten million on, and always writes a decimal point.
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

impl FromConfigValue for bool {
    fn from_config_value(value: ConfigValue) -> Option<Self> {
        match value {
            ConfigValue::Boolean(value) => Some(value),
            _ => None,
        }
    }
}

impl FromConfigValue for i64 {
    fn from_config_value(value: ConfigValue) -> Option<Self> {
        match value {
            ConfigValue::Integer(value) => Some(value),
            _ => None,
        }
    }
}

impl FromConfigValue for i32 {
    fn from_config_value(value: ConfigValue) -> Option<Self> {
        i64::from_config_value(value)?.try_into().ok()
    }
}

impl FromConfigValue for i16 {
    fn from_config_value(value: ConfigValue) -> Option<Self> {
        i64::from_config_value(value)?.try_into().ok()
    }
}

impl FromConfigValue for f64 {
    fn from_config_value(value: ConfigValue) -> Option<Self> {
        match value {
            ConfigValue::Double(value) => Some(value),
            _ => None,
        }
    }
}

impl FromConfigValue for String {
    fn from_config_value(value: ConfigValue) -> Option<Self> {
        match value {
            ConfigValue::Text(value) => Some(value),
            _ => None,
        }
    }
}

impl FromConfigValue for Vec<String> {
    fn from_config_value(value: ConfigValue) -> Option<Self> {
        match value {
            ConfigValue::List(value) => Some(value),
            _ => None,
        }
    }
}
