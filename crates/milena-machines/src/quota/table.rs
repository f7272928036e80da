//! The quotas that administrators have set: changes, their validation, and queries.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_wire::errors::ErrorCode;

use super::{EntityType, Limits, QuotaKey};

/// The name of an entity, or the default for entities without a quota of their own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntityName {
    Default,
    Name(ByteString),
}

/// An entity as a request names it: types and names, which may be anything.
pub type RawEntity = BTreeMap<ByteString, Option<ByteString>>;

/// An entity that quotas can be set for: a user, a client id, a client id of a user, or an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuotaEntity(BTreeMap<EntityType, EntityName>);

/// A change of one quota; `None` removes it.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaOp {
    pub key: ByteString,
    pub value: Option<f64>,
}

/// The changes to one entity.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaAlteration {
    pub entity: RawEntity,
    pub ops: Vec<QuotaOp>,
}

/// A refused change or query: Kafka's error code and a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct QuotaError {
    pub code: ErrorCode,
    pub text: String,
}

impl QuotaError {
    pub(super) fn invalid(text: impl Into<String>) -> Self {
        Self {
            code: ErrorCode::InvalidRequest,
            text: text.into(),
        }
    }
}

/// A filter of entities by one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuotaMatch {
    Exact(EntityName),
    /// Any name, or the default.
    Any,
}

/// A query: one filter for each type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaFilter {
    matches: BTreeMap<EntityType, QuotaMatch>,
    strict: bool,
}

/// All quotas, by entity. No entity is without quotas.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QuotaTable {
    entities: BTreeMap<QuotaEntity, BTreeMap<QuotaKey, f64>>,
}

/// An entity with all its quotas after a change; none removes it.
pub type ChangedEntity = (QuotaEntity, BTreeMap<QuotaKey, f64>);

impl QuotaEntity {
    /// Validates an entity. `is_host` tells whether an address is one, or a name that can be resolved.
    pub fn new(raw: &RawEntity, is_host: &dyn Fn(&str) -> bool) -> Result<Self, QuotaError> {
        if raw.is_empty() {
            return Err(QuotaError::invalid("Invalid empty client quota entity"));
        }
        let mut entity = BTreeMap::new();
        for (name, value) in raw {
            let Some(entity_type) = EntityType::from_name(name) else {
                return Err(QuotaError::invalid(format!(
                    "Unhandled client quota entity type: {name}"
                )));
            };
            let value = match value.as_deref() {
                None => EntityName::Default,
                Some("") => return Err(QuotaError::invalid(format!("Empty {name} not supported"))),
                // A copy: the name is a slice of the request, which must not stay in memory with it.
                Some(value) => EntityName::Name(ByteString::from(value)),
            };
            entity.insert(entity_type, value);
        }
        if let Some(ip) = entity.get(&EntityType::Ip) {
            if entity.len() > 1 {
                return Err(QuotaError::invalid(
                    "Invalid quota entity combination, IP entity should not be combined with User or ClientId",
                ));
            }
            if let EntityName::Name(ip) = ip
                && !is_host(ip)
            {
                return Err(QuotaError::invalid(format!(
                    "{ip} is not a valid IP or resolvable host."
                )));
            }
        }
        Ok(Self(entity))
    }

    pub fn get(&self, entity_type: EntityType) -> Option<&EntityName> {
        self.0.get(&entity_type)
    }

    /// The types and names, as the protocol has them.
    pub fn raw(&self) -> RawEntity {
        let raw = self.0.iter().map(|(entity_type, name)| {
            let name = match name {
                EntityName::Default => None,
                EntityName::Name(name) => Some(name.clone()),
            };
            (ByteString::from_static(entity_type.name()), name)
        });
        raw.collect()
    }
}

impl QuotaFilter {
    pub fn new(strict: bool) -> Self {
        Self {
            matches: BTreeMap::new(),
            strict,
        }
    }

    /// Adds the filter of one type, with the number of Kafka's match type: 0 exact, 1 default, 2 any.
    pub fn add(&mut self, entity_type: &str, match_type: i8, name: Option<&str>) -> Result<(), QuotaError> {
        if entity_type.is_empty() {
            return Err(QuotaError::invalid("Invalid empty entity type."));
        }
        let known = EntityType::from_name(entity_type);
        if known.is_some_and(|known| self.matches.contains_key(&known)) {
            return Err(QuotaError::invalid(format!(
                "Entity type {entity_type} cannot appear more than once in the filter."
            )));
        }
        let Some(known) = known else {
            return Err(QuotaError {
                code: ErrorCode::UnsupportedVersion,
                text: format!("Unsupported entity type {entity_type}"),
            });
        };
        let filter = match (match_type, name) {
            (0, Some(name)) => QuotaMatch::Exact(EntityName::Name(ByteString::from(name))),
            (0, None) => {
                return Err(QuotaError::invalid(
                    "Request specified MATCH_TYPE_EXACT, but set match string to null.",
                ));
            }
            (1, None) => QuotaMatch::Exact(EntityName::Default),
            (2, None) => QuotaMatch::Any,
            (1, Some(_)) => {
                return Err(QuotaError::invalid(
                    "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
                ));
            }
            (2, Some(_)) => {
                return Err(QuotaError::invalid(
                    "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
                ));
            }
            (other, _) => return Err(QuotaError::invalid(format!("Unknown match type {other}"))),
        };
        self.matches.insert(known, filter);
        Ok(())
    }

    /// Checks the combination of types.
    pub fn check(&self) -> Result<(), QuotaError> {
        if self.matches.contains_key(&EntityType::Ip) && self.matches.len() > 1 {
            return Err(QuotaError::invalid(
                "Invalid entity filter component combination. IP filter component should not be used with user or \
                 clientId filter component.",
            ));
        }
        Ok(())
    }

    fn matches(&self, entity: &QuotaEntity) -> bool {
        let fits = |(entity_type, filter): (&EntityType, &QuotaMatch)| match (entity.get(*entity_type), filter) {
            (None, _) => false,
            (Some(name), QuotaMatch::Exact(exact)) => name == exact,
            (Some(_), QuotaMatch::Any) => true,
        };
        !(self.strict && entity.0.len() != self.matches.len()) && self.matches.iter().all(fits)
    }
}

impl QuotaTable {
    /// Decides about a request to change quotas, without changing them: the result for each entity, and the entities to
    /// [`QuotaTable::set`].
    ///
    /// As in Kafka, an entity that a request names twice is refused the second time, and the first change stands.
    pub fn alter(
        &self,
        alterations: Vec<QuotaAlteration>,
        entities_max: usize,
        is_host: &dyn Fn(&str) -> bool,
    ) -> (BTreeMap<RawEntity, Result<(), QuotaError>>, Vec<ChangedEntity>) {
        let mut results = BTreeMap::new();
        let mut changes: Vec<ChangedEntity> = vec![];
        let mut len = self.entities.len();
        for QuotaAlteration { entity, ops } in alterations {
            if let Some(result) = results.get_mut(&entity) {
                *result = Err(QuotaError::invalid("the request names the entity more than once"));
                continue;
            }
            let altered = self.alter_entity(&entity, ops, is_host).and_then(|changed| {
                let is_new = !self.entities.contains_key(&changed.0) && !changed.1.is_empty();
                if is_new && len >= entities_max {
                    return Err(QuotaError {
                        code: ErrorCode::PolicyViolation,
                        text: format!(
                            "there are {len} entities with quotas, the most that milena.max.quota.entities allows"
                        ),
                    });
                }
                len += usize::from(is_new);
                Ok(changed)
            });
            let result = altered.map(|changed| {
                if self.entities.get(&changed.0) != Some(&changed.1) {
                    changes.push(changed);
                }
            });
            results.insert(entity, result);
        }
        (results, changes)
    }

    fn alter_entity(
        &self,
        raw: &RawEntity,
        ops: Vec<QuotaOp>,
        is_host: &dyn Fn(&str) -> bool,
    ) -> Result<ChangedEntity, QuotaError> {
        let entity = QuotaEntity::new(raw, is_host)?;
        let mut quotas = self.entities.get(&entity).cloned().unwrap_or_default();
        let is_ip = entity.get(EntityType::Ip).is_some();
        let mut named: Vec<ByteString> = vec![];
        for QuotaOp { key, value } in ops {
            if named.contains(&key) {
                return Err(QuotaError::invalid(format!("Duplicate quota key {key}")));
            }
            let known = QuotaKey::from_name(&key).filter(|known| known.is_of_ip() == is_ip);
            match (known, value) {
                (Some(known), Some(value)) => {
                    known.check(value)?;
                    quotas.insert(known, value);
                }
                (None, Some(_)) => return Err(QuotaError::invalid(format!("Invalid configuration key {key}"))),
                // A quota that does not exist is removed already.
                (known, None) => drop(known.and_then(|known| quotas.remove(&known))),
            }
            named.push(key);
        }
        Ok((entity, quotas))
    }

    /// Sets all quotas of an entity; none removes it.
    pub fn set(&mut self, entity: QuotaEntity, quotas: BTreeMap<QuotaKey, f64>) {
        if quotas.is_empty() {
            self.entities.remove(&entity);
        } else {
            self.entities.insert(entity, quotas);
        }
    }

    /// The entities that match a filter, with their quotas.
    pub fn describe(&self, filter: &QuotaFilter) -> impl Iterator<Item = (&QuotaEntity, &BTreeMap<QuotaKey, f64>)> {
        self.entities.iter().filter(|(entity, _)| filter.matches(entity))
    }

    /// All entities with their quotas.
    pub fn iter(&self) -> impl Iterator<Item = (&QuotaEntity, &BTreeMap<QuotaKey, f64>)> {
        self.entities.iter()
    }

    /// The quotas of one kind.
    pub fn limits(&self, key: QuotaKey) -> Limits {
        let mut limits = Limits::default();
        for (entity, quotas) in &self.entities {
            if let Some(quota) = quotas.get(&key) {
                limits.set(entity, *quota);
            }
        }
        limits
    }

    /// The quotas of addresses, and the default of other addresses.
    pub fn connection_rates(&self) -> impl Iterator<Item = (&EntityName, f64)> {
        self.entities.iter().filter_map(|(entity, quotas)| {
            let ip = entity.get(EntityType::Ip)?;
            Some((ip, *quotas.get(&QuotaKey::ConnectionCreationRate)?))
        })
    }
}
