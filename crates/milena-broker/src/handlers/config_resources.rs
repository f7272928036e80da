//! What has settings: the resources that the APIs about configs name.

use milena_wire::errors::ErrorCode;

use crate::{
    config::BrokerLayer,
    node::{ConfigChange, Node, Refusal},
};

pub(super) const TOPIC: i8 = 2;
pub(super) const BROKER: i8 = 4;
pub(super) const BROKER_LOGGER: i8 = 8;
pub(super) const CLIENT_METRICS: i8 = 16;
pub(super) const GROUP: i8 = 32;

/// Changes the settings of a topic, of a group, of this broker, or, with an empty name, of all brokers.
pub(super) fn alter(node: &Node, resource_type: i8, name: &str, change: ConfigChange) -> Result<(), Refusal> {
    match resource_type {
        TOPIC => node.alter_topic_config(name, change),
        BROKER if name.is_empty() => node.alter_broker_config(BrokerLayer::All, change),
        BROKER if name == node.config().node_id.to_string() => node.alter_broker_config(BrokerLayer::This, change),
        BROKER => Err(no_broker(name)),
        GROUP if name.is_empty() => Err(no_group_name()),
        GROUP => node.alter_group_config(name, change),
        other => Err(without_settings(other)),
    }
}

pub(super) fn no_broker(name: &str) -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, format!("there is no broker {name}"))
}

pub(super) fn no_group_name() -> Refusal {
    let reason = "settings of a group need its name; for all groups there are those of the broker";
    Refusal::new(ErrorCode::InvalidRequest, reason)
}

pub(super) fn without_settings(resource_type: i8) -> Refusal {
    let reason = format!("resources of type {resource_type} have no settings here");
    Refusal::new(ErrorCode::InvalidRequest, reason)
}
