//! WriteTxnMarkers 1–2: how an operator ends a transaction that its coordinator does not know of any more.

use milena_machines::transaction::ProducerEpoch;
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
    Outcome::Ready(WriteTxnMarkersResponse {
        markers: request.markers.into_iter().map(|marker| write(node, marker)).collect(),
        ..Default::default()
    })
}

fn write(node: &Node, asked: WritableTxnMarker) -> WritableTxnMarkerResult {
    let coordinator_epoch = asked.coordinator_epoch;
    let marker = match asked.transaction_result {
        true => ControlRecord::Commit { coordinator_epoch },
        false => ControlRecord::Abort { coordinator_epoch },
    };
    let end = EndMarker {
        marker,
        producer: ProducerEpoch {
            producer_id: asked.producer_id,
            epoch: asked.producer_epoch,
        },
        has_new_epoch: asked.transaction_version >= 2,
    };
    let topics = asked.topics.into_iter().map(|topic| {
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
        producer_id: asked.producer_id,
        ..Default::default()
    }
}
