//! Changes at run time: AlterConfigs and IncrementalAlterConfigs.

use std::{collections::BTreeSet, fmt};

use milena_config::{ConfigType, Definition, Origin, UpdateMode, split_list};
use milena_security::reference::has_reference;

use super::{
    BrokerConfig, BrokerOverrides, ConfigError, RawConfig, Scope, TopicConfig, TopicOverrides,
    broker::{self, ListenerKey},
    client_metrics, group,
};

/// A change of one key. AlterConfigs, which replaces all settings, is a `Set` for each of its keys on an empty map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterOp {
    pub name: String,
    pub kind: AlterOpKind,
    /// Not needed for `Delete`.
    pub value: Option<String>,
}

/// The kind of a change, with the ids of IncrementalAlterConfigs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlterOpKind {
    Set = 0,
    Delete = 1,
    /// Adds elements to a list.
    Append = 2,
    /// Removes elements from a list.
    Subtract = 3,
}

/// The brokers that a change applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerLayer {
    This,
    All,
}

/// Applies changes to a topic: all of them, or none if the result would be invalid.
pub fn alter_topic(
    overrides: &TopicOverrides,
    ops: Vec<AlterOp>,
    broker: &BrokerConfig,
) -> Result<TopicOverrides, ConfigError> {
    check_duplicates(&ops)?;
    let mut altered = overrides.clone();
    for op in ops {
        alter(&mut altered.0, op, |name| definition_of(Scope::Topic, name))?;
    }
    TopicConfig::resolve(&altered, broker)?;
    Ok(altered)
}

/// Applies changes to the broker: all of them, or none if the result would be invalid.
pub fn alter_broker(
    overrides: &BrokerOverrides,
    ops: Vec<AlterOp>,
    layer: BrokerLayer,
) -> Result<BrokerOverrides, ConfigError> {
    check_duplicates(&ops)?;
    let mut altered = overrides.clone();
    let raw = match layer {
        BrokerLayer::This => &mut altered.dynamic,
        BrokerLayer::All => &mut altered.dynamic_default,
    };
    for op in ops {
        check_secret(&op)?;
        alter(raw, op, |name| dynamic_definition(name, layer))?;
    }
    BrokerConfig::resolve(altered.clone())?;
    Ok(altered)
}

/// Applies changes to a group: all of them, or none if the result would be invalid.
pub fn alter_group(own: &RawConfig, ops: Vec<AlterOp>, broker: &BrokerConfig) -> Result<RawConfig, ConfigError> {
    check_duplicates(&ops)?;
    let mut altered = own.clone();
    for op in ops {
        alter(&mut altered, op, |name| definition_of(Scope::Group, name))?;
    }
    group::check_own(&altered, &broker.effective)?;
    Ok(altered)
}

/// Applies changes to a client metrics subscription: all of them, or none if the result would be invalid.
pub fn alter_client_metrics(own: &RawConfig, ops: Vec<AlterOp>) -> Result<RawConfig, ConfigError> {
    check_duplicates(&ops)?;
    let mut altered = own.clone();
    for op in ops {
        alter(&mut altered, op, |name| definition_of(Scope::ClientMetrics, name))?;
    }
    client_metrics::check_own(&altered)?;
    Ok(altered)
}

impl AlterOpKind {
    pub fn from_id(id: i8) -> Option<Self> {
        [Self::Set, Self::Delete, Self::Append, Self::Subtract]
            .into_iter()
            .find(|kind| *kind as i8 == id)
    }
}

impl fmt::Display for AlterOpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Set => "SET",
            Self::Delete => "DELETE",
            Self::Append => "APPEND",
            Self::Subtract => "SUBTRACT",
        })
    }
}

fn check_duplicates(ops: &[AlterOp]) -> Result<(), ConfigError> {
    let mut names = BTreeSet::new();
    match ops.iter().find(|op| !names.insert(&op.name)) {
        Some(AlterOp { name, .. }) => Err(ConfigError::DuplicateInRequest { name: name.clone() }),
        None => Ok(()),
    }
}

fn definition_of(scope: Scope, name: &str) -> Result<&'static Definition, ConfigError> {
    Ok(scope.schema().require(name, &Origin::Request)?)
}

fn dynamic_definition(name: &str, layer: BrokerLayer) -> Result<&'static Definition, ConfigError> {
    let of_listener = ListenerKey::parse(name, &Origin::Request)?.is_some();
    let definition = broker::definition_of(name, &Origin::Request)?;
    let name = definition.name;
    match (definition.update, layer) {
        (UpdateMode::ReadOnly, _) => Err(ConfigError::NotDynamic { name }),
        (UpdateMode::PerBroker, BrokerLayer::All) => Err(ConfigError::NotClusterWide { name }),
        // A change for all listeners at once could lock out the client that makes it; Kafka refuses it too.
        _ if !of_listener && is_security(name) => Err(ConfigError::NotForAllListeners { name }),
        _ => Ok(definition),
    }
}

fn is_security(name: &str) -> bool {
    name.starts_with("ssl.") || name.starts_with("sasl.")
}

/// Refuses a secret that would be stored in the metadata log. Certificates are public.
fn check_secret(op: &AlterOp) -> Result<(), ConfigError> {
    let Some(value) = op.value.as_ref().filter(|_| op.kind != AlterOpKind::Delete) else {
        return Ok(());
    };
    let definition = broker::definition_of(&op.name, &Origin::Request)?;
    let is_public = matches!(
        definition.name,
        "ssl.keystore.certificate.chain" | "ssl.truststore.certificates"
    );
    if definition.is_sensitive() && !is_public && !has_reference(value) {
        let name = op.name.clone();
        return Err(ConfigError::SecretInRequest { name });
    }
    Ok(())
}

fn alter(
    raw: &mut RawConfig,
    op: AlterOp,
    define: impl Fn(&str) -> Result<&'static Definition, ConfigError>,
) -> Result<(), ConfigError> {
    let AlterOp { name, kind, value } = op;
    if kind == AlterOpKind::Delete {
        // Any name: it must be possible to delete a setting that a newer version does not know.
        raw.remove(&name);
        return Ok(());
    }
    let definition = define(&name)?;
    let Some(value) = value else {
        return Err(ConfigError::NoValueInRequest { name });
    };
    let value = match kind {
        AlterOpKind::Append | AlterOpKind::Subtract if definition.config_type != ConfigType::List => {
            return Err(ConfigError::NotAList { name, op: kind });
        }
        AlterOpKind::Append | AlterOpKind::Subtract => {
            // As in Kafka, an unset list has Kafka's default, not the broker's.
            let current = raw.get(&name).map(String::as_str).or(definition.default);
            edit_list(kind, current.unwrap_or_default(), &value)
        }
        AlterOpKind::Set | AlterOpKind::Delete => value,
    };
    raw.insert(name, value);
    Ok(())
}

fn edit_list(kind: AlterOpKind, current: &str, change: &str) -> String {
    let mut elements = split_list(current);
    let change = split_list(change);
    elements.retain(|element| kind == AlterOpKind::Append || !change.contains(element));
    if kind == AlterOpKind::Append {
        let new: Vec<String> = change
            .into_iter()
            .filter(|element| !elements.contains(element))
            .collect();
        elements.extend(new);
    }
    elements.join(",")
}
