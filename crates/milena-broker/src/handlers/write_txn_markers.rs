//! WriteTxnMarkers 1–2: operators end transactions with it that their coordinator no longer knows.

use milena_machines::{authorizer::Operation, transaction::ProducerEpoch};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        WriteTxnMarkersRequest, WriteTxnMarkersResponse,
        write_txn_markers_request::WritableTxnMarker,
        write_txn_markers_response::{
            WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
        },
    },
    records::ControlRecord,
};

use super::common::{Outcome, RequestContext};
use crate::{coordinators::append_marker, node::Node, partition::EndMarker};

pub(super) fn handle(cx: &RequestContext<'_>, request: WriteTxnMarkersRequest) -> Outcome<WriteTxnMarkersResponse> {
    let node = cx.node;
    if !cx.authorize_cluster_silently(Operation::Alter) && !cx.authorize_cluster(Operation::ClusterAction) {
        return cx.refuse(&request, ErrorCode::ClusterAuthorizationFailed);
    }
    Outcome::Ready(WriteTxnMarkersResponse {
        markers: request.markers.into_iter().map(|marker| write(node, marker)).collect(),
        ..Default::default()
    })
}

fn write(node: &Node, requested: WritableTxnMarker) -> WritableTxnMarkerResult {
    let coordinator_epoch = requested.coordinator_epoch;
    let marker = match requested.transaction_result {
        true => ControlRecord::Commit { coordinator_epoch },
        false => ControlRecord::Abort { coordinator_epoch },
    };
    let end = EndMarker {
        marker,
        producer: ProducerEpoch {
            producer_id: requested.producer_id,
            epoch: requested.producer_epoch,
        },
        has_new_epoch: requested.transaction_version >= 2,
    };
    let topics = requested.topics.into_iter().map(|topic| {
        let found = node.topics().by_name(&topic.name).cloned();
        let partitions = topic.partition_indexes.into_iter().map(|index| {
            let partition = found.as_ref().and_then(|topic| topic.partition(index));
            let error = match partition.map(|partition| append_marker(node, partition, end)) {
                Some(Ok(_)) => ErrorCode::None,
                Some(Err(error)) => error.error_code(),
                None => ErrorCode::UnknownTopicOrPartition,
            };
            WritableTxnMarkerPartitionResult {
                partition_index: index,
                error_code: error.code(),
                ..Default::default()
            }
        });
        WritableTxnMarkerTopicResult {
            partitions: partitions.collect(),
            name: topic.name,
            ..Default::default()
        }
    });
    WritableTxnMarkerResult {
        topics: topics.collect(),
        producer_id: requested.producer_id,
        ..Default::default()
    }
}
