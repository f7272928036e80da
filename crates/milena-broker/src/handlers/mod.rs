//! One file for each API. Each opens with the versions it serves and where it differs from Kafka.
//!
//! [`APIS`] is the table of all that are served. A handler takes the context and the decoded request and returns an
//! [`Outcome`]; decoding, encoding and the error response after a panic are the same for all ([`common::serve`]).

mod acls;
mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_configs;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod alter_user_scram_credentials;
mod api_versions;
mod client_quotas;
mod common;
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
mod describe_user_scram_credentials;
mod elect_leaders;
mod end_txn;
mod fetch;
mod find_coordinator;
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
mod produce;
mod rights;
mod sasl_authenticate;
mod sasl_handshake;
mod sync_group;
mod telemetry;
mod txn_offset_commit;
mod unregister_broker;
mod update_features;
mod write_txn_markers;

pub(crate) use common::{BoxFuture, FileResponse, HandlerThrottle, Outcome, RequestContext};

use milena_wire::{api::ApiKey, errors::ErrorCode, message::Request};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::{
    config::BrokerConfig,
    net::{InboundRequest, OutboundResponse},
    node::Node,
};

/// The table of APIs: a row has the API, its handler and properties of [`Api`].
macro_rules! apis {
    ($($key:ident => $($handler:ident)::+ $(, $property:ident)*;)*) => {
        /// The served APIs, in the order of their keys.
        pub(crate) const APIS: &[Api] = &[$(
            Api::new(
                check_key(ApiKey::$key, $($handler)::+),
                |cx| common::serve(cx, $($handler)::+),
                refusal_of($($handler)::+),
            )$(.$property())*
        ),*];
    };
}

apis! {
    Produce => produce::handle;
    Fetch => fetch::handle;
    ListOffsets => list_offsets::handle;
    Metadata => metadata::handle;
    OffsetCommit => offset_commit::handle;
    OffsetFetch => offset_fetch::handle;
    FindCoordinator => find_coordinator::handle;
    JoinGroup => join_group::handle;
    Heartbeat => heartbeat::handle;
    LeaveGroup => leave_group::handle;
    SyncGroup => sync_group::handle;
    DescribeGroups => describe_groups::handle;
    ListGroups => list_groups::handle;
    SaslHandshake => sasl_handshake::handle;
    ApiVersions => api_versions::handle;
    CreateTopics => create_topics::handle, may_block;
    DeleteTopics => delete_topics::handle, may_block;
    DeleteRecords => delete_records::handle, may_block;
    InitProducerId => init_producer_id::handle;
    OffsetForLeaderEpoch => offset_for_leader_epoch::handle, may_block;
    AddPartitionsToTxn => add_partitions_to_txn::handle;
    AddOffsetsToTxn => add_offsets_to_txn::handle;
    EndTxn => end_txn::handle;
    WriteTxnMarkers => write_txn_markers::handle;
    TxnOffsetCommit => txn_offset_commit::handle;
    DescribeAcls => acls::describe, may_block;
    CreateAcls => acls::create, may_block;
    DeleteAcls => acls::delete, may_block;
    DescribeConfigs => describe_configs::handle;
    AlterConfigs => alter_configs::handle, may_block;
    AlterReplicaLogDirs => alter_replica_log_dirs::handle, may_block;
    DescribeLogDirs => describe_log_dirs::handle, may_block;
    SaslAuthenticate => sasl_authenticate::handle;
    CreatePartitions => create_partitions::handle, may_block;
    DeleteGroups => delete_groups::handle;
    ElectLeaders => elect_leaders::handle, may_block;
    IncrementalAlterConfigs => incremental_alter_configs::handle, may_block;
    AlterPartitionReassignments => alter_partition_reassignments::handle, may_block;
    ListPartitionReassignments => list_partition_reassignments::handle, may_block;
    OffsetDelete => offset_delete::handle;
    DescribeClientQuotas => client_quotas::describe, may_block;
    AlterClientQuotas => client_quotas::alter, may_block;
    DescribeUserScramCredentials => describe_user_scram_credentials::handle;
    AlterUserScramCredentials => alter_user_scram_credentials::handle, may_block;
    DescribeQuorum => describe_quorum::handle, may_block;
    UpdateFeatures => update_features::handle, may_block;
    DescribeCluster => describe_cluster::handle;
    DescribeProducers => describe_producers::handle, may_block;
    UnregisterBroker => unregister_broker::handle, may_block;
    DescribeTransactions => describe_transactions::handle;
    ListTransactions => list_transactions::handle;
    ConsumerGroupHeartbeat => consumer_group_heartbeat::handle;
    ConsumerGroupDescribe => consumer_group_describe::handle;
    GetTelemetrySubscriptions => telemetry::subscriptions, with_telemetry;
    PushTelemetry => telemetry::push, may_block, with_telemetry;
    ListConfigResources => list_config_resources::handle, may_block;
    DescribeTopicPartitions => describe_topic_partitions::handle;
}

/// Makes the error response of an API.
type Refuse = fn(&InboundRequest, ErrorCode) -> Option<OutboundResponse>;

/// One row of [`APIS`].
pub(crate) struct Api {
    pub(crate) key: ApiKey,
    serve: fn(&RequestContext<'_>) -> Outcome<OutboundResponse>,
    refuse: Refuse,
    /// Whether the handler may wait for the disk or for another thread.
    may_block: bool,
    /// Whether it needs a receiver of client metrics.
    with_telemetry: bool,
}

impl Api {
    const fn new(key: ApiKey, serve: fn(&RequestContext<'_>) -> Outcome<OutboundResponse>, refuse: Refuse) -> Self {
        Self {
            key,
            serve,
            refuse,
            may_block: false,
            with_telemetry: false,
        }
    }

    const fn may_block(mut self) -> Self {
        self.may_block = true;
        self
    }

    const fn with_telemetry(mut self) -> Self {
        self.with_telemetry = true;
        self
    }

    fn is_served(&self, node: &Node) -> bool {
        !self.with_telemetry || node.telemetry_receiver.is_some()
    }

    /// Whether ApiVersions lists it. A client that sees the APIs of telemetry uses them and logs that, so they are listed
    /// only while there is a client metrics subscription.
    fn is_advertised(&self, node: &Node, config: &BrokerConfig) -> bool {
        self.is_served(node) && !(self.with_telemetry && config.client_metrics.is_empty())
    }
}

/// Fails the build if a row of the table has the handler of another API.
const fn check_key<R: Request, T>(key: ApiKey, _: fn(&RequestContext<'_>, R) -> Outcome<T>) -> ApiKey {
    assert!(key.id() == R::KEY.id(), "the handler is of another API");
    assert!(rights::of(key).is_some(), "handlers/rights.rs has no row for this API");
    key
}

/// The function that makes the error response of the API of a handler.
const fn refusal_of<R: Request, T>(_: fn(&RequestContext<'_>, R) -> Outcome<T>) -> Refuse {
    common::refuse::<R>
}

/// Refuses a request without serving it: returns the error response of its API, `None` if there is none.
pub(crate) fn refuse(cx: &RequestContext<'_>, error: ErrorCode) -> Option<OutboundResponse> {
    let api = APIS.iter().find(|api| api.key == cx.request.key)?;
    (api.refuse)(cx.request, error)
}

/// Begins a request.
pub(crate) fn handle(cx: &RequestContext<'_>) -> Outcome<OutboundResponse> {
    let key = cx.request.key;
    let api = APIS.iter().find(|api| api.key == key && api.is_served(cx.node));
    match api {
        // A client sends ApiVersions before it can know the versions.
        Some(_) if key == ApiKey::ApiVersions && !api_versions::is_supported(cx.request.version) => {
            api_versions::unsupported_version(cx)
        }
        Some(api) if api.may_block => blocking(|| (api.serve)(cx)),
        Some(api) => (api.serve)(cx),
        // Kafka closes too: the API was not advertised.
        None => Outcome::Close(format!("{key} is not served")),
    }
}

/// Runs work that may wait for the disk, such that other connections are served meanwhile.
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apis_are_in_the_order_of_their_keys_and_have_versions() {
        assert!(APIS.is_sorted_by_key(|api| api.key.id()));
        assert!(APIS.iter().all(|api| api.key.broker_versions().is_some()));
    }
}
