//! AlterPartitionReassignments 0–1. The one place for a replica is this broker, where it is already.

use milena_machines::authorizer::Operation;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
        alter_partition_reassignments_request::ReassignablePartition,
        alter_partition_reassignments_response::{ReassignablePartitionResponse, ReassignableTopicResponse},
    },
};

use super::common::{Outcome, RequestContext, code_and_message};
use crate::{
    node::{Node, Refusal},
    topics::Topic,
};

pub(super) fn handle(
    cx: &RequestContext<'_>,
    request: AlterPartitionReassignmentsRequest,
) -> Outcome<AlterPartitionReassignmentsResponse> {
    let node = cx.node;
    let allowed = match cx.authorize_cluster(Operation::Alter) {
        true => Ok(()),
        false => Err(Refusal::new(
            ErrorCode::ClusterAuthorizationFailed,
            "the client may not alter the cluster",
        )),
    };
    let responses = request.topics.into_iter().map(|requested| {
        let topic = node.topics().by_name(&requested.name).cloned();
        let partitions = requested.partitions.iter().map(|partition| {
            let (error, error_message) = match allowed
                .clone()
                .and_then(|()| reassign(node, topic.as_deref(), partition))
            {
                Ok(()) => (ErrorCode::None, None),
                Err(refusal) => (refusal.code, Some(refusal.reason.into())),
            };
            ReassignablePartitionResponse {
                partition_index: partition.partition_index,
                error_code: error.code(),
                error_message,
                ..Default::default()
            }
        });
        ReassignableTopicResponse {
            partitions: partitions.collect(),
            name: requested.name,
            ..Default::default()
        }
    });
    let (error_code, error_message) = code_and_message(allowed.clone());
    Outcome::Ready(AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: request.allow_replication_factor_change,
        responses: responses.collect(),
        error_code,
        error_message,
        ..Default::default()
    })
}

fn reassign(node: &Node, topic: Option<&Topic>, requested: &ReassignablePartition) -> Result<(), Refusal> {
    let index = requested.partition_index;
    if topic.and_then(|topic| topic.partition(index)).is_none() {
        let reason = format!("there is no such partition {index}");
        return Err(Refusal::new(ErrorCode::UnknownTopicOrPartition, reason));
    }
    match &requested.replicas {
        None => Err(Refusal::new(
            ErrorCode::NoReassignmentInProgress,
            "there is no reassignment to cancel",
        )),
        Some(replicas) if *replicas == [node.config().node_id] => Ok(()),
        Some(_) => Err(Refusal::new(
            ErrorCode::InvalidReplicaAssignment,
            "every partition must be assigned to this one broker",
        )),
    }
}
