//! ElectLeaders 0–2. The one replica always leads, so there is never anything to elect.

use milena_machines::authorizer::Operation;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        ElectLeadersRequest, ElectLeadersResponse,
        elect_leaders_response::{PartitionResult, ReplicaElectionResult},
    },
};

use super::common::{Outcome, RequestContext};

/// Election of the preferred replica, and unclean election.
const ELECTION_TYPES: [i8; 2] = [0, 1];

pub(super) fn handle(cx: &RequestContext<'_>, request: ElectLeadersRequest) -> Outcome<ElectLeadersResponse> {
    if !cx.authorize_cluster(Operation::Alter) {
        return Outcome::Ready(denied(cx.request.version, request));
    }
    let node = cx.node;
    // Version 0 has no type; its default is valid.
    if !ELECTION_TYPES.contains(&request.election_type) {
        return Outcome::Ready(ElectLeadersResponse {
            error_code: ErrorCode::InvalidRequest.code(),
            ..Default::default()
        });
    }
    // Null stands for all partitions that need an election; none does.
    let requested = request.topic_partitions.unwrap_or_default();
    let results = requested.into_iter().map(|requested| {
        let topic = node.topics().by_name(&requested.topic).cloned();
        let partitions = requested.partitions.iter().map(|index| {
            let known = topic.as_ref().is_some_and(|topic| topic.partition(*index).is_some());
            let (error, reason) = if known {
                (ErrorCode::ElectionNotNeeded, "this broker leads it already".to_owned())
            } else {
                let reason = format!("there is no partition {index} of {}", requested.topic);
                (ErrorCode::UnknownTopicOrPartition, reason)
            };
            PartitionResult {
                partition_id: *index,
                error_code: error.code(),
                error_message: Some(reason.into()),
                ..Default::default()
            }
        });
        ReplicaElectionResult {
            partition_result: partitions.collect(),
            topic: requested.topic.clone(),
            ..Default::default()
        }
    });
    Outcome::Ready(ElectLeadersResponse {
        replica_election_results: results.collect(),
        ..Default::default()
    })
}

/// The error is in all rows and, where the version has a field for it, at the top.
fn denied(version: i16, request: ElectLeadersRequest) -> ElectLeadersResponse {
    let code = ErrorCode::ClusterAuthorizationFailed.code();
    let requested = request.topic_partitions.unwrap_or_default();
    let results = requested.into_iter().map(|requested| {
        let partitions = requested.partitions.iter().map(|index| PartitionResult {
            partition_id: *index,
            error_code: code,
            error_message: None,
            ..Default::default()
        });
        ReplicaElectionResult {
            partition_result: partitions.collect(),
            topic: requested.topic,
            ..Default::default()
        }
    });
    ElectLeadersResponse {
        error_code: if version >= versions::elect_leaders::ELECTION_TYPE {
            code
        } else {
            0
        },
        replica_election_results: results.collect(),
        ..Default::default()
    }
}
