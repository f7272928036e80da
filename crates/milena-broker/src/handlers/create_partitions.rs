//! CreatePartitions 0–3. New partitions may be assigned by hand to this one broker only.

use milena_machines::authorizer::Operation;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        CreatePartitionsRequest, CreatePartitionsResponse, create_partitions_request::CreatePartitionsTopic,
        create_partitions_response::CreatePartitionsTopicResult,
    },
};

use super::common::{FileResponse, NameCounts, Outcome, RequestContext, code_and_message};
use crate::{
    node::{Node, Refusal},
    quotas::MutationPermits,
};

pub(super) fn handle(
    cx: &RequestContext<'_>,
    request: CreatePartitionsRequest,
) -> Outcome<FileResponse<CreatePartitionsResponse>> {
    let node = cx.node;
    let mut permits = cx.mutation_permits(versions::create_partitions::STRICT_QUOTA);
    let named = NameCounts::count(request.topics.iter().map(|topic| topic.name.clone()));
    let results: Vec<_> = request
        .topics
        .into_iter()
        .map(|topic| {
            let once = named.check_once(&topic.name, "topic");
            let allowed = once.and_then(|()| match cx.authorize_topic(Operation::Alter, &topic.name) {
                true => Ok(()),
                false => Err(Refusal::topic_authorization_failed()),
            });
            let outcome = allowed.and_then(|()| create(node, &topic, request.validate_only, &mut permits));
            let (error_code, error_message) = code_and_message(outcome);
            CreatePartitionsTopicResult {
                name: topic.name,
                error_code,
                error_message,
                ..Default::default()
            }
        })
        .collect();
    let message = CreatePartitionsResponse {
        results,
        ..Default::default()
    };
    Outcome::Ready(FileResponse::throttled(message, permits.throttle_time()))
}

fn create(
    node: &Node,
    requested: &CreatePartitionsTopic,
    validate_only: bool,
    permits: &mut MutationPermits<'_>,
) -> Result<(), Refusal> {
    let topic = node.check_growth(&requested.name, requested.count)?;
    let added = usize::try_from(requested.count).unwrap_or(0) - topic.partitions.len();
    if let Some(assignments) = &requested.assignments {
        let refuse = |reason: String| Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, reason));
        if assignments.len() != added {
            let given = assignments.len();
            return refuse(format!("{added} partitions would be new, but {given} are assigned"));
        }
        let id = node.config().node_id;
        if assignments.iter().any(|assignment| assignment.broker_ids != [id]) {
            return refuse("every partition must be assigned to this one broker".to_owned());
        }
    }
    permits.take(added)?;
    if validate_only {
        return Ok(());
    }
    node.create_partitions(&requested.name, requested.count)
}
