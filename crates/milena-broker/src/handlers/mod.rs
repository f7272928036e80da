//! One file for each API. Each opens with the versions it serves and where it differs from Kafka.

mod alter_configs;
mod alter_partition_reassignments;
mod api_versions;
mod config_resources;
mod create_partitions;
mod create_topics;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_log_dirs;
mod describe_producers;
mod describe_topic_partitions;
mod elect_leaders;
mod fetch;
mod incremental_alter_configs;
mod init_producer_id;
mod list_config_resources;
mod list_offsets;
mod list_partition_reassignments;
mod metadata;
mod offset_for_leader_epoch;
mod outcomes;
mod panics;
mod produce;

use std::{future::Future, pin::Pin, sync::Arc};

use milena_log::FileSlice;
use milena_wire::{
    api::ApiKey,
    frame::{self, RequestFrame},
    message::{Request, Response},
};

use crate::{net::Outgoing, node::Node};

/// The APIs that are served, and so advertised.
pub(crate) const SERVED: &[ApiKey] = &[
    ApiKey::Produce,
    ApiKey::Fetch,
    ApiKey::ListOffsets,
    ApiKey::Metadata,
    ApiKey::ApiVersions,
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::DeleteRecords,
    ApiKey::InitProducerId,
    ApiKey::OffsetForLeaderEpoch,
    ApiKey::DescribeConfigs,
    ApiKey::AlterConfigs,
    ApiKey::DescribeLogDirs,
    ApiKey::CreatePartitions,
    ApiKey::ElectLeaders,
    ApiKey::IncrementalAlterConfigs,
    ApiKey::AlterPartitionReassignments,
    ApiKey::ListPartitionReassignments,
    ApiKey::DescribeCluster,
    ApiKey::DescribeProducers,
    ApiKey::ListConfigResources,
    ApiKey::DescribeTopicPartitions,
];

/// What becomes of a request.
pub(crate) enum Handled {
    Reply(Outgoing),
    /// The answer comes later; `None` if there can be none and the connection must end.
    Later(Pin<Box<dyn Future<Output = Option<Outgoing>> + Send>>),
    /// The client wants no answer.
    NoReply,
    /// The connection ends, for this reason.
    Close(String),
}

/// Begins a request. A panic is answered with an error, and hurts nobody else.
pub(crate) fn handle(node: &Arc<Node>, request: &RequestFrame) -> Handled {
    panics::contained(request, || dispatch(node, request))
}

fn dispatch(node: &Arc<Node>, request: &RequestFrame) -> Handled {
    match request.key {
        ApiKey::Produce => produce::handle(node, request),
        ApiKey::Fetch => fetch::handle(node, request),
        ApiKey::ListOffsets => answer(request, |body| list_offsets::handle(node, request.version, body)),
        ApiKey::Metadata => answer(request, |body| metadata::handle(node, request.version, body)),
        ApiKey::ApiVersions => api_versions::handle(request),
        ApiKey::CreateTopics => answer(request, |body| create_topics::handle(node, request.version, body)),
        ApiKey::DeleteTopics => answer(request, |body| delete_topics::handle(node, request.version, body)),
        ApiKey::InitProducerId => answer(request, |body| init_producer_id::handle(node, body)),
        ApiKey::DescribeConfigs => answer(request, |body| describe_configs::handle(node, request.version, body)),
        ApiKey::DescribeCluster => answer(request, |body| describe_cluster::handle(node, body)),
        ApiKey::DescribeTopicPartitions => answer(request, |body| describe_topic_partitions::handle(node, body)),
        key => dispatch_admin(node, request, key),
    }
}

/// The requests of those who look after a cluster.
fn dispatch_admin(node: &Node, request: &RequestFrame, key: ApiKey) -> Handled {
    match key {
        ApiKey::DeleteRecords => answer(request, |body| delete_records::handle(node, body)),
        ApiKey::OffsetForLeaderEpoch => answer(request, |body| offset_for_leader_epoch::handle(node, body)),
        ApiKey::AlterConfigs => answer(request, |body| alter_configs::handle(node, body)),
        ApiKey::IncrementalAlterConfigs => answer(request, |body| incremental_alter_configs::handle(node, body)),
        ApiKey::ListConfigResources => answer(request, |body| {
            list_config_resources::handle(node, request.version, body)
        }),
        ApiKey::DescribeLogDirs => answer(request, |body| describe_log_dirs::handle(node, body)),
        ApiKey::DescribeProducers => answer(request, |body| describe_producers::handle(node, body)),
        ApiKey::CreatePartitions => answer(request, |body| create_partitions::handle(node, body)),
        ApiKey::ElectLeaders => answer(request, |body| elect_leaders::handle(node, body)),
        ApiKey::AlterPartitionReassignments => {
            answer(request, |body| alter_partition_reassignments::handle(node, body))
        }
        ApiKey::ListPartitionReassignments => answer(request, list_partition_reassignments::handle),
        // Kafka closes too: an API that was not advertised is not asked for.
        key => Handled::Close(format!("{key} is not served")),
    }
}

/// Reads the body, makes the answer, encodes it.
fn answer<R: Request>(request: &RequestFrame, handle: impl FnOnce(R) -> R::Response) -> Handled {
    match request.body() {
        Ok(body) => reply(request, &handle(body), vec![]),
        Err(error) => Handled::Close(error.to_string()),
    }
}

fn reply<R: Response>(request: &RequestFrame, response: &R, files: Vec<FileSlice>) -> Handled {
    match outgoing(request, response, files) {
        Some(outgoing) => Handled::Reply(outgoing),
        None => Handled::Close(format!("the answer to {} could not be encoded", request.key)),
    }
}

/// The answer as it is sent; `None` if the version of the request has no place for something in it.
fn outgoing<R: Response>(request: &RequestFrame, response: &R, files: Vec<FileSlice>) -> Option<Outgoing> {
    match frame::encode_response(response, request.version, request.correlation_id) {
        Ok(frame) => Some(Outgoing::new(frame, files)),
        Err(error) => {
            tracing::error!(%error, "an answer could not be encoded");
            None
        }
    }
}
