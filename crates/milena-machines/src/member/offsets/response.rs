//! Decoding of offset responses.

use bytestring::ByteString;
use milena_wire::{errors::ErrorCode, messages::OffsetFetchResponse};

use super::{OffsetAndMetadata, request::TopicIds};
use crate::TopicPartition;

/// An unknown code, of a newer Kafka, counts as an unknown error.
pub(crate) fn code(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError)
}

/// Whether the broker is not, or not yet, the coordinator of the group.
pub(crate) fn moves_coordinator(error: ErrorCode) -> bool {
    matches!(error, ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable)
}

type FetchedOffset = (TopicPartition, ErrorCode, Option<OffsetAndMetadata>);

/// The error of the group, and the offset of each partition. Old versions have one group, in other fields.
pub(super) fn fetched(response: OffsetFetchResponse, ids: &TopicIds) -> (ErrorCode, Vec<FetchedOffset>) {
    if let Some(group) = response.groups.into_iter().next() {
        let offsets = group.topics.into_iter().flat_map(|topic| {
            let name = ids.name(&topic.name, topic.topic_id);
            topic.partitions.into_iter().map(move |partition| {
                let topic_partition = TopicPartition::new(name.clone(), partition.partition_index);
                let offset = (
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.metadata,
                );
                (topic_partition, code(partition.error_code), committed(offset))
            })
        });
        return (code(group.error_code), offsets.collect());
    }
    let offsets = response.topics.into_iter().flat_map(|topic| {
        let name = topic.name;
        topic.partitions.into_iter().map(move |partition| {
            let topic_partition = TopicPartition::new(name.clone(), partition.partition_index);
            let offset = (
                partition.committed_offset,
                partition.committed_leader_epoch,
                partition.metadata,
            );
            (topic_partition, code(partition.error_code), committed(offset))
        })
    });
    (code(response.error_code), offsets.collect())
}

/// Offset -1 means that there is none. The text is copied: it outlives the frame of the response.
fn committed((offset, leader_epoch, metadata): (i64, i32, Option<ByteString>)) -> Option<OffsetAndMetadata> {
    (offset >= 0).then(|| OffsetAndMetadata {
        offset,
        leader_epoch: (leader_epoch >= 0).then_some(leader_epoch),
        metadata: metadata.map_or_else(ByteString::new, |text| ByteString::from(&*text)),
    })
}
