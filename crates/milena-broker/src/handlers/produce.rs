//! Produce 3–13; 0 to 2 are advertised and refused, as Kafka does. Transactional batches are not served yet.

use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;
use milena_log::AppendError;
use milena_wire::{
    Uuid,
    compression::Codec,
    errors::ErrorCode,
    frame::RequestFrame,
    messages::{
        ProduceRequest, ProduceResponse,
        produce_request::TopicProduceData,
        produce_response::{PartitionProduceResponse, TopicProduceResponse},
    },
    records::{Attributes, HEADER_SIZE},
};

use super::{Handled, outgoing, reply};
use crate::{
    node::{Node, Refusal},
    partition::Partition,
    topics::Topic,
};

pub(super) fn handle(node: &Arc<Node>, request: &RequestFrame) -> Handled {
    let body: ProduceRequest = match request.body() {
        Ok(body) => body,
        Err(error) => return Handled::Close(error.to_string()),
    };
    let acks = body.acks;
    let mut produce = Produce {
        node,
        version: request.version,
        acks,
        unsynced: vec![],
        failed: false,
    };
    let responses = body.topic_data.into_iter().map(|topic| produce.topic(topic)).collect();
    let response = ProduceResponse {
        responses,
        ..ProduceResponse::default()
    };
    let Produce { unsynced, failed, .. } = produce;
    match acks {
        // Who wants no answer can only be told of an error by the end of the connection.
        0 if failed => Handled::Close("a produce without acknowledgement failed".to_owned()),
        0 => Handled::NoReply,
        _ if unsynced.is_empty() => reply(request, &response, vec![]),
        _ => {
            let request = request.clone();
            Handled::Later(Box::pin(async move {
                for (partition, offset) in unsynced {
                    partition.wait_synced(offset).await;
                }
                outgoing(&request, &response, vec![])
            }))
        }
    }
}

struct Produce<'a> {
    node: &'a Arc<Node>,
    version: i16,
    acks: i16,
    /// Partitions that must be synced up to an offset before the answer.
    unsynced: Vec<(Arc<Partition>, i64)>,
    failed: bool,
}

impl Produce<'_> {
    fn topic(&mut self, data: TopicProduceData) -> TopicProduceResponse {
        let topic = self.find(&data.name, data.topic_id);
        let partition_responses = data.partition_data.into_iter().map(|partition| {
            let outcome = match &topic {
                Ok(topic) => self.partition(topic, partition.index, partition.records),
                Err(refusal) => Err(refusal.clone()),
            };
            outcome.unwrap_or_else(|refusal| {
                self.failed = true;
                PartitionProduceResponse {
                    index: partition.index,
                    error_code: refusal.code.code(),
                    base_offset: -1,
                    error_message: Some(refusal.reason.into()),
                    ..Default::default()
                }
            })
        });
        TopicProduceResponse {
            partition_responses: partition_responses.collect(),
            name: data.name,
            topic_id: data.topic_id,
            ..Default::default()
        }
    }

    fn find(&self, name: &ByteString, id: Uuid) -> Result<Arc<Topic>, Refusal> {
        let topics = self.node.topics();
        if self.version >= 13 {
            let refusal = || Refusal::new(ErrorCode::UnknownTopicId, format!("there is no topic with id {id}"));
            return topics.by_id(id).cloned().ok_or_else(refusal);
        }
        let refusal = || Refusal::new(ErrorCode::UnknownTopicOrPartition, format!("there is no topic {name}"));
        topics.by_name(name).cloned().ok_or_else(refusal)
    }

    fn partition(
        &mut self,
        topic: &Topic,
        index: i32,
        records: Option<Bytes>,
    ) -> Result<PartitionProduceResponse, Refusal> {
        let partition = topic.partition(index).ok_or_else(|| {
            let reason = format!("topic {} has no partition {index}", topic.name);
            Refusal::new(ErrorCode::UnknownTopicOrPartition, reason)
        })?;
        let records = records.unwrap_or_default();
        self.check(topic, &records)?;
        let node = self.node;
        let appended = partition
            .append(&records, node.leader_epoch, node.now_ms(), &node.syncer)
            .map_err(|error| refusal_of(&error))?;
        if partition.syncs_before_answer(self.acks, appended.last_offset, &node.syncer) {
            self.unsynced.push((Arc::clone(partition), appended.last_offset));
        }
        Ok(PartitionProduceResponse {
            index,
            base_offset: appended.base_offset,
            log_append_time_ms: appended.log_append_time_ms,
            log_start_offset: appended.log_start_offset,
            ..Default::default()
        })
    }

    fn check(&self, topic: &Topic, records: &Bytes) -> Result<(), Refusal> {
        if !matches!(self.acks, -1..=1) {
            let reason = format!("acks is {}, which is none of 0, 1 and -1", self.acks);
            return Err(Refusal::new(ErrorCode::InvalidRequiredAcks, reason));
        }
        if self.node.syncer.has_failed() {
            return Err(Refusal::new(
                ErrorCode::KafkaStorageError,
                "the disk failed to sync; restart the broker",
            ));
        }
        if topic.is_internal() {
            return Err(Refusal::new(
                ErrorCode::InvalidTopicException,
                "clients may not write to this topic",
            ));
        }
        let header = records
            .first_chunk::<HEADER_SIZE>()
            .map(milena_wire::records::BatchHeader::parse);
        let attributes = header.map_or_else(Attributes::default, |header| header.attributes);
        if attributes.codec() == Ok(Codec::Zstd) && self.version < 7 {
            let reason = "zstd needs version 7 of Produce";
            return Err(Refusal::new(ErrorCode::UnsupportedCompressionType, reason));
        }
        if attributes.is_transactional() {
            return Err(Refusal::new(
                ErrorCode::InvalidTxnState,
                "transactions are not served yet",
            ));
        }
        Ok(())
    }
}

fn refusal_of(error: &AppendError) -> Refusal {
    if let AppendError::Storage(error) = error {
        tracing::error!(%error, "records cannot be written");
    }
    Refusal::new(error.error_code(), error.to_string())
}
