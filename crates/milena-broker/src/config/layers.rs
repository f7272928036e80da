//! The layers that a topic's or a group's value can come from: its own settings, the broker's, the default.

use super::{
    BrokerOverrides, BrokerSynonym, ConfigError, ConfigValue, Definition, FromConfigValue, RawConfig, Scope,
    lookup::definition_of, value::is_allowed,
};

pub(super) struct Layers<'a> {
    /// Whose settings `own` are.
    pub(super) scope: Scope,
    pub(super) own: &'a RawConfig,
    pub(super) broker: &'a BrokerOverrides,
}

impl Layers<'_> {
    pub(super) fn get<T: FromConfigValue>(&self, name: &'static str) -> Result<T, ConfigError> {
        let value = self.value(definition_of(self.scope, name)?)?;
        let typed = value.and_then(T::from_config_value);
        typed.ok_or(ConfigError::Missing { name })
    }

    pub(super) fn value(&self, definition: &Definition) -> Result<Option<ConfigValue>, ConfigError> {
        if let Some(text) = self.own.get(definition.name) {
            return ConfigValue::parse(definition, text).map(Some);
        }
        let set = |synonym: &'static BrokerSynonym| Some((synonym, self.broker.text(synonym.name)?));
        match definition.synonyms.iter().find_map(set) {
            Some((synonym, text)) => value_from_broker(definition, synonym, text).map(Some),
            None => definition
                .default
                .map(|text| ConfigValue::parse(definition, text))
                .transpose(),
        }
    }
}

/// The value that follows from the broker's key of the same meaning.
fn value_from_broker(definition: &Definition, synonym: &BrokerSynonym, text: &str) -> Result<ConfigValue, ConfigError> {
    let value = match ConfigValue::parse(definition_of(Scope::Broker, synonym.name)?, text)? {
        // Of the broker's keys every negative retention is one without end, and zero is refused.
        ConfigValue::Integer(number) if definition.name == "retention.ms" && number < 0 => ConfigValue::Integer(-1),
        ConfigValue::Integer(0) if definition.name == "retention.ms" => {
            return Err(ConfigError::Wrong {
                name: synonym.name.to_owned(),
                value: text.to_owned(),
                problem: "it must be at least 1, or -1 for without end",
            });
        }
        ConfigValue::Integer(number) => ConfigValue::Integer(number.saturating_mul(synonym.unit.factor())),
        other => other,
    };
    if is_allowed(&value, definition.allowed) {
        Ok(value)
    } else {
        Err(ConfigError::NotAllowed {
            name: synonym.name,
            value: text.to_owned(),
            allowed: definition.allowed,
        })
    }
}
