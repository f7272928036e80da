//! The index: from a caller and a resource to the operations that ACLs allow and deny.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use bytestring::ByteString;
use milena_wire::Uuid;

use super::{
    Acl, Caller, OperationSet, PatternType, Permission, ResourceType,
    acl::{ANY, ANY_PRINCIPAL, HostMatch},
    trie::Trie,
};

/// The operations that all ACLs which apply to a caller allow and deny.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Grants {
    pub(super) allowed: OperationSet,
    pub(super) denied: OperationSet,
}

/// The grants of all principals. The principal is found first: it has few patterns, even if a name is covered by many.
#[derive(Debug, Default)]
pub(super) struct Index {
    by_principal: Trie<PrincipalGrants>,
    everyone: PrincipalGrants,
    /// The patterns of whatever principal, by type and name. A pattern is there as long as it has an ACL, even one that never
    /// applies.
    patterns: [Trie<PatternCounts>; ResourceType::ALL.len()],
}

/// The numbers of principals that have ACLs for the patterns of a name.
#[derive(Debug, Default, Clone, Copy)]
struct PatternCounts {
    literal: usize,
    prefixed: usize,
}

/// The grants of one principal.
#[derive(Debug, Default)]
struct PrincipalGrants {
    /// Of the types that it has ACLs for.
    types: Vec<(ResourceType, TypeGrants)>,
}

/// The grants of one principal on resources of one type.
#[derive(Debug, Default)]
struct TypeGrants {
    /// By name; those of the literal `*` are not here.
    names: Trie<NameGrants>,
    /// Those of the literal `*`.
    any_name: Option<HostGrants>,
}

/// The grants of one principal and name.
#[derive(Debug, Default)]
struct NameGrants {
    literal: Option<HostGrants>,
    prefixed: Option<HostGrants>,
}

/// The grants of one pattern and principal, by host.
#[derive(Debug, Default)]
struct HostGrants {
    any: Grants,
    by_host: BTreeMap<HostKey, Grants>,
}

impl Index {
    /// Brings the index up to date after changes of some ACLs; `all` are those that exist now.
    pub(super) fn update(&mut self, changed: &[Acl], all: &BTreeMap<Acl, Uuid>) {
        let key = |acl: &Acl| {
            Acl::first_of_principal(acl.resource_type, &acl.resource_name, acl.pattern_type, &acl.principal)
        };
        let changed: BTreeSet<Acl> = changed.iter().map(key).collect();
        for first in &changed {
            let own = all.range(first.clone()..).map(|(acl, _)| acl);
            let own = own.take_while(|acl| acl.has_principal_of(first));
            let mut grants: Option<HostGrants> = None;
            for acl in own {
                grants.get_or_insert_default().add(acl);
            }
            self.set(first, grants);
        }
    }

    /// Replaces the grants of a principal and a pattern.
    fn set(&mut self, of: &Acl, grants: Option<HostGrants>) {
        let after = usize::from(grants.is_some());
        let mut before = 0;
        let set = |principal: &mut PrincipalGrants| before = usize::from(principal.set(of, grants));
        match &*of.principal {
            ANY_PRINCIPAL => set(&mut self.everyone),
            name => self.by_principal.update(name, |principal| {
                set(principal.get_or_insert_default());
                principal.take_if(|principal| principal.types.is_empty());
            }),
        }
        let Some(patterns) = self.patterns.get_mut(position_of(of.resource_type)) else {
            return;
        };
        patterns.update(&of.resource_name, |counts| {
            let of_name = counts.get_or_insert_default();
            let count = match of.pattern_type {
                PatternType::Literal => &mut of_name.literal,
                PatternType::Prefixed => &mut of_name.prefixed,
            };
            *count = (*count + after).saturating_sub(before);
            counts.take_if(|of_name| of_name.literal == 0 && of_name.prefixed == 0);
        });
    }

    /// The grants of a caller on a resource.
    pub(super) fn grants(&self, caller: Caller<'_>, resource_type: ResourceType, name: &str) -> Grants {
        let host = host_key(caller.host);
        let mut grants = Grants::default();
        let own = self.by_principal.get(caller.principal);
        for principal in own.into_iter().chain([&self.everyone]) {
            if let Some(of_type) = principal.of_type(resource_type) {
                of_type.add_to(&mut grants, name, host);
            }
        }
        grants
    }

    /// Whether a pattern covers a resource, for whatever principal.
    pub(super) fn is_covered(&self, resource_type: ResourceType, name: &str) -> bool {
        !self.patterns(resource_type, name).is_empty()
    }

    /// The patterns that cover a resource.
    pub(super) fn patterns(&self, resource_type: ResourceType, name: &str) -> Vec<(PatternType, ByteString)> {
        let mut found = vec![];
        let Some(patterns) = self.patterns.get(position_of(resource_type)) else {
            return found;
        };
        if patterns.get(ANY).is_some_and(|counts| counts.literal > 0) {
            found.push((PatternType::Literal, ByteString::from_static(ANY)));
        }
        for (len, counts) in patterns.prefixes_of(name) {
            // The name begins with the pattern's, which ends where a letter does.
            let pattern = name.get(..len).unwrap_or_default();
            if counts.literal > 0 && len == name.len() && name != ANY {
                found.push((PatternType::Literal, pattern.into()));
            }
            if counts.prefixed > 0 {
                found.push((PatternType::Prefixed, pattern.into()));
            }
        }
        found
    }
}

/// The codes begin with 2.
fn position_of(resource_type: ResourceType) -> usize {
    usize::try_from(resource_type.code() - 2).unwrap_or_default()
}

impl PrincipalGrants {
    fn of_type(&self, resource_type: ResourceType) -> Option<&TypeGrants> {
        let found = self.types.iter().find(|(known, _)| *known == resource_type);
        found.map(|(_, grants)| grants)
    }

    /// Replaces the grants of a pattern, and returns whether there were some.
    fn set(&mut self, of: &Acl, grants: Option<HostGrants>) -> bool {
        let known = self.types.iter().position(|(known, _)| *known == of.resource_type);
        let at = known.unwrap_or_else(|| {
            self.types.push((of.resource_type, TypeGrants::default()));
            self.types.len() - 1
        });
        let Some((_, of_type)) = self.types.get_mut(at) else {
            return false;
        };
        let existed = of_type.set(of, grants);
        if of_type.names.is_empty() && of_type.any_name.is_none() {
            self.types.swap_remove(at);
        }
        existed
    }
}

impl TypeGrants {
    fn set(&mut self, of: &Acl, grants: Option<HostGrants>) -> bool {
        if of.pattern_type == PatternType::Literal && of.covers_all() {
            return std::mem::replace(&mut self.any_name, grants).is_some();
        }
        let mut existed = false;
        self.names.update(&of.resource_name, |name| {
            let of_name = name.get_or_insert_default();
            let old = match of.pattern_type {
                PatternType::Literal => &mut of_name.literal,
                PatternType::Prefixed => &mut of_name.prefixed,
            };
            existed = std::mem::replace(old, grants).is_some();
            name.take_if(|name| name.literal.is_none() && name.prefixed.is_none());
        });
        existed
    }

    /// Adds what applies to a name and a host.
    fn add_to(&self, grants: &mut Grants, name: &str, host: HostKey) {
        let mut add = |found: &Option<HostGrants>| {
            if let Some(found) = found {
                grants.add(found.of_host(host));
            }
        };
        add(&self.any_name);
        for (len, of_name) in self.names.prefixes_of(name) {
            add(&of_name.prefixed);
            if len == name.len() {
                add(&of_name.literal);
            }
        }
    }
}

/// An address as a number, which is compared faster. IPv4 addresses and those mapped to IPv6 are the same.
type HostKey = u128;

fn host_key(host: IpAddr) -> HostKey {
    match host {
        IpAddr::V4(host) => host.to_ipv6_mapped().to_bits(),
        IpAddr::V6(host) => host.to_bits(),
    }
}

impl HostGrants {
    fn of_host(&self, host: HostKey) -> Grants {
        let mut grants = self.any;
        if !self.by_host.is_empty()
            && let Some(of_host) = self.by_host.get(&host)
        {
            grants.add(*of_host);
        }
        grants
    }

    fn add(&mut self, acl: &Acl) {
        let operations = OperationSet::of_acl(acl.operation, acl.permission);
        let added = match acl.permission {
            Permission::Allow => Grants {
                allowed: operations,
                ..Grants::default()
            },
            Permission::Deny => Grants {
                denied: operations,
                ..Grants::default()
            },
        };
        match HostMatch::of(acl) {
            HostMatch::Any => self.any.add(added),
            HostMatch::Address(host) => self.by_host.entry(host_key(host)).or_default().add(added),
            HostMatch::Never => {}
        }
    }
}

impl Grants {
    fn add(&mut self, other: Self) {
        self.allowed = self.allowed.union(other.allowed);
        self.denied = self.denied.union(other.denied);
    }
}
