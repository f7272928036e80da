//! A panic in a request is a bug of ours. Its client is told of an error, in the form that its API has for one; nobody
//! else notices.

mod admin;
mod data;
mod groups;
#[cfg(test)]
mod tests;
mod transactions;

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    message::{Request, Response},
    messages::*,
};

use super::{Handled, outgoing};
use crate::net::{Incoming, Outgoing};

const CODE: i16 = ErrorCode::UnknownServerError.code();

type Panic = Box<dyn Any + Send>;

/// Serves a request such that a panic, now or later, becomes an answer; if the API has no place for an error, the end
/// of the connection.
pub(super) fn contained(request: &Incoming, begin: impl FnOnce() -> Handled) -> Handled {
    guarded(request, catch_unwind(AssertUnwindSafe(begin)))
}

/// What has come of a request, with a guard around what is still to come.
fn guarded(request: &Incoming, handled: Result<Handled, Panic>) -> Handled {
    match handled {
        Ok(Handled::Later(answer)) => {
            let request = request.clone();
            Handled::Later(Box::pin(async move {
                let answer = Caught(answer).await;
                answer.unwrap_or_else(|panic| after_panic(&request, &*panic))
            }))
        }
        Ok(Handled::First(begin)) => {
            let request = request.clone();
            Handled::First(Box::pin(async move { guarded(&request, Caught(begin).await) }))
        }
        Ok(handled) => handled,
        Err(panic) => match after_panic(request, &*panic) {
            Some(answer) => Handled::Reply(answer),
            None => Handled::Close(format!("{} panicked", request.key)),
        },
    }
}

/// A future that may panic on the way.
struct Caught<T>(Pin<Box<dyn Future<Output = T> + Send>>);

impl<T> Future for Caught<T> {
    type Output = Result<T, Panic>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

/// Tells of the panic, and what to answer.
fn after_panic(request: &Incoming, panic: &(dyn Any + Send)) -> Option<Outgoing> {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let panic = text.unwrap_or("without a text");
    tracing::error!(api = %request.key, version = request.version, panic, "a request made the broker panic");
    // Reading the request again must not end what has just been saved.
    catch_unwind(AssertUnwindSafe(|| error_answer(request))).ok().flatten()
}

/// The error at the top of an answer.
macro_rules! at_the_top {
    ($request:expr, $asked:ident => $answer:ident) => {
        encode($request, |_: $asked| {
            Some($answer {
                error_code: CODE,
                ..Default::default()
            })
        })
    };
}

/// The error in the form of the API: at the top where there is a place for it, else for each thing that was asked for.
fn error_answer(request: &Incoming) -> Option<Outgoing> {
    let version = request.version;
    match request.key {
        ApiKey::Produce => encode(request, data::produce),
        ApiKey::Fetch => encode(request, data::fetch),
        ApiKey::ListOffsets => encode(request, data::list_offsets),
        ApiKey::OffsetForLeaderEpoch => encode(request, data::offset_for_leader_epoch),
        ApiKey::DeleteRecords => encode(request, data::delete_records),
        ApiKey::Metadata => encode(request, |body| data::metadata(version, body)),
        ApiKey::DescribeTopicPartitions => encode(request, data::describe_topic_partitions),
        ApiKey::DescribeProducers => encode(request, data::describe_producers),
        ApiKey::ApiVersions => at_the_top!(request, ApiVersionsRequest => ApiVersionsResponse),
        _ => group_error(request)
            .or_else(|| transaction_error(request))
            .or_else(|| admin_error(request)),
    }
}

fn group_error(request: &Incoming) -> Option<Outgoing> {
    let version = request.version;
    match request.key {
        ApiKey::FindCoordinator => encode(request, |body| groups::find_coordinator(version, body)),
        ApiKey::JoinGroup => at_the_top!(request, JoinGroupRequest => JoinGroupResponse),
        ApiKey::SyncGroup => at_the_top!(request, SyncGroupRequest => SyncGroupResponse),
        ApiKey::Heartbeat => at_the_top!(request, HeartbeatRequest => HeartbeatResponse),
        ApiKey::LeaveGroup => at_the_top!(request, LeaveGroupRequest => LeaveGroupResponse),
        ApiKey::ConsumerGroupHeartbeat => {
            at_the_top!(request, ConsumerGroupHeartbeatRequest => ConsumerGroupHeartbeatResponse)
        }
        ApiKey::OffsetCommit => encode(request, groups::offset_commit),
        ApiKey::OffsetFetch => encode(request, |body| groups::offset_fetch(version, body)),
        ApiKey::OffsetDelete => at_the_top!(request, OffsetDeleteRequest => OffsetDeleteResponse),
        ApiKey::DescribeGroups => encode(request, groups::describe_groups),
        ApiKey::ConsumerGroupDescribe => encode(request, groups::consumer_group_describe),
        ApiKey::ListGroups => at_the_top!(request, ListGroupsRequest => ListGroupsResponse),
        ApiKey::DeleteGroups => encode(request, groups::delete_groups),
        _ => None,
    }
}

fn transaction_error(request: &Incoming) -> Option<Outgoing> {
    let version = request.version;
    match request.key {
        ApiKey::InitProducerId => encode(request, transactions::init_producer_id),
        ApiKey::AddPartitionsToTxn => encode(request, |body| transactions::add_partitions_to_txn(version, body)),
        ApiKey::AddOffsetsToTxn => at_the_top!(request, AddOffsetsToTxnRequest => AddOffsetsToTxnResponse),
        ApiKey::EndTxn => at_the_top!(request, EndTxnRequest => EndTxnResponse),
        ApiKey::TxnOffsetCommit => encode(request, transactions::txn_offset_commit),
        ApiKey::WriteTxnMarkers => encode(request, transactions::write_txn_markers),
        ApiKey::DescribeTransactions => encode(request, transactions::describe_transactions),
        ApiKey::ListTransactions => at_the_top!(request, ListTransactionsRequest => ListTransactionsResponse),
        _ => None,
    }
}

fn admin_error(request: &Incoming) -> Option<Outgoing> {
    match request.key {
        ApiKey::CreateTopics => encode(request, admin::create_topics),
        ApiKey::DeleteTopics => encode(request, admin::delete_topics),
        ApiKey::CreatePartitions => encode(request, admin::create_partitions),
        ApiKey::DescribeConfigs => encode(request, admin::describe_configs),
        ApiKey::AlterConfigs => encode(request, admin::alter_configs),
        ApiKey::IncrementalAlterConfigs => encode(request, admin::incremental_alter_configs),
        ApiKey::ListConfigResources => at_the_top!(request, ListConfigResourcesRequest => ListConfigResourcesResponse),
        ApiKey::DescribeLogDirs => encode(request, admin::describe_log_dirs),
        ApiKey::DescribeCluster => at_the_top!(request, DescribeClusterRequest => DescribeClusterResponse),
        ApiKey::ElectLeaders => encode(request, |body| admin::elect_leaders(request.version, body)),
        ApiKey::AlterPartitionReassignments => {
            at_the_top!(request, AlterPartitionReassignmentsRequest => AlterPartitionReassignmentsResponse)
        }
        ApiKey::ListPartitionReassignments => {
            at_the_top!(request, ListPartitionReassignmentsRequest => ListPartitionReassignmentsResponse)
        }
        _ => cluster_error(request),
    }
}

fn cluster_error(request: &Incoming) -> Option<Outgoing> {
    match request.key {
        ApiKey::AlterReplicaLogDirs => encode(request, admin::alter_replica_log_dirs),
        ApiKey::DescribeQuorum => at_the_top!(request, DescribeQuorumRequest => DescribeQuorumResponse),
        ApiKey::UpdateFeatures => at_the_top!(request, UpdateFeaturesRequest => UpdateFeaturesResponse),
        ApiKey::UnregisterBroker => at_the_top!(request, UnregisterBrokerRequest => UnregisterBrokerResponse),
        ApiKey::DescribeAcls => at_the_top!(request, DescribeAclsRequest => DescribeAclsResponse),
        ApiKey::CreateAcls => encode(request, admin::create_acls),
        ApiKey::DeleteAcls => encode(request, admin::delete_acls),
        ApiKey::GetTelemetrySubscriptions => {
            at_the_top!(request, GetTelemetrySubscriptionsRequest => GetTelemetrySubscriptionsResponse)
        }
        ApiKey::PushTelemetry => at_the_top!(request, PushTelemetryRequest => PushTelemetryResponse),
        _ => None,
    }
}

/// The answer that `answer` makes of the request; `None` if that has no place for an error.
fn encode<R, A>(request: &Incoming, answer: impl FnOnce(R) -> Option<A>) -> Option<Outgoing>
where
    R: Request<Response = A>,
    A: Response,
{
    let body = request.body().ok()?;
    outgoing(request, answer(body)?, vec![])
}
