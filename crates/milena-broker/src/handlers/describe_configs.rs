//! DescribeConfigs 1–4, of topics, groups, client metrics subscriptions, this broker and its loggers.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_machines::authorizer::Operation;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        DescribeConfigsRequest, DescribeConfigsResponse,
        describe_configs_request::DescribeConfigsResource,
        describe_configs_response::{DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym},
    },
};

use super::common::{
    Outcome, RequestContext,
    config_resources::{
        BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, check_right, no_broker, no_group_name,
        no_subscription_name, without_settings,
    },
};
use crate::{
    config::{
        ConfigSource, ConfigType, DescribedConfig, describe_broker, describe_broker_defaults, describe_client_metrics,
        describe_group, describe_topic,
    },
    log_levels::LogLevel,
    node::{Node, Refusal, logger_of, no_loggers},
};

pub(super) fn handle(cx: &RequestContext<'_>, request: DescribeConfigsRequest) -> Outcome<DescribeConfigsResponse> {
    let node = cx.node;
    let results = request.resources.into_iter().map(|resource| {
        let allowed = check_right(
            cx,
            Operation::DescribeConfigs,
            resource.resource_type,
            &resource.resource_name,
        );
        let (described, loggers) = match (allowed, resource.resource_type) {
            (Err(refusal), _) => (Err(refusal), BTreeMap::new()),
            (Ok(()), BROKER_LOGGER) => match describe_loggers(node, &resource.resource_name) {
                Ok(loggers) => (Ok(vec![]), loggers),
                Err(refusal) => (Err(refusal), BTreeMap::new()),
            },
            (Ok(()), _) => (describe(node, &resource), BTreeMap::new()),
        };
        let (error, described) = match described {
            Ok(described) => (Refusal::new(ErrorCode::None, ""), described),
            Err(refusal) => (refusal, vec![]),
        };
        let is_requested = |name: &str| match &resource.configuration_keys {
            Some(keys) => keys.iter().any(|key| *key == name),
            None => true,
        };
        let requested = |config: &DescribedConfig| is_requested(&config.name);
        let configs = described.into_iter().filter(requested);
        let configs = configs.map(|config| result(config, request.include_synonyms, request.include_documentation));
        let loggers = loggers.into_iter().filter(|(name, _)| is_requested(name)).map(logger);
        DescribeConfigsResult {
            error_code: error.code.code(),
            error_message: Some(error.reason)
                .filter(|reason| !reason.is_empty())
                .map(ByteString::from),
            resource_type: resource.resource_type,
            configs: configs.chain(loggers).collect(),
            resource_name: resource.resource_name,
            ..Default::default()
        }
    });
    Outcome::Ready(DescribeConfigsResponse {
        results: results.collect(),
        ..Default::default()
    })
}

fn describe(node: &Node, resource: &DescribeConfigsResource) -> Result<Vec<DescribedConfig>, Refusal> {
    let config = node.config();
    let name = &resource.resource_name;
    match resource.resource_type {
        TOPIC => {
            let topic = node.topics().by_name(name).cloned();
            let missing = || Refusal::new(ErrorCode::UnknownTopicOrPartition, format!("there is no topic {name}"));
            Ok(describe_topic(&topic.ok_or_else(missing)?.overrides, &config))
        }
        BROKER if name.is_empty() => Ok(describe_broker_defaults(&config)),
        BROKER if **name == config.node_id.to_string() => Ok(describe_broker(&config)),
        BROKER => Err(no_broker(name)),
        GROUP if name.is_empty() => Err(no_group_name()),
        GROUP => Ok(describe_group(name, &config)),
        CLIENT_METRICS if name.is_empty() => Err(no_subscription_name()),
        CLIENT_METRICS => Ok(describe_client_metrics(name, &config)),
        other => Err(without_settings(other)),
    }
}

/// The level of each logger of this broker.
fn describe_loggers(node: &Node, name: &str) -> Result<BTreeMap<String, LogLevel>, Refusal> {
    if name != node.config().node_id.to_string() {
        return Err(no_broker(name));
    }
    let levels = node.log_levels.as_ref().ok_or_else(no_loggers)?.levels();
    Ok(levels
        .into_iter()
        .map(|(target, level)| (logger_of(&target), level))
        .collect())
}

fn logger((name, level): (String, LogLevel)) -> DescribeConfigsResourceResult {
    DescribeConfigsResourceResult {
        name: name.into(),
        value: Some(level.to_string().into()),
        config_source: ConfigSource::DynamicBrokerLogger.id(),
        config_type: ConfigType::String.id(),
        documentation: None,
        ..Default::default()
    }
}

fn result(config: DescribedConfig, synonyms: bool, documentation: bool) -> DescribeConfigsResourceResult {
    let listed = config
        .synonyms
        .into_iter()
        .filter(|_| synonyms)
        .map(|synonym| DescribeConfigsSynonym {
            name: synonym.name.into_owned().into(),
            value: synonym.value.map(ByteString::from),
            source: synonym.source.id(),
            ..Default::default()
        });
    DescribeConfigsResourceResult {
        name: config.name.into_owned().into(),
        value: config.value.map(ByteString::from),
        read_only: config.read_only,
        config_source: config.source.id(),
        is_sensitive: config.is_sensitive,
        synonyms: listed.collect(),
        config_type: config.config_type.id(),
        documentation: documentation.then(|| config.documentation.into()),
        ..Default::default()
    }
}
