//! A sender, with a driver and a cluster.

use milena_machines::{
    TopicPartition,
    member::{CallFailure, GroupMetadata, OffsetAndMetadata},
    produce::{
        BatchError, BatchId, ControlCall, ControlRequest, ControlResponse, NewBatch, OperationId, ProduceCall,
        ProducePartitionResponse, Sender, SenderConfig, SenderEvent, Slot, Stamp, Target, TransactionConfig,
        TransactionError, WriteStatus,
    },
    transaction::ProducerEpoch,
};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        AddOffsetsToTxnResponse, AddPartitionsToTxnResponse, EndTxnRequest, EndTxnResponse, InitProducerIdRequest,
        InitProducerIdResponse, TxnOffsetCommitResponse,
        add_partitions_to_txn_response::{AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult},
        txn_offset_commit_response::{TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic},
    },
};

pub(super) const PRODUCER_ID: i64 = 7;
pub(super) const BACKOFF_MS: i64 = 1_000;
pub(super) const DELIVERY_MS: i64 = 60_000;
pub(super) const BATCH_BYTES: usize = 100;
pub(super) const LEADER: i32 = 1;

pub(super) struct Rig {
    pub(super) sender: Sender,
    pub(super) now: i64,
    last_batch: u64,
}

pub(super) fn config() -> SenderConfig {
    SenderConfig {
        acks: -1,
        idempotent: true,
        max_in_flight: 5,
        retries: u32::MAX,
        delivery_timeout_ms: DELIVERY_MS,
        request_timeout_ms: 10_000,
        retry_backoff_ms: 100,
        retry_backoff_max_ms: BACKOFF_MS,
        max_request_bytes: 10 * BATCH_BYTES,
        transaction: None,
    }
}

pub(super) fn transactional() -> SenderConfig {
    let transaction = TransactionConfig {
        transactional_id: "id".into(),
        timeout_ms: 60_000,
    };
    SenderConfig {
        transaction: Some(transaction),
        ..config()
    }
}

impl Rig {
    pub(super) fn with(config: SenderConfig) -> Self {
        Self {
            sender: Sender::new(config, 1),
            now: 1_000_000,
            last_batch: 0,
        }
    }

    /// An idempotent sender with a producer id.
    pub(super) fn new() -> Self {
        Self::with_epoch(config(), 0)
    }

    pub(super) fn with_epoch(config: SenderConfig, epoch: i16) -> Self {
        let mut rig = Self::with(config);
        rig.respond_init(PRODUCER_ID, epoch);
        rig
    }

    /// A transactional sender in a transaction.
    pub(super) fn in_transaction(version: i16) -> Self {
        let mut rig = Self::initialized(version);
        rig.sender.begin().unwrap();
        rig
    }

    pub(super) fn initialized(version: i16) -> Self {
        let mut rig = Self::with(transactional());
        rig.sender.handle_features(version);
        let init = rig.sender.init_transactions(rig.now).unwrap();
        rig.respond_init(PRODUCER_ID, 0);
        assert_eq!(rig.events(), [done(init)]);
        rig
    }

    /// A partition of `t` that [`LEADER`] leads.
    pub(super) fn slot(&mut self, partition: i32) -> Slot {
        let slot = self.sender.slot(&TopicPartition::new("t", partition));
        self.sender.handle_leader(self.now, slot, Some(LEADER));
        slot
    }

    pub(super) fn push(&mut self, slot: Slot, records: u32) -> BatchId {
        let batch = self.new_batch(records);
        self.sender.push(self.now, slot, batch);
        batch.id
    }

    pub(super) fn new_batch(&mut self, records: u32) -> NewBatch {
        self.last_batch += 1;
        NewBatch {
            id: BatchId(self.last_batch),
            records,
            bytes: BATCH_BYTES,
            created_ms: self.now,
        }
    }

    #[track_caller]
    pub(super) fn produce(&mut self) -> ProduceCall {
        self.sender.poll_produce_request(self.now).expect("a request is due")
    }

    #[track_caller]
    pub(super) fn nothing_to_produce(&mut self) {
        assert_eq!(self.sender.poll_produce_request(self.now), None);
    }

    /// Takes a request with this batch and no other.
    #[track_caller]
    pub(super) fn produce_only(&mut self, batch: BatchId) -> ProduceCall {
        let call = self.produce();
        let ids: Vec<BatchId> = call.batches.iter().map(|sent| sent.id).collect();
        assert_eq!(ids, [batch]);
        call
    }

    pub(super) fn ack(&mut self, call: &ProduceCall, base_offset: i64) {
        self.respond(call, ErrorCode::None, base_offset, -1);
    }

    pub(super) fn refuse(&mut self, call: &ProduceCall, error: ErrorCode) {
        self.respond(call, error, -1, -1);
    }

    pub(super) fn respond(&mut self, call: &ProduceCall, error: ErrorCode, base_offset: i64, log_start_offset: i64) {
        let produced = call.batches.iter().map(|sent| ProducePartitionResponse {
            slot: sent.slot,
            error,
            base_offset,
            log_append_time_ms: -1,
            log_start_offset,
        });
        let produced: Vec<ProducePartitionResponse> = produced.collect();
        self.sender.handle_produce_response(self.now, call.id, Ok(&produced));
    }

    pub(super) fn lose(&mut self, call: &ProduceCall) {
        self.fail(call, CallFailure::Disconnected);
    }

    pub(super) fn fail(&mut self, call: &ProduceCall, failure: CallFailure) {
        self.sender.handle_produce_response(self.now, call.id, Err(failure));
    }

    /// Lets any backoff pass.
    pub(super) fn wait(&mut self) {
        self.pass(BACKOFF_MS);
    }

    pub(super) fn pass(&mut self, ms: i64) {
        self.now += ms;
        self.sender.handle_timeout(self.now);
    }

    pub(super) fn events(&mut self) -> Vec<SenderEvent> {
        std::iter::from_fn(|| self.sender.poll_event()).collect()
    }

    /// The results of batches, without the rest.
    pub(super) fn outcomes(&mut self) -> Vec<(BatchId, Result<Option<i64>, WriteStatus>)> {
        let outcome = |event| match event {
            SenderEvent::Acked { batch, base_offset, .. } => Some((batch, Ok(base_offset))),
            SenderEvent::Failed { batch, error, .. } => Some((batch, Err(error.status))),
            _ => None,
        };
        self.events().into_iter().filter_map(outcome).collect()
    }

    pub(super) fn errors(&mut self) -> Vec<BatchError> {
        let error = |event| match event {
            SenderEvent::Failed { error, .. } => Some(error),
            _ => None,
        };
        self.events().into_iter().filter_map(error).collect()
    }

    #[track_caller]
    pub(super) fn call(&mut self) -> ControlCall {
        self.sender.poll_control_request(self.now).expect("a call is due")
    }

    #[track_caller]
    pub(super) fn nothing_to_call(&mut self) {
        assert_eq!(self.sender.poll_control_request(self.now), None);
    }

    #[track_caller]
    pub(super) fn init_call(&mut self) -> (ControlCall, InitProducerIdRequest) {
        let call = self.call();
        match call.request.clone() {
            ControlRequest::InitProducerId(request) => (call, request),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn respond_init(&mut self, producer_id: i64, producer_epoch: i16) -> InitProducerIdRequest {
        let (call, request) = self.init_call();
        let response = InitProducerIdResponse {
            producer_id,
            producer_epoch,
            ..Default::default()
        };
        self.reply(&call, ControlResponse::InitProducerId(response));
        request
    }

    #[track_caller]
    pub(super) fn end_call(&mut self) -> (ControlCall, EndTxnRequest) {
        let call = self.call();
        match call.request.clone() {
            ControlRequest::EndTxn(request) => (call, request),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn respond_end(&mut self, committed: bool, producer: Option<(i64, i16)>) {
        let (call, request) = self.end_call();
        assert_eq!(request.committed, committed);
        assert_eq!(call.target, Target::TransactionCoordinator);
        let (producer_id, producer_epoch) = producer.unwrap_or((-1, -1));
        let response = EndTxnResponse {
            producer_id,
            producer_epoch,
            ..Default::default()
        };
        self.reply(&call, ControlResponse::EndTxn(response));
    }

    pub(super) fn reply(&mut self, call: &ControlCall, response: ControlResponse) {
        self.sender.handle_control_response(self.now, call.id, Ok(response));
    }

    /// Responds with the same error for all parts of the request.
    pub(super) fn reply_error(&mut self, call: &ControlCall, error: ErrorCode) {
        let error_code = error.code();
        let response = match &call.request {
            ControlRequest::InitProducerId(_) => ControlResponse::InitProducerId(InitProducerIdResponse {
                error_code,
                ..Default::default()
            }),
            ControlRequest::AddOffsetsToTxn(_) => ControlResponse::AddOffsetsToTxn(AddOffsetsToTxnResponse {
                error_code,
                ..Default::default()
            }),
            ControlRequest::EndTxn(_) => ControlResponse::EndTxn(EndTxnResponse {
                error_code,
                producer_id: -1,
                producer_epoch: -1,
                ..Default::default()
            }),
            ControlRequest::AddPartitionsToTxn(request) => {
                let topics = request.v3_and_below_topics.iter().map(|topic| {
                    let partitions = topic.partitions.iter();
                    AddPartitionsToTxnTopicResult {
                        name: topic.name.clone(),
                        results_by_partition: partitions
                            .map(|partition| AddPartitionsToTxnPartitionResult {
                                partition_index: *partition,
                                partition_error_code: error_code,
                                ..Default::default()
                            })
                            .collect(),
                        ..Default::default()
                    }
                });
                ControlResponse::AddPartitionsToTxn(AddPartitionsToTxnResponse {
                    results_by_topic_v3_and_below: topics.collect(),
                    ..Default::default()
                })
            }
            ControlRequest::TxnOffsetCommit(request) => {
                let topics = request.topics.iter().map(|topic| {
                    let partitions = topic.partitions.iter();
                    TxnOffsetCommitResponseTopic {
                        name: topic.name.clone(),
                        partitions: partitions
                            .map(|partition| TxnOffsetCommitResponsePartition {
                                partition_index: partition.partition_index,
                                error_code,
                                ..Default::default()
                            })
                            .collect(),
                        ..Default::default()
                    }
                });
                ControlResponse::TxnOffsetCommit(TxnOffsetCommitResponse {
                    topics: topics.collect(),
                    ..Default::default()
                })
            }
        };
        self.reply(call, response);
    }

    /// Takes the next request, which must be of this kind, and responds with success.
    #[track_caller]
    pub(super) fn agree(&mut self, is_expected: fn(&ControlRequest) -> bool) -> ControlCall {
        let call = self.call();
        assert!(is_expected(&call.request), "{:?}", call.request);
        self.reply_error(&call, ErrorCode::None);
        call
    }

    pub(super) fn lose_call(&mut self, call: &ControlCall) {
        self.sender
            .handle_control_response(self.now, call.id, Err(CallFailure::Disconnected));
    }

    pub(super) fn send_offsets(&mut self) -> OperationId {
        self.sender.send_offsets(self.now, group(), offsets()).unwrap()
    }

    #[track_caller]
    pub(super) fn assert_producer(&self, producer_id: i64, epoch: i16) {
        assert_eq!(self.sender.producer(), Some(ProducerEpoch { producer_id, epoch }));
    }
}

pub(super) fn stamp(epoch: i16, base_sequence: i32) -> Stamp {
    Stamp {
        producer_id: PRODUCER_ID,
        producer_epoch: epoch,
        base_sequence,
        transactional: false,
    }
}

pub(super) fn transactional_stamp(epoch: i16, base_sequence: i32) -> Stamp {
    Stamp {
        transactional: true,
        ..stamp(epoch, base_sequence)
    }
}

pub(super) fn done(operation: OperationId) -> SenderEvent {
    SenderEvent::Done {
        operation,
        result: Ok(()),
    }
}

/// The result of this operation.
#[track_caller]
pub(super) fn failure_of(events: &[SenderEvent], wanted: OperationId) -> TransactionError {
    let error = events.iter().find_map(|event| match event {
        SenderEvent::Done { operation, result } if *operation == wanted => result.clone().err(),
        _ => None,
    });
    error.unwrap_or_else(|| panic!("no failure of {wanted:?} in {events:?}"))
}

pub(super) fn group() -> GroupMetadata {
    GroupMetadata {
        group_id: "group".into(),
        generation: 3,
        member_id: "member".into(),
        instance_id: Some("instance".into()),
    }
}

pub(super) fn offsets() -> Vec<(TopicPartition, OffsetAndMetadata)> {
    let offset = |partition| {
        let offset = OffsetAndMetadata {
            offset: 10 + i64::from(partition),
            leader_epoch: Some(2),
            metadata: "text".into(),
        };
        (TopicPartition::new("in", partition), offset)
    };
    vec![offset(0), offset(1)]
}

pub(super) fn is_add_partitions(request: &ControlRequest) -> bool {
    matches!(request, ControlRequest::AddPartitionsToTxn(_))
}

pub(super) fn is_add_offsets(request: &ControlRequest) -> bool {
    matches!(request, ControlRequest::AddOffsetsToTxn(_))
}

pub(super) fn is_commit_offsets(request: &ControlRequest) -> bool {
    matches!(request, ControlRequest::TxnOffsetCommit(_))
}
