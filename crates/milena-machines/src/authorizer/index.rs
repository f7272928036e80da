//! The index: from a resource and a caller to the operations that ACLs allow and deny.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use bytestring::ByteString;
use milena_wire::Uuid;

use super::{
    Acl, Caller, OperationSet, PatternType, Permission, ResourceType,
    acl::{ANY_PRINCIPAL, HostMatch},
};

/// The operations that all ACLs which apply to a caller allow and deny.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Grants {
    pub(super) allowed: OperationSet,
    pub(super) denied: OperationSet,
}

/// The patterns of all types.
#[derive(Debug, Default)]
pub(super) struct Index {
    types: [TypeIndex; ResourceType::ALL.len()],
}

/// The patterns of one type.
#[derive(Debug, Default)]
struct TypeIndex {
    literals: BTreeMap<ByteString, PatternGrants>,
    /// Those of the literal `*`.
    any_name: Option<PatternGrants>,
    /// Sorted by name.
    prefixes: Vec<Prefix>,
}

#[derive(Debug)]
struct Prefix {
    name: ByteString,
    grants: PatternGrants,
    /// The longest other prefix that this one begins with.
    parent: Option<usize>,
}

/// The grants of one pattern, by principal. It is there as long as the pattern has an ACL, even one that never applies.
#[derive(Debug, Default)]
struct PatternGrants {
    everyone: Option<HostGrants>,
    by_principal: BTreeMap<ByteString, HostGrants>,
}

/// The grants of one pattern and principal, by host.
#[derive(Debug, Default)]
struct HostGrants {
    any: Grants,
    by_host: BTreeMap<IpAddr, Grants>,
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
            if let Some(index) = self.of_type_mut(first.resource_type) {
                index.set(first, grants);
            }
        }
        for index in &mut self.types {
            index.link_prefixes();
        }
    }

    /// The grants of a caller on a resource; `None` if no pattern covers it.
    pub(super) fn grants(&self, caller: Caller<'_>, resource_type: ResourceType, name: &str) -> Option<Grants> {
        let index = self.of_type(resource_type)?;
        let host = caller.host.to_canonical();
        let mut grants: Option<Grants> = None;
        let mut add = |pattern: &PatternGrants| {
            pattern.add_to(grants.get_or_insert_default(), caller.principal, host);
        };
        if let Some(pattern) = &index.any_name {
            add(pattern);
        }
        if let Some(pattern) = index.literals.get(name) {
            add(pattern);
        }
        for prefix in index.prefixes_of(name) {
            add(&prefix.grants);
        }
        grants
    }

    /// The patterns that cover a resource.
    pub(super) fn patterns(&self, resource_type: ResourceType, name: &str) -> Vec<(PatternType, ByteString)> {
        let Some(index) = self.of_type(resource_type) else {
            return vec![];
        };
        let any = index.any_name.iter().map(|_| ByteString::from_static("*"));
        let literal = index.literals.get_key_value(name).map(|(name, _)| name.clone());
        let literals = any.chain(literal).map(|name| (PatternType::Literal, name));
        let prefixes = index
            .prefixes_of(name)
            .map(|prefix| (PatternType::Prefixed, prefix.name.clone()));
        literals.chain(prefixes).collect()
    }

    fn of_type(&self, resource_type: ResourceType) -> Option<&TypeIndex> {
        self.types.get(position_of(resource_type))
    }

    fn of_type_mut(&mut self, resource_type: ResourceType) -> Option<&mut TypeIndex> {
        self.types.get_mut(position_of(resource_type))
    }
}

/// The codes begin with 2.
fn position_of(resource_type: ResourceType) -> usize {
    usize::try_from(resource_type.code() - 2).unwrap_or_default()
}

impl TypeIndex {
    /// Replaces the grants of a pattern and a principal.
    fn set(&mut self, of: &Acl, grants: Option<HostGrants>) {
        match of.pattern_type {
            PatternType::Literal if of.covers_all() => {
                let pattern = self.any_name.get_or_insert_default();
                pattern.set(&of.principal, grants);
                self.any_name.take_if(|pattern| pattern.is_empty());
            }
            PatternType::Literal => {
                let pattern = self.literals.entry(of.resource_name.clone()).or_default();
                pattern.set(&of.principal, grants);
                if pattern.is_empty() {
                    self.literals.remove(&of.resource_name);
                }
            }
            PatternType::Prefixed => {
                let found = self
                    .prefixes
                    .binary_search_by(|prefix| prefix.name.cmp(&of.resource_name));
                let at = found.unwrap_or_else(|at| {
                    let new = Prefix {
                        name: of.resource_name.clone(),
                        grants: PatternGrants::default(),
                        parent: None,
                    };
                    self.prefixes.insert(at, new);
                    at
                });
                if let Some(prefix) = self.prefixes.get_mut(at) {
                    prefix.grants.set(&of.principal, grants);
                    if prefix.grants.is_empty() {
                        self.prefixes.remove(at);
                    }
                }
            }
        }
    }

    /// Sets the parents. In the order of names, a prefix comes before all that begin with it.
    fn link_prefixes(&mut self) {
        // Each begins with the one before it.
        let mut open: Vec<(usize, ByteString)> = vec![];
        for (at, prefix) in self.prefixes.iter_mut().enumerate() {
            while open.pop_if(|(_, outer)| !prefix.name.starts_with(&**outer)).is_some() {}
            prefix.parent = open.last().map(|(outer, _)| *outer);
            open.push((at, prefix.name.clone()));
        }
    }

    /// The prefixes that a name begins with, from the longest to the shortest.
    ///
    /// Every name between a prefix and a name that begins with it begins with it too. So the greatest prefix that is not
    /// greater than the name begins with all others of the name, and they are its ancestors.
    fn prefixes_of<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Prefix> {
        let end = self.prefixes.partition_point(|prefix| *prefix.name <= *name);
        let nearest = end.checked_sub(1).and_then(|at| self.prefixes.get(at));
        let common = nearest.map_or(0, |prefix| common_length(&prefix.name, name));
        let parent = |prefix: &&Prefix| self.prefixes.get(prefix.parent?);
        std::iter::successors(nearest, parent).skip_while(move |prefix| prefix.name.len() > common)
    }
}

fn common_length(one: &str, other: &str) -> usize {
    one.bytes()
        .zip(other.bytes())
        .take_while(|(one, other)| one == other)
        .count()
}

impl PatternGrants {
    fn set(&mut self, principal: &ByteString, grants: Option<HostGrants>) {
        match grants {
            grants if *principal == ANY_PRINCIPAL => self.everyone = grants,
            Some(grants) => drop(self.by_principal.insert(principal.clone(), grants)),
            None => drop(self.by_principal.remove(principal)),
        }
    }

    fn is_empty(&self) -> bool {
        self.everyone.is_none() && self.by_principal.is_empty()
    }

    fn add_to(&self, grants: &mut Grants, principal: &str, host: IpAddr) {
        let own = self.by_principal.get(principal);
        for by_host in own.into_iter().chain(&self.everyone) {
            grants.add(by_host.any);
            if !by_host.by_host.is_empty()
                && let Some(of_host) = by_host.by_host.get(&host)
            {
                grants.add(*of_host);
            }
        }
    }
}

impl HostGrants {
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
            HostMatch::Address(host) => self.by_host.entry(host).or_default().add(added),
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
