//! IncrementalAlterConfigs 0–1, of topics, of groups and of this broker.

use milena_wire::{
    errors::ErrorCode,
    messages::{
        IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
        incremental_alter_configs_request::AlterableConfig,
        incremental_alter_configs_response::AlterConfigsResourceResponse,
    },
};

use super::common::{
    Outcome, RequestContext,
    config_resources::{Alteration, alter_each},
};
use crate::{
    config::{AlterOp, AlterOpKind},
    node::Refusal,
};

pub(super) fn handle(
    cx: &RequestContext<'_>,
    request: IncrementalAlterConfigsRequest,
) -> Outcome<IncrementalAlterConfigsResponse> {
    let alterations = request.resources.into_iter().map(|resource| Alteration {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name,
        ops: resource.configs.into_iter().map(op).collect(),
        replaces_all: false,
    });
    let altered = alter_each(cx, alterations.collect(), request.validate_only);
    let responses = altered.into_iter().map(|altered| AlterConfigsResourceResponse {
        error_code: altered.error_code,
        error_message: altered.error_message,
        resource_type: altered.resource_type,
        resource_name: altered.resource_name,
        ..Default::default()
    });
    Outcome::Ready(IncrementalAlterConfigsResponse {
        responses: responses.collect(),
        ..Default::default()
    })
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
