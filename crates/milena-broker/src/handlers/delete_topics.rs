//! DeleteTopics 1–6.

use bytestring::ByteString;
use milena_wire::{
    Uuid,
    errors::ErrorCode,
    messages::{DeleteTopicsRequest, DeleteTopicsResponse, delete_topics_response::DeletableTopicResult},
};

use super::outcomes::code_and_message;
use crate::node::{Node, Refusal};

pub(super) fn handle(node: &Node, version: i16, request: DeleteTopicsRequest) -> DeleteTopicsResponse {
    let by_name = request.topic_names.into_iter().map(|name| (Some(name), Uuid::ZERO));
    let by_either = request.topics.into_iter().map(|topic| (topic.name, topic.topic_id));
    let wanted: Vec<(Option<ByteString>, Uuid)> = if version >= 6 {
        by_either.collect()
    } else {
        by_name.collect()
    };
    let responses = wanted.into_iter().map(|(name, id)| delete(node, name, id));
    DeleteTopicsResponse {
        responses: responses.collect(),
        ..Default::default()
    }
}

fn delete(node: &Node, name: Option<ByteString>, id: Uuid) -> DeletableTopicResult {
    let known = match &name {
        Some(name) => node.topics().by_name(name).cloned(),
        None => node.topics().by_id(id).cloned(),
    };
    let outcome = match (&known, &name) {
        (Some(topic), _) => node.delete_topic(&topic.name),
        (None, Some(name)) => {
            let reason = format!("there is no topic {name}");
            Err(Refusal::new(ErrorCode::UnknownTopicOrPartition, reason))
        }
        (None, None) => Err(Refusal::new(
            ErrorCode::UnknownTopicId,
            format!("there is no topic with id {id}"),
        )),
    };
    let (error_code, error_message) = code_and_message(outcome);
    DeletableTopicResult {
        name: known.as_ref().map(|topic| topic.name.clone()).or(name),
        topic_id: known.map_or(id, |topic| topic.id),
        error_code,
        error_message,
        ..Default::default()
    }
}
