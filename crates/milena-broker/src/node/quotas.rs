//! Changes of client quotas.

use std::collections::BTreeMap;

use milena_machines::quota::{EntityType, QuotaAlteration, QuotaEntity, QuotaError, QuotaFilter, QuotaKey, RawEntity};

use super::{Node, Refusal};
use crate::{
    metadata_log::{Change, Metadata},
    quotas::HostAddresses,
};

/// The outcome of a change, by entity.
pub(crate) type QuotaResults = BTreeMap<RawEntity, Result<(), QuotaError>>;

impl Node {
    /// Changes quotas, which are durable and in force when this returns.
    pub(crate) fn alter_client_quotas(
        &self,
        alterations: Vec<QuotaAlteration>,
        validate_only: bool,
    ) -> Result<QuotaResults, Refusal> {
        let requested = alterations.iter().filter_map(|alteration| {
            let name = alteration.entity.get(EntityType::Ip.name())?;
            name.as_deref()
        });
        let requested: Vec<&str> = requested.collect();
        let stored = quota_hosts(self.metadata().metadata());
        // Without the lock: names may take seconds to resolve.
        let hosts = HostAddresses::resolve(requested.into_iter().chain(stored.iter().map(String::as_str)));
        let mut metadata = self.metadata();
        let entities_max = self.config().limits.quota_entities;
        let table = &metadata.metadata().quotas;
        let (results, changes) = table.alter(alterations, entities_max, &|host| !hosts.of(host).is_empty());
        if validate_only || changes.is_empty() {
            return Ok(results);
        }
        let stored = changes
            .iter()
            .map(|(entity, quotas)| Change::client_quotas(entity, quotas));
        metadata.append(stored.collect())?;
        self.quotas.set(&metadata.metadata().quotas, &hosts);
        for (entity, quotas) in changes {
            let entity = format!("{:?}", entity.raw());
            tracing::info!(event = "client_quota_changed", entity, ?quotas, "client quota changed");
        }
        Ok(results)
    }

    /// The entities that match a filter, with their quotas.
    pub(crate) fn describe_client_quotas(&self, filter: &QuotaFilter) -> Vec<(QuotaEntity, BTreeMap<QuotaKey, f64>)> {
        let metadata = self.metadata();
        let found = metadata.metadata().quotas.describe(filter);
        found.map(|(entity, quotas)| (entity.clone(), quotas.clone())).collect()
    }

    /// Puts the stored quotas in force at a start.
    pub(super) fn load_client_quotas(&self) {
        let hosts = quota_hosts(self.metadata().metadata());
        let addresses = HostAddresses::resolve(hosts.iter().map(String::as_str));
        for host in hosts.iter().filter(|host| addresses.of(host).is_empty()) {
            tracing::warn!(
                event = "quota_host_unknown",
                host,
                "a connection rate is set for a host that cannot be resolved; it is not in force"
            );
        }
        self.quotas.set(&self.metadata().metadata().quotas, &addresses);
    }
}

/// The hosts that connection rates are stored for.
fn quota_hosts(metadata: &Metadata) -> Vec<String> {
    use milena_machines::quota::EntityName;
    let names = metadata.quotas.connection_rates().filter_map(|(name, _)| match name {
        EntityName::Default => None,
        EntityName::Name(host) => Some(host.to_string()),
    });
    names.collect()
}
