//! DescribeClientQuotas 0–1 and AlterClientQuotas 0–1.
//!
//! Values that are not a number or not finite are refused; Kafka stores them.

use bytestring::ByteString;
use milena_machines::quota::{QuotaAlteration, QuotaEntity, QuotaError, QuotaFilter, QuotaKey, QuotaOp, RawEntity};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        AlterClientQuotasRequest, AlterClientQuotasResponse, DescribeClientQuotasRequest, DescribeClientQuotasResponse,
        alter_client_quotas_request, alter_client_quotas_response, describe_client_quotas_response,
    },
};

use super::common::{Outcome, RequestContext};

pub(super) fn describe(
    cx: &RequestContext<'_>,
    request: DescribeClientQuotasRequest,
) -> Outcome<DescribeClientQuotasResponse> {
    let found = filter_of(&request).map(|filter| cx.node.describe_client_quotas(&filter));
    Outcome::Ready(match found {
        Ok(found) => DescribeClientQuotasResponse {
            entries: Some(found.into_iter().map(described).collect()),
            error_message: None,
            ..Default::default()
        },
        Err(error) => DescribeClientQuotasResponse {
            error_code: error.code.code(),
            error_message: Some(error.text.into()),
            entries: None,
            ..Default::default()
        },
    })
}

fn filter_of(request: &DescribeClientQuotasRequest) -> Result<QuotaFilter, QuotaError> {
    let mut filter = QuotaFilter::new(request.strict);
    for component in &request.components {
        filter.add(
            &component.entity_type,
            component.match_type,
            component.r#match.as_deref(),
        )?;
    }
    filter.check()?;
    Ok(filter)
}

fn described(
    (entity, quotas): (QuotaEntity, std::collections::BTreeMap<QuotaKey, f64>),
) -> describe_client_quotas_response::EntryData {
    let entity = entity.raw().into_iter();
    describe_client_quotas_response::EntryData {
        entity: entity
            .map(
                |(entity_type, entity_name)| describe_client_quotas_response::EntityData {
                    entity_type,
                    entity_name,
                    ..Default::default()
                },
            )
            .collect(),
        values: quotas
            .into_iter()
            .map(|(key, value)| describe_client_quotas_response::ValueData {
                key: ByteString::from_static(key.name()),
                value,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

pub(super) fn alter(cx: &RequestContext<'_>, request: AlterClientQuotasRequest) -> Outcome<AlterClientQuotasResponse> {
    let name_bytes_max = cx.node.config().limits.name_bytes;
    let mut entries = vec![];
    let mut alterations = vec![];
    for entry in request.entries {
        let alteration = alteration_of(entry);
        match long_name(&alteration.entity, name_bytes_max) {
            Some(text) => entries.push(altered(alteration.entity, ErrorCode::InvalidRequest, Some(text.into()))),
            None => alterations.push(alteration),
        }
    }
    let entities: Vec<RawEntity> = alterations.iter().map(|alteration| alteration.entity.clone()).collect();
    match cx.node.alter_client_quotas(alterations, request.validate_only) {
        Ok(results) => entries.extend(results.into_iter().map(|(entity, result)| match result {
            Ok(()) => altered(entity, ErrorCode::None, None),
            Err(error) => altered(entity, error.code, Some(error.text.into())),
        })),
        Err(refusal) => {
            let message = ByteString::from(refusal.reason);
            entries.extend(
                entities
                    .into_iter()
                    .map(|entity| altered(entity, refusal.code, Some(message.clone()))),
            );
        }
    }
    Outcome::Ready(AlterClientQuotasResponse {
        entries,
        ..Default::default()
    })
}

fn alteration_of(entry: alter_client_quotas_request::EntryData) -> QuotaAlteration {
    let entity = entry.entity.into_iter();
    QuotaAlteration {
        entity: entity.map(|entity| (entity.entity_type, entity.entity_name)).collect(),
        ops: entry
            .ops
            .into_iter()
            .map(|op| QuotaOp {
                key: op.key,
                value: (!op.remove).then_some(op.value),
            })
            .collect(),
    }
}

/// The reason why an entity is refused whose name is too long to be kept.
fn long_name(entity: &RawEntity, bytes_max: usize) -> Option<String> {
    let longest = entity.values().flatten().map(|name| name.len()).max()?;
    (longest > bytes_max).then(|| {
        format!("a name of the entity has {longest} bytes, more than milena.max.name.bytes={bytes_max} allows")
    })
}

fn altered(
    entity: RawEntity,
    error: ErrorCode,
    error_message: Option<ByteString>,
) -> alter_client_quotas_response::EntryData {
    alter_client_quotas_response::EntryData {
        error_code: error.code(),
        error_message,
        entity: entity
            .into_iter()
            .map(|(entity_type, entity_name)| alter_client_quotas_response::EntityData {
                entity_type,
                entity_name,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}
