//! Fetch 4–18. Sessions are not kept: every answer says so with session id 0, which clients understand as "send all
//! partitions each time". Records go from the file to the socket without passing through memory.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use milena_log::{FileSlice, Isolation, LogView, ReadError};
use milena_wire::{
    errors::ErrorCode,
    frame::RequestFrame,
    messages::{
        FetchRequest, FetchResponse,
        fetch_request::{FetchPartition, FetchTopic},
        fetch_response::{AbortedTransaction, FetchableTopicResponse, PartitionData},
    },
};

use super::{Handled, outgoing, reply};
use crate::{
    net::{Outgoing, placeholder, placeholder_len_max},
    node::Node,
    partition::Partition,
    topics::Topic,
    waiters::Waiter,
};

/// Smaller record data is copied into the frame, so it cannot be a placeholder.
const FILE_FROM: usize = 1024;

pub(super) fn handle(node: &Arc<Node>, request: &RequestFrame) -> Handled {
    let body: FetchRequest = match request.body() {
        Ok(body) => body,
        Err(error) => return Handled::Close(error.to_string()),
    };
    let fetch = Fetch {
        node: Arc::clone(node),
        request: request.clone(),
        body,
    };
    let read = fetch.read();
    if fetch.is_enough(&read) {
        return reply(request, &read.response, read.files);
    }
    Handled::Later(Box::pin(fetch.wait()))
}

struct Fetch {
    node: Arc<Node>,
    request: RequestFrame,
    body: FetchRequest,
}

/// What there is to answer with.
#[derive(Default)]
struct Read {
    response: FetchResponse,
    files: Vec<FileSlice>,
    bytes: usize,
    has_error: bool,
}

impl Fetch {
    fn is_enough(&self, read: &Read) -> bool {
        let min_bytes = usize::try_from(self.body.min_bytes).unwrap_or(0);
        let asks_nothing = self.body.topics.iter().all(|topic| topic.partitions.is_empty());
        self.body.max_wait_ms <= 0 || asks_nothing || read.has_error || read.bytes >= min_bytes
    }

    /// Waits until there is enough or the time is over, then reads again.
    async fn wait(self) -> Option<Outgoing> {
        let partitions = self.partitions();
        let waiter = Waiter::new();
        for partition in &partitions {
            partition.waiters.add(&waiter);
        }
        let wait = Duration::from_millis(u64::try_from(self.body.max_wait_ms).unwrap_or(0));
        let deadline = tokio::time::Instant::now() + wait;
        let read = loop {
            let arrived = waiter.arrived_so_far();
            let read = self.read();
            if self.is_enough(&read) || tokio::time::Instant::now() >= deadline {
                break read;
            }
            let missing = i64::from(self.body.min_bytes) - read.bytes as i64;
            // Whether woken or out of time, it looks again: what there is now is the answer.
            let _ = tokio::time::timeout_at(deadline, waiter.wait_until(arrived + missing)).await;
        };
        for partition in &partitions {
            partition.waiters.remove(&waiter);
        }
        outgoing(&self.request, &read.response, read.files)
    }

    fn partitions(&self) -> Vec<Arc<Partition>> {
        let wanted = self
            .body
            .topics
            .iter()
            .filter_map(|topic| Some((self.find(topic).ok()?, topic)));
        wanted
            .flat_map(|(topic, wanted)| {
                let indexes = wanted.partitions.iter().map(|partition| partition.partition);
                indexes
                    .filter_map(|index| topic.partition(index).cloned())
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    fn find(&self, wanted: &FetchTopic) -> Result<Arc<Topic>, ErrorCode> {
        let topics = self.node.topics();
        if self.request.version >= 13 {
            return topics.by_id(wanted.topic_id).cloned().ok_or(ErrorCode::UnknownTopicId);
        }
        let found = topics.by_name(&wanted.topic).cloned();
        found.ok_or(ErrorCode::UnknownTopicOrPartition)
    }

    /// Reads from every partition, in the order of the request, as far as the limits allow.
    fn read(&self) -> Read {
        let mut read = Read::default();
        let config = self.node.config();
        let mut room = usize::try_from(self.body.max_bytes.min(config.fetch_max_bytes)).unwrap_or(0);
        for wanted in &self.body.topics {
            let topic = self.find(wanted);
            let mut partitions = Vec::with_capacity(wanted.partitions.len());
            for partition in &wanted.partitions {
                let data = match &topic {
                    Ok(topic) => self.read_partition(topic, partition, room, &mut read),
                    Err(error) => Err(*error),
                };
                let data = data.unwrap_or_else(|error| {
                    read.has_error = true;
                    failed(partition.partition, error)
                });
                room = room.saturating_sub(data.records.as_ref().map_or(0, Bytes::len));
                partitions.push(data);
            }
            read.response.responses.push(FetchableTopicResponse {
                topic: wanted.topic.clone(),
                topic_id: wanted.topic_id,
                partitions,
                ..Default::default()
            });
        }
        read
    }

    fn read_partition(
        &self,
        topic: &Topic,
        wanted: &FetchPartition,
        room: usize,
        read: &mut Read,
    ) -> Result<PartitionData, ErrorCode> {
        let partition = topic
            .partition(wanted.partition)
            .ok_or(ErrorCode::UnknownTopicOrPartition)?;
        self.node.check_leader_epoch(wanted.current_leader_epoch)?;
        let view = partition.log.view();
        // The first records of an answer may be larger than all limits: else a large batch could never be read.
        let first = read.bytes == 0;
        let limit = usize::try_from(wanted.partition_max_bytes)
            .unwrap_or(0)
            .min(room)
            .min(placeholder_len_max());
        let slice = match view.read(wanted.fetch_offset, limit, self.isolation()) {
            Ok(slice) => slice.filter(|slice| first || slice.len <= limit),
            Err(ReadError::OutOfRange { .. }) => return Err(ErrorCode::OffsetOutOfRange),
            Err(ReadError::Storage(error)) => {
                tracing::error!(%error, "records cannot be read");
                return Err(ErrorCode::KafkaStorageError);
            }
        };
        let mut data = PartitionData {
            partition_index: wanted.partition,
            high_watermark: view.high_watermark,
            last_stable_offset: view.last_stable_offset,
            log_start_offset: view.log_start_offset,
            // Null would be read as a damaged set of messages by librdkafka.
            records: Some(Bytes::new()),
            ..Default::default()
        };
        if let Some(slice) = slice {
            data.aborted_transactions = self.aborted(&view, wanted.fetch_offset)?;
            data.records = Some(self.records(slice, read)?);
        }
        Ok(data)
    }

    fn records(&self, slice: FileSlice, read: &mut Read) -> Result<Bytes, ErrorCode> {
        read.bytes += slice.len;
        if slice.len < FILE_FROM || slice.len > placeholder_len_max() {
            return slice.read().map_err(|error| {
                tracing::error!(%error, "records cannot be read");
                ErrorCode::KafkaStorageError
            });
        }
        let stand_in = placeholder(slice.len);
        read.files.push(slice);
        Ok(stand_in)
    }

    fn aborted(&self, view: &LogView, from: i64) -> Result<Option<Vec<AbortedTransaction>>, ErrorCode> {
        if self.isolation() == Isolation::ReadUncommitted {
            return Ok(None);
        }
        let aborted = view
            .aborted_transactions(from, view.last_stable_offset)
            .map_err(|error| {
                tracing::error!(%error, "aborted transactions cannot be read");
                ErrorCode::KafkaStorageError
            })?;
        let entries = aborted.iter().map(|entry| AbortedTransaction {
            producer_id: entry.producer_id,
            first_offset: entry.first_offset,
            ..Default::default()
        });
        Ok(Some(entries.collect()))
    }

    fn isolation(&self) -> Isolation {
        match self.body.isolation_level {
            1 => Isolation::ReadCommitted,
            _ => Isolation::ReadUncommitted,
        }
    }
}

fn failed(partition_index: i32, error: ErrorCode) -> PartitionData {
    PartitionData {
        partition_index,
        error_code: error.code(),
        high_watermark: -1,
        records: Some(Bytes::new()),
        ..Default::default()
    }
}
