//! The changes in the metadata log, and the state that they lead to.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
};

use bytestring::ByteString;
use milena_machines::quota::{QuotaEntity, QuotaKey, QuotaTable, RawEntity};
use serde::{Deserialize, Serialize};

use crate::{
    auth::{StoredCredential, UserCredentials},
    config::FinalizedFeatures,
};

/// The most ids of deleted topics that are remembered, to recognise a folder that one of them has left.
const DELETED_MAX: usize = 1_000;

/// One change. Its names are persisted and must not change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub(crate) enum Change {
    Cluster {
        id: String,
    },
    Topic {
        name: String,
        /// The topic id in Kafka's text form.
        id: String,
        partitions: i32,
        replication_factor: i16,
        configs: BTreeMap<String, String>,
    },
    TopicDeleted {
        name: String,
    },
    Partitions {
        name: String,
        count: i32,
    },
    TopicConfigs {
        name: String,
        configs: BTreeMap<String, String>,
    },
    /// Settings made at run time, of this broker and of all.
    BrokerConfigs {
        dynamic: BTreeMap<String, String>,
        dynamic_default: BTreeMap<String, String>,
    },
    /// Settings of a single group; an empty map removes them.
    GroupConfigs {
        group: String,
        configs: BTreeMap<String, String>,
    },
    /// Settings of a client metrics subscription; an empty map removes it.
    ClientMetrics {
        name: String,
        configs: BTreeMap<String, String>,
    },
    /// All quotas of an entity: names by type, null for the default, and values by key; none removes them. Values are text,
    /// which keeps them exact.
    ClientQuotas {
        entity: BTreeMap<String, Option<String>>,
        quotas: BTreeMap<String, String>,
    },
    /// Levels of features, and the number of changes to them.
    Features {
        levels: BTreeMap<String, i16>,
        epoch: i64,
    },
    /// ACLs that were added together, by id. All of them are in one change, so that a crash cannot separate a DENY from
    /// its ALLOW.
    Acls {
        added: BTreeMap<String, AclRecord>,
    },
    AclsDeleted {
        ids: Vec<String>,
    },
    /// Producer ids below this may be in use.
    ProducerIds {
        next: i64,
    },
    /// The leader epoch of all partitions; it grows with every unclean shutdown.
    LeaderEpoch {
        epoch: i32,
    },
    /// Ids of topics that were deleted before the log was replaced by a snapshot.
    DeletedTopics {
        ids: Vec<String>,
    },
    /// The credential of a SCRAM user: keys and salt, never a password.
    ScramCredential {
        user: String,
        /// `SCRAM-SHA-256` or `SCRAM-SHA-512`.
        mechanism: String,
        credential: StoredCredential,
    },
    ScramCredentialDeleted {
        user: String,
        mechanism: String,
    },
    /// The key of the salts that unknown SCRAM users get.
    UnknownUserKey {
        key: HiddenText,
    },
}

/// An access control list entry. Enumerations have Kafka's names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AclRecord {
    pub(crate) resource_type: String,
    pub(crate) resource_name: String,
    pub(crate) pattern_type: String,
    pub(crate) principal: String,
    pub(crate) host: String,
    pub(crate) operation: String,
    pub(crate) permission: String,
}

impl Change {
    pub(crate) fn client_quotas(entity: &QuotaEntity, quotas: &BTreeMap<QuotaKey, f64>) -> Self {
        let entity = entity.raw().into_iter();
        Self::ClientQuotas {
            entity: entity
                .map(|(entity_type, name)| (entity_type.to_string(), name.map(|name| name.to_string())))
                .collect(),
            quotas: quotas
                .iter()
                .map(|(key, value)| (key.name().to_owned(), value.to_string()))
                .collect(),
        }
    }
}

/// The state that all changes lead to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Metadata {
    pub(crate) cluster_id: Option<String>,
    pub(crate) topics: BTreeMap<String, TopicRecord>,
    pub(crate) dynamic: BTreeMap<String, String>,
    pub(crate) dynamic_default: BTreeMap<String, String>,
    pub(crate) group_configs: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) client_metrics: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) quotas: QuotaTable,
    pub(crate) features: FinalizedFeatures,
    /// By id, in Kafka's text form.
    pub(crate) acls: BTreeMap<String, AclRecord>,
    pub(crate) next_producer_id: i64,
    pub(crate) leader_epoch: i32,
    /// Ids of the topics that were deleted last, in that order.
    pub(crate) deleted: VecDeque<String>,
    /// Users without a credential are not in it.
    pub(crate) scram_users: UserCredentials,
    /// In base64.
    pub(crate) unknown_user_key: Option<HiddenText>,
}

/// Text that no log shows.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct HiddenText(String);

impl HiddenText {
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for HiddenText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for HiddenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TopicRecord {
    pub(crate) id: String,
    pub(crate) partitions: i32,
    pub(crate) replication_factor: i16,
    pub(crate) configs: BTreeMap<String, String>,
}

impl Metadata {
    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Cluster { id } => self.cluster_id = Some(id),
            Change::Topic {
                name,
                id,
                partitions,
                replication_factor,
                configs,
            } => {
                let record = TopicRecord {
                    id,
                    partitions,
                    replication_factor,
                    configs,
                };
                self.topics.insert(name, record);
            }
            Change::TopicDeleted { name } => {
                let deleted = self.topics.remove(&name);
                self.remember_deleted(deleted.map(|topic| topic.id));
            }
            Change::Partitions { name, count } => {
                if let Some(topic) = self.topics.get_mut(&name) {
                    topic.partitions = count;
                }
            }
            Change::TopicConfigs { name, configs } => {
                if let Some(topic) = self.topics.get_mut(&name) {
                    topic.configs = configs;
                }
            }
            Change::BrokerConfigs {
                dynamic,
                dynamic_default,
            } => (self.dynamic, self.dynamic_default) = (dynamic, dynamic_default),
            Change::GroupConfigs { group, configs } if configs.is_empty() => drop(self.group_configs.remove(&group)),
            Change::GroupConfigs { group, configs } => drop(self.group_configs.insert(group, configs)),
            Change::ClientMetrics { name, configs } if configs.is_empty() => drop(self.client_metrics.remove(&name)),
            Change::ClientMetrics { name, configs } => drop(self.client_metrics.insert(name, configs)),
            Change::ClientQuotas { entity, quotas } => self.set_quotas(entity, &quotas),
            Change::Features { levels, epoch } => self.features = FinalizedFeatures { levels, epoch },
            Change::Acls { added } => self.acls.extend(added),
            Change::AclsDeleted { ids } => ids.iter().for_each(|id| drop(self.acls.remove(id))),
            Change::ProducerIds { next } => self.next_producer_id = next,
            Change::LeaderEpoch { epoch } => self.leader_epoch = epoch,
            Change::DeletedTopics { ids } => self.remember_deleted(ids),
            Change::ScramCredential {
                user,
                mechanism,
                credential,
            } => drop(self.scram_users.entry(user).or_default().insert(mechanism, credential)),
            Change::ScramCredentialDeleted { user, mechanism } => self.remove_credential(&user, &mechanism),
            Change::UnknownUserKey { key } => self.unknown_user_key = Some(key),
        }
    }

    fn remove_credential(&mut self, user: &str, mechanism: &str) {
        if let Some(credentials) = self.scram_users.get_mut(user) {
            credentials.remove(mechanism);
            if credentials.is_empty() {
                self.scram_users.remove(user);
            }
        }
    }

    /// Entities and keys were checked when they were stored.
    fn set_quotas(&mut self, entity: BTreeMap<String, Option<String>>, quotas: &BTreeMap<String, String>) {
        let raw: RawEntity = entity
            .into_iter()
            .map(|(entity_type, name)| (entity_type.into(), name.map(ByteString::from)))
            .collect();
        let Ok(entity) = QuotaEntity::new(&raw, &|_| true) else {
            return;
        };
        let quota = |(key, value): (&String, &String)| Some((QuotaKey::from_name(key)?, value.parse().ok()?));
        self.quotas.set(entity, quotas.iter().filter_map(quota).collect());
    }

    fn remember_deleted(&mut self, ids: impl IntoIterator<Item = String>) {
        self.deleted.extend(ids);
        let surplus = self.deleted.len().saturating_sub(DELETED_MAX);
        self.deleted.drain(..surplus);
    }

    /// The fewest changes that lead to this state.
    pub(super) fn changes(&self) -> Vec<Change> {
        let mut changes: Vec<Change> = self
            .cluster_id
            .iter()
            .map(|id| Change::Cluster { id: id.clone() })
            .collect();
        changes.extend(self.topics.iter().map(|(name, topic)| Change::Topic {
            name: name.clone(),
            id: topic.id.clone(),
            partitions: topic.partitions,
            replication_factor: topic.replication_factor,
            configs: topic.configs.clone(),
        }));
        changes.push(Change::BrokerConfigs {
            dynamic: self.dynamic.clone(),
            dynamic_default: self.dynamic_default.clone(),
        });
        changes.extend(self.group_configs.iter().map(|(group, configs)| Change::GroupConfigs {
            group: group.clone(),
            configs: configs.clone(),
        }));
        changes.extend(self.client_metrics.iter().map(|(name, configs)| Change::ClientMetrics {
            name: name.clone(),
            configs: configs.clone(),
        }));
        changes.extend(
            self.quotas
                .iter()
                .map(|(entity, quotas)| Change::client_quotas(entity, quotas)),
        );
        if self.features.epoch > 0 {
            changes.push(Change::Features {
                levels: self.features.levels.clone(),
                epoch: self.features.epoch,
            });
        }
        if !self.acls.is_empty() {
            let added = self.acls.clone();
            changes.push(Change::Acls { added });
        }
        changes.push(Change::ProducerIds {
            next: self.next_producer_id,
        });
        changes.push(Change::LeaderEpoch {
            epoch: self.leader_epoch,
        });
        if !self.deleted.is_empty() {
            let ids = self.deleted.iter().cloned().collect();
            changes.push(Change::DeletedTopics { ids });
        }
        changes.extend(self.scram_changes());
        changes
    }

    fn scram_changes(&self) -> impl Iterator<Item = Change> {
        let key = self.unknown_user_key.clone();
        let credentials = self.scram_users.iter().flat_map(|(user, credentials)| {
            credentials
                .iter()
                .map(|(mechanism, credential)| Change::ScramCredential {
                    user: user.clone(),
                    mechanism: mechanism.clone(),
                    credential: credential.clone(),
                })
        });
        key.map(|key| Change::UnknownUserKey { key })
            .into_iter()
            .chain(credentials)
    }
}
