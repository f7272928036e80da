//! Client quotas, with the numbers of Kafka's own tests.

mod clients;
mod property;
mod rate;
mod table;

use milena_machines::quota::{QuotaEntity, RawEntity};

/// An entity from types and names; no name is the default entity.
pub(crate) fn raw(parts: &[(&str, Option<&str>)]) -> RawEntity {
    let part = |(entity_type, name): &(&str, Option<&str>)| ((*entity_type).into(), name.map(Into::into));
    parts.iter().map(part).collect()
}

pub(crate) fn entity(parts: &[(&str, Option<&str>)]) -> QuotaEntity {
    QuotaEntity::new(&raw(parts), &|_| true).unwrap()
}
