//! The driver of the authorizer: decisions for connections, with their cache, audit log and counters.
//!
//! ACLs are in the metadata log. A change is durable before it is in force, and in force before its response is sent.

mod audit;
mod counts;

pub(crate) use audit::Check;

use std::sync::{
    PoisonError, RwLock, RwLockReadGuard,
    atomic::{AtomicU64, Ordering},
};

use milena_machines::authorizer::{
    Acl, Authorizer, AuthorizerConfig, Caller, Decision, DecisionCache, Operation, OperationSet, PatternType,
    Permission, ResourceType, Rule, Unknown,
};
use milena_wire::Uuid;

use self::{audit::AuditLog, counts::DecisionCounts};
use crate::{
    metadata_log::AclRecord,
    net::{Peer, Principal},
};

/// The authorizer of a broker.
#[derive(Debug)]
pub(crate) struct BrokerAuthorizer {
    acls: RwLock<Authorizer>,
    /// The epoch of `acls`, so that a cached decision needs no lock.
    epoch: AtomicU64,
    pub(crate) counts: DecisionCounts,
    audit: AuditLog,
}

/// The decisions that a connection has met, and the principal that they are about.
#[derive(Debug, Default)]
pub(crate) struct PeerDecisions {
    principal: Option<Principal>,
    /// The principal in Kafka's form.
    text: String,
    cache: DecisionCache,
}

impl BrokerAuthorizer {
    pub(crate) fn new(config: AuthorizerConfig, acls: impl IntoIterator<Item = (Uuid, Acl)>) -> Self {
        let has_super_users = !config.super_users.is_empty();
        let is_open = config.allow_if_no_acl;
        let acls = Authorizer::new(config, acls);
        if !has_super_users && acls.is_empty() && !is_open {
            tracing::warn!(
                event = "no_client_is_authorized",
                "there are no super.users and no ACLs, so no client may do anything; set super.users and restart"
            );
        }
        Self {
            epoch: AtomicU64::new(acls.epoch()),
            acls: RwLock::new(acls),
            counts: DecisionCounts::default(),
            audit: AuditLog::default(),
        }
    }

    /// The ACLs, which cannot change meanwhile.
    pub(crate) fn acls(&self) -> RwLockReadGuard<'_, Authorizer> {
        self.acls.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts changes in force that are durable.
    pub(crate) fn change(&self, added: impl IntoIterator<Item = (Uuid, Acl)>, removed: impl IntoIterator<Item = Uuid>) {
        let mut acls = self.acls.write().unwrap_or_else(PoisonError::into_inner);
        acls.change(added, removed);
        self.epoch.store(acls.epoch(), Ordering::Release);
    }

    /// All operations that a client may do on a resource.
    pub(crate) fn operations(&self, peer: &Peer, resource_type: ResourceType, name: &str) -> OperationSet {
        let epoch = self.epoch.load(Ordering::Acquire);
        let mut known = peer.decisions();
        known.set_principal(&peer.principal);
        if let Some(operations) = known.cache.operations(epoch, resource_type, name) {
            return operations;
        }
        let acls = self.acls();
        let operations = acls.operations(known.caller(peer), resource_type, name);
        let decision = Decision::Resource(resource_type, name, operations);
        known.cache.insert(acls.epoch(), decision);
        operations
    }

    /// Decides about one operation, counts the decision and logs it.
    pub(crate) fn allows(&self, peer: &Peer, check: &Check<'_>) -> bool {
        let allowed = self
            .operations(peer, check.resource_type, check.name)
            .contains(check.operation);
        self.counts.count(check.operation, check.resource_type, allowed);
        self.audit.log(self, peer, check, allowed);
        allowed
    }

    /// Decides whether a client may do an operation on any resource of a type.
    pub(crate) fn allows_on_any(&self, peer: &Peer, operation: Operation, resource_type: ResourceType) -> bool {
        let epoch = self.epoch.load(Ordering::Acquire);
        let mut known = peer.decisions();
        known.set_principal(&peer.principal);
        let allowed = known.cache.on_any(epoch, resource_type, operation).unwrap_or_else(|| {
            let acls = self.acls();
            let allowed = acls.is_allowed_on_any(known.caller(peer), operation, resource_type);
            let decision = Decision::AnyOf(resource_type, operation, allowed);
            known.cache.insert(acls.epoch(), decision);
            allowed
        });
        self.counts.count(operation, resource_type, allowed);
        allowed
    }

    /// The reason of a decision, as text.
    fn rule(&self, peer: &Peer, check: &Check<'_>) -> String {
        let principal = peer.principal.to_string();
        let caller = Caller {
            principal: &principal,
            host: peer.address.ip(),
        };
        match self
            .acls()
            .rule(caller, check.operation, check.resource_type, check.name)
        {
            Rule::SuperUser => "super.users".to_owned(),
            Rule::NoAcl => "allow.everyone.if.no.acl.found".to_owned(),
            Rule::NoMatch => "no ACL allows it".to_owned(),
            Rule::Acl(acl) => acl.to_string(),
        }
    }
}

impl PeerDecisions {
    /// Forgets all decisions if the principal is another one.
    fn set_principal(&mut self, principal: &Principal) {
        if self.principal.as_ref() != Some(principal) {
            *self = Self {
                principal: Some(principal.clone()),
                text: principal.to_string(),
                cache: DecisionCache::default(),
            };
        }
    }

    fn caller(&self, peer: &Peer) -> Caller<'_> {
        Caller {
            principal: &self.text,
            host: peer.address.ip(),
        }
    }
}

impl From<&Acl> for AclRecord {
    fn from(acl: &Acl) -> Self {
        Self {
            resource_type: acl.resource_type.name().to_owned(),
            resource_name: acl.resource_name.to_string(),
            pattern_type: acl.pattern_type.name().to_owned(),
            principal: acl.principal.to_string(),
            host: acl.host.to_string(),
            operation: acl.operation.name().to_owned(),
            permission: acl.permission.name().to_owned(),
        }
    }
}

impl TryFrom<&AclRecord> for Acl {
    type Error = Unknown;

    fn try_from(record: &AclRecord) -> Result<Self, Unknown> {
        Ok(Self {
            resource_type: ResourceType::from_name(&record.resource_type)?,
            resource_name: record.resource_name.as_str().into(),
            pattern_type: PatternType::from_name(&record.pattern_type)?,
            principal: record.principal.as_str().into(),
            host: record.host.as_str().into(),
            operation: Operation::from_name(&record.operation)?,
            permission: Permission::from_name(&record.permission)?,
        })
    }
}
