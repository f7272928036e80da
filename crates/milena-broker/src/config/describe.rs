//! DescribeConfigs: every key with its value and the source of the value.
//!
//! The order of the synonyms, and the choice of those that are left out, are Kafka's.

use std::{borrow::Cow, collections::BTreeSet};

use milena_config::{ConfigType, Definition, Origin};

use super::{
    BrokerConfig, BrokerOverrides, RawConfig, Scope, TopicOverrides,
    broker::ListenerKey,
    layers::Layers,
    schema::{broker_definitions, broker_family, client_metrics_definitions, group_definitions, topic_definitions},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedConfig {
    pub name: Cow<'static, str>,
    /// `None` for a secret, and for an unset key without a default.
    pub value: Option<String>,
    pub read_only: bool,
    pub source: ConfigSource,
    pub is_sensitive: bool,
    /// Every setting that could give the value, the effective one first.
    pub synonyms: Vec<DescribedSynonym>,
    pub config_type: ConfigType,
    pub documentation: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedSynonym {
    pub name: Cow<'static, str>,
    pub value: Option<String>,
    pub source: ConfigSource,
}

/// The source of a value, with the ids of DescribeConfigs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    DynamicTopic = 1,
    DynamicBroker = 2,
    DynamicDefaultBroker = 3,
    StaticBroker = 4,
    Default = 5,
    DynamicBrokerLogger = 6,
    DynamicClientMetrics = 7,
    DynamicGroup = 8,
}

/// Every config of a topic. Settings were checked when they were set; one that is no longer valid is shown unchanged.
pub fn describe_topic(overrides: &TopicOverrides, broker: &BrokerConfig) -> Vec<DescribedConfig> {
    let layers = Layers {
        scope: Scope::Topic,
        own: &overrides.0,
        broker: &broker.overrides,
    };
    let set = |definition: &Definition| overrides.0.contains_key(definition.name);
    let shown = topic_definitions()
        .iter()
        .filter(|definition| !definition.hidden || set(definition));
    shown
        .map(|definition| describe_with_broker(definition, &layers))
        .collect()
}

/// Every config of a group, whether it exists or not. Settings are shown as they were set, even outside of the broker's
/// present limits.
pub fn describe_group(group: &str, broker: &BrokerConfig) -> Vec<DescribedConfig> {
    let nothing = RawConfig::new();
    let layers = Layers {
        scope: Scope::Group,
        own: broker.overrides.groups.get(group).unwrap_or(&nothing),
        broker: &broker.overrides,
    };
    group_definitions()
        .iter()
        .map(|definition| describe_with_broker(definition, &layers))
        .collect()
}

/// Every config of a client metrics subscription, whether it exists or not.
pub fn describe_client_metrics(subscription: &str, broker: &BrokerConfig) -> Vec<DescribedConfig> {
    let own = broker.overrides.client_metrics.get(subscription);
    let described = client_metrics_definitions().iter().map(|definition| {
        let set = own.and_then(|own| own.get(definition.name));
        let value = set.cloned().or_else(|| definition.default.map(str::to_owned));
        let synonym = set.map(|text| DescribedSynonym {
            name: definition.name.into(),
            value: Some(text.clone()),
            source: ConfigSource::DynamicClientMetrics,
        });
        described(definition, value, synonym.into_iter().collect(), false)
    });
    described.collect()
}

/// Every config of the broker.
pub fn describe_broker(broker: &BrokerConfig) -> Vec<DescribedConfig> {
    let raw = &broker.overrides;
    let set = |definition: &Definition| raw.text(definition.name).is_some();
    let shown = broker_definitions()
        .iter()
        .filter(|definition| !definition.hidden || set(definition));
    let of_broker = shown.map(|definition| {
        let value = match raw.value(definition.name) {
            Ok(value) => value.map(|value| value.to_string()),
            Err(_) => raw.text(definition.name).map(str::to_owned),
        };
        described(
            definition,
            value,
            synonyms_of(definition.name, raw),
            !definition.is_dynamic(),
        )
    });
    of_broker.chain(describe_listener_keys(raw)).collect()
}

/// The settings of single listeners, as Kafka lists them.
fn describe_listener_keys(raw: &BrokerOverrides) -> Vec<DescribedConfig> {
    let names: BTreeSet<&str> = raw.names().map(|(name, _)| name).collect();
    let keys = names.into_iter().filter_map(|name| {
        let key = ListenerKey::parse(name, &Origin::Request).ok()??;
        Some((name, key.definition))
    });
    keys.map(|(name, definition)| {
        let layers = [
            (raw.dynamic.get(name).map(String::as_str), ConfigSource::DynamicBroker),
            (
                raw.dynamic_default.get(name).map(String::as_str),
                ConfigSource::DynamicDefaultBroker,
            ),
            (raw.fixed.get(name), ConfigSource::StaticBroker),
        ];
        let synonyms = layers.into_iter().filter_map(|(text, source)| {
            Some(DescribedSynonym {
                name: name.to_owned().into(),
                value: Some(text?.to_owned()),
                source,
            })
        });
        let value = raw.text(name).map(str::to_owned);
        DescribedConfig {
            name: name.to_owned().into(),
            ..described(definition, value, synonyms.collect(), !definition.is_dynamic())
        }
    })
    .collect()
}

/// The settings made at run time for all brokers.
pub fn describe_broker_defaults(broker: &BrokerConfig) -> Vec<DescribedConfig> {
    let only_these = BrokerOverrides {
        dynamic_default: broker.overrides.dynamic_default.clone(),
        ..BrokerOverrides::default()
    };
    let known = only_these
        .dynamic_default
        .iter()
        .filter_map(|(name, text)| Some((Scope::Broker.schema().get(name)?, text)));
    known
        .map(|(definition, text)| {
            let mut synonyms = synonyms_of(definition.name, &only_these);
            synonyms.retain(|synonym| synonym.source == ConfigSource::DynamicDefaultBroker);
            described(definition, Some(text.clone()), synonyms, !definition.is_dynamic())
        })
        .collect()
}

/// A key of a topic or of a group.
fn describe_with_broker(definition: &'static Definition, layers: &Layers<'_>) -> DescribedConfig {
    let overridden = layers.own.get(definition.name);
    let value = match layers.value(definition) {
        Ok(value) => value.map(|value| value.to_string()),
        Err(_) => overridden.cloned(),
    };
    let mut synonyms = Vec::new();
    if overridden.is_some() {
        synonyms.push(DescribedSynonym {
            name: definition.name.into(),
            value: value.clone(),
            source: if layers.scope == Scope::Group {
                ConfigSource::DynamicGroup
            } else {
                ConfigSource::DynamicTopic
            },
        });
    }
    match (definition.synonyms.first(), layers.scope) {
        (Some(strongest), _) => synonyms.extend(synonyms_of(strongest.name, layers.broker)),
        // For a key without synonyms, Kafka lists the default of groups, but not of topics.
        (None, Scope::Group) => synonyms.push(DescribedSynonym {
            name: definition.name.into(),
            value: definition.default.map(str::to_owned),
            source: ConfigSource::Default,
        }),
        (None, _) => {}
    }
    let read_only = !definition.is_honoured();
    described(definition, value, synonyms, read_only)
}

fn described(
    definition: &'static Definition,
    value: Option<String>,
    mut synonyms: Vec<DescribedSynonym>,
    read_only: bool,
) -> DescribedConfig {
    let is_sensitive = definition.is_sensitive();
    if is_sensitive {
        for synonym in &mut synonyms {
            synonym.value = None;
        }
    }
    DescribedConfig {
        name: definition.name.into(),
        value: value.filter(|_| !is_sensitive),
        read_only,
        source: synonyms
            .first()
            .map_or(ConfigSource::Default, |strongest| strongest.source),
        is_sensitive,
        synonyms,
        config_type: definition.config_type,
        documentation: definition.documentation,
    }
}

/// The settings of a broker's key and of those that mean the same, layer by layer.
fn synonyms_of(name: &'static str, raw: &BrokerOverrides) -> Vec<DescribedSynonym> {
    let family = broker_family(name);
    let defaults: RawConfig = family
        .iter()
        .filter_map(|name| Some((*name, Scope::Broker.schema().get(name)?.default?)))
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .collect();
    let owned = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
    let fixed: RawConfig = raw.fixed.iter().map(owned).collect();
    let layers = [
        (&raw.dynamic, ConfigSource::DynamicBroker),
        (&raw.dynamic_default, ConfigSource::DynamicDefaultBroker),
        (&fixed, ConfigSource::StaticBroker),
        (&defaults, ConfigSource::Default),
    ];
    let mut synonyms = Vec::new();
    for (layer, source) in layers {
        for name in &family {
            let set = layer.get(*name);
            synonyms.extend(set.map(|value| DescribedSynonym {
                name: (*name).into(),
                value: Some(value.clone()),
                source,
            }));
        }
    }
    // Kafka omits the synonyms before the key itself, and so all of them if the key is unset everywhere: without
    // `log.retention.ms` there is no synonym, even if `log.retention.hours` is set.
    let first = synonyms.iter().position(|synonym| synonym.name == name);
    synonyms.split_off(first.unwrap_or(synonyms.len()))
}

impl ConfigSource {
    /// The id in DescribeConfigs.
    pub const fn id(self) -> i8 {
        self as i8
    }
}
