//! OffsetCommit 2–10. Topics that do not exist are refused here, before the coordinator.

use bytestring::ByteString;
use milena_machines::{
    authorizer::Operation,
    group::{GroupReply, GroupRequest},
};
use milena_wire::{
    Uuid,
    api::versions,
    errors::ErrorCode,
    messages::{
        OffsetCommitRequest, OffsetCommitResponse,
        offset_commit_request::OffsetCommitRequestTopic,
        offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic},
    },
};

use super::common::{GroupResult, Outcome, RequestContext, error_of};

pub(super) fn handle(cx: &RequestContext<'_>, mut body: OffsetCommitRequest) -> Outcome<OffsetCommitResponse> {
    if let Err(error) = cx.check_group(Operation::Read, &body.group_id) {
        return cx.refuse(&body, error);
    }
    let version = cx.request.version;
    let mut refused = vec![];
    let topics = std::mem::take(&mut body.topics);
    for topic in topics {
        let (known, unknown) = sort_out(cx, topic);
        body.topics.extend(known);
        refused.extend(unknown);
    }
    if body.topics.is_empty() {
        let response = OffsetCommitResponse {
            topics: refused,
            ..Default::default()
        };
        return Outcome::Ready(response);
    }
    let requested = body.topics.clone();
    cx.request_group(
        &body.group_id.clone(),
        GroupRequest::OffsetCommit(body),
        move |outcome| {
            let mut response = response(outcome, requested);
            response.topics.extend(refused);
            for topic in &mut response.topics {
                // Each version has a field for only one of the two.
                match version {
                    versions::offset_commit::TOPIC_IDS.. => topic.name = ByteString::new(),
                    _ => topic.topic_id = Uuid::ZERO,
                }
            }
            response
        },
    )
}

/// Splits a topic into the partitions that exist, with both name and id of the topic, and the rows of the others.
fn sort_out(
    cx: &RequestContext<'_>,
    mut topic: OffsetCommitRequestTopic,
) -> (Option<OffsetCommitRequestTopic>, Option<OffsetCommitResponseTopic>) {
    let found = cx.node.topics().called(&topic.name, topic.topic_id).cloned();
    let has_ids = cx.request.version >= versions::offset_commit::TOPIC_IDS;
    // Without a topic there is no name that an id stands for.
    let name = match (&found, has_ids) {
        (_, false) => Some(&topic.name),
        (Some(found), true) => Some(&found.name),
        (None, true) => None,
    };
    if name.is_some_and(|name| !cx.authorize_topic(Operation::Read, name)) {
        return (None, Some(failed(topic, ErrorCode::TopicAuthorizationFailed)));
    }
    let Some(found) = found else {
        let error = match cx.request.version {
            versions::offset_commit::TOPIC_IDS.. => ErrorCode::UnknownTopicId,
            _ => ErrorCode::UnknownTopicOrPartition,
        };
        return (None, Some(failed(topic, error)));
    };
    topic.name = found.name.clone();
    topic.topic_id = found.id;
    let mut unknown = OffsetCommitRequestTopic {
        partitions: vec![],
        ..topic.clone()
    };
    (topic.partitions, unknown.partitions) = topic
        .partitions
        .into_iter()
        .partition(|partition| found.partition(partition.partition_index).is_some());
    let has_some = |topic: &OffsetCommitRequestTopic| !topic.partitions.is_empty();
    let unknown = Some(unknown).filter(has_some);
    let unknown = unknown.map(|topic| failed(topic, ErrorCode::UnknownTopicOrPartition));
    (Some(topic).filter(has_some), unknown)
}

fn failed(topic: OffsetCommitRequestTopic, error: ErrorCode) -> OffsetCommitResponseTopic {
    let partitions = topic
        .partitions
        .into_iter()
        .map(|partition| OffsetCommitResponsePartition {
            partition_index: partition.partition_index,
            error_code: error.code(),
            ..Default::default()
        });
    OffsetCommitResponseTopic {
        partitions: partitions.collect(),
        name: topic.name,
        topic_id: topic.topic_id,
        ..Default::default()
    }
}

fn response(outcome: GroupResult, requested: Vec<OffsetCommitRequestTopic>) -> OffsetCommitResponse {
    match outcome {
        Ok(GroupReply::OffsetCommit(response)) => response,
        other => {
            let error = error_of(&other);
            OffsetCommitResponse {
                topics: requested.into_iter().map(|topic| failed(topic, error)).collect(),
                ..Default::default()
            }
        }
    }
}
