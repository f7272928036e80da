//! AlterConfigs 0–2, of topics and of this broker: what is not named goes back to its default.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        AlterConfigsRequest, AlterConfigsResponse, alter_configs_request::AlterConfigsResource,
        alter_configs_response::AlterConfigsResourceResponse,
    },
};

use super::config_resources::{alter, named_twice};
use crate::{
    config::{AlterOp, AlterOpKind},
    node::{ConfigChange, Node, Refusal},
};

pub(super) fn handle(node: &Node, request: AlterConfigsRequest) -> AlterConfigsResponse {
    let mut times_named: BTreeMap<(i8, ByteString), usize> = BTreeMap::new();
    for resource in &request.resources {
        let key = (resource.resource_type, resource.resource_name.clone());
        *times_named.entry(key).or_default() += 1;
    }
    let responses = request.resources.into_iter().map(|resource| {
        let (resource_type, resource_name) = (resource.resource_type, resource.resource_name.clone());
        let outcome = match times_named.get(&(resource_type, resource_name.clone())) {
            Some(1) => replace(node, resource, request.validate_only),
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
    AlterConfigsResponse {
        responses: responses.collect(),
        ..Default::default()
    }
}

fn replace(node: &Node, resource: AlterConfigsResource, validate_only: bool) -> Result<(), Refusal> {
    let ops = resource.configs.into_iter().map(|config| AlterOp {
        name: config.name.to_string(),
        kind: AlterOpKind::Set,
        value: config.value.map(|value| value.to_string()),
    });
    let change = ConfigChange {
        ops: ops.collect(),
        replaces_all: true,
        validate_only,
    };
    alter(node, resource.resource_type, &resource.resource_name, change)
}
