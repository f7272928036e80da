//! Client quotas.

use std::{collections::BTreeMap, fmt};

use bytestring::ByteString;
use milena_wire::messages::{
    AlterClientQuotasRequest, DescribeClientQuotasRequest, DescribeClientQuotasResponse, alter_client_quotas_request,
    alter_client_quotas_response, describe_client_quotas_request::ComponentData, describe_client_quotas_response,
};

use super::{
    Admin, AdminError, Results,
    call::{AdminCall, CallContext},
    error::check,
    own, own_option,
    route::Route,
};

/// The entity of a quota: a name for each of `user`, `client-id` and `ip`, or `None` for the default of entities without
/// a quota of their own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct QuotaEntity(pub BTreeMap<ByteString, Option<ByteString>>);

impl QuotaEntity {
    pub fn user(name: impl Into<ByteString>) -> Self {
        Self::default().and("user", Some(name.into()))
    }

    pub fn client_id(name: impl Into<ByteString>) -> Self {
        Self::default().and("client-id", Some(name.into()))
    }

    pub fn ip(address: impl Into<ByteString>) -> Self {
        Self::default().and("ip", Some(address.into()))
    }

    /// Adds a type, as in a client id of a user.
    #[must_use]
    pub fn and(mut self, entity_type: impl Into<ByteString>, name: Option<ByteString>) -> Self {
        self.0.insert(entity_type.into(), name);
        self
    }
}

impl fmt::Display for QuotaEntity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.0.iter().map(|(entity_type, name)| match name {
            Some(name) => format!("{entity_type} {name}"),
            None => format!("default {entity_type}"),
        });
        f.write_str(&parts.collect::<Vec<_>>().join(", "))
    }
}

/// A filter of entities of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuotaMatch {
    /// The entity of this name.
    Exact(ByteString),
    /// The default of entities without a quota of their own.
    Default,
    /// All entities.
    Any,
}

/// A filter of quotas. The default matches all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotaFilter {
    /// A filter for each of `user`, `client-id` and `ip`.
    pub components: BTreeMap<ByteString, QuotaMatch>,
    /// Whether entities with other types are excluded.
    pub strict: bool,
}

/// A change of one quota, such as `consumer_byte_rate`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QuotaChange {
    Set(f64),
    Remove,
}

impl Admin {
    /// Returns the quotas that match a filter, by name.
    pub async fn describe_quotas(
        &self,
        filter: QuotaFilter,
    ) -> Result<BTreeMap<QuotaEntity, BTreeMap<ByteString, f64>>, AdminError> {
        let call = AdminCall::new(
            "",
            |_| Route::Any,
            move |_| DescribeClientQuotasRequest {
                components: filter.components.iter().map(component).collect(),
                strict: filter.strict,
                ..Default::default()
            },
            |context: &CallContext<&str>, response: DescribeClientQuotasResponse| {
                check(response.error_code, response.error_message.as_deref())?;
                let entries: BTreeMap<_, _> = response.entries.iter().flatten().map(described).collect();
                context.all(&entries)
            },
        );
        self.call_one(call, "the list of quotas").await
    }

    /// Changes quotas and keeps those that are not named.
    pub async fn alter_quotas<N: Into<ByteString>>(
        &self,
        changes: impl IntoIterator<Item = (QuotaEntity, N, QuotaChange)>,
    ) -> Results<QuotaEntity, ()> {
        self.alter_quotas_or_validate(changes, false).await
    }

    /// Checks whether quotas could be changed, and changes none.
    pub async fn validate_quotas<N: Into<ByteString>>(
        &self,
        changes: impl IntoIterator<Item = (QuotaEntity, N, QuotaChange)>,
    ) -> Results<QuotaEntity, ()> {
        self.alter_quotas_or_validate(changes, true).await
    }

    async fn alter_quotas_or_validate<N: Into<ByteString>>(
        &self,
        changes: impl IntoIterator<Item = (QuotaEntity, N, QuotaChange)>,
        validate_only: bool,
    ) -> Results<QuotaEntity, ()> {
        let mut by_entity: BTreeMap<QuotaEntity, Vec<(ByteString, QuotaChange)>> = BTreeMap::new();
        for (entity, name, change) in changes {
            by_entity.entry(entity).or_default().push((name.into(), change));
        }
        let entities: Vec<QuotaEntity> = by_entity.keys().cloned().collect();
        let call = AdminCall::new(
            "quota of",
            |_: &QuotaEntity| Route::Controller,
            move |batch| {
                let entries = batch.keys.iter().map(|entity| alter_client_quotas_request::EntryData {
                    entity: entity.0.iter().map(named).collect(),
                    ops: by_entity.get(entity).into_iter().flatten().map(operation).collect(),
                    ..Default::default()
                });
                AlterClientQuotasRequest {
                    entries: entries.collect(),
                    validate_only,
                    ..Default::default()
                }
            },
            |_, response| {
                let results = response
                    .entries
                    .iter()
                    .map(|entry: &alter_client_quotas_response::EntryData| {
                        let entity = entry
                            .entity
                            .iter()
                            .map(|part| (own(&part.entity_type), own_option(&part.entity_name)));
                        let outcome = check(entry.error_code, entry.error_message.as_deref());
                        (QuotaEntity(entity.collect()), outcome)
                    });
                Ok(results.collect())
            },
        );
        self.call(call, entities).await
    }
}

fn component((entity_type, wanted): (&ByteString, &QuotaMatch)) -> ComponentData {
    let (match_type, name) = match wanted {
        QuotaMatch::Exact(name) => (0, Some(name.clone())),
        QuotaMatch::Default => (1, None),
        QuotaMatch::Any => (2, None),
    };
    ComponentData {
        entity_type: entity_type.clone(),
        match_type,
        r#match: name,
        ..Default::default()
    }
}

fn described(entry: &describe_client_quotas_response::EntryData) -> (QuotaEntity, BTreeMap<ByteString, f64>) {
    let entity = entry
        .entity
        .iter()
        .map(|part| (own(&part.entity_type), own_option(&part.entity_name)));
    let values = entry.values.iter().map(|value| (own(&value.key), value.value));
    (QuotaEntity(entity.collect()), values.collect())
}

fn named((entity_type, name): (&ByteString, &Option<ByteString>)) -> alter_client_quotas_request::EntityData {
    alter_client_quotas_request::EntityData {
        entity_type: entity_type.clone(),
        entity_name: name.clone(),
        ..Default::default()
    }
}

fn operation((key, change): &(ByteString, QuotaChange)) -> alter_client_quotas_request::OpData {
    let (value, remove) = match change {
        QuotaChange::Set(value) => (*value, false),
        QuotaChange::Remove => (0.0, true),
    };
    alter_client_quotas_request::OpData {
        key: key.clone(),
        value,
        remove,
        ..Default::default()
    }
}
