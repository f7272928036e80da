//! DeleteTopics 1–6.

use std::sync::Arc;

use bytestring::ByteString;
use milena_machines::authorizer::Operation;
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
    let may_delete_all = cx.authorize_cluster_silently(Operation::Delete);
    let plans: Vec<Plan> = requested
        .into_iter()
        .map(|(name, id)| Plan::of(cx, name, id, may_delete_all))
        .collect();
    let names: Vec<ByteString> = plans.iter().filter_map(Plan::deleted_name).collect();
    let mut permits = cx.mutation_permits(versions::delete_topics::STRICT_QUOTA);
    let mut outcomes = node.delete_topics(&names, &mut permits).into_iter();
    let responses = plans.into_iter().map(|plan| match plan {
        Plan::Refuse { name, id, refusal } => result(name, id, Err(refusal)),
        Plan::Delete(topic) => {
            let outcome = outcomes.next().unwrap_or_else(|| Err(Refusal::no_topic(&topic.name)));
            result(Some(topic.name.clone()), topic.id, outcome)
        }
    });
    let message = DeleteTopicsResponse {
        responses: responses.collect(),
        ..Default::default()
    };
    Outcome::Ready(FileResponse::throttled(message, permits.throttle_time()))
}

/// The decision about one topic of the request.
enum Plan {
    Delete(Arc<Topic>),
    /// Name and id are those that the client may learn.
    Refuse {
        name: Option<ByteString>,
        id: Uuid,
        refusal: Refusal,
    },
}

impl Plan {
    fn of(cx: &RequestContext<'_>, name: Option<ByteString>, id: Uuid, may_delete_all: bool) -> Self {
        let found = find(cx.node, name.as_ref(), id);
        let named = name.as_ref().or_else(|| found.as_ref().map(|topic| &topic.name));
        let Some(named) = named else {
            let reason = format!("there is no topic with id {id}");
            let refusal = Refusal::new(ErrorCode::UnknownTopicId, reason);
            return Self::Refuse { name, id, refusal };
        };
        let may_describe = may_delete_all || cx.authorize_topic(Operation::Describe, named);
        let may_delete = may_delete_all || cx.authorize_topic(Operation::Delete, named);
        let denied = Refusal::topic_authorization_failed();
        match (found, name) {
            (_, Some(name)) if !may_describe => Self::refuse_name(name, denied),
            (None, Some(name)) => {
                let refusal = Refusal::no_topic(&name);
                Self::refuse_name(name, refusal)
            }
            (_, Some(name)) if !may_delete => Self::refuse_name(name, denied),
            (Some(topic), None) if !may_delete => Self::Refuse {
                name: may_describe.then(|| topic.name.clone()),
                id,
                refusal: denied,
            },
            (Some(topic), _) => Self::Delete(topic),
            (None, None) => Self::Refuse {
                name: None,
                id,
                refusal: denied,
            },
        }
    }

    fn refuse_name(name: ByteString, refusal: Refusal) -> Self {
        Self::Refuse {
            name: Some(name),
            id: Uuid::ZERO,
            refusal,
        }
    }

    fn deleted_name(&self) -> Option<ByteString> {
        match self {
            Self::Delete(topic) => Some(topic.name.clone()),
            Self::Refuse { .. } => None,
        }
    }
}

fn result(name: Option<ByteString>, topic_id: Uuid, outcome: Result<(), Refusal>) -> DeletableTopicResult {
    let (error_code, error_message) = code_and_message(outcome);
    DeletableTopicResult {
        name,
        topic_id,
        error_code,
        error_message,
        ..Default::default()
    }
}

fn find(node: &Node, name: Option<&ByteString>, id: Uuid) -> Option<Arc<Topic>> {
    let topics = node.topics();
    match name {
        Some(name) => topics.by_name(name).cloned(),
        None => topics.by_id(id).cloned(),
    }
}
