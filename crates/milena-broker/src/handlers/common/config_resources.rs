//! Config resources: topics, brokers, groups, client metrics subscriptions and loggers.

use bytestring::ByteString;
use milena_machines::authorizer::{CLUSTER, Operation, ResourceType};
use milena_wire::errors::ErrorCode;

use super::{NameCounts, RequestContext, code_and_message};
use crate::{
    config::{AlterOp, BrokerLayer},
    node::{ConfigChange, Node, Refusal},
};

pub(crate) const TOPIC: i8 = 2;
pub(crate) const BROKER: i8 = 4;
pub(crate) const BROKER_LOGGER: i8 = 8;
pub(crate) const CLIENT_METRICS: i8 = 16;
pub(crate) const GROUP: i8 = 32;

/// A requested change to one resource.
pub(crate) struct Alteration {
    pub(crate) resource_type: i8,
    pub(crate) resource_name: ByteString,
    /// An error if the request has no valid operations.
    pub(crate) ops: Result<Vec<AlterOp>, Refusal>,
    /// Whether keys that are not named lose their values.
    pub(crate) replaces_all: bool,
}

/// The result of an [`Alteration`], as responses have it.
pub(crate) struct AlterResult {
    pub(crate) resource_type: i8,
    pub(crate) resource_name: ByteString,
    pub(crate) error_code: i16,
    pub(crate) error_message: Option<ByteString>,
}

/// Applies the alterations of resources that the request names only once; the others are refused.
pub(crate) fn alter_each(
    cx: &RequestContext<'_>,
    alterations: Vec<Alteration>,
    validate_only: bool,
) -> Vec<AlterResult> {
    let key = |requested: &Alteration| (requested.resource_type, requested.resource_name.clone());
    let named = NameCounts::count(alterations.iter().map(key));
    let altered = alterations.into_iter().map(|requested| {
        let (resource_type, resource_name) = key(&requested);
        let change = || {
            named.check_once(&(resource_type, resource_name.clone()), "resource")?;
            check_right(cx, Operation::AlterConfigs, resource_type, &resource_name)?;
            let ops = requested.ops?;
            for op in &ops {
                cx.node.check_config_value(&op.name, op.value.as_deref())?;
            }
            let change = ConfigChange {
                ops,
                replaces_all: requested.replaces_all,
                validate_only,
            };
            alter(cx.node, resource_type, &resource_name, change)
        };
        let (error_code, error_message) = code_and_message(change());
        AlterResult {
            resource_type,
            resource_name,
            error_code,
            error_message,
        }
    });
    altered.collect()
}

/// Refuses a client without a right on the settings of a resource. Those of brokers and subscriptions are the cluster's.
pub(crate) fn check_right(
    cx: &RequestContext<'_>,
    operation: Operation,
    resource_type: i8,
    name: &ByteString,
) -> Result<(), Refusal> {
    let (resource_type, name, code) = match resource_type {
        TOPIC => (ResourceType::Topic, name, ErrorCode::TopicAuthorizationFailed),
        GROUP => (ResourceType::Group, name, ErrorCode::GroupAuthorizationFailed),
        _ => (ResourceType::Cluster, &CLUSTER, ErrorCode::ClusterAuthorizationFailed),
    };
    match cx.authorize(operation, resource_type, name) {
        true => Ok(()),
        false => Err(Refusal::new(
            code,
            format!("the client needs {operation} on {resource_type} {name}"),
        )),
    }
}

/// Changes the config of one resource. A broker with an empty name stands for all brokers.
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

pub(crate) fn no_broker(name: &str) -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, format!("there is no broker {name}"))
}

pub(crate) fn no_group_name() -> Refusal {
    let reason = "settings of a group need its name; for all groups there are those of the broker";
    Refusal::new(ErrorCode::InvalidRequest, reason)
}

pub(crate) fn no_subscription_name() -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, "a client metrics subscription needs a name")
}

pub(crate) fn without_settings(resource_type: i8) -> Refusal {
    let reason = format!("resources of type {resource_type} have no settings here");
    Refusal::new(ErrorCode::InvalidRequest, reason)
}
