//! Configs of topics, brokers and groups.

use std::{collections::BTreeMap, fmt};

use bytestring::ByteString;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        DescribeConfigsRequest, IncrementalAlterConfigsRequest, ListConfigResourcesRequest,
        ListConfigResourcesResponse,
        create_topics_response::CreatableTopicConfigs,
        describe_configs_request::DescribeConfigsResource,
        describe_configs_response::{DescribeConfigsResourceResult, DescribeConfigsResult},
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
    },
};

use super::{
    Admin, AdminError, Results,
    call::{AdminCall, CallContext},
    codes::named_codes,
    error::check,
    own, own_option,
    route::Route,
};

named_codes! {
    /// The type of a resource with configs.
    pub enum ResourceKind: i8 {
        Topic = 2, "topic";
        Broker = 4, "broker";
        BrokerLogger = 8, "broker-logger";
        ClientMetrics = 16, "client-metrics";
        Group = 32, "group";
    }
}

named_codes! {
    /// The source of a value.
    pub enum ConfigSource: i8 {
        Topic = 1, "DYNAMIC_TOPIC_CONFIG";
        DynamicBroker = 2, "DYNAMIC_BROKER_CONFIG";
        DynamicDefaultBroker = 3, "DYNAMIC_DEFAULT_BROKER_CONFIG";
        StaticBroker = 4, "STATIC_BROKER_CONFIG";
        Default = 5, "DEFAULT_CONFIG";
        DynamicBrokerLogger = 6, "DYNAMIC_BROKER_LOGGER_CONFIG";
        ClientMetrics = 7, "DYNAMIC_CLIENT_METRICS_CONFIG";
        Group = 8, "DYNAMIC_GROUP_CONFIG";
    }
}

/// A resource with configs of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigResource {
    pub kind: ResourceKind,
    /// The name of the topic or group, or the id of the broker; empty for the defaults of all brokers.
    pub name: ByteString,
}

impl ConfigResource {
    pub fn topic(name: impl Into<ByteString>) -> Self {
        Self::new(ResourceKind::Topic, name)
    }

    pub fn group(name: impl Into<ByteString>) -> Self {
        Self::new(ResourceKind::Group, name)
    }

    pub fn broker(id: i32) -> Self {
        Self::new(ResourceKind::Broker, id.to_string())
    }

    /// The dynamic defaults of all brokers.
    pub fn all_brokers() -> Self {
        Self::new(ResourceKind::Broker, "")
    }

    pub fn new(kind: ResourceKind, name: impl Into<ByteString>) -> Self {
        Self {
            kind,
            name: name.into(),
        }
    }

    /// Requests about a broker's configs must go to that broker.
    fn route(&self, otherwise: Route) -> Route {
        let is_broker = matches!(self.kind, ResourceKind::Broker | ResourceKind::BrokerLogger);
        let id = is_broker.then(|| self.name.parse().ok()).flatten();
        id.map_or(otherwise, Route::Broker)
    }
}

impl fmt::Display for ConfigResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, &*self.name) {
            (ResourceKind::Broker, "") => f.write_str("all brokers"),
            (kind, name) => write!(f, "{kind} {name}"),
        }
    }
}

/// A config with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    pub name: ByteString,
    /// `None` if the config is unset or a secret.
    pub value: Option<ByteString>,
    pub source: ConfigSource,
    /// Whether the config cannot change at run time.
    pub read_only: bool,
    /// Whether the value is a secret.
    pub sensitive: bool,
    /// All values of the config, the effective one first.
    pub synonyms: Vec<ConfigSynonym>,
    /// The documentation of the broker, if it has any.
    pub documentation: Option<ByteString>,
}

/// One of the values of a config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSynonym {
    pub name: ByteString,
    pub value: Option<ByteString>,
    pub source: ConfigSource,
}

/// A change of one config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigChange {
    Set(ByteString),
    /// Removes the value, so that the default applies.
    Delete,
    /// Adds elements to a list.
    Append(ByteString),
    /// Removes elements from a list.
    Subtract(ByteString),
}

impl ConfigChange {
    fn code(&self) -> i8 {
        match self {
            Self::Set(_) => 0,
            Self::Delete => 1,
            Self::Append(_) => 2,
            Self::Subtract(_) => 3,
        }
    }

    fn value(&self) -> Option<ByteString> {
        match self {
            Self::Set(value) | Self::Append(value) | Self::Subtract(value) => Some(value.clone()),
            Self::Delete => None,
        }
    }
}

/// Not retried: callers expect the topic to exist.
const NO_SUCH_TOPIC: &[ErrorCode] = &[ErrorCode::UnknownTopicOrPartition];

/// The changes of each resource.
type Changes = BTreeMap<ConfigResource, Vec<(ByteString, ConfigChange)>>;

impl Admin {
    /// Returns all configs of topics, brokers and groups, by name, with the source of each value.
    pub async fn describe_configs(
        &self,
        resources: impl IntoIterator<Item = ConfigResource>,
    ) -> Results<ConfigResource, Vec<ConfigEntry>> {
        let asked = |resource: &ConfigResource| DescribeConfigsResource {
            resource_type: resource.kind.code(),
            resource_name: resource.name.clone(),
            configuration_keys: None,
            ..Default::default()
        };
        let call = AdminCall::new(
            "",
            |resource: &ConfigResource| resource.route(Route::Any),
            move |batch| DescribeConfigsRequest {
                resources: batch.keys.iter().map(asked).collect(),
                include_synonyms: batch.version >= versions::describe_configs::SYNONYMS,
                include_documentation: false,
                ..Default::default()
            },
            |_, response| {
                let results = response.results.iter().map(|result: &DescribeConfigsResult| {
                    let outcome = check(result.error_code, result.error_message.as_deref());
                    let mut entries: Vec<ConfigEntry> = result.configs.iter().map(entry).collect();
                    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
                    let resource = ConfigResource::new(result.resource_type.into(), own(&result.resource_name));
                    (resource, outcome.map(|()| entries))
                });
                Ok(results.collect())
            },
        );
        self.call(call.finals(NO_SUCH_TOPIC), resources).await
    }

    /// Changes configs and keeps those that are not named. The changes of a resource are made together, or not at all.
    pub async fn alter_configs<N: Into<ByteString>>(
        &self,
        changes: impl IntoIterator<Item = (ConfigResource, N, ConfigChange)>,
    ) -> Results<ConfigResource, ()> {
        self.alter(changes, false).await
    }

    /// Validates changes of configs without making them.
    pub async fn validate_configs<N: Into<ByteString>>(
        &self,
        changes: impl IntoIterator<Item = (ConfigResource, N, ConfigChange)>,
    ) -> Results<ConfigResource, ()> {
        self.alter(changes, true).await
    }

    async fn alter<N: Into<ByteString>>(
        &self,
        changes: impl IntoIterator<Item = (ConfigResource, N, ConfigChange)>,
        validate_only: bool,
    ) -> Results<ConfigResource, ()> {
        let mut by_resource = Changes::new();
        for (resource, name, change) in changes {
            by_resource.entry(resource).or_default().push((name.into(), change));
        }
        let resources: Vec<ConfigResource> = by_resource.keys().cloned().collect();
        let call = AdminCall::new(
            "",
            |resource: &ConfigResource| resource.route(Route::Controller),
            move |batch| IncrementalAlterConfigsRequest {
                resources: batch
                    .keys
                    .iter()
                    .map(|resource| altered(resource, &by_resource))
                    .collect(),
                validate_only,
                ..Default::default()
            },
            |_, response| {
                let results = response.responses.iter().map(|result| {
                    let resource = ConfigResource::new(result.resource_type.into(), own(&result.resource_name));
                    (resource, check(result.error_code, result.error_message.as_deref()))
                });
                Ok(results.collect())
            },
        );
        self.call(call.finals(NO_SUCH_TOPIC), resources).await
    }

    /// Returns all resources that can have configs, such as topics, brokers and groups. No types means all types.
    pub async fn list_config_resources(
        &self,
        kinds: impl IntoIterator<Item = ResourceKind>,
    ) -> Result<Vec<ConfigResource>, AdminError> {
        let kinds: Vec<i8> = kinds.into_iter().map(ResourceKind::code).collect();
        let call = AdminCall::new(
            "",
            |_| Route::Any,
            move |_| ListConfigResourcesRequest {
                resource_types: kinds.clone(),
                ..Default::default()
            },
            |context: &CallContext<&str>, response: ListConfigResourcesResponse| {
                check(response.error_code, None)?;
                let found = response.config_resources.iter();
                let found =
                    found.map(|found| ConfigResource::new(found.resource_type.into(), own(&found.resource_name)));
                let mut found: Vec<ConfigResource> = found.collect();
                found.sort_unstable();
                context.all(&found)
            },
        );
        self.call_one(
            call.version_min(versions::list_config_resources::ALL_TYPES),
            "the list of config resources",
        )
        .await
    }
}

fn altered(resource: &ConfigResource, changes: &Changes) -> AlterConfigsResource {
    let changes = changes.get(resource).into_iter().flatten();
    let changes = changes.map(|(name, change)| AlterableConfig {
        name: name.clone(),
        config_operation: change.code(),
        value: change.value(),
        ..Default::default()
    });
    AlterConfigsResource {
        resource_type: resource.kind.code(),
        resource_name: resource.name.clone(),
        configs: changes.collect(),
        ..Default::default()
    }
}

fn entry(config: &DescribeConfigsResourceResult) -> ConfigEntry {
    let synonyms = config.synonyms.iter().map(|synonym| ConfigSynonym {
        name: own(&synonym.name),
        value: own_option(&synonym.value),
        source: synonym.source.into(),
    });
    ConfigEntry {
        name: own(&config.name),
        value: own_option(&config.value),
        source: config.config_source.into(),
        read_only: config.read_only,
        sensitive: config.is_sensitive,
        synonyms: synonyms.collect(),
        documentation: own_option(&config.documentation),
    }
}

/// A config as in the response to CreateTopics.
pub(super) fn created_entry(config: &CreatableTopicConfigs) -> ConfigEntry {
    ConfigEntry {
        name: own(&config.name),
        value: own_option(&config.value),
        source: config.config_source.into(),
        read_only: config.read_only,
        sensitive: config.is_sensitive,
        synonyms: vec![],
        documentation: None,
    }
}
