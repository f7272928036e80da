//! The configuration of the broker.

use std::collections::BTreeMap;

use milena_machines::{group::GroupConfig, transaction::TransactionConfig};

use super::{
    ConfigError, ConfigValue, FinalizedFeatures, FromConfigValue, Listener, MetricsSubscription, Scope, TopicConfig,
    TopicOverrides, broker_checks::check_whole, client_metrics, groups, lookup::definition_of, transactions,
};

/// Keys and values as text.
pub type RawConfig = BTreeMap<String, String>;

/// What was set on the broker, as it was given: three layers, the strongest first, and what single groups have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrokerOverrides {
    /// Set at run time for this broker.
    pub dynamic: RawConfig,
    /// Set at run time for all brokers.
    pub dynamic_default: RawConfig,
    /// What the broker was started with: files, arguments, code.
    pub fixed: RawConfig,
    /// Set at run time for single groups, under keys of their own.
    pub groups: BTreeMap<String, RawConfig>,
    /// Set at run time for single client metrics subscriptions, under keys of their own.
    pub client_metrics: BTreeMap<String, RawConfig>,
    /// Levels of features that were set at run time.
    pub features: FinalizedFeatures,
}

/// What holds for the broker. Keys without a field of their own are read with [`BrokerConfig::get`].
#[derive(Debug, Clone, PartialEq)]
pub struct BrokerConfig {
    pub overrides: BrokerOverrides,
    pub node_id: i32,
    pub rack: Option<String>,
    pub listeners: Vec<Listener>,
    /// What clients are told; the listeners themselves if nothing else is set.
    pub advertised_listeners: Vec<Listener>,
    /// Empty if none was set: there is no default that two brokers could share by accident.
    pub log_dirs: Vec<String>,

    pub auto_create_topics_enable: bool,
    pub delete_topic_enable: bool,
    pub num_partitions: i32,
    pub default_replication_factor: i32,
    /// Whether a topic with more replicas than there are nodes is refused, as Kafka does.
    pub strict_replication_factor: bool,
    /// Whether to start although synced records or entries of the metadata are missing; `milena.recovery=accept-loss`.
    pub accept_loss: bool,
    pub topic_defaults: TopicConfig,

    pub socket_request_max_bytes: i32,
    pub socket_listen_backlog_size: i32,
    pub connections_max_idle_ms: i64,
    pub max_connections: i32,
    pub max_connections_per_ip: i32,
    /// Other limits than `max_connections_per_ip`, by host name or address.
    pub max_connections_per_ip_overrides: Vec<(String, i32)>,
    /// Not positive for without bound.
    pub queued_max_request_bytes: i64,
    pub max_request_partition_size_limit: i32,
    pub fetch_max_bytes: i32,
    pub max_incremental_fetch_session_cache_slots: i32,

    pub log_retention_check_interval_ms: i64,
    pub log_flush_offset_checkpoint_interval_ms: i32,
    pub cleaner: CleanerConfig,
    pub producer_id_expiration_ms: i32,
    pub producer_id_expiration_check_interval_ms: i32,
    /// With what holds for single groups.
    pub groups: GroupConfig,
    pub transactions: TransactionConfig,
    /// Client metrics subscriptions, by name.
    pub client_metrics: BTreeMap<String, MetricsSubscription>,
    pub telemetry_max_bytes: i32,
}

/// What compaction may use.
#[derive(Debug, Clone, PartialEq)]
pub struct CleanerConfig {
    pub enable: bool,
    pub backoff_ms: i64,
    pub dedupe_buffer_size: i64,
}

impl BrokerOverrides {
    /// Only what a broker is started with.
    pub fn fixed(settings: RawConfig) -> Self {
        Self {
            fixed: settings,
            ..Self::default()
        }
    }

    /// The strongest setting of a key, if any layer has it.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let layers = [&self.dynamic, &self.dynamic_default, &self.fixed];
        layers.into_iter().find_map(|layer| layer.get(name)).map(String::as_str)
    }

    /// The value of a key, or its default; `None` if it has none.
    pub(super) fn value(&self, name: &str) -> Result<Option<ConfigValue>, ConfigError> {
        let definition = definition_of(Scope::Broker, name)?;
        let text = self.text(name).or(definition.default);
        text.map(|text| ConfigValue::parse(definition, text)).transpose()
    }

    pub(super) fn get<T: FromConfigValue>(&self, name: &'static str) -> Result<T, ConfigError> {
        self.find(name)?.ok_or(ConfigError::Missing { name })
    }

    pub(super) fn find<T: FromConfigValue>(&self, name: &str) -> Result<Option<T>, ConfigError> {
        Ok(self.value(name)?.and_then(T::from_config_value))
    }
}

impl BrokerConfig {
    /// Checks every setting, and the whole.
    pub fn resolve(mut overrides: BrokerOverrides) -> Result<Self, ConfigError> {
        let raw = &mut overrides;
        for (name, text) in raw.dynamic.iter().chain(&raw.dynamic_default).chain(&raw.fixed) {
            ConfigValue::parse(definition_of(Scope::Broker, name)?, text)?;
        }
        unite_ids(&mut raw.fixed)?;
        check_whole(raw)?;
        let listeners = listeners(raw)?;
        let advertised_listeners = advertised_listeners(raw, &listeners)?;
        Ok(Self {
            node_id: raw.get("node.id")?,
            rack: raw.find("broker.rack")?,
            listeners,
            advertised_listeners,
            log_dirs: log_dirs(raw)?,

            auto_create_topics_enable: raw.get("auto.create.topics.enable")?,
            delete_topic_enable: raw.get("delete.topic.enable")?,
            num_partitions: raw.get("num.partitions")?,
            default_replication_factor: raw.get("default.replication.factor")?,
            strict_replication_factor: raw.get("milena.strict.replication.factor")?,
            accept_loss: raw.get::<String>("milena.recovery")? == "accept-loss",
            topic_defaults: TopicConfig::resolve_with(&TopicOverrides::default(), raw)?,

            socket_request_max_bytes: raw.get("socket.request.max.bytes")?,
            socket_listen_backlog_size: raw.get("socket.listen.backlog.size")?,
            connections_max_idle_ms: raw.get("connections.max.idle.ms")?,
            max_connections: raw.get("max.connections")?,
            max_connections_per_ip: raw.get("max.connections.per.ip")?,
            max_connections_per_ip_overrides: limits_per_ip(raw)?,
            queued_max_request_bytes: raw.get("queued.max.request.bytes")?,
            max_request_partition_size_limit: raw.get("max.request.partition.size.limit")?,
            fetch_max_bytes: raw.get("fetch.max.bytes")?,
            max_incremental_fetch_session_cache_slots: raw.get("max.incremental.fetch.session.cache.slots")?,

            log_retention_check_interval_ms: raw.get("log.retention.check.interval.ms")?,
            log_flush_offset_checkpoint_interval_ms: raw.get("log.flush.offset.checkpoint.interval.ms")?,
            cleaner: CleanerConfig::resolve(raw)?,
            producer_id_expiration_ms: raw.get("producer.id.expiration.ms")?,
            producer_id_expiration_check_interval_ms: raw.get("producer.id.expiration.check.interval.ms")?,
            groups: groups::resolve(raw)?,
            transactions: transactions::resolve(raw)?,
            client_metrics: client_metrics::resolve(&raw.client_metrics)?,
            telemetry_max_bytes: raw.get("telemetry.max.bytes")?,
            overrides,
        })
    }

    /// The value of any key of the broker.
    pub fn get<T: FromConfigValue>(&self, name: &'static str) -> Result<T, ConfigError> {
        self.overrides.get(name)
    }
}

impl CleanerConfig {
    fn resolve(raw: &BrokerOverrides) -> Result<Self, ConfigError> {
        Ok(Self {
            enable: raw.get("log.cleaner.enable")?,
            backoff_ms: raw.get("log.cleaner.backoff.ms")?,
            dedupe_buffer_size: raw.get("log.cleaner.dedupe.buffer.size")?,
        })
    }
}

/// `broker.id` is the old name of `node.id`: whichever is set, the other is the same.
fn unite_ids(fixed: &mut RawConfig) -> Result<(), ConfigError> {
    match (fixed.get("node.id").cloned(), fixed.get("broker.id").cloned()) {
        (Some(node), Some(broker)) if node.trim() != broker.trim() => {
            return Err(contradiction(("node.id", &node), ("broker.id", &broker)));
        }
        (Some(node), None) => fixed.insert("broker.id".to_owned(), node),
        (None, Some(broker)) => fixed.insert("node.id".to_owned(), broker),
        _ => None,
    };
    Ok(())
}

fn log_dirs(raw: &BrokerOverrides) -> Result<Vec<String>, ConfigError> {
    let many: Option<Vec<String>> = raw.find("log.dirs")?;
    let one: Option<Vec<String>> = raw.find("log.dir")?;
    if let (Some(many), Some(one)) = (&many, &one)
        && many != one
    {
        return Err(contradiction(
            ("log.dirs", &many.join(",")),
            ("log.dir", &one.join(",")),
        ));
    }
    Ok(many.or(one).unwrap_or_default())
}

/// Reads `host:limit,…`; the limit stands after the last colon, because a host may be an IPv6 address.
fn limits_per_ip(raw: &BrokerOverrides) -> Result<Vec<(String, i32)>, ConfigError> {
    let name = "max.connections.per.ip.overrides";
    let text: String = raw.get(name)?;
    let limit = |pair: &str| {
        let (host, limit) = pair.trim().rsplit_once(':')?;
        Some((host.trim().to_owned(), limit.trim().parse().ok()?))
    };
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    let limits: Option<Vec<_>> = pairs.map(limit).collect();
    limits.ok_or_else(|| wrong(name, &text, "host:limit is expected, separated by commas"))
}

fn listeners(raw: &BrokerOverrides) -> Result<Vec<Listener>, ConfigError> {
    let listeners = read_listeners(raw, "listeners")?;
    if listeners.is_empty() {
        return Err(wrong("listeners", "", "at least one is needed"));
    }
    Ok(listeners)
}

/// What is advertised, else the listeners themselves, if a client can use their addresses.
fn advertised_listeners(raw: &BrokerOverrides, listeners: &[Listener]) -> Result<Vec<Listener>, ConfigError> {
    let mut advertised = read_listeners(raw, "advertised.listeners")?;
    if advertised.is_empty() {
        advertised = listeners.to_vec();
    }
    for one in &advertised {
        let problem = if one.is_wildcard() {
            "no client can reach this address"
        } else if !listeners.iter().any(|listener| listener.name == one.name) {
            "no listener has this name"
        } else {
            continue;
        };
        let text = format!("{}://{}:{}", one.name, one.host, one.port);
        return Err(wrong("advertised.listeners", &text, problem));
    }
    Ok(advertised)
}

fn read_listeners(raw: &BrokerOverrides, key: &'static str) -> Result<Vec<Listener>, ConfigError> {
    let protocols: String = raw.get("listener.security.protocol.map")?;
    let texts: Vec<String> = raw.find(key)?.unwrap_or_default();
    Listener::parse_all(key, &texts, &protocols)
}

pub(super) fn contradiction((name, value): (&str, &str), (other, other_value): (&str, &str)) -> ConfigError {
    ConfigError::Contradiction {
        name: name.to_owned(),
        value: value.to_owned(),
        other: other.to_owned(),
        other_value: other_value.to_owned(),
    }
}

pub(super) fn wrong(name: &str, value: &str, problem: &'static str) -> ConfigError {
    ConfigError::Wrong {
        name: name.to_owned(),
        value: value.to_owned(),
        problem,
    }
}
