//! DescribeLogDirs 1–5. There is one directory; topics in memory are listed with it, though no file of theirs is there.

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;
use milena_machines::authorizer::Operation;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        DescribeLogDirsRequest, DescribeLogDirsResponse,
        describe_log_dirs_response::{DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic},
    },
};

use super::common::{Outcome, RequestContext};
use crate::topics::Topic;

/// Partitions by topic.
type RequestedPartitions = BTreeMap<ByteString, BTreeSet<i32>>;

pub(super) fn handle(cx: &RequestContext<'_>, request: DescribeLogDirsRequest) -> Outcome<DescribeLogDirsResponse> {
    if !cx.authorize_cluster(Operation::Describe) {
        return Outcome::Ready(DescribeLogDirsResponse {
            error_code: ErrorCode::ClusterAuthorizationFailed.code(),
            ..Default::default()
        });
    }
    let node = cx.node;
    let requested: Option<RequestedPartitions> = request.topics.map(|topics| {
        let mut requested = RequestedPartitions::new();
        for topic in topics {
            requested.entry(topic.topic).or_default().extend(topic.partitions);
        }
        requested
    });
    let topics = match &requested {
        None => node.topics().iter().map(|topic| describe(topic, None)).collect(),
        Some(requested) => requested
            .iter()
            .filter_map(|(name, indexes)| Some(describe(node.topics().by_name(name)?, Some(indexes))))
            .collect(),
    };
    let path = node.data_dir.path();
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (total_bytes, usable_bytes) = node.data_dir.space().unwrap_or((-1, -1));
    Outcome::Ready(DescribeLogDirsResponse {
        results: vec![DescribeLogDirsResult {
            log_dir: path.to_string_lossy().into_owned().into(),
            topics,
            total_bytes,
            usable_bytes,
            ..Default::default()
        }],
        ..Default::default()
    })
}

fn describe(topic: &Topic, indexes: Option<&BTreeSet<i32>>) -> DescribeLogDirsTopic {
    let is_requested = |index| indexes.is_none_or(|indexes| indexes.contains(&index));
    let partitions = topic
        .partitions
        .iter()
        .filter(|partition| is_requested(partition.index));
    let partitions = partitions.map(|partition| DescribeLogDirsPartition {
        partition_index: partition.index,
        partition_size: i64::try_from(partition.log.view().size()).unwrap_or(i64::MAX),
        ..Default::default()
    });
    DescribeLogDirsTopic {
        name: topic.name.clone(),
        partitions: partitions.collect(),
        ..Default::default()
    }
}
