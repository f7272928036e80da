//! A value: read from text, and checked against its definition.

use super::{
    Acks, Allowed, AssignorName, AutoOffsetReset, ConfigType, Definition, DeserializerName, IsolationLevel,
    MetadataRecovery, PartitionerName, Profile, RecordsIo, RegionPartitions, ServerAddress, Support,
};
use crate::producer::partition::Field;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ConfigValue {
    Boolean(bool),
    /// INT, SHORT and LONG; the type's range is checked when it is read.
    Integer(i64),
    Double(f64),
    /// STRING, CLASS and PASSWORD.
    Text(String),
    List(Vec<String>),
}

/// Why a text is no value of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// With what is expected.
    Invalid(String),
    Unsupported(&'static str),
}

impl ConfigValue {
    /// Reads a value as Kafka does, and checks everything that can be said about it alone.
    pub(super) fn parse(definition: &Definition, text: &str) -> Result<Self, Refusal> {
        let value = read(definition.config_type, text);
        let allowed = value.as_ref().is_none_or(|value| is_allowed(value, definition.allowed));
        match (value, definition.support) {
            (Some(value), Support::DefaultOnly { also, .. }) if is_harmless(&value, definition, also) => Ok(value),
            (Some(value), Support::Honoured) if allowed => Ok(value),
            (_, Support::DefaultOnly { reason, .. }) if allowed => Err(Refusal::Unsupported(reason)),
            (Some(_), _) => Err(Refusal::Invalid(definition.allowed.to_string())),
            (None, _) => Err(Refusal::Invalid(definition.config_type.to_string())),
        }
    }
}

/// Whether a value asks for nothing but what happens anyway.
fn is_harmless(value: &ConfigValue, definition: &Definition, also: &[&str]) -> bool {
    let mut harmless = definition.default.into_iter().chain(also.iter().copied());
    harmless.any(|text| match value {
        ConfigValue::Text(given) if matches!(definition.allowed, Allowed::OneOfInAnyCase(_)) => {
            given.eq_ignore_ascii_case(text)
        }
        _ => read(definition.config_type, text).as_ref() == Some(value),
    })
}

fn read(config_type: ConfigType, text: &str) -> Option<ConfigValue> {
    let trimmed = trim(text);
    match config_type {
        ConfigType::Boolean if trimmed.eq_ignore_ascii_case("true") => Some(ConfigValue::Boolean(true)),
        ConfigType::Boolean if trimmed.eq_ignore_ascii_case("false") => Some(ConfigValue::Boolean(false)),
        ConfigType::Boolean => None,
        ConfigType::Short => trimmed
            .parse()
            .ok()
            .map(|number: i16| ConfigValue::Integer(number.into())),
        ConfigType::Int => trimmed
            .parse()
            .ok()
            .map(|number: i32| ConfigValue::Integer(number.into())),
        ConfigType::Long => trimmed.parse().ok().map(ConfigValue::Integer),
        ConfigType::Double => {
            let number = trimmed.parse().ok().filter(|number: &f64| number.is_finite());
            number.map(ConfigValue::Double)
        }
        ConfigType::String | ConfigType::Class | ConfigType::Password => Some(ConfigValue::Text(trimmed.to_owned())),
        ConfigType::List => {
            let elements = Some(split_list(trimmed)).filter(|elements| !elements.contains(&String::new()));
            elements.map(ConfigValue::List)
        }
    }
}

/// The elements of a list, each once, as Kafka 4 keeps them. Empty text is an empty list.
fn split_list(text: &str) -> Vec<String> {
    let elements = text.split(',').map(|element| trim(element).to_owned());
    if text.is_empty() { Vec::new() } else { unique(elements) }
}

fn unique<T: PartialEq>(elements: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut kept = Vec::new();
    for element in elements {
        if !kept.contains(&element) {
            kept.push(element);
        }
    }
    kept
}

/// Whether a list has an element twice.
pub(super) fn has_repeated(text: &str) -> bool {
    let count = trim(text).split(',').count();
    split_list(trim(text)).len() < count && !trim(text).is_empty()
}

/// What Java calls white space here: everything up to the space.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(|character| character <= ' ')
}

fn is_allowed(value: &ConfigValue, allowed: Allowed) -> bool {
    match (allowed, value) {
        (Allowed::Any, _) => true,
        (Allowed::NotEmpty, ConfigValue::Text(text)) => !text.is_empty(),
        (Allowed::AtLeast(least), ConfigValue::Integer(number)) => *number >= least,
        (Allowed::Between(least, most), ConfigValue::Integer(number)) => (least..=most).contains(number),
        (Allowed::BetweenOr(least, most, also), ConfigValue::Integer(number)) => {
            (least..=most).contains(number) || *number == also
        }
        (Allowed::OneOf(names), ConfigValue::Text(text)) => names.contains(&text.as_str()),
        (Allowed::OneOfInAnyCase(names), ConfigValue::Text(text)) => {
            names.iter().any(|name| name.eq_ignore_ascii_case(text))
        }
        (Allowed::ResourceName, ConfigValue::Text(text)) => is_resource_name(text),
        (Allowed::Addresses, value) => {
            Vec::<ServerAddress>::from_config_value(value).is_some_and(|addresses| !addresses.is_empty())
        }
        (Allowed::ResetPolicy, value) => AutoOffsetReset::from_config_value(value).is_some(),
        (Allowed::Assignors, value) => Vec::<AssignorName>::from_config_value(value).is_some(),
        (Allowed::Deserializer, value) => DeserializerName::from_config_value(value).is_some(),
        (Allowed::PartitionerField, value) => Field::from_config_value(value).is_some(),
        (Allowed::PartitionerFields, value) => Vec::<Field>::from_config_value(value).is_some(),
        (Allowed::Regions, value) => Vec::<RegionPartitions>::from_config_value(value).is_some(),
        (Allowed::Separator, ConfigValue::Text(text)) => matches!(text.as_bytes(), [byte] if byte.is_ascii()),
        (Allowed::Partitioner, value) => PartitionerName::from_config_value(value).is_some(),
        _ => false,
    }
}

fn is_resource_name(text: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=249).contains(&text.len()) && text.chars().all(is_legal) && text != "." && text != ".."
}

/// What a field of a typed configuration can be made from. `None` says that the table gives the key another type.
pub(super) trait FromConfigValue: Sized {
    fn from_config_value(value: &ConfigValue) -> Option<Self>;
}

impl FromConfigValue for bool {
    fn from_config_value(value: &ConfigValue) -> Option<Self> {
        match value {
            ConfigValue::Boolean(value) => Some(*value),
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
from_integer!(i32, i64, u32, usize);

macro_rules! from_text {
    ($($name:ty),*) => {$(
        impl FromConfigValue for $name {
            fn from_config_value(value: &ConfigValue) -> Option<Self> {
                match value {
                    ConfigValue::Text(text) => Self::parse(text),
                    _ => None,
                }
            }
        }
    )*};
}
from_text!(
    Acks,
    AutoOffsetReset,
    DeserializerName,
    Field,
    IsolationLevel,
    MetadataRecovery,
    PartitionerName,
    Profile,
    RecordsIo
);

macro_rules! from_list {
    ($($name:ty),*) => {$(
        impl FromConfigValue for Vec<$name> {
            fn from_config_value(value: &ConfigValue) -> Option<Self> {
                match value {
                    ConfigValue::List(elements) => {
                        let parsed: Option<Vec<_>> = elements.iter().map(|element| <$name>::parse(element)).collect();
                        // One may have been named in two ways.
                        parsed.map(unique)
                    }
                    _ => None,
                }
            }
        }
    )*};
}
from_list!(AssignorName, Field, RegionPartitions, ServerAddress);
