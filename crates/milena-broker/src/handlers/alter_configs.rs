//! AlterConfigs 0–2, of topics, of groups and of this broker: a key that is not named goes back to its default.

use milena_wire::messages::{
    AlterConfigsRequest, AlterConfigsResponse, alter_configs_response::AlterConfigsResourceResponse,
};

use super::common::{
    Outcome, RequestContext,
    config_resources::{Alteration, alter_each},
};
use crate::config::{AlterOp, AlterOpKind};

pub(super) fn handle(cx: &RequestContext<'_>, request: AlterConfigsRequest) -> Outcome<AlterConfigsResponse> {
    let alterations = request.resources.into_iter().map(|resource| {
        let ops = resource.configs.into_iter().map(|config| AlterOp {
            name: config.name.to_string(),
            kind: AlterOpKind::Set,
            value: config.value.map(|value| value.to_string()),
        });
        Alteration {
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
            ops: Ok(ops.collect()),
            replaces_all: true,
        }
    });
    let altered = alter_each(cx, alterations.collect(), request.validate_only);
    let responses = altered.into_iter().map(|altered| AlterConfigsResourceResponse {
        error_code: altered.error_code,
        error_message: altered.error_message,
        resource_type: altered.resource_type,
        resource_name: altered.resource_name,
        ..Default::default()
    });
    Outcome::Ready(AlterConfigsResponse {
        responses: responses.collect(),
        ..Default::default()
    })
}
