//! DeleteRecords 0–2. The response is sent when the new log start offset survives a power cut.

use milena_log::{DeleteRecordsError, Durability};
use milena_machines::authorizer::Operation;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        DeleteRecordsRequest, DeleteRecordsResponse,
        delete_records_request::DeleteRecordsPartition,
        delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult},
    },
};

use super::common::{Outcome, RequestContext, storage_error};
use crate::topics::Topic;

pub(super) fn handle(cx: &RequestContext<'_>, request: DeleteRecordsRequest) -> Outcome<DeleteRecordsResponse> {
    let node = cx.node;
    let mut moved_on_disk = false;
    let mut topics: Vec<DeleteRecordsTopicResult> = vec![];
    for requested in request.topics {
        let is_allowed = cx.authorize_topic(Operation::Delete, &requested.name);
        let topic = node.topics().by_name(&requested.name).cloned();
        let partitions = requested.partitions.iter().map(|partition| {
            let outcome = match is_allowed {
                true => delete(topic.as_deref(), partition, &mut moved_on_disk),
                false => Err(ErrorCode::TopicAuthorizationFailed),
            };
            result(partition.partition_index, outcome)
        });
        topics.push(DeleteRecordsTopicResult {
            partitions: partitions.collect(),
            name: requested.name,
            ..Default::default()
        });
    }
    if moved_on_disk && let Err(error) = node.write_checkpoints() {
        tracing::error!(event = "checkpoints_not_written", %error, "cannot write the checkpoints");
        let results = topics.iter_mut().flat_map(|topic| &mut topic.partitions);
        for done in results.filter(|done| done.error_code == ErrorCode::None.code()) {
            *done = result(done.partition_index, Err(ErrorCode::KafkaStorageError));
        }
    }
    Outcome::Ready(DeleteRecordsResponse {
        topics,
        ..Default::default()
    })
}

/// Moves the log start offset and returns it.
fn delete(
    topic: Option<&Topic>,
    requested: &DeleteRecordsPartition,
    moved_on_disk: &mut bool,
) -> Result<i64, ErrorCode> {
    let topic = topic.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let partition = topic.partition(requested.partition_index);
    let partition = partition.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if topic.is_internal() {
        return Err(ErrorCode::InvalidTopicException);
    }
    if !partition.log.config().delete {
        // The response has no field for a reason.
        tracing::info!(
            event = "delete_records_refused",
            topic = %topic.name,
            partition = partition.index,
            "DeleteRecords refused: cleanup.policy of the topic is not delete; add delete to it first"
        );
        return Err(ErrorCode::PolicyViolation);
    }
    let low_watermark = partition
        .log
        .delete_records(requested.offset)
        .map_err(|error| match error {
            DeleteRecordsError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
            DeleteRecordsError::Storage(error) => storage_error(&error, "records cannot be deleted"),
        })?;
    *moved_on_disk |= partition.durability() != Durability::Memory;
    // Fetches that wait below the new start must fail now.
    partition.waiters.wake_all();
    Ok(low_watermark)
}

fn result(partition_index: i32, outcome: Result<i64, ErrorCode>) -> DeleteRecordsPartitionResult {
    let (low_watermark, error) = match outcome {
        Ok(low_watermark) => (low_watermark, ErrorCode::None),
        Err(error) => (-1, error),
    };
    DeleteRecordsPartitionResult {
        partition_index,
        low_watermark,
        error_code: error.code(),
        ..Default::default()
    }
}
