//! The quotas of one kind, by user and client id, and the precedence between them.

use std::collections::BTreeMap;

use bytestring::ByteString;

use super::{EntityName, EntityType, QuotaEntity};

/// The quotas of one kind for users and client ids.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// Quotas of client ids of a user.
    user_clients: BTreeMap<ByteString, Level>,
    /// Quotas of client ids of any user without quotas of this level.
    default_user_clients: Level,
    users: Level,
    clients: Level,
}

/// Quotas by name, and the default.
#[derive(Debug, Clone, Default, PartialEq)]
struct Level {
    named: BTreeMap<ByteString, f64>,
    default: Option<f64>,
}

/// The clients that are measured together: all with the same tags. An empty tag stands for all names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tags<'a> {
    pub user: &'a str,
    pub client_id: &'a str,
}

impl Level {
    fn is_empty(&self) -> bool {
        self.default.is_none() && self.named.is_empty()
    }

    fn set(&mut self, name: &EntityName, quota: f64) {
        match name {
            EntityName::Default => self.default = Some(quota),
            EntityName::Name(name) => drop(self.named.insert(name.clone(), quota)),
        }
    }

    /// The quota of a name, or the default.
    fn of(&self, name: &str) -> Option<f64> {
        self.named.get(name).copied().or(self.default)
    }
}

impl Limits {
    /// Sets the quota of an entity. Entities that are addresses have none of this kind.
    pub fn set(&mut self, entity: &QuotaEntity, quota: f64) {
        match (entity.get(EntityType::User), entity.get(EntityType::ClientId)) {
            (Some(EntityName::Name(user)), Some(client_id)) => {
                self.user_clients.entry(user.clone()).or_default().set(client_id, quota);
            }
            (Some(EntityName::Default), Some(client_id)) => self.default_user_clients.set(client_id, quota),
            (Some(user), None) => self.users.set(user, quota),
            (None, Some(client_id)) => self.clients.set(client_id, quota),
            (None, None) => {}
        }
    }

    pub fn is_empty(&self) -> bool {
        !self.has_user_clients() && self.users.is_empty() && self.clients.is_empty()
    }

    fn has_user_clients(&self) -> bool {
        !self.user_clients.is_empty() || !self.default_user_clients.is_empty()
    }

    /// The tags of a client, which follow from the most specific quota that matches it.
    pub fn tags<'a>(&self, user: &'a str, client_id: &'a str) -> Tags<'a> {
        let both = Tags { user, client_id };
        let user_only = Tags { user, client_id: "" };
        let client_only = Tags { user: "", client_id };
        match (
            self.has_user_clients(),
            !self.users.is_empty(),
            !self.clients.is_empty(),
        ) {
            (false, false, _) => client_only,
            (false, true, false) => user_only,
            (true, false, false) => both,
            _ if self
                .user_clients
                .get(user)
                .is_some_and(|level| level.of(client_id).is_some()) =>
            {
                both
            }
            _ if self.users.named.contains_key(user) => user_only,
            _ if self.default_user_clients.of(client_id).is_some() => both,
            _ if self.users.default.is_some() => user_only,
            _ => client_only,
        }
    }

    /// The quota of tags; `None` if there is none.
    pub fn limit(&self, tags: Tags<'_>) -> Option<f64> {
        match (tags.user, tags.client_id) {
            ("", "") => None,
            ("", client_id) => self.clients.of(client_id),
            (user, "") => self.users.of(user),
            (user, client_id) => {
                let own = self.user_clients.get(user).and_then(|level| level.of(client_id));
                own.or_else(|| self.default_user_clients.of(client_id))
            }
        }
    }
}
