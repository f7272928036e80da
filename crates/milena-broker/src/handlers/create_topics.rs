//! CreateTopics 2–7. Replicas may be assigned by hand to this one broker only.

use bytestring::ByteString;
use milena_machines::authorizer::{Operation, ResourceType};
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        CreateTopicsRequest, CreateTopicsResponse,
        create_topics_request::CreatableTopic,
        create_topics_response::{CreatableTopicConfigs, CreatableTopicResult},
    },
};

use super::common::{FileResponse, NameCounts, Outcome, RequestContext};
use crate::{
    config::{TopicOverrides, describe_topic},
    node::{NewTopic, Node, Refusal},
    quotas::MutationPermits,
};

pub(super) fn handle(
    cx: &RequestContext<'_>,
    request: CreateTopicsRequest,
) -> Outcome<FileResponse<CreateTopicsResponse>> {
    let node = cx.node;
    let named = NameCounts::count(request.topics.iter().map(|topic| topic.name.clone()));
    let names: Vec<ByteString> = request.topics.iter().map(|topic| topic.name.clone()).collect();
    let may_create_all = cx.authorize_cluster_silently(Operation::Create);
    let requested = request.topics.into_iter().map(|topic| {
        named.check_once(&topic.name, "topic")?;
        if !may_create_all && !cx.authorize_topic(Operation::Create, &topic.name) {
            return Err(Refusal::topic_authorization_failed());
        }
        requested(node, topic)
    });
    let requested: Vec<Result<NewTopic, Refusal>> = requested.collect();
    let good: Vec<NewTopic> = requested.iter().flatten().cloned().collect();
    let mut permits = cx.mutation_permits(versions::create_topics::STRICT_QUOTA);
    let mut outcomes = match request.validate_only {
        true => good.iter().map(|new| validated(node, new, &mut permits)).collect(),
        false => created(node, &good, &mut permits),
    }
    .into_iter();
    let topics = names.into_iter().zip(requested).map(|(name, requested)| {
        let outcome = requested.and_then(|new| outcomes.next().unwrap_or_else(|| Err(Refusal::no_topic(&new.name))));
        let outcome = outcome.map(|created| without_hidden_configs(cx, created));
        outcome.unwrap_or_else(|refusal| CreatableTopicResult {
            name,
            error_code: refusal.code.code(),
            error_message: Some(refusal.reason.into()),
            ..Default::default()
        })
    });
    let message = CreateTopicsResponse {
        topics: topics.collect(),
        ..Default::default()
    };
    Outcome::Ready(FileResponse::throttled(message, permits.throttle_time()))
}

/// The result as the client may see it: settings and numbers need a right of their own.
fn without_hidden_configs(cx: &RequestContext<'_>, created: CreatableTopicResult) -> CreatableTopicResult {
    match cx.authorize_silently(Operation::DescribeConfigs, ResourceType::Topic, &created.name) {
        true => created,
        false => CreatableTopicResult {
            topic_config_error_code: ErrorCode::TopicAuthorizationFailed.code(),
            num_partitions: -1,
            replication_factor: -1,
            configs: Some(vec![]),
            ..created
        },
    }
}

fn requested(node: &Node, topic: CreatableTopic) -> Result<NewTopic, Refusal> {
    let (partitions, replication_factor) = shape(node, &topic)?;
    let configs = topic.configs.into_iter().map(|config| match config.value {
        Some(value) => {
            node.check_config_value(&config.name, Some(&value))?;
            Ok((config.name.to_string(), value.to_string()))
        }
        None => Err(Refusal::new(
            ErrorCode::InvalidConfig,
            format!("{} has no value", config.name),
        )),
    });
    Ok(NewTopic {
        name: topic.name,
        partitions,
        replication_factor,
        overrides: TopicOverrides(configs.collect::<Result<_, _>>()?),
    })
}

fn validated(node: &Node, new: &NewTopic, permits: &mut MutationPermits<'_>) -> Result<CreatableTopicResult, Refusal> {
    let new = node.check_new_topic(new)?;
    permits.take(usize::try_from(new.partitions).unwrap_or(0))?;
    Ok(CreatableTopicResult {
        num_partitions: new.partitions,
        replication_factor: new.replication_factor,
        configs: Some(describe(node, &new.overrides)),
        name: new.name,
        error_message: None,
        ..Default::default()
    })
}

fn created(
    node: &Node,
    new: &[NewTopic],
    permits: &mut MutationPermits<'_>,
) -> Vec<Result<CreatableTopicResult, Refusal>> {
    let outcomes = node.create_topics(new, permits).into_iter().map(|outcome| {
        outcome.map(|topic| CreatableTopicResult {
            name: topic.name.clone(),
            topic_id: topic.id,
            num_partitions: topic.partitions.len() as i32,
            replication_factor: topic.replication_factor,
            configs: Some(describe(node, &topic.overrides)),
            error_message: None,
            ..Default::default()
        })
    });
    outcomes.collect()
}

/// Partitions and replication factor, as given or as the assignment by hand implies.
fn shape(node: &Node, topic: &CreatableTopic) -> Result<(i32, i16), Refusal> {
    if topic.assignments.is_empty() {
        return Ok((topic.num_partitions, topic.replication_factor));
    }
    let refuse = |reason: &str| Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, reason));
    if topic.num_partitions != -1 || topic.replication_factor != -1 {
        return Err(Refusal::new(
            ErrorCode::InvalidRequest,
            "give numbers or an assignment, not both",
        ));
    }
    let id = node.config().node_id;
    if topic.assignments.iter().any(|assignment| assignment.broker_ids != [id]) {
        return refuse("every partition must be assigned to this one broker");
    }
    let mut indexes: Vec<i32> = topic
        .assignments
        .iter()
        .map(|assignment| assignment.partition_index)
        .collect();
    indexes.sort_unstable();
    if !indexes.iter().copied().eq(0..indexes.len() as i32) {
        return refuse("partitions must be numbered from 0 without gaps");
    }
    Ok((indexes.len() as i32, 1))
}

fn describe(node: &Node, overrides: &TopicOverrides) -> Vec<CreatableTopicConfigs> {
    let described = describe_topic(overrides, &node.config());
    let configs = described.into_iter().map(|config| CreatableTopicConfigs {
        name: config.name.into_owned().into(),
        value: config.value.map(ByteString::from),
        read_only: config.read_only,
        config_source: config.source.id(),
        is_sensitive: config.is_sensitive,
        ..Default::default()
    });
    configs.collect()
}
