//! The settings of client metrics subscriptions.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};

use super::{ConfigError, ConfigValue, FromConfigValue, RawConfig, Scope, lookup::definition_of};

/// The bytes that a compiled pattern, and the tables built while matching, may take.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// The attributes of a client that a subscription selects by, under Kafka's names.
const SELECTORS: [&str; 6] = [
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
];

/// The metrics that some clients push, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsSubscription {
    pub metrics: Vec<String>,
    pub interval_ms: i32,
    /// Selectors and patterns; a client must match all of them.
    pub matches: Vec<(String, String)>,
}

/// The interval without any subscription.
pub(crate) const INTERVAL_MS_DEFAULT: i32 = 300_000;

/// Checks everything that was set for one subscription.
pub(super) fn check_own(own: &RawConfig) -> Result<(), ConfigError> {
    for (name, text) in own {
        ConfigValue::parse(definition_of(Scope::ClientMetrics, name)?, text)?;
    }
    for (_, pattern) in subscription(own)?.matches {
        compile(&pattern).map_err(|_| wrong_match(own, "a regular expression of it cannot be read"))?;
    }
    Ok(())
}

/// The subscriptions, by name.
pub(super) fn resolve(
    subscriptions: &BTreeMap<String, RawConfig>,
) -> Result<BTreeMap<String, MetricsSubscription>, ConfigError> {
    let resolved = subscriptions
        .iter()
        .map(|(name, own)| Ok((name.clone(), subscription(own)?)));
    resolved.collect()
}

fn subscription(own: &RawConfig) -> Result<MetricsSubscription, ConfigError> {
    let matches: Vec<String> = get(own, "match")?;
    let matches = matches.iter().map(|text| match text.split_once('=') {
        Some((selector, pattern)) if SELECTORS.contains(&selector.trim()) => {
            Ok((selector.trim().to_owned(), pattern.trim().to_owned()))
        }
        Some(_) => Err(wrong_match(
            own,
            "a selector is client_instance_id, client_id, client_software_name, client_software_version, \
             client_source_address or client_source_port",
        )),
        None => Err(wrong_match(own, "selector=pattern is expected, separated by commas")),
    });
    Ok(MetricsSubscription {
        metrics: get(own, "metrics")?,
        interval_ms: get(own, "interval.ms")?,
        matches: matches.collect::<Result<_, _>>()?,
    })
}

fn get<T: FromConfigValue>(own: &RawConfig, name: &'static str) -> Result<T, ConfigError> {
    let definition = definition_of(Scope::ClientMetrics, name)?;
    let text = own.get(name).map(String::as_str).or(definition.default);
    let value = text.map(|text| ConfigValue::parse(definition, text)).transpose()?;
    value
        .and_then(T::from_config_value)
        .ok_or(ConfigError::Missing { name })
}

fn wrong_match(own: &RawConfig, problem: &'static str) -> ConfigError {
    ConfigError::Wrong {
        name: "match".to_owned(),
        value: own.get("match").cloned().unwrap_or_default(),
        problem,
    }
}

/// A pattern that must match all of a text. It is compiled on its own first, so that it cannot close our brackets.
pub(crate) fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    let build = |pattern: &str| {
        let mut builder = RegexBuilder::new(pattern);
        builder.size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
        builder.build()
    };
    build(pattern)?;
    build(&format!("^(?:{pattern})$"))
}
