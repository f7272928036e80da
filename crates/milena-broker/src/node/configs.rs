//! Changes of settings while the broker runs.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
};

use milena_log::{Durability, LogConfig};
use milena_wire::errors::ErrorCode;

use super::{Node, Refusal, log_config};
use crate::{
    config::{
        AlterOp, AlterOpKind, BrokerConfig, BrokerLayer, ConfigError, FeatureUpdate, Scope, TopicConfig,
        TopicOverrides, alter_broker, alter_client_metrics, alter_group, alter_topic,
    },
    log_levels::{LogLevel, ROOT_LOGGER, UnknownLogLevel},
    metadata_log::Change,
    topics::Topic,
};

/// A requested change to the settings of one resource.
#[derive(Debug, Clone)]
pub(crate) struct ConfigChange {
    pub(crate) ops: Vec<AlterOp>,
    /// Whether keys that are not named lose their values.
    pub(crate) replaces_all: bool,
    pub(crate) validate_only: bool,
}

impl Node {
    /// Changes the settings of a topic, which are durable and in force when this returns.
    pub(crate) fn alter_topic_config(&self, name: &str, change: ConfigChange) -> Result<(), Refusal> {
        // The lock is held, so that no change is based on settings that another has just replaced.
        let mut metadata = self.metadata();
        let topic = self.topics().by_name(name).cloned();
        let topic = topic.ok_or_else(|| Refusal::no_topic(name))?;
        let config = self.config();
        let nothing = TopicOverrides::default();
        let before = if change.replaces_all {
            &nothing
        } else {
            &topic.overrides
        };
        let overrides =
            alter_topic(before, change.ops, &config).map_err(|error| Refusal::of_config(&error, Scope::Topic))?;
        let log_config = changed_log_config(&topic, &overrides, &config)?;
        if change.validate_only {
            return Ok(());
        }
        metadata.append(vec![Change::TopicConfigs {
            name: name.to_owned(),
            configs: overrides.0.clone(),
        }])?;
        self.put_in_force(&topic, &log_config);
        self.topics_mut().insert(Topic {
            overrides,
            ..Topic::clone(&topic)
        });
        Ok(())
    }

    /// Changes the settings of the broker, and with them the defaults of topics.
    pub(crate) fn alter_broker_config(&self, layer: BrokerLayer, change: ConfigChange) -> Result<(), Refusal> {
        let mut metadata = self.metadata();
        let mut before = self.config().overrides.clone();
        if change.replaces_all {
            match layer {
                BrokerLayer::This => before.dynamic.clear(),
                BrokerLayer::All => before.dynamic_default.clear(),
            }
        }
        let refuse = |error| Refusal::of_config(&error, Scope::Broker);
        let is_of_listener = |op: &AlterOp| op.name.starts_with("listener.name.");
        let touches_listeners = change.replaces_all || change.ops.iter().any(is_of_listener);
        let overrides = alter_broker(&before, change.ops, layer).map_err(refuse)?;
        let config = BrokerConfig::resolve(overrides).map_err(refuse)?;
        // Key stores are read before anything is stored, so that a change that cannot work is refused.
        let security = match touches_listeners {
            true => Some(self.endpoints.prepare(&config).map_err(refuse)?),
            false => None,
        };
        let topics: Vec<Arc<Topic>> = self.topics().iter().cloned().collect();
        let log_configs = topics
            .iter()
            .map(|topic| changed_log_config(topic, &topic.overrides, &config))
            .collect::<Result<Vec<LogConfig>, Refusal>>()?;
        if change.validate_only {
            return Ok(());
        }
        metadata.append(vec![Change::BrokerConfigs {
            dynamic: config.overrides.dynamic.clone(),
            dynamic_default: config.overrides.dynamic_default.clone(),
        }])?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        if let Some(security) = security {
            self.endpoints.put_in_force(security);
        }
        for (topic, log_config) in topics.iter().zip(&log_configs) {
            self.put_in_force(topic, log_config);
        }
        Ok(())
    }

    /// Changes the settings of a group, whether it exists or not. Its members get them with their next heartbeat.
    pub(crate) fn alter_group_config(&self, group: &str, change: ConfigChange) -> Result<(), Refusal> {
        let mut metadata = self.metadata();
        let config = self.config();
        let mut overrides = config.overrides.clone();
        if !overrides.groups.contains_key(group) {
            let limit = ("milena.max.group.configs", config.limits.group_configs);
            self.check_config_resource(group, overrides.groups.len(), limit)?;
        }
        let before = overrides.groups.remove(group).filter(|_| !change.replaces_all);
        let refuse = |error| Refusal::of_config(&error, Scope::Group);
        let own = alter_group(&before.unwrap_or_default(), change.ops, &config).map_err(refuse)?;
        if !own.is_empty() {
            overrides.groups.insert(group.to_owned(), own.clone());
        }
        let config = BrokerConfig::resolve(overrides).map_err(refuse)?;
        if change.validate_only {
            return Ok(());
        }
        metadata.append(vec![Change::GroupConfigs {
            group: group.to_owned(),
            configs: own,
        }])?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        Ok(())
    }

    /// Changes a client metrics subscription; without settings it is removed. Clients get it with their next
    /// GetTelemetrySubscriptions.
    pub(crate) fn alter_client_metrics(&self, name: &str, change: ConfigChange) -> Result<(), Refusal> {
        let mut metadata = self.metadata();
        let mut overrides = self.config().overrides.clone();
        if !overrides.client_metrics.contains_key(name) {
            let max = self.config().limits.client_metrics_subscriptions;
            let limit = ("milena.max.client.metrics.subscriptions", max);
            self.check_config_resource(name, overrides.client_metrics.len(), limit)?;
        }
        let before = overrides.client_metrics.remove(name).filter(|_| !change.replaces_all);
        let refuse = |error| Refusal::of_config(&error, Scope::ClientMetrics);
        let own = alter_client_metrics(&before.unwrap_or_default(), change.ops).map_err(refuse)?;
        if !own.is_empty() {
            overrides.client_metrics.insert(name.to_owned(), own.clone());
        }
        let config = BrokerConfig::resolve(overrides).map_err(refuse)?;
        if change.validate_only {
            return Ok(());
        }
        metadata.append(vec![Change::ClientMetrics {
            name: name.to_owned(),
            configs: own,
        }])?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        Ok(())
    }

    /// Changes the levels of all features that are named, or of none.
    pub(crate) fn update_features(&self, updates: &[FeatureUpdate], validate_only: bool) -> Result<(), Refusal> {
        let refuse = |error: ConfigError| Refusal::new(ErrorCode::InvalidUpdateVersion, error.to_string());
        let mut metadata = self.metadata();
        let mut overrides = self.config().overrides.clone();
        let before = overrides.features.epoch;
        overrides.features = overrides.features.updated(updates).map_err(refuse)?;
        let features = overrides.features.clone();
        let config = BrokerConfig::resolve(overrides).map_err(refuse)?;
        if validate_only || features.epoch == before {
            return Ok(());
        }
        metadata.append(vec![Change::Features {
            levels: features.levels,
            epoch: features.epoch,
        }])?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        for FeatureUpdate { name, level, .. } in updates {
            tracing::info!(event = "feature_updated", feature = %name, level, "feature level set");
        }
        Ok(())
    }

    /// Changes log levels of this process. They are not stored.
    pub(crate) fn alter_log_levels(&self, change: ConfigChange) -> Result<(), Refusal> {
        let invalid = |reason: String| Refusal::new(ErrorCode::InvalidConfig, reason);
        let request = |reason: &str| Refusal::new(ErrorCode::InvalidRequest, reason);
        let log_levels = self.log_levels.as_ref().ok_or_else(no_loggers)?;
        if change.replaces_all {
            return Err(request("log levels can be changed by IncrementalAlterConfigs only"));
        }
        let known = log_levels.levels();
        let mut levels = BTreeMap::new();
        for AlterOp { name, kind, value } in change.ops {
            let name = target_of(&name);
            if !is_logger(&known, &name) {
                let known: Vec<String> = known.keys().map(|target| logger_of(target)).collect();
                let reason = format!(
                    "there is no logger {}; the loggers are {} and their modules",
                    logger_of(&name),
                    known.join(", ")
                );
                return Err(invalid(reason));
            }
            let level = match (kind, value) {
                (AlterOpKind::Set, Some(text)) => Some(
                    text.parse()
                        .map_err(|error: UnknownLogLevel| invalid(format!("{name}: {error}")))?,
                ),
                (AlterOpKind::Delete, _) if name == ROOT_LOGGER => {
                    return Err(request("Removing the log level of the root logger is not allowed"));
                }
                (AlterOpKind::Delete, _) => None,
                (AlterOpKind::Set, None) => return Err(request("a log level has no value in the request")),
                (AlterOpKind::Append | AlterOpKind::Subtract, _) => {
                    return Err(request("a log level can be set or deleted, not appended to"));
                }
            };
            if levels.insert(name, level).is_some() {
                return Err(request("a logger appears twice in the request"));
            }
        }
        if change.validate_only {
            return Ok(());
        }
        log_levels.change(&levels).map_err(invalid)
    }

    fn put_in_force(&self, topic: &Topic, config: &LogConfig) {
        for partition in &topic.partitions {
            let before = partition.durability();
            partition.log.set_config(config.clone());
            if config.durability != before && config.durability == Durability::Fsync {
                // Records that were written with weaker durability must be synced before readers see them again.
                self.syncer.request(partition);
            }
            partition.waiters.wake_all();
        }
    }
}

/// The name of a target's logger. Kafka's tools take no colons in names, so modules are separated as Java's packages are.
pub(crate) fn logger_of(target: &str) -> String {
    target.replace("::", ".")
}

fn target_of(logger: &str) -> String {
    logger.replace('.', "::")
}

/// A logger is a target that is listed, or one inside of it.
fn is_logger(known: &BTreeMap<String, LogLevel>, name: &str) -> bool {
    let is_inside = |outer: &String| {
        name.strip_prefix(outer.as_str())
            .is_some_and(|rest| rest.starts_with("::"))
    };
    known.contains_key(name) || known.keys().any(is_inside)
}

pub(crate) fn no_loggers() -> Refusal {
    let reason = "the program that this broker runs in has not given it its log levels (Options::log_levels)";
    Refusal::new(ErrorCode::InvalidRequest, reason)
}

/// The settings of a topic's logs after a change, if the logs can apply them.
fn changed_log_config(topic: &Topic, overrides: &TopicOverrides, broker: &BrokerConfig) -> Result<LogConfig, Refusal> {
    let refuse = |reason: String| Refusal::new(ErrorCode::InvalidConfig, format!("topic {}: {reason}", topic.name));
    let config = TopicConfig::resolve(overrides, broker).map_err(|error| refuse(error.to_string()))?;
    let config = log_config(&config, broker);
    let in_memory = |durability| durability == Durability::Memory;
    let moves = |now| in_memory(now) != in_memory(config.durability);
    if topic.partitions.iter().any(|partition| moves(partition.durability())) {
        let reason = "milena.durability of a topic that exists cannot change from or to memory: its records would have \
                      to move";
        return Err(refuse(reason.to_owned()));
    }
    Ok(config)
}
