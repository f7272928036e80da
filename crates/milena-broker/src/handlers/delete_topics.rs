//! DeleteTopics 1–6.

use std::sync::Arc;

use bytestring::ByteString;
use milena_wire::{
    Uuid,
    api::versions,
    errors::ErrorCode,
    messages::{DeleteTopicsRequest, DeleteTopicsResponse, delete_topics_response::DeletableTopicResult},
};

use super::common::{FileResponse, Outcome, RequestContext, code_and_message};
use crate::{
    node::{Node, Refusal},
    topics::Topic,
};

pub(super) fn handle(
    cx: &RequestContext<'_>,
    request: DeleteTopicsRequest,
) -> Outcome<FileResponse<DeleteTopicsResponse>> {
    let node = cx.node;
    let version = cx.request.version;
    let by_name = request.topic_names.into_iter().map(|name| (Some(name), Uuid::ZERO));
    let by_either = request.topics.into_iter().map(|topic| (topic.name, topic.topic_id));
    let requested: Vec<(Option<ByteString>, Uuid)> = if version >= versions::delete_topics::TOPIC_IDS {
        by_either.collect()
    } else {
        by_name.collect()
    };
    let found: Vec<Option<Arc<Topic>>> = requested
        .iter()
        .map(|(name, id)| find(node, name.as_ref(), *id))
        .collect();
    let names: Vec<ByteString> = found.iter().flatten().map(|topic| topic.name.clone()).collect();
    let mut permits = cx.mutation_permits(versions::delete_topics::STRICT_QUOTA);
    let mut outcomes = node.delete_topics(&names, &mut permits).into_iter();
    let responses = requested.into_iter().zip(found).map(|((name, id), found)| {
        let outcome = match (&found, &name) {
            (Some(topic), _) => outcomes.next().unwrap_or_else(|| Err(Refusal::no_topic(&topic.name))),
            (None, Some(name)) => Err(Refusal::no_topic(name)),
            (None, None) => Err(Refusal::new(
                ErrorCode::UnknownTopicId,
                format!("there is no topic with id {id}"),
            )),
        };
        let (error_code, error_message) = code_and_message(outcome);
        DeletableTopicResult {
            name: found.as_ref().map(|topic| topic.name.clone()).or(name),
            topic_id: found.map_or(id, |topic| topic.id),
            error_code,
            error_message,
            ..Default::default()
        }
    });
    let message = DeleteTopicsResponse {
        responses: responses.collect(),
        ..Default::default()
    };
    Outcome::Ready(FileResponse::throttled(message, permits.throttle_time()))
}

fn find(node: &Node, name: Option<&ByteString>, id: Uuid) -> Option<Arc<Topic>> {
    let topics = node.topics();
    match name {
        Some(name) => topics.by_name(name).cloned(),
        None => topics.by_id(id).cloned(),
    }
}
