//! Bounds for everything that clients can make the broker keep, and the windows of quotas.

use milena_machines::quota::Window;

use super::super::{BrokerOverrides, ConfigError};

/// The bounds `milena.max.*`: each is named after its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitsConfig {
    pub acls: usize,
    pub client_metrics_instances: usize,
    pub client_metrics_subscriptions: usize,
    pub config_value_bytes: usize,
    pub fetch_session_partitions: usize,
    pub group_configs: usize,
    pub group_members: usize,
    pub groups: usize,
    pub member_metadata_bytes: usize,
    pub name_bytes: usize,
    pub partitions: usize,
    pub partitions_per_request: i32,
    pub pending_requests: usize,
    pub producers_per_partition: usize,
    pub quota_clients: usize,
    pub quota_entities: usize,
    pub topics: usize,
    pub transactional_ids: usize,
}

/// The samples that rates of quotas are computed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaConfig {
    /// `quota.window.num`, `quota.window.size.seconds`
    pub window: Window,
    /// `controller.quota.window.num`, `controller.quota.window.size.seconds`
    pub controller_window: Window,
}

impl LimitsConfig {
    pub(crate) fn resolve(raw: &BrokerOverrides) -> Result<Self, ConfigError> {
        let get = |name| Ok::<usize, ConfigError>(usize::try_from(raw.get::<i32>(name)?).unwrap_or(0));
        Ok(Self {
            acls: get("milena.max.acls")?,
            client_metrics_instances: get("milena.max.client.metrics.instances")?,
            client_metrics_subscriptions: get("milena.max.client.metrics.subscriptions")?,
            config_value_bytes: get("milena.max.config.value.bytes")?,
            fetch_session_partitions: get("milena.max.fetch.session.partitions")?,
            group_configs: get("milena.max.group.configs")?,
            group_members: get("milena.max.group.members")?,
            groups: get("milena.max.groups")?,
            member_metadata_bytes: get("milena.max.member.metadata.bytes")?,
            name_bytes: get("milena.max.name.bytes")?,
            partitions: get("milena.max.partitions")?,
            partitions_per_request: raw.get("milena.max.partitions.per.request")?,
            pending_requests: get("milena.max.pending.requests")?,
            producers_per_partition: get("milena.max.producers.per.partition")?,
            quota_clients: get("milena.max.quota.clients")?,
            quota_entities: get("milena.max.quota.entities")?,
            topics: get("milena.max.topics")?,
            transactional_ids: get("milena.max.transactional.ids")?,
        })
    }
}

impl QuotaConfig {
    pub(super) fn resolve(raw: &BrokerOverrides) -> Result<Self, ConfigError> {
        let window = |samples, seconds| {
            let (samples, seconds): (i32, i32) = (raw.get(samples)?, raw.get(seconds)?);
            Ok::<Window, ConfigError>(Window {
                samples: u32::try_from(samples).unwrap_or(1),
                sample_ms: i64::from(seconds) * 1000,
            })
        };
        Ok(Self {
            window: window("quota.window.num", "quota.window.size.seconds")?,
            controller_window: window("controller.quota.window.num", "controller.quota.window.size.seconds")?,
        })
    }
}
