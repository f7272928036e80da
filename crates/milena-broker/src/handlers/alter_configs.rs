//! AlterConfigs 0–2, of topics, of groups and of this broker: what is not named goes back to its default.

use milena_wire::messages::{
    AlterConfigsRequest, AlterConfigsResponse, alter_configs_request::AlterConfigsResource,
    alter_configs_response::AlterConfigsResourceResponse,
};

use super::{
    config_resources::alter,
    outcomes::{Named, code_and_message},
};
use crate::{
    config::{AlterOp, AlterOpKind},
    node::{ConfigChange, Node, Refusal},
};

pub(super) fn handle(node: &Node, request: AlterConfigsRequest) -> AlterConfigsResponse {
    let resources = request.resources.iter();
    let named = Named::count(resources.map(|resource| (resource.resource_type, resource.resource_name.clone())));
    let responses = request.resources.into_iter().map(|resource| {
        let (resource_type, resource_name) = (resource.resource_type, resource.resource_name.clone());
        let once = named.check_once(&(resource_type, resource_name.clone()), "resource");
        let outcome = once.and_then(|()| replace(node, resource, request.validate_only));
        let (error_code, error_message) = code_and_message(outcome);
        AlterConfigsResourceResponse {
            error_code,
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
