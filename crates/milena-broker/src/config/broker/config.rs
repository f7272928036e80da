//! The typed configuration of the broker.

use std::{collections::BTreeMap, fmt, time::Duration};

use milena_config::{ConfigMap, ConfigValue, FromConfigValue, Origin, Setting, Source, choices};
use milena_machines::{authorizer::AuthorizerConfig, group::GroupConfig, transaction::TransactionConfig};

use super::{
    super::{
        ConfigError, FinalizedFeatures, MetricsSubscription, Scope, TopicConfig, TopicOverrides, client_metrics, group,
        layers::{contradiction, missing},
    },
    LimitsConfig, Listener, ListenerValues, QuotaConfig, authorizer,
    checks::check_whole,
    listener_keys::{check_listeners, parse_setting},
    listener_security::check_security,
    references, transactions,
};

/// Keys and values as text.
pub type RawConfig = BTreeMap<String, String>;

/// The raw settings of the broker in three layers, and those of single groups and subscriptions.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct BrokerOverrides {
    /// Set at run time for this broker. The strongest layer.
    pub dynamic: RawConfig,
    /// Set at run time for all brokers.
    pub dynamic_default: RawConfig,
    /// Given at the start: files, arguments, code. The weakest layer.
    pub fixed: ConfigMap,
    /// Set at run time for single groups, under keys of their own.
    pub groups: BTreeMap<String, RawConfig>,
    /// Set at run time for single client metrics subscriptions, under keys of their own.
    pub client_metrics: BTreeMap<String, RawConfig>,
    /// Levels of features that were set at run time.
    pub features: FinalizedFeatures,
}

/// The effective configuration of the broker. Keys without a field are read with [`BrokerConfig::get`].
#[derive(Debug, Clone, PartialEq)]
pub struct BrokerConfig {
    /// The settings as they were given.
    pub overrides: BrokerOverrides,
    /// The settings with all references to secrets resolved.
    pub(crate) effective: BrokerOverrides,
    pub node_id: i32,
    pub rack: Option<String>,
    pub listeners: Vec<Listener>,
    /// The addresses in metadata responses; the listeners unless set.
    pub advertised_listeners: Vec<Listener>,
    /// Empty if unset: with a default, two brokers could share a directory by accident.
    pub log_dirs: Vec<String>,

    pub auto_create_topics_enable: bool,
    pub delete_topic_enable: bool,
    pub num_partitions: i32,
    pub default_replication_factor: i32,
    /// Whether a topic with more replicas than nodes is refused, as in Kafka.
    pub strict_replication_factor: bool,
    /// Whether to start although synced records or metadata are missing; `milena.recovery=accept-loss`.
    pub accept_loss: bool,
    pub topic_defaults: TopicConfig,
    /// `None` if every client may do everything.
    pub authorizer: Option<AuthorizerConfig>,

    pub socket_request_max_bytes: i32,
    pub socket_listen_backlog_size: i32,
    pub connections_max_idle_ms: i64,
    pub max_connections: i32,
    /// New connections per second.
    pub max_connection_creation_rate: i32,
    /// Limits of single listeners.
    pub listener_limits: Vec<ListenerLimits>,
    pub max_connections_per_ip: i32,
    /// Limits of single hosts, by name or address, in place of `max_connections_per_ip`.
    pub max_connections_per_ip_overrides: Vec<(String, i32)>,
    /// Connections that have not logged in yet; the oldest is closed for one more.
    pub max_unauthenticated_connections: usize,
    /// The time for a TLS handshake and a log-in together.
    pub authentication_timeout_ms: u32,
    pub failed_authentication_delay_ms: u32,
    /// Whether other machines may connect without a log-in; `milena.allow.unauthenticated`.
    pub allow_unauthenticated: bool,
    /// Zero or negative for unlimited.
    pub queued_max_request_bytes: i64,
    pub max_request_partition_size_limit: i32,
    pub fetch_max_bytes: i32,
    pub max_incremental_fetch_session_cache_slots: i32,

    pub log_retention_check_interval_ms: i64,
    pub log_flush_offset_checkpoint_interval_ms: i32,
    pub cleaner: CleanerConfig,
    pub producer_id_expiration_ms: i32,
    pub producer_id_expiration_check_interval_ms: i32,
    /// With the settings of single groups.
    pub groups: GroupConfig,
    pub transactions: TransactionConfig,
    /// Client metrics subscriptions, by name.
    pub client_metrics: BTreeMap<String, MetricsSubscription>,
    pub telemetry_max_bytes: i32,
    pub limits: LimitsConfig,
    pub quotas: QuotaConfig,
    /// The largest number of SCRAM users; `milena.max.scram.users`.
    pub scram_users_max: usize,
}

/// The limits of one listener, besides those of the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerLimits {
    /// In upper case.
    pub listener: String,
    pub max_connections: i32,
    /// New connections per second.
    pub max_connection_creation_rate: i32,
}

/// `milena.recovery`: the reaction to lost records at a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recovery {
    Strict,
    AcceptLoss,
}

choices! { Recovery { Strict = "strict", AcceptLoss = "accept-loss" } }

/// Limits of compaction.
#[derive(Debug, Clone, PartialEq)]
pub struct CleanerConfig {
    pub enable: bool,
    pub backoff_ms: i64,
    pub dedupe_buffer_size: i64,
}

impl BrokerOverrides {
    /// The settings that a broker is started with.
    pub fn fixed(settings: impl Into<ConfigMap>) -> Self {
        Self {
            fixed: settings.into(),
            ..Self::default()
        }
    }

    /// The strongest setting of a key, if any layer has it.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.dynamic_text(name).or_else(|| self.fixed.get(name))
    }

    fn dynamic_text(&self, name: &str) -> Option<&str> {
        let value = self.dynamic.get(name).or_else(|| self.dynamic_default.get(name));
        value.map(String::as_str)
    }

    /// The origin of the strongest setting of a key.
    pub(crate) fn origin(&self, name: &str) -> Origin {
        match self.dynamic_text(name) {
            Some(_) => Origin::Request,
            None => self.fixed.origin(name).cloned().unwrap_or(Origin::Code),
        }
    }

    /// A key with its value and source, for messages.
    pub(crate) fn setting(&self, name: &str, value: impl ToString) -> Setting {
        let source = match self.text(name) {
            Some(_) => Source::Given(self.origin(name)),
            None => Source::Default,
        };
        Setting {
            key: name.to_owned(),
            value: value.to_string(),
            source,
        }
    }

    /// The names of all settings, each with its origin.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, Origin)> {
        let dynamic = self.dynamic.keys().chain(self.dynamic_default.keys());
        let dynamic = dynamic.map(|name| (name.as_str(), Origin::Request));
        let fixed = self.fixed.settings();
        dynamic.chain(fixed.map(|(name, _, origin)| (name, origin.clone())))
    }

    /// The value of a key, or its default; `None` if it has none.
    pub(crate) fn value(&self, name: &str) -> Result<Option<ConfigValue>, ConfigError> {
        let (schema, origin) = (Scope::Broker.schema(), self.origin(name));
        let definition = schema.require(name, &origin)?;
        let text = self.text(name).or(definition.default);
        Ok(text.map(|text| schema.parse(name, text, &origin)).transpose()?)
    }

    pub(crate) fn get<T: FromConfigValue>(&self, name: &'static str) -> Result<T, ConfigError> {
        self.find(name)?.ok_or_else(|| missing(name))
    }

    pub(crate) fn find<T: FromConfigValue>(&self, name: &str) -> Result<Option<T>, ConfigError> {
        Ok(self.value(name)?.as_ref().and_then(T::from_config_value))
    }
}

impl BrokerConfig {
    /// Checks every setting and the rules between them.
    pub fn resolve(mut overrides: BrokerOverrides) -> Result<Self, ConfigError> {
        unite_ids(&mut overrides.fixed)?;
        let effective = references::resolved(&overrides)?;
        let raw = &effective;
        check_settings(raw)?;
        check_whole(raw)?;
        let listeners = listeners(raw)?;
        check_listeners(raw, &listeners)?;
        check_security(raw, &listeners)?;
        let advertised_listeners = advertised_listeners(raw, &listeners)?;
        Ok(Self {
            node_id: raw.get("node.id")?,
            rack: raw.find("broker.rack")?,
            advertised_listeners,
            log_dirs: log_dirs(raw)?,

            auto_create_topics_enable: raw.get("auto.create.topics.enable")?,
            delete_topic_enable: raw.get("delete.topic.enable")?,
            num_partitions: raw.get("num.partitions")?,
            default_replication_factor: raw.get("default.replication.factor")?,
            strict_replication_factor: raw.get("milena.strict.replication.factor")?,
            accept_loss: raw.get::<Recovery>("milena.recovery")? == Recovery::AcceptLoss,
            topic_defaults: TopicConfig::resolve_with(&TopicOverrides::default(), raw)?,
            authorizer: authorizer::resolve(raw)?,

            socket_request_max_bytes: raw.get("socket.request.max.bytes")?,
            socket_listen_backlog_size: raw.get("socket.listen.backlog.size")?,
            connections_max_idle_ms: raw.get("connections.max.idle.ms")?,
            max_connections: raw.get("max.connections")?,
            max_connection_creation_rate: raw.get("max.connection.creation.rate")?,
            listener_limits: listener_limits(raw, &listeners)?,
            max_connections_per_ip: raw.get("max.connections.per.ip")?,
            max_connections_per_ip_overrides: limits_per_ip(raw)?,
            max_unauthenticated_connections: raw.get("milena.max.unauthenticated.connections")?,
            authentication_timeout_ms: raw.get("milena.authentication.timeout.ms")?,
            failed_authentication_delay_ms: raw.get("connection.failed.authentication.delay.ms")?,
            allow_unauthenticated: raw.get("milena.allow.unauthenticated")?,
            queued_max_request_bytes: raw.get("queued.max.request.bytes")?,
            max_request_partition_size_limit: raw.get("max.request.partition.size.limit")?,
            fetch_max_bytes: raw.get("fetch.max.bytes")?,
            max_incremental_fetch_session_cache_slots: raw.get("max.incremental.fetch.session.cache.slots")?,

            log_retention_check_interval_ms: raw.get("log.retention.check.interval.ms")?,
            log_flush_offset_checkpoint_interval_ms: raw.get("log.flush.offset.checkpoint.interval.ms")?,
            cleaner: CleanerConfig::resolve(raw)?,
            producer_id_expiration_ms: raw.get("producer.id.expiration.ms")?,
            producer_id_expiration_check_interval_ms: raw.get("producer.id.expiration.check.interval.ms")?,
            groups: group::resolve(raw)?,
            transactions: transactions::resolve(raw)?,
            client_metrics: client_metrics::resolve(&raw.client_metrics)?,
            telemetry_max_bytes: raw.get("telemetry.max.bytes")?,
            limits: LimitsConfig::resolve(raw)?,
            quotas: QuotaConfig::resolve(raw)?,
            listeners,
            scram_users_max: raw.get("milena.max.scram.users")?,
            overrides,
            effective,
        })
    }

    /// The longest time that a log-in may take, with the delay before the response if it fails.
    pub(crate) fn login_time_max(&self) -> Duration {
        let delay_ms = u64::from(self.failed_authentication_delay_ms);
        Duration::from_millis(u64::from(self.authentication_timeout_ms) + delay_ms)
    }

    /// The value of any key of the broker.
    pub fn get<T: FromConfigValue>(&self, name: &'static str) -> Result<T, ConfigError> {
        self.effective.get(name)
    }
}

/// Without secrets: configurations end up in logs.
impl fmt::Debug for BrokerOverrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |raw: &RawConfig| -> ConfigMap { raw.clone().into() };
        f.debug_struct("BrokerOverrides")
            .field("dynamic", &shown(&self.dynamic))
            .field("dynamic_default", &shown(&self.dynamic_default))
            .field("fixed", &self.fixed)
            .field("groups", &self.groups)
            .field("client_metrics", &self.client_metrics)
            .field("features", &self.features)
            .finish()
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

/// Checks every setting by itself.
fn check_settings(raw: &BrokerOverrides) -> Result<(), ConfigError> {
    for (name, text) in raw.dynamic.iter().chain(&raw.dynamic_default) {
        parse_setting(name, text, &Origin::Request)?;
    }
    for (name, text, origin) in raw.fixed.settings() {
        if !references::is_of_provider(name) {
            parse_setting(name, text, origin)?;
        }
    }
    Ok(())
}

fn listener_limits(raw: &BrokerOverrides, listeners: &[Listener]) -> Result<Vec<ListenerLimits>, ConfigError> {
    let limits = listeners.iter().map(|listener| {
        let name = listener.name.to_lowercase();
        let values = ListenerValues::new(raw, &name);
        let own = |key| Ok::<i32, ConfigError>(values.find_own(key)?.unwrap_or(i32::MAX));
        Ok(ListenerLimits {
            listener: listener.name.clone(),
            max_connections: own("max.connections")?,
            max_connection_creation_rate: own("max.connection.creation.rate")?,
        })
    });
    limits.collect()
}

/// `broker.id` is the old name of `node.id`: if one is set, the other has the same value.
fn unite_ids(fixed: &mut ConfigMap) -> Result<(), ConfigError> {
    let setting = |name| {
        let (value, origin) = (fixed.get(name)?.to_owned(), fixed.origin(name)?.clone());
        Some((value, origin))
    };
    match (setting("node.id"), setting("broker.id")) {
        (Some((node, node_origin)), Some((broker, broker_origin))) if node.trim() != broker.trim() => {
            let given = |key: &str, value: String, origin| Setting {
                key: key.to_owned(),
                value,
                source: Source::Given(origin),
            };
            let first = given("node.id", node, node_origin);
            let second = given("broker.id", broker, broker_origin);
            return Err(contradiction(first, second, SAME_KEY));
        }
        (Some((node, origin)), None) => fixed.set_from("broker.id", node, origin),
        (None, Some((broker, origin))) => fixed.set_from("node.id", broker, origin),
        _ => fixed,
    };
    Ok(())
}

const SAME_KEY: &str = "both are names of the same key; remove one of them";

fn log_dirs(raw: &BrokerOverrides) -> Result<Vec<String>, ConfigError> {
    let many: Option<Vec<String>> = raw.find("log.dirs")?;
    let one: Option<Vec<String>> = raw.find("log.dir")?;
    if let (Some(many), Some(one)) = (&many, &one)
        && many != one
    {
        let (many, one) = (many.join(","), one.join(","));
        return Err(contradiction(
            raw.setting("log.dirs", many),
            raw.setting("log.dir", one),
            SAME_KEY,
        ));
    }
    Ok(many.or(one).unwrap_or_default())
}

/// Parses `host:limit,…`. The limit follows the last colon, because a host may be an IPv6 address.
fn limits_per_ip(raw: &BrokerOverrides) -> Result<Vec<(String, i32)>, ConfigError> {
    let name = "max.connections.per.ip.overrides";
    let text: String = raw.get(name)?;
    let limit = |pair: &str| {
        let (host, limit) = pair.trim().rsplit_once(':')?;
        Some((host.trim().to_owned(), limit.trim().parse().ok()?))
    };
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    let limits: Option<Vec<_>> = pairs.map(limit).collect();
    limits.ok_or_else(|| wrong(name, &text, "it must be a list of host:limit"))
}

fn listeners(raw: &BrokerOverrides) -> Result<Vec<Listener>, ConfigError> {
    let listeners = read_listeners(raw, "listeners")?;
    if listeners.is_empty() {
        return Err(wrong("listeners", "", "at least one listener is required"));
    }
    Ok(listeners)
}

/// `advertised.listeners`, else the listeners, if clients can use their addresses.
fn advertised_listeners(raw: &BrokerOverrides, listeners: &[Listener]) -> Result<Vec<Listener>, ConfigError> {
    let mut advertised = read_listeners(raw, "advertised.listeners")?;
    if advertised.is_empty() {
        advertised = listeners.to_vec();
    }
    for one in &advertised {
        let problem = if one.is_wildcard() {
            "clients cannot connect to a wildcard address"
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

pub(crate) fn wrong(name: &str, value: &str, problem: impl Into<String>) -> ConfigError {
    ConfigError::Wrong {
        name: name.to_owned(),
        value: value.to_owned(),
        problem: problem.into(),
    }
}
