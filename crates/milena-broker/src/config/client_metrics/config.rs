//! The typed configuration of client metrics subscriptions.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};

use milena_config::{FromConfigValue, Origin};

use super::super::{ConfigError, RawConfig, Scope, broker::wrong, layers::missing};

/// The bytes that a compiled pattern, and the tables built while matching, may take.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// The attributes of clients that a subscription matches, under Kafka's names.
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
    /// Attributes and patterns; a client must match all of them.
    pub matches: Vec<(String, String)>,
}

/// The interval without any subscription.
pub(crate) const INTERVAL_MS_DEFAULT: i32 = 300_000;

/// Checks every setting of one subscription.
pub(crate) fn check_own(own: &RawConfig) -> Result<(), ConfigError> {
    for (name, text) in own {
        Scope::ClientMetrics.schema().parse(name, text, &Origin::Request)?;
    }
    for (_, pattern) in subscription(own)?.matches {
        compile(&pattern).map_err(|_| wrong_match(own, "a regular expression is invalid"))?;
    }
    Ok(())
}

/// The subscriptions, by name.
pub(crate) fn resolve(
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
            format!("the attribute must be one of {}", SELECTORS.join(", ")),
        )),
        None => Err(wrong_match(own, "it must be a list of attribute=pattern")),
    });
    Ok(MetricsSubscription {
        metrics: get(own, "metrics")?,
        interval_ms: get(own, "interval.ms")?,
        matches: matches.collect::<Result<_, _>>()?,
    })
}

fn get<T: FromConfigValue>(own: &RawConfig, name: &'static str) -> Result<T, ConfigError> {
    let schema = Scope::ClientMetrics.schema();
    let default = schema.require(name, &Origin::Request)?.default;
    let text = own.get(name).map(String::as_str).or(default);
    let value = text
        .map(|text| schema.parse(name, text, &Origin::Request))
        .transpose()?;
    let typed = value.as_ref().and_then(T::from_config_value);
    typed.ok_or_else(|| missing(name))
}

fn wrong_match(own: &RawConfig, problem: impl Into<String>) -> ConfigError {
    wrong("match", own.get("match").map_or("", String::as_str), problem)
}

/// Compiles a pattern that must match a whole text. It is compiled alone first, so that it cannot close our brackets.
pub(crate) fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    let build = |pattern: &str| {
        let mut builder = RegexBuilder::new(pattern);
        builder.size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
        builder.build()
    };
    build(pattern)?;
    build(&format!("^(?:{pattern})$"))
}
