//! CreatePartitions 0–3. New partitions may be assigned by hand to this one broker only.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        CreatePartitionsRequest, CreatePartitionsResponse, create_partitions_request::CreatePartitionsTopic,
        create_partitions_response::CreatePartitionsTopicResult,
    },
};

use crate::node::{Node, Refusal};

pub(super) fn handle(node: &Node, request: CreatePartitionsRequest) -> CreatePartitionsResponse {
    let mut times_named: BTreeMap<ByteString, usize> = BTreeMap::new();
    for topic in &request.topics {
        *times_named.entry(topic.name.clone()).or_default() += 1;
    }
    let results = request.topics.into_iter().map(|topic| {
        let outcome = match times_named.get(&topic.name) {
            Some(1) => create(node, &topic, request.validate_only),
            _ => Err(Refusal::new(
                ErrorCode::InvalidRequest,
                "the request names the topic more than once",
            )),
        };
        let (error_code, error_message) = match outcome {
            Ok(()) => (ErrorCode::None, None),
            Err(refusal) => (refusal.code, Some(refusal.reason.into())),
        };
        CreatePartitionsTopicResult {
            name: topic.name,
            error_code: error_code.code(),
            error_message,
            ..Default::default()
        }
    });
    CreatePartitionsResponse {
        results: results.collect(),
        ..Default::default()
    }
}

fn create(node: &Node, wanted: &CreatePartitionsTopic, validate_only: bool) -> Result<(), Refusal> {
    let topic = node.check_growth(&wanted.name, wanted.count)?;
    if let Some(assignments) = &wanted.assignments {
        let refuse = |reason: String| Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, reason));
        let added = wanted.count as usize - topic.partitions.len();
        if assignments.len() != added {
            let given = assignments.len();
            return refuse(format!("{added} partitions would be new, but {given} are assigned"));
        }
        let id = node.config().node_id;
        if assignments.iter().any(|assignment| assignment.broker_ids != [id]) {
            return refuse("every partition must be assigned to this one broker".to_owned());
        }
    }
    if validate_only {
        return Ok(());
    }
    node.create_partitions(&wanted.name, wanted.count)
}
