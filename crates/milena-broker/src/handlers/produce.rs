//! Produce 3–13; 0 to 2 are advertised and refused, as Kafka does. From version 12 on, the request itself adds partitions to
//! a transaction.

use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;
use milena_log::{AppendError, Appended, InvalidBatch};
use milena_machines::{
    TopicPartition,
    authorizer::Operation,
    transaction::{ProducerEpoch, TransactionReply, TransactionRequest, produce_error},
};
use milena_wire::{
    Uuid,
    api::versions,
    compression::Codec,
    errors::ErrorCode,
    messages::{
        ProduceRequest, ProduceResponse,
        produce_request::TopicProduceData,
        produce_response::{BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse},
    },
    records::{Attributes, BatchHeader, HEADER_SIZE},
};

use super::common::{Outcome, RequestContext, storage_error, was_added};
use crate::{
    config::TopicConfig,
    coordinators::PendingReply,
    node::{Node, Refusal},
    partition::{Partition, SyncFailed},
    topics::Topic,
};

pub(super) fn handle(cx: &RequestContext<'_>, mut request: ProduceRequest) -> Outcome<ProduceResponse> {
    let version = cx.request.version;
    if let Err(error) = check_transaction(cx, &request) {
        return cx.refuse(&request, error);
    }
    let denied = take_denied(cx, &mut request);
    let added = match add_partitions(cx.node, version, &request) {
        None => Ok(()),
        Some(Ok(PendingReply::Ready(added))) => was_added(Ok(added)),
        Some(Ok(later)) => {
            // Nothing may be written that the coordinator could forget, and later requests must stay behind this one.
            let node = Arc::clone(cx.node);
            return Outcome::First(Box::pin(async move {
                let added = was_added(later.wait().await);
                produce(&node, version, request, added, denied)
            }));
        }
        Some(Err(error)) => Err(error),
    };
    produce(cx.node, version, request, added, denied)
}

/// Refuses records of a transaction without the id of one, or if the client may not write with that id.
fn check_transaction(cx: &RequestContext<'_>, request: &ProduceRequest) -> Result<(), ErrorCode> {
    let partitions = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    let mut records = partitions.filter_map(|partition| partition.records.as_ref());
    if !records.any(|records| transaction_of(records).is_some()) {
        return Ok(());
    }
    match &request.transactional_id {
        Some(id) => cx.check_transactional_id(Operation::Write, id),
        None => Err(ErrorCode::TransactionalIdAuthorizationFailed),
    }
}

/// Removes topics that the client may not write to, and returns them as rows. Ids of no topic stay.
fn take_denied(cx: &RequestContext<'_>, request: &mut ProduceRequest) -> Vec<TopicProduceResponse> {
    let is_denied = |data: &mut TopicProduceData| {
        if data.topic_id.is_zero() {
            return !cx.authorize_topic(Operation::Write, &data.name);
        }
        let name = cx.node.topics().by_id(data.topic_id).map(|topic| topic.name.clone());
        name.is_some_and(|name| !cx.authorize_topic(Operation::Write, &name))
    };
    let denied = request.topic_data.extract_if(.., is_denied).map(|data| {
        let partitions = data.partition_data.iter().map(|partition| PartitionProduceResponse {
            index: partition.index,
            error_code: ErrorCode::TopicAuthorizationFailed.code(),
            base_offset: -1,
            ..Default::default()
        });
        TopicProduceResponse {
            partition_responses: partitions.collect(),
            name: data.name,
            topic_id: data.topic_id,
            ..Default::default()
        }
    });
    denied.collect()
}

/// Appends all batches; `denied` are rows of topics that the client may not write to. `added` is an error if partitions that are new in the transaction could not be added to it.
fn produce(
    node: &Arc<Node>,
    version: i16,
    request: ProduceRequest,
    added: Result<(), ErrorCode>,
    denied: Vec<TopicProduceResponse>,
) -> Outcome<ProduceResponse> {
    let acks = request.acks;
    let mut produce = Produce {
        node,
        version,
        acks,
        transactional_id: request.transactional_id,
        added,
        unsynced: vec![],
        failed: !denied.is_empty(),
    };
    let topics = request.topic_data.into_iter();
    let mut responses: Vec<TopicProduceResponse> = topics.map(|topic| produce.topic(topic)).collect();
    responses.extend(denied);
    let mut response = ProduceResponse {
        responses,
        ..ProduceResponse::default()
    };
    let Produce { unsynced, failed, .. } = produce;
    match acks {
        // Without a response, only the end of the connection can report an error.
        0 if failed => Outcome::Close("a produce without acknowledgement failed".to_owned()),
        0 => Outcome::NoResponse,
        _ if unsynced.is_empty() => Outcome::Ready(response),
        _ => Outcome::later(async move {
            for (partition, offset) in unsynced {
                if let Err(failed) = partition.wait_synced(offset).await {
                    fail_all(&mut response, failed);
                }
            }
            response
        }),
    }
}

/// Fails all partitions: after a failed sync it is unknown which records the disk has.
fn fail_all(response: &mut ProduceResponse, failed: SyncFailed) {
    let rows = response
        .responses
        .iter_mut()
        .flat_map(|topic| &mut topic.partition_responses);
    for row in rows.filter(|row| row.error_code == ErrorCode::None.code()) {
        row.error_code = ErrorCode::KafkaStorageError.code();
        row.error_message = Some(failed.to_string().into());
        row.base_offset = -1;
    }
}

/// Adds partitions to the transaction that it does not have yet; `None` if there are none.
fn add_partitions(
    node: &Arc<Node>,
    version: i16,
    body: &ProduceRequest,
) -> Option<Result<PendingReply<TransactionReply>, ErrorCode>> {
    let transactional_id = body
        .transactional_id
        .as_ref()
        .filter(|_| version >= versions::produce::ADDS_PARTITIONS)?;
    let mut producer = None;
    let mut partitions = vec![];
    for data in &body.topic_data {
        let topic = find(node, version, &data.name, data.topic_id).ok();
        for (topic, partition) in data
            .partition_data
            .iter()
            .filter_map(|data| Some((topic.as_ref()?, data)))
        {
            let Some(writer) = partition.records.as_ref().and_then(transaction_of) else {
                continue;
            };
            let is_new =
                |partition: &Arc<Partition>| !partition.log.has_open_transaction(writer.producer_id, writer.epoch);
            if topic.partition(partition.index).is_some_and(is_new) {
                producer = Some(writer);
                partitions.push(TopicPartition {
                    topic: topic.name.clone(),
                    partition: partition.index,
                });
            }
        }
    }
    let request = TransactionRequest::AddPartitions {
        transactional_id: transactional_id.clone(),
        producer: producer?,
        partitions,
        verify_only: false,
    };
    Some(node.transactions.request(
        node,
        versions::add_partitions_to_txn::IMPLICIT,
        transactional_id,
        request,
    ))
}

/// The producer of a transactional batch; `None` for other batches.
fn transaction_of(records: &Bytes) -> Option<ProducerEpoch> {
    let header = BatchHeader::parse(records.first_chunk::<HEADER_SIZE>()?);
    header.attributes.is_transactional().then_some(ProducerEpoch {
        producer_id: header.producer_id,
        epoch: header.producer_epoch,
    })
}

fn find(node: &Node, version: i16, name: &ByteString, id: Uuid) -> Result<Arc<Topic>, Refusal> {
    let found = node.topics().called(name, id).cloned();
    found.ok_or_else(|| match version {
        versions::produce::TOPIC_IDS.. => {
            Refusal::new(ErrorCode::UnknownTopicId, format!("there is no topic with id {id}"))
        }
        _ => Refusal::no_topic(name),
    })
}

struct Produce<'a> {
    node: &'a Arc<Node>,
    version: i16,
    acks: i16,
    transactional_id: Option<ByteString>,
    /// An error if partitions that are new in the transaction could not be added to it.
    added: Result<(), ErrorCode>,
    /// Partitions that must be synced up to an offset before the response.
    unsynced: Vec<(Arc<Partition>, i64)>,
    failed: bool,
}

impl Produce<'_> {
    fn topic(&mut self, data: TopicProduceData) -> TopicProduceResponse {
        let topic = find(self.node, self.version, &data.name, data.topic_id);
        let partition_responses = data.partition_data.into_iter().map(|partition| {
            let outcome = match &topic {
                Ok(topic) => self.partition(topic, partition.index, partition.records),
                Err(refusal) => Err(refusal.clone().into()),
            };
            outcome.unwrap_or_else(|Rejection { refusal, record_errors }| {
                self.failed = true;
                PartitionProduceResponse {
                    index: partition.index,
                    error_code: refusal.code.code(),
                    base_offset: -1,
                    record_errors,
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

    fn partition(
        &mut self,
        topic: &Topic,
        index: i32,
        records: Option<Bytes>,
    ) -> Result<PartitionProduceResponse, Rejection> {
        let partition = topic.partition(index).ok_or_else(|| {
            let reason = format!("topic {} has no partition {index}", topic.name);
            Refusal::new(ErrorCode::UnknownTopicOrPartition, reason)
        })?;
        let records = records.unwrap_or_default();
        self.check(topic, &records)?;
        let appended = match transaction_of(&records) {
            Some(producer) => self.append_transactional(partition, producer, &records)?,
            None => self.append(partition, &records)?,
        };
        if partition.syncs_before_response(self.acks, appended.last_offset, &self.node.syncer) {
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

    fn append(&self, partition: &Arc<Partition>, records: &Bytes) -> Result<Appended, Rejection> {
        let node = self.node;
        partition
            .append(records, node.leader_epoch, node.now_ms(), &node.syncer)
            .map_err(|error| rejection_of(&error))
    }

    /// Appends a transactional batch. The first one in a partition is written under the lock of the coordinator, so that the
    /// transaction cannot end meanwhile: behind the marker, the batch would stay open for ever.
    fn append_transactional(
        &self,
        partition: &Arc<Partition>,
        producer: ProducerEpoch,
        records: &Bytes,
    ) -> Result<Appended, Rejection> {
        let Some(transactional_id) = &self.transactional_id else {
            let reason = "a batch of a transaction needs a request with a transactional id";
            return Err(Refusal::new(ErrorCode::TransactionalIdAuthorizationFailed, reason).into());
        };
        if partition.log.has_open_transaction(producer.producer_id, producer.epoch) {
            return self.append(partition, records);
        }
        let place = TopicPartition {
            topic: partition.topic.clone(),
            partition: partition.index,
        };
        let transactions = &self.node.transactions;
        let appended = self.added.and_then(|()| {
            transactions.while_open(self.node, transactional_id, producer, place, || {
                self.append(partition, records)
            })
        });
        appended.unwrap_or_else(|error| Err(self.not_in_transaction(error).into()))
    }

    /// The error for a producer whose partition is not in the transaction, in a form that its version can handle.
    fn not_in_transaction(&self, error: ErrorCode) -> Refusal {
        let code = produce_error(error, self.version);
        Refusal::new(code, format!("the partition is not part of the transaction: {error}"))
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
        if self.node.misses_replicas && self.acks == -1 {
            check_replicas(self.node, topic)?;
        }
        if topic.is_internal() {
            return Err(Refusal::new(
                ErrorCode::InvalidTopicException,
                "clients may not write to this topic",
            ));
        }
        let header = records.first_chunk::<HEADER_SIZE>().map(BatchHeader::parse);
        let attributes = header.map_or_else(Attributes::default, |header| header.attributes);
        if attributes.codec() == Ok(Codec::Zstd) && self.version < versions::produce::ZSTD {
            let reason = "zstd needs version 7 of Produce";
            return Err(Refusal::new(ErrorCode::UnsupportedCompressionType, reason));
        }
        Ok(())
    }
}

/// Refuses if `min.insync.replicas` is more than the one replica here. Like Kafka, it ignores topics with a replication
/// factor of 1.
fn check_replicas(node: &Node, topic: &Topic) -> Result<(), Refusal> {
    if topic.replication_factor < 2 {
        return Ok(());
    }
    let demanded = TopicConfig::resolve(&topic.overrides, &node.config())?.min_insync_replicas;
    if demanded < 2 {
        return Ok(());
    }
    let reason = format!("min.insync.replicas is {demanded}, and this broker keeps one replica");
    Err(Refusal::new(ErrorCode::NotEnoughReplicas, reason))
}

/// The reason why records of a partition were not written, and the invalid records, if any.
struct Rejection {
    refusal: Refusal,
    record_errors: Vec<BatchIndexAndErrorMessage>,
}

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            record_errors: vec![],
        }
    }
}

fn rejection_of(error: &AppendError) -> Rejection {
    let refusal = Refusal::new(error.error_code(), error.to_string());
    let record_errors = match error {
        AppendError::Storage(error) => {
            storage_error(error, "records cannot be written");
            vec![]
        }
        AppendError::Invalid(InvalidBatch::Records(rejected)) => {
            let records = rejected.first.iter().map(|record| BatchIndexAndErrorMessage {
                batch_index: record.index,
                batch_index_error_message: Some(record.problem.to_string().into()),
                ..Default::default()
            });
            records.collect()
        }
        AppendError::Invalid(_) | AppendError::Producer(_) => vec![],
    };
    Rejection { refusal, record_errors }
}
