//! AlterReplicaLogDirs 1–2. The one directory is where every replica is already.

use std::path::Path;

use milena_wire::{
    errors::ErrorCode,
    messages::{
        AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse,
        alter_replica_log_dirs_response::{AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult},
    },
};

use super::common::{Outcome, RequestContext};

pub(super) fn handle(
    cx: &RequestContext<'_>,
    request: AlterReplicaLogDirsRequest,
) -> Outcome<AlterReplicaLogDirsResponse> {
    let node = cx.node;
    let own = node.data_dir.path();
    let own = std::path::absolute(own).unwrap_or_else(|_| own.to_owned());
    let mut results = vec![];
    for dir in request.dirs {
        let is_own = Path::new(&*dir.path) == own;
        for requested in dir.topics {
            let topic = node.topics().by_name(&requested.name).cloned();
            let partitions = requested.partitions.iter().map(|index| {
                let known = topic.as_ref().is_some_and(|topic| topic.partition(*index).is_some());
                let error = match (is_own, known) {
                    (false, _) => ErrorCode::LogDirNotFound,
                    (true, false) => ErrorCode::UnknownTopicOrPartition,
                    (true, true) => ErrorCode::None,
                };
                AlterReplicaLogDirPartitionResult {
                    partition_index: *index,
                    error_code: error.code(),
                    ..Default::default()
                }
            });
            results.push(AlterReplicaLogDirTopicResult {
                partitions: partitions.collect(),
                topic_name: requested.name,
                ..Default::default()
            });
        }
    }
    Outcome::Ready(AlterReplicaLogDirsResponse {
        results,
        ..Default::default()
    })
}
