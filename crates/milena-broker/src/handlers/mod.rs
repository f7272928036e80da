//! One file for each API. Each opens with the versions it serves and where it differs from Kafka.

mod acls;
mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_configs;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod api_versions;
mod config_resources;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_quorum;
mod describe_topic_partitions;
mod describe_transactions;
mod elect_leaders;
mod end_txn;
mod fetch;
mod find_coordinator;
mod groups;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod operations;
mod outcomes;
mod panics;
mod produce;
mod sync_group;
mod telemetry;
mod transactions;
mod txn_offset_commit;
mod unregister_broker;
mod update_features;
mod waiting;
mod write_txn_markers;

use std::{future::Future, pin::Pin, sync::Arc};

use milena_log::FileSlice;
use milena_wire::{
    api::ApiKey,
    message::{Request, Response},
};

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::{
    net::{Incoming, Outgoing, Peer},
    node::Node,
};

/// The APIs that are served, and so advertised.
pub(crate) const SERVED: &[ApiKey] = &[
    ApiKey::Produce,
    ApiKey::Fetch,
    ApiKey::ListOffsets,
    ApiKey::Metadata,
    ApiKey::OffsetCommit,
    ApiKey::OffsetFetch,
    ApiKey::FindCoordinator,
    ApiKey::JoinGroup,
    ApiKey::Heartbeat,
    ApiKey::LeaveGroup,
    ApiKey::SyncGroup,
    ApiKey::DescribeGroups,
    ApiKey::ListGroups,
    ApiKey::ApiVersions,
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::DeleteRecords,
    ApiKey::InitProducerId,
    ApiKey::OffsetForLeaderEpoch,
    ApiKey::AddPartitionsToTxn,
    ApiKey::AddOffsetsToTxn,
    ApiKey::EndTxn,
    ApiKey::WriteTxnMarkers,
    ApiKey::TxnOffsetCommit,
    ApiKey::DescribeAcls,
    ApiKey::CreateAcls,
    ApiKey::DeleteAcls,
    ApiKey::DescribeConfigs,
    ApiKey::AlterConfigs,
    ApiKey::AlterReplicaLogDirs,
    ApiKey::DescribeLogDirs,
    ApiKey::CreatePartitions,
    ApiKey::DeleteGroups,
    ApiKey::ElectLeaders,
    ApiKey::IncrementalAlterConfigs,
    ApiKey::AlterPartitionReassignments,
    ApiKey::ListPartitionReassignments,
    ApiKey::OffsetDelete,
    ApiKey::DescribeQuorum,
    ApiKey::UpdateFeatures,
    ApiKey::DescribeCluster,
    ApiKey::DescribeProducers,
    ApiKey::UnregisterBroker,
    ApiKey::DescribeTransactions,
    ApiKey::ListTransactions,
    ApiKey::ConsumerGroupHeartbeat,
    ApiKey::ConsumerGroupDescribe,
    ApiKey::ListConfigResources,
    ApiKey::DescribeTopicPartitions,
];

/// The APIs that only a broker with a receiver for metrics serves. They are advertised while there is a client metrics
/// subscription: a client that sees them pushes.
pub(crate) const SERVED_WITH_TELEMETRY: &[ApiKey] = &[ApiKey::GetTelemetrySubscriptions, ApiKey::PushTelemetry];

/// What becomes of a request.
pub(crate) enum Handled {
    Reply(Outgoing),
    /// The answer comes later; `None` if there can be none and the connection must end.
    Later(Pin<Box<dyn Future<Output = Option<Outgoing>> + Send>>),
    /// What must be done before the request can begin, and all requests behind it.
    First(Pin<Box<dyn Future<Output = Self> + Send>>),
    /// The client wants no answer.
    NoReply,
    /// The connection ends, for this reason.
    Close(String),
}

/// Begins a request. A panic is answered with an error, and hurts nobody else.
pub(crate) fn handle(node: &Arc<Node>, peer: &Peer, request: &Incoming) -> Handled {
    let caller = Caller { node, peer, request };
    panics::contained(request, || dispatch(&caller))
}

/// A request, who sent it, and to whom.
struct Caller<'a> {
    node: &'a Arc<Node>,
    peer: &'a Peer,
    request: &'a Incoming,
}

fn dispatch(caller: &Caller<'_>) -> Handled {
    let Caller { node, request, .. } = *caller;
    match request.key {
        ApiKey::Produce => produce::handle(caller),
        ApiKey::Fetch => fetch::handle(node, request),
        ApiKey::ListOffsets => answer(request, |body| list_offsets::handle(node, request.version, body)),
        ApiKey::Metadata => answer(request, |body| metadata::handle(node, request.version, body)),
        ApiKey::ApiVersions => api_versions::handle(caller),
        ApiKey::DescribeConfigs => answer(request, |body| describe_configs::handle(node, request.version, body)),
        ApiKey::DescribeCluster => answer(request, |body| describe_cluster::handle(node, body)),
        ApiKey::DescribeTopicPartitions => answer(request, |body| describe_topic_partitions::handle(node, body)),
        key => dispatch_group(caller, key),
    }
}

/// The requests of groups and of those who look after them.
fn dispatch_group(caller: &Caller<'_>, key: ApiKey) -> Handled {
    let Caller { node, request, .. } = *caller;
    match key {
        ApiKey::FindCoordinator => answer(request, |body| find_coordinator::handle(node, request.version, body)),
        ApiKey::JoinGroup => join_group::handle(caller),
        ApiKey::SyncGroup => sync_group::handle(caller),
        ApiKey::Heartbeat => heartbeat::handle(caller),
        ApiKey::LeaveGroup => leave_group::handle(caller),
        ApiKey::ConsumerGroupHeartbeat => consumer_group_heartbeat::handle(caller),
        ApiKey::OffsetCommit => offset_commit::handle(caller),
        ApiKey::OffsetFetch => offset_fetch::handle(caller),
        ApiKey::OffsetDelete => offset_delete::handle(caller),
        ApiKey::DescribeGroups => describe_groups::handle(caller),
        ApiKey::ConsumerGroupDescribe => consumer_group_describe::handle(caller),
        ApiKey::ListGroups => list_groups::handle(caller),
        ApiKey::DeleteGroups => delete_groups::handle(caller),
        key => dispatch_transaction(caller, key),
    }
}

/// The requests of transactional producers and of those who look after them.
fn dispatch_transaction(caller: &Caller<'_>, key: ApiKey) -> Handled {
    let Caller { node, request, .. } = *caller;
    match key {
        ApiKey::InitProducerId => init_producer_id::handle(caller),
        ApiKey::AddPartitionsToTxn => add_partitions_to_txn::handle(caller),
        ApiKey::AddOffsetsToTxn => add_offsets_to_txn::handle(caller),
        ApiKey::EndTxn => end_txn::handle(caller),
        ApiKey::TxnOffsetCommit => txn_offset_commit::handle(caller),
        ApiKey::WriteTxnMarkers => answer(request, |body| write_txn_markers::handle(node, body)),
        ApiKey::DescribeTransactions => describe_transactions::handle(caller),
        ApiKey::ListTransactions => list_transactions::handle(caller),
        ApiKey::GetTelemetrySubscriptions if node.telemetry_receiver.is_some() => {
            answer(request, |body| telemetry::subscriptions(caller, body))
        }
        ApiKey::PushTelemetry if node.telemetry_receiver.is_some() => {
            blocking(|| answer(request, |body| telemetry::push(caller, body)))
        }
        key => blocking(|| dispatch_admin(node, request, key)),
    }
}

/// Does what may take a while, as a sync of the disk does, such that other connections are served meanwhile.
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// The requests of those who look after a cluster.
fn dispatch_admin(node: &Node, request: &Incoming, key: ApiKey) -> Handled {
    match key {
        ApiKey::CreateTopics => answer(request, |body| create_topics::handle(node, request.version, body)),
        ApiKey::DeleteTopics => answer(request, |body| delete_topics::handle(node, request.version, body)),
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
        key => dispatch_cluster(node, request, key),
    }
}

/// The requests about the cluster as a whole, and about what this broker does not have.
fn dispatch_cluster(node: &Node, request: &Incoming, key: ApiKey) -> Handled {
    match key {
        ApiKey::AlterReplicaLogDirs => answer(request, |body| alter_replica_log_dirs::handle(node, body)),
        ApiKey::DescribeQuorum => answer(request, |body| describe_quorum::handle(node, request.version, body)),
        ApiKey::UpdateFeatures => answer(request, |body| update_features::handle(node, request.version, body)),
        ApiKey::UnregisterBroker => answer(request, |body| unregister_broker::handle(node, body)),
        ApiKey::DescribeAcls => answer(request, acls::describe),
        ApiKey::CreateAcls => answer(request, acls::create),
        ApiKey::DeleteAcls => answer(request, acls::delete),
        // Kafka closes too: an API that was not advertised is not asked for.
        key => Handled::Close(format!("{key} is not served")),
    }
}

/// Reads the body, makes the answer, encodes it.
fn answer<R: Request>(request: &Incoming, handle: impl FnOnce(R) -> R::Response) -> Handled {
    match request.body() {
        Ok(body) => reply(request, handle(body), vec![]),
        Err(error) => Handled::Close(error.to_string()),
    }
}

fn reply<R: Response>(request: &Incoming, response: R, files: Vec<FileSlice>) -> Handled {
    match outgoing(request, response, files) {
        Some(outgoing) => Handled::Reply(outgoing),
        None => Handled::Close(format!("the answer to {} could not be encoded", request.key)),
    }
}

/// The answer as it is sent; `None` if the version of the request has no place for something in it.
fn outgoing<R: Response>(request: &Incoming, response: R, files: Vec<FileSlice>) -> Option<Outgoing> {
    match request.answer(response, files) {
        Ok(outgoing) => Some(outgoing),
        Err(error) => {
            tracing::error!(%error, "an answer could not be encoded");
            None
        }
    }
}
