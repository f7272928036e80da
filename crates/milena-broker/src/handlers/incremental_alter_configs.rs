//! IncrementalAlterConfigs 0–1, of topics, of groups and of this broker.

use milena_wire::{
    errors::ErrorCode,
    messages::{
        IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
        incremental_alter_configs_response::AlterConfigsResourceResponse,
    },
};

use super::{
    config_resources::alter,
    outcomes::{Named, code_and_message},
};
use crate::{
    config::{AlterOp, AlterOpKind},
    node::{ConfigChange, Node, Refusal},
};

pub(super) fn handle(node: &Node, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse {
    let resources = request.resources.iter();
    let named = Named::count(resources.map(|resource| (resource.resource_type, resource.resource_name.clone())));
    let responses = request.resources.into_iter().map(|resource| {
        let (resource_type, resource_name) = (resource.resource_type, resource.resource_name.clone());
        let once = named.check_once(&(resource_type, resource_name.clone()), "resource");
        let outcome = once.and_then(|()| change(node, resource, request.validate_only));
        let (error_code, error_message) = code_and_message(outcome);
        AlterConfigsResourceResponse {
            error_code,
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
