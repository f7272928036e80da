//! What has settings: the resources that the APIs about configs name.

use bytestring::ByteString;
use milena_wire::errors::ErrorCode;

use super::outcomes::{Named, code_and_message};
use crate::{
    config::{AlterOp, BrokerLayer},
    node::{ConfigChange, Node, Refusal},
};

pub(super) const TOPIC: i8 = 2;
pub(super) const BROKER: i8 = 4;
pub(super) const BROKER_LOGGER: i8 = 8;
pub(super) const CLIENT_METRICS: i8 = 16;
pub(super) const GROUP: i8 = 32;

/// What a request wants to change in one resource.
pub(super) struct Alteration {
    pub(super) resource_type: i8,
    pub(super) resource_name: ByteString,
    /// Or why they make no sense.
    pub(super) ops: Result<Vec<AlterOp>, Refusal>,
    /// Whether everything that was set before goes.
    pub(super) replaces_all: bool,
}

/// What came of it, as answers tell it.
pub(super) struct Altered {
    pub(super) resource_type: i8,
    pub(super) resource_name: ByteString,
    pub(super) error_code: i16,
    pub(super) error_message: Option<ByteString>,
}

/// Changes the settings of every resource that a request names once.
pub(super) fn alter_each(node: &Node, alterations: Vec<Alteration>, validate_only: bool) -> Vec<Altered> {
    let key = |wanted: &Alteration| (wanted.resource_type, wanted.resource_name.clone());
    let named = Named::count(alterations.iter().map(key));
    let altered = alterations.into_iter().map(|wanted| {
        let (resource_type, resource_name) = key(&wanted);
        let change = || {
            named.check_once(&(resource_type, resource_name.clone()), "resource")?;
            let change = ConfigChange {
                ops: wanted.ops?,
                replaces_all: wanted.replaces_all,
                validate_only,
            };
            alter(node, resource_type, &resource_name, change)
        };
        let (error_code, error_message) = code_and_message(change());
        Altered {
            resource_type,
            resource_name,
            error_code,
            error_message,
        }
    });
    altered.collect()
}

/// Changes the settings of a topic, of a group, of a client metrics subscription, of this broker or its loggers, or, with an empty name, of all brokers.
fn alter(node: &Node, resource_type: i8, name: &str, change: ConfigChange) -> Result<(), Refusal> {
    match resource_type {
        TOPIC => node.alter_topic_config(name, change),
        BROKER if name.is_empty() => node.alter_broker_config(BrokerLayer::All, change),
        BROKER if name == node.config().node_id.to_string() => node.alter_broker_config(BrokerLayer::This, change),
        BROKER => Err(no_broker(name)),
        GROUP if name.is_empty() => Err(no_group_name()),
        GROUP => node.alter_group_config(name, change),
        CLIENT_METRICS if name.is_empty() => Err(no_subscription_name()),
        CLIENT_METRICS => node.alter_client_metrics(name, change),
        BROKER_LOGGER if name == node.config().node_id.to_string() => node.alter_log_levels(change),
        BROKER_LOGGER => Err(no_broker(name)),
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

pub(super) fn no_subscription_name() -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, "a client metrics subscription needs a name")
}

pub(super) fn without_settings(resource_type: i8) -> Refusal {
    let reason = format!("resources of type {resource_type} have no settings here");
    Refusal::new(ErrorCode::InvalidRequest, reason)
}
