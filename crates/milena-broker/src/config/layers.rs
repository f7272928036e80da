//! The layers of a topic's or group's value: its own settings, the broker's, the default.

use milena_config::{Alias, ConfigValue, Definition, FromConfigValue, Origin, Setting, Source};

use super::{BrokerOverrides, ConfigError, RawConfig, Scope, broker::wrong};

pub(super) struct Layers<'a> {
    /// The scope of `own`.
    pub(super) scope: Scope,
    pub(super) own: &'a RawConfig,
    pub(super) broker: &'a BrokerOverrides,
}

impl Layers<'_> {
    /// Checks every own setting.
    pub(super) fn check_own(&self) -> Result<(), ConfigError> {
        for (name, text) in self.own {
            self.scope.schema().parse(name, text, &Origin::Request)?;
        }
        Ok(())
    }

    pub(super) fn get<T: FromConfigValue>(&self, name: &'static str) -> Result<T, ConfigError> {
        self.find(name)?.ok_or_else(|| missing(name))
    }

    pub(super) fn find<T: FromConfigValue>(&self, name: &'static str) -> Result<Option<T>, ConfigError> {
        let definition = self.scope.schema().require(name, &Origin::Request)?;
        Ok(self.value(definition)?.as_ref().and_then(T::from_config_value))
    }

    /// The value with its source, for messages.
    pub(super) fn setting(&self, name: &str, value: impl ToString) -> Setting {
        let source = match self.own.contains_key(name) {
            true => Source::Given(Origin::Request),
            false => Source::Default,
        };
        Setting {
            key: name.to_owned(),
            value: value.to_string(),
            source,
        }
    }

    pub(super) fn value(&self, definition: &Definition) -> Result<Option<ConfigValue>, ConfigError> {
        let schema = self.scope.schema();
        if let Some(text) = self.own.get(definition.name) {
            return Ok(Some(schema.parse(definition.name, text, &Origin::Request)?));
        }
        let set = |synonym: &'static Alias| Some((synonym, self.broker.text(synonym.name)?));
        match definition.synonyms.iter().find_map(set) {
            Some((synonym, text)) => self.value_from_broker(definition, synonym, text).map(Some),
            None => {
                let default = definition.default;
                let value = default.map(|text| schema.parse(definition.name, text, &Origin::Code));
                Ok(value.transpose()?)
            }
        }
    }

    /// The value that follows from the broker's key of the same meaning.
    fn value_from_broker(
        &self,
        definition: &Definition,
        synonym: &Alias,
        text: &str,
    ) -> Result<ConfigValue, ConfigError> {
        let origin = self.broker.origin(synonym.name);
        let value = match Scope::Broker.schema().parse(synonym.name, text, &origin)? {
            // The broker's keys treat every negative retention as unlimited, and refuse zero.
            ConfigValue::Integer(number) if definition.name == "retention.ms" && number < 0 => ConfigValue::Integer(-1),
            ConfigValue::Integer(0) if definition.name == "retention.ms" => {
                return Err(wrong(synonym.name, text, "it must be at least 1, or -1 for unlimited"));
            }
            ConfigValue::Integer(number) => ConfigValue::Integer(number.saturating_mul(synonym.unit.factor())),
            other => other,
        };
        if definition.allowed.accepts(&value) {
            return Ok(value);
        }
        Err(milena_config::ConfigError::Invalid {
            key: synonym.name.to_owned(),
            origin,
            value: text.to_owned(),
            expected: definition.allowed.to_string(),
        }
        .into())
    }
}

pub(super) fn missing(key: &'static str) -> ConfigError {
    let hint = "in the configuration of the broker";
    milena_config::ConfigError::Missing { key, hint }.into()
}

/// Two settings that conflict. `rule` says why, and what to do.
pub(super) fn contradiction(first: Setting, second: Setting, rule: &'static str) -> ConfigError {
    milena_config::ConfigError::Contradiction {
        first: Box::new(first),
        second: Box::new(second),
        rule,
    }
    .into()
}
