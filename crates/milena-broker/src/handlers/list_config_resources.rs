//! ListConfigResources 0–1. There are topics and this broker; client metrics, groups and loggers have no settings here.

use milena_wire::{
    errors::ErrorCode,
    messages::{
        ListConfigResourcesRequest, ListConfigResourcesResponse, list_config_resources_response::ConfigResource,
    },
};

use super::config_resources::{BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC};
use crate::node::Node;

pub(super) fn handle(node: &Node, version: i16, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse {
    // Version 0 was about client metrics only.
    let types = match version {
        0 => vec![CLIENT_METRICS],
        _ if request.resource_types.is_empty() => vec![TOPIC, BROKER],
        _ => request.resource_types,
    };
    let is_known = |kind: &i8| [TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP].contains(kind);
    if !types.iter().all(is_known) {
        return ListConfigResourcesResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            ..Default::default()
        };
    }
    let mut config_resources = vec![];
    if types.contains(&BROKER) {
        config_resources.push(ConfigResource {
            resource_name: node.config().node_id.to_string().into(),
            resource_type: BROKER,
            ..Default::default()
        });
    }
    if types.contains(&TOPIC) {
        config_resources.extend(node.topics().iter().map(|topic| ConfigResource {
            resource_name: topic.name.clone(),
            resource_type: TOPIC,
            ..Default::default()
        }));
    }
    ListConfigResourcesResponse {
        config_resources,
        ..Default::default()
    }
}
