//! References in values: `${file:…}`, `${dir:…}`, `${env:…}`, and those of `config.providers`.

use milena_config::{ConfigError, ConfigErrors, ConfigMap, Origin};
use milena_security::reference::{self, ReferenceError, Resolver};

/// Keys of declared providers: `config.providers.NAME.class` and `config.providers.NAME.param.PARAMETER`.
const PROVIDERS: &str = "config.providers.";

/// Returns the settings with every reference replaced. Messages keep showing the references.
pub(super) fn resolve(map: &ConfigMap) -> Result<ConfigMap, ConfigErrors> {
    let mut resolved = map.clone();
    let resolver = Resolver::from_config(map.iter()).map_err(|error| provider_error(map, &error))?;
    let declared: Vec<String> = map
        .iter()
        .map(|(key, _)| key.to_owned())
        .filter(|key| key.starts_with(PROVIDERS))
        .collect();
    for key in &declared {
        resolved.remove(key);
    }
    let mut errors = Vec::new();
    let references = map.iter().filter(|(_, value)| reference::has_reference(value));
    for (key, value) in references.filter(|(key, _)| !key.starts_with(PROVIDERS)) {
        match resolver.resolve(value) {
            Ok(value) => resolved.substitute(key, value.expose().to_owned()),
            Err(error) => errors.push(unusable(map, key, &error)),
        }
    }
    ConfigErrors::check(errors).map(|()| resolved)
}

fn provider_error(map: &ConfigMap, error: &ReferenceError) -> ConfigError {
    match error {
        ReferenceError::Provider { key, problem } => ConfigError::Unusable {
            key: key.clone(),
            origin: origin(map, key),
            problem: problem.clone(),
        },
        error => unusable(map, "config.providers", error),
    }
}

fn unusable(map: &ConfigMap, key: &str, error: &ReferenceError) -> ConfigError {
    ConfigError::Unusable {
        key: key.to_owned(),
        origin: origin(map, key),
        problem: error.to_string(),
    }
}

fn origin(map: &ConfigMap, key: &str) -> Origin {
    map.origin(key).cloned().unwrap_or(Origin::Code)
}
