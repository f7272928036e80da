//! Finds the definition of a key, or says why there is none.

use super::{
    ConfigError, Definition, Scope, broker_table::BROKER_CONFIGS, client_metrics_table::CLIENT_METRICS_CONFIGS,
    group_table::GROUP_CONFIGS, names, topic_table::TOPIC_CONFIGS, unsupported,
};

/// Every topic config that this broker knows, by name.
pub fn topic_definitions() -> &'static [Definition] {
    TOPIC_CONFIGS
}

/// Every broker config that this broker knows, by name.
pub fn broker_definitions() -> &'static [Definition] {
    BROKER_CONFIGS
}

/// Every config of a single group that this broker knows, by name.
pub fn group_definitions() -> &'static [Definition] {
    GROUP_CONFIGS
}

/// Every config of a client metrics subscription that this broker knows, by name.
pub fn client_metrics_definitions() -> &'static [Definition] {
    CLIENT_METRICS_CONFIGS
}

pub(super) fn definition_of(scope: Scope, name: &str) -> Result<&'static Definition, ConfigError> {
    if let Some(definition) = find(scope, name) {
        return Ok(definition);
    }
    if let Some(reason) = unsupported::reason(scope, name) {
        let name = name.to_owned();
        return Err(ConfigError::Unsupported { name, reason });
    }
    Err(ConfigError::Unknown {
        scope,
        name: name.to_owned(),
        suggestion: names::suggestion(scope, name).map(str::to_owned),
    })
}

pub(super) fn find(scope: Scope, name: &str) -> Option<&'static Definition> {
    let table = table(scope);
    let place = table.binary_search_by_key(&name, |definition| definition.name).ok()?;
    table.get(place)
}

pub(super) fn table(scope: Scope) -> &'static [Definition] {
    match scope {
        Scope::Topic => TOPIC_CONFIGS,
        Scope::Broker => BROKER_CONFIGS,
        Scope::Group => GROUP_CONFIGS,
        Scope::ClientMetrics => CLIENT_METRICS_CONFIGS,
    }
}

/// The broker's keys that mean the same as the given one, the strongest first; often it is alone.
pub(super) fn broker_family(name: &'static str) -> Vec<&'static str> {
    let families = TOPIC_CONFIGS.iter().map(|definition| definition.synonyms);
    let family = families
        .filter(|family| family.len() > 1)
        .find(|family| family.iter().any(|one| one.name == name));
    family.map_or_else(|| vec![name], |family| family.iter().map(|one| one.name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_and_without_duplicates() {
        for scope in [Scope::Topic, Scope::Broker, Scope::Group, Scope::ClientMetrics] {
            assert!(table(scope).is_sorted_by(|a, b| a.name < b.name), "{scope}");
        }
    }

    #[test]
    fn synonyms_are_keys_of_the_broker() {
        let followers = TOPIC_CONFIGS.iter().chain(GROUP_CONFIGS);
        for synonym in followers.flat_map(|definition| definition.synonyms) {
            assert!(find(Scope::Broker, synonym.name).is_some(), "{}", synonym.name);
        }
    }
}
