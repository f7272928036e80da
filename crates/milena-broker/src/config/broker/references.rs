//! References to secrets in settings: `${file:…}`, `${dir:…}`, `${env:…}` and Kafka's `config.providers`.

use milena_config::ConfigMap;
use milena_security::reference::{Resolver, has_reference};

use super::super::{BrokerOverrides, ConfigError, RawConfig};

/// Whether a key belongs to a provider of secrets; only the provider knows its parameters.
pub(super) fn is_of_provider(name: &str) -> bool {
    name.starts_with("config.providers.")
}

/// The settings with all references replaced by their values. The values are never stored or described.
pub(super) fn resolved(raw: &BrokerOverrides) -> Result<BrokerOverrides, ConfigError> {
    let resolver = Resolver::from_config(raw.fixed.iter()).map_err(|error| ConfigError::Reference {
        key: "config.providers".to_owned(),
        problem: error.to_string(),
    })?;
    let replace = |key: &str, text: &str| match resolver.resolve(text) {
        Ok(value) => Ok(value.expose().to_owned()),
        Err(error) => Err(ConfigError::Reference {
            key: key.to_owned(),
            problem: error.to_string(),
        }),
    };
    let replace_all = |raw: &RawConfig| -> Result<RawConfig, ConfigError> {
        let replaced = raw.iter().map(|(key, text)| Ok((key.clone(), replace(key, text)?)));
        replaced.collect()
    };
    let mut fixed = ConfigMap::new();
    for (key, text, origin) in raw.fixed.settings() {
        let value = if has_reference(text) && !is_of_provider(key) {
            replace(key, text)?
        } else {
            text.to_owned()
        };
        fixed.set_from(key, value, origin.clone());
    }
    Ok(BrokerOverrides {
        dynamic: replace_all(&raw.dynamic)?,
        dynamic_default: replace_all(&raw.dynamic_default)?,
        fixed,
        ..raw.clone()
    })
}
