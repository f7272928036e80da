//! IncrementalAlterConfigs 0–1, of topics and of this broker.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
        incremental_alter_configs_response::AlterConfigsResourceResponse,
    },
};

use super::config_resources::{alter, named_twice};
use crate::{
    config::{AlterOp, AlterOpKind},
    node::{ConfigChange, Node, Refusal},
};

pub(super) fn handle(node: &Node, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse {
    let mut times_named: BTreeMap<(i8, ByteString), usize> = BTreeMap::new();
    for resource in &request.resources {
        let key = (resource.resource_type, resource.resource_name.clone());
        *times_named.entry(key).or_default() += 1;
    }
    let responses = request.resources.into_iter().map(|resource| {
        let (resource_type, resource_name) = (resource.resource_type, resource.resource_name.clone());
        let outcome = match times_named.get(&(resource_type, resource_name.clone())) {
            Some(1) => change(node, resource, request.validate_only),
            _ => Err(named_twice()),
        };
        let (error_code, error_message) = match outcome {
            Ok(()) => (ErrorCode::None, None),
            Err(refusal) => (refusal.code, Some(refusal.reason.into())),
        };
        AlterConfigsResourceResponse {
            error_code: error_code.code(),
            error_message,
            resource_type,
            resource_name,
            ..Default::default()
        }
    });
    IncrementalAlterConfigsResponse {
        responses: responses.collect(),
        ..Default::default()
    }
}

fn change(node: &Node, resource: AlterConfigsResource, validate_only: bool) -> Result<(), Refusal> {
    let change = ConfigChange {
        ops: resource.configs.into_iter().map(op).collect::<Result<_, _>>()?,
        replaces_all: false,
        validate_only,
    };
    alter(node, resource.resource_type, &resource.resource_name, change)
}

fn op(config: AlterableConfig) -> Result<AlterOp, Refusal> {
    let kind = AlterOpKind::from_id(config.config_operation).ok_or_else(|| {
        let reason = format!("{}: there is no operation {}", config.name, config.config_operation);
        Refusal::new(ErrorCode::InvalidRequest, reason)
    })?;
    Ok(AlterOp {
        name: config.name.to_string(),
        kind,
        value: config.value.map(|value| value.to_string()),
    })
}
