//! ACLs: they are stored in the metadata log, and the authorizer has them in memory.

use std::collections::{BTreeMap, BTreeSet};

use milena_machines::authorizer::{Acl, AclFilter};
use milena_wire::{Uuid, errors::ErrorCode};

use super::{Node, Refusal, random_uuid};
use crate::{
    authorizer::BrokerAuthorizer,
    config::BrokerConfig,
    metadata_log::{AclRecord, Change, Metadata},
};

/// The most ACLs that one request may add or delete, as in Kafka.
const ACLS_PER_REQUEST_MAX: usize = 10_000;

/// The result for each ACL that was to be created.
type AclCreation = Result<(), Refusal>;
/// The ACLs that each filter has deleted.
type AclDeletion = Vec<Acl>;

/// The authorizer with the stored ACLs; `None` if the settings have none.
pub(super) fn open(config: &BrokerConfig, metadata: &Metadata) -> Result<Option<BrokerAuthorizer>, Refusal> {
    let Some(config) = &config.authorizer else {
        return Ok(None);
    };
    let acls = metadata.acls.iter().map(|(id, record)| {
        // Without a DENY that it does not know, the broker would allow too much.
        let unknown = || {
            let reason = format!("ACL {id} has a value that this version does not know: {record:?}");
            Refusal::new(ErrorCode::KafkaStorageError, reason)
        };
        let id: Uuid = id.parse().map_err(|_| unknown())?;
        Ok((id, Acl::try_from(record).map_err(|_| unknown())?))
    });
    let acls = acls.collect::<Result<Vec<_>, Refusal>>()?;
    Ok(Some(BrokerAuthorizer::new(config.clone(), acls)))
}

impl Node {
    /// Creates ACLs, which are durable and in force when this returns. One that exists is a success.
    pub(crate) fn create_acls(
        &self,
        authorizer: &BrokerAuthorizer,
        acls: Vec<Result<Acl, Refusal>>,
    ) -> Vec<AclCreation> {
        // The lock is held, so that two requests cannot create the same.
        let mut metadata = self.metadata();
        let valid: BTreeSet<&Acl> = acls.iter().flatten().collect();
        let new = valid.into_iter().filter(|acl| !authorizer.acls().contains(acl));
        let added: BTreeMap<Uuid, Acl> = new.map(|acl| (random_uuid(), acl.clone())).collect();
        let results = |refusal: Option<Refusal>| {
            let results = acls.iter().map(|acl| match (acl, &refusal) {
                (Err(own), _) => Err(own.clone()),
                (Ok(_), Some(refusal)) => Err(refusal.clone()),
                (Ok(_), None) => Ok(()),
            });
            results.collect()
        };
        if added.len() > ACLS_PER_REQUEST_MAX {
            let reason = format!("a request may create {ACLS_PER_REQUEST_MAX} ACLs at most");
            return results(Some(Refusal::new(ErrorCode::PolicyViolation, reason)));
        }
        if added.is_empty() {
            return results(None);
        }
        if let Err(refusal) = self.check_room_for_acls(authorizer.acls().len(), added.values()) {
            return results(Some(refusal));
        }
        let records = added.iter().map(|(id, acl)| (id.to_string(), AclRecord::from(acl)));
        let change = Change::Acls {
            added: records.collect(),
        };
        if let Err(error) = metadata.append(vec![change]) {
            return results(Some(error.into()));
        }
        for acl in added.values() {
            tracing::info!(event = "acl_created", %acl, "ACL created");
        }
        authorizer.change(added, []);
        results(None)
    }

    /// Deletes the ACLs that each filter selects, all or none.
    pub(crate) fn delete_acls(
        &self,
        authorizer: &BrokerAuthorizer,
        filters: &[AclFilter],
    ) -> Result<Vec<AclDeletion>, Refusal> {
        let mut metadata = self.metadata();
        let (mut ids, mut deleted) = (BTreeSet::new(), vec![]);
        {
            let acls = authorizer.acls();
            for filter in filters {
                let selected: Vec<(&Acl, Uuid)> = acls.acls(filter).collect();
                ids.extend(selected.iter().map(|(_, id)| *id));
                deleted.push(selected.into_iter().map(|(acl, _)| acl.clone()).collect());
            }
        }
        if ids.len() > ACLS_PER_REQUEST_MAX {
            let reason = format!("Cannot remove more than {ACLS_PER_REQUEST_MAX} acls in a single delete operation.");
            return Err(Refusal::new(ErrorCode::InvalidRequest, reason));
        }
        if ids.is_empty() {
            return Ok(deleted);
        }
        metadata.append(vec![Change::AclsDeleted {
            ids: ids.iter().map(Uuid::to_string).collect(),
        }])?;
        let logged: BTreeSet<&Acl> = deleted.iter().flatten().collect();
        for acl in logged {
            tracing::info!(event = "acl_deleted", %acl, "ACL deleted");
        }
        authorizer.change([], ids);
        Ok(deleted)
    }
}
