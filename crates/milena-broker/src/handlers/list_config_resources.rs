//! ListConfigResources 0–1: topics, this broker and its loggers, groups that have settings, client metrics subscriptions.

use milena_wire::{
    errors::ErrorCode,
    messages::{
        ListConfigResourcesRequest, ListConfigResourcesResponse, list_config_resources_response::ConfigResource,
    },
};

use super::common::{
    Outcome, RequestContext,
    config_resources::{BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC},
};

pub(super) fn handle(
    cx: &RequestContext<'_>,
    request: ListConfigResourcesRequest,
) -> Outcome<ListConfigResourcesResponse> {
    let node = cx.node;
    let version = cx.request.version;
    // Version 0 was about client metrics only.
    let types = match version {
        0 => vec![CLIENT_METRICS],
        _ if request.resource_types.is_empty() => vec![TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP],
        _ => request.resource_types,
    };
    let is_known = |kind: &i8| [TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP].contains(kind);
    if !types.iter().all(is_known) {
        return Outcome::Ready(ListConfigResourcesResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            ..Default::default()
        });
    }
    let mut config_resources = vec![];
    let mut list = |resource_type, resource_name| {
        config_resources.push(ConfigResource {
            resource_name,
            resource_type,
            ..Default::default()
        });
    };
    let config = node.config();
    if types.contains(&GROUP) {
        let groups = config.overrides.groups.keys();
        groups.for_each(|group| list(GROUP, group.as_str().into()));
    }
    if types.contains(&CLIENT_METRICS) {
        let subscriptions = config.overrides.client_metrics.keys();
        subscriptions.for_each(|name| list(CLIENT_METRICS, name.as_str().into()));
    }
    if types.contains(&BROKER_LOGGER) {
        list(BROKER_LOGGER, config.node_id.to_string().into());
    }
    if types.contains(&BROKER) {
        list(BROKER, config.node_id.to_string().into());
    }
    if types.contains(&TOPIC) {
        let topics = node.topics();
        topics.iter().for_each(|topic| list(TOPIC, topic.name.clone()));
    }
    Outcome::Ready(ListConfigResourcesResponse {
        config_resources,
        ..Default::default()
    })
}
