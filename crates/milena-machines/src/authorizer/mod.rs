//! The authorizer: access control lists and the decisions that follow from them, with Kafka's rules.
//!
//! 1. A super user may do everything.
//! 2. The candidates are the ACLs of the resource's type whose pattern covers its name: LITERAL and equal, PREFIXED and a
//!    prefix, or LITERAL `*`. Without any, for whomever, `allow.everyone.if.no.acl.found` decides.
//! 3. Of these, an ACL applies if its principal is the caller's or `User:*`, and its host is the caller's or `*`.
//! 4. A DENY of the operation, or of ALL, denies. Otherwise an ALLOW of the operation, of ALL, or of one that implies it
//!    allows. Otherwise the operation is denied.
//!
//! READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS, in ALLOW only: DENY READ does
//! not deny DESCRIBE, nor the other way round.
//!
//! Hosts are compared as addresses. Kafka compares their texts, so that there a rule for `::1` never applies.
//!
//! One look-up in the index yields all operations that a caller may do on a resource, as an [`OperationSet`]. Its cost
//! depends on the lengths of the names and on the caller's patterns that cover the resource; not on the number of rules.

mod acl;
mod cache;
mod filter;
mod index;
mod operations;
mod trie;

pub use acl::{Acl, InvalidAcl, Operation, PatternType, Permission, ResourceType, Unknown};
pub use cache::{Decision, DecisionCache};
pub use filter::{AclFilter, PatternFilter};
pub use operations::OperationSet;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use bytestring::ByteString;
use milena_wire::Uuid;

use self::{
    acl::ANY_PRINCIPAL,
    index::{Grants, Index},
};

/// The name of the only resource of type [`ResourceType::Cluster`].
pub const CLUSTER: ByteString = ByteString::from_static("kafka-cluster");

/// The settings of an authorizer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizerConfig {
    /// Principals that may do everything, such as `User:admin`.
    pub super_users: BTreeSet<String>,
    /// Whether resources without a candidate ACL are open to everyone.
    pub allow_if_no_acl: bool,
}

impl AuthorizerConfig {
    /// Reads `super.users`: principals separated by semicolons. An entry without a colon is an error and is returned.
    pub fn parse_super_users(text: &str) -> Result<BTreeSet<String>, String> {
        let entries = text.split(';').map(str::trim).filter(|entry| !entry.is_empty());
        entries
            .map(|entry| match entry.contains(':') {
                true => Ok(entry.to_owned()),
                false => Err(entry.to_owned()),
            })
            .collect()
    }
}

/// The client that a decision is about.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// The principal with its type, such as `User:alice`.
    pub principal: &'a str,
    pub host: IpAddr,
}

/// The reason of a decision, for the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule<'a> {
    SuperUser,
    Acl(&'a Acl),
    /// No ACL covers the resource, so the setting decides.
    NoAcl,
    /// ACLs cover the resource, and none of them applies.
    NoMatch,
}

/// The ACLs of a cluster, indexed for decisions.
#[derive(Debug)]
pub struct Authorizer {
    config: AuthorizerConfig,
    by_id: BTreeMap<Uuid, Acl>,
    ids: BTreeMap<Acl, Uuid>,
    index: Index,
    /// The number of changes; decisions of an older epoch are void.
    epoch: u64,
}

impl Authorizer {
    pub fn new(config: AuthorizerConfig, acls: impl IntoIterator<Item = (Uuid, Acl)>) -> Self {
        let mut authorizer = Self {
            config,
            by_id: BTreeMap::new(),
            ids: BTreeMap::new(),
            index: Index::default(),
            epoch: 0,
        };
        authorizer.change(acls, []);
        authorizer
    }

    /// Adds and removes ACLs. An ACL that exists is not added again, and an id that does not exist is ignored.
    pub fn change(&mut self, added: impl IntoIterator<Item = (Uuid, Acl)>, removed: impl IntoIterator<Item = Uuid>) {
        let mut changed = vec![];
        for id in removed {
            if let Some(acl) = self.by_id.remove(&id) {
                self.ids.remove(&acl);
                changed.push(acl);
            }
        }
        for (id, acl) in added {
            if !self.ids.contains_key(&acl) && !self.by_id.contains_key(&id) {
                self.by_id.insert(id, acl.clone());
                self.ids.insert(acl.clone(), id);
                changed.push(acl);
            }
        }
        self.index.update(&changed, &self.ids);
        self.epoch += 1;
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number of ACLs.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub fn contains(&self, acl: &Acl) -> bool {
        self.ids.contains_key(acl)
    }

    /// The ACLs that a filter selects, in the order of their resources.
    pub fn acls(&self, filter: &AclFilter) -> impl Iterator<Item = (&Acl, Uuid)> {
        let selected = self.ids.iter().filter(|(acl, _)| filter.matches(acl));
        selected.map(|(acl, id)| (acl, *id))
    }

    pub fn is_super_user(&self, principal: &str) -> bool {
        self.config.super_users.contains(principal)
    }

    /// All operations that a caller may do on a resource.
    pub fn operations(&self, caller: Caller<'_>, resource_type: ResourceType, name: &str) -> OperationSet {
        if self.is_super_user(caller.principal) {
            return OperationSet::ALL;
        }
        let grants = self.index.grants(caller, resource_type, name);
        // An ACL that grants nothing to the caller closes the resource all the same.
        let is_open =
            self.config.allow_if_no_acl && grants == Grants::default() && !self.index.is_covered(resource_type, name);
        match is_open {
            true => OperationSet::ALL,
            false => grants.allowed.without(grants.denied),
        }
    }

    /// Whether a caller may do an operation on some resource of a type, whether it exists or not.
    ///
    /// An ALLOW counts unless a DENY covers all of it: that of `*`, of the same name, or of a prefix of its name. The
    /// operation must be named, or be ALL; none is implied.
    pub fn is_allowed_on_any(&self, caller: Caller<'_>, operation: Operation, resource_type: ResourceType) -> bool {
        // Kafka decides about an arbitrary name first. It stands for names that no ACL mentions.
        let arbitrary = self.operations(caller, resource_type, "hardcode");
        if arbitrary.contains(operation) {
            return true;
        }
        let mut allowed: Vec<&Acl> = vec![];
        let mut denied_literals: BTreeSet<&str> = BTreeSet::new();
        let mut denied_prefixes: BTreeSet<&str> = BTreeSet::new();
        let first = Acl::first_of(resource_type);
        let of_type = self
            .ids
            .range(first..)
            .map(|(acl, _)| acl)
            .take_while(|acl| acl.resource_type == resource_type);
        let names_operation = |acl: &&Acl| acl.operation == operation || acl.operation == Operation::All;
        for acl in of_type.filter(names_operation).filter(|acl| acl.applies_to(caller)) {
            match (acl.permission, acl.pattern_type) {
                (Permission::Allow, _) => allowed.push(acl),
                (Permission::Deny, PatternType::Literal) if acl.covers_all() => return false,
                (Permission::Deny, PatternType::Literal) => drop(denied_literals.insert(&acl.resource_name)),
                (Permission::Deny, PatternType::Prefixed) => drop(denied_prefixes.insert(&acl.resource_name)),
            }
        }
        let is_dominated = |acl: &&Acl| {
            let name = &*acl.resource_name;
            let mut ends = name.char_indices().map(|(start, letter)| start + letter.len_utf8());
            let same = acl.pattern_type == PatternType::Literal && denied_literals.contains(name);
            same || ends.any(|end| denied_prefixes.contains(name.get(..end).unwrap_or_default()))
        };
        allowed.iter().any(|acl| acl.covers_all() || !is_dominated(acl))
    }

    /// The rule that a decision follows from, which is found again for the audit log.
    pub fn rule(&self, caller: Caller<'_>, operation: Operation, resource_type: ResourceType, name: &str) -> Rule<'_> {
        if self.is_super_user(caller.principal) {
            return Rule::SuperUser;
        }
        let patterns = self.index.patterns(resource_type, name);
        if patterns.is_empty() {
            return Rule::NoAcl;
        }
        let mut found = Rule::NoMatch;
        for (pattern_type, pattern) in patterns {
            for principal in [caller.principal, ANY_PRINCIPAL] {
                let first = Acl::first_of_principal(resource_type, &pattern, pattern_type, principal);
                let own = self.ids.range(first.clone()..).map(|(acl, _)| acl);
                let own = own.take_while(|acl| acl.has_principal_of(&first));
                for acl in own.filter(|acl| acl.applies_to(caller) && acl.decides(operation)) {
                    found = Rule::Acl(acl);
                    if acl.permission == Permission::Deny {
                        return found;
                    }
                }
            }
        }
        found
    }
}
