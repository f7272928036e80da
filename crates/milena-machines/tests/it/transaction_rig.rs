//! A coordinator with its log, for tests of single rules.

use bytes::Bytes;
use milena_machines::{
    Ticket, TopicPartition, TransactionCoordinator,
    transaction::{
        Markers, ProducerEpoch, TransactionConfig, TransactionContext, TransactionEffects, TransactionRecord,
        TransactionReply, TransactionRequest, TransactionState,
    },
};
use milena_wire::{
    errors::ErrorCode::{self, None as NoError},
    messages::{EndTxnRequest, EndTxnResponse, InitProducerIdRequest, TransactionLogValue},
};

pub(crate) const ID: &str = "orders";
pub(crate) const TIMEOUT_MS: i32 = 60_000;

/// Versions of `EndTxn` and `AddPartitionsToTxn` that imply the client's transaction version.
pub(crate) const END_V1: i16 = 4;
pub(crate) const END_V2: i16 = 5;
pub(crate) const ADD_V1: i16 = 3;
pub(crate) const ADD_V2: i16 = 5;

pub(crate) struct Rig {
    pub(crate) coordinator: TransactionCoordinator,
    pub(crate) now_ms: i64,
    log: Vec<(Bytes, Option<Bytes>)>,
    /// Requested and not yet written.
    pub(crate) markers: Vec<Markers>,
    next_id: i64,
    /// Whether producer ids are available.
    pub(crate) has_ids: bool,
    next_ticket: u64,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with_config(TransactionConfig::default())
    }

    pub(crate) fn with_config(config: TransactionConfig) -> Self {
        Self {
            coordinator: TransactionCoordinator::new(config, 7),
            now_ms: 1_000_000,
            log: Vec::new(),
            markers: Vec::new(),
            next_id: 100,
            has_ids: true,
            next_ticket: 0,
        }
    }

    /// Sends a request and returns the immediate reply.
    pub(crate) fn call(&mut self, version: i16, request: TransactionRequest) -> Option<TransactionReply> {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let context = TransactionContext {
            now_ms: self.now_ms,
            ticket,
            version,
        };
        let (next_id, has_ids) = (&mut self.next_id, self.has_ids);
        let mut ids = || {
            *next_id += 1;
            has_ids.then_some(*next_id - 1)
        };
        let effects = self.coordinator.handle_request(&context, request, &mut ids);
        let mut replies = self.apply(effects);
        assert!(replies.len() <= 1);
        replies.pop().map(|(replied, reply)| {
            assert_eq!(replied, ticket);
            reply
        })
    }

    /// Stores and checks: a coordinator loaded from the log equals the one that wrote it.
    pub(crate) fn apply(&mut self, effects: TransactionEffects) -> Vec<(Ticket, TransactionReply)> {
        for record in effects.records {
            let stored = record.encode().unwrap();
            self.log.push((stored.key, stored.value));
        }
        self.markers.extend(effects.markers);
        let rebuilt = rebuild(&self.log);
        assert_eq!(rebuilt.snapshot(), self.coordinator.snapshot());
        effects.replies
    }

    pub(crate) fn restart(&mut self) {
        self.coordinator = rebuild(&self.log);
        self.markers.clear();
        let effects = self.coordinator.start(self.now_ms);
        self.apply(effects);
    }

    /// Replays a record of another coordinator.
    pub(crate) fn replay(&mut self, value: TransactionLogValue) {
        let transactional_id = ID.into();
        let value = Some(value);
        let stored = TransactionRecord {
            transactional_id,
            value,
        }
        .encode()
        .unwrap();
        self.coordinator
            .replay_stored(&stored.key, stored.value.as_ref())
            .unwrap();
        self.log.push((stored.key, stored.value));
    }

    /// Writes all requested markers, and returns the replies that waited for them.
    pub(crate) fn write_markers(&mut self) -> Vec<EndTxnResponse> {
        let mut responses = Vec::new();
        for markers in std::mem::take(&mut self.markers) {
            let id = &markers.transactional_id;
            let effects = self
                .coordinator
                .handle_markers_written(self.now_ms, id, markers.producer);
            responses.extend(self.apply(effects).into_iter().map(|(_, reply)| end_response(reply)));
        }
        responses
    }

    /// Moves the clock and handles the timeouts.
    pub(crate) fn pass(&mut self, ms: i64) {
        self.now_ms += ms;
        let (next_id, has_ids) = (&mut self.next_id, self.has_ids);
        let mut ids = || {
            *next_id += 1;
            has_ids.then_some(*next_id - 1)
        };
        let effects = self.coordinator.handle_timeout(self.now_ms, &mut ids);
        assert!(self.apply(effects).is_empty());
    }

    pub(crate) fn init_with(
        &mut self,
        version: i16,
        request: InitProducerIdRequest,
    ) -> Result<ProducerEpoch, ErrorCode> {
        let Some(TransactionReply::InitProducerId(response)) =
            self.call(version, TransactionRequest::InitProducerId(request))
        else {
            panic!("an InitProducerId gets an immediate reply");
        };
        let producer = ProducerEpoch {
            producer_id: response.producer_id,
            epoch: response.producer_epoch,
        };
        match error(response.error_code) {
            NoError => Ok(producer),
            error => {
                assert_eq!((producer.producer_id, producer.epoch), (-1, -1));
                Err(error)
            }
        }
    }

    pub(crate) fn init(&mut self) -> Result<ProducerEpoch, ErrorCode> {
        self.init_with(5, init_request())
    }

    pub(crate) fn init_as(&mut self, producer: ProducerEpoch) -> Result<ProducerEpoch, ErrorCode> {
        self.init_with(5, init_request_as(producer))
    }

    pub(crate) fn add(&mut self, version: i16, producer: ProducerEpoch, partitions: &[i32]) -> ErrorCode {
        self.add_to(ID, version, producer, partitions, false)
    }

    pub(crate) fn verify(&mut self, producer: ProducerEpoch, partitions: &[i32]) -> ErrorCode {
        self.add_to(ID, 5, producer, partitions, true)
    }

    pub(crate) fn add_to(
        &mut self,
        id: &str,
        version: i16,
        producer: ProducerEpoch,
        partitions: &[i32],
        verify_only: bool,
    ) -> ErrorCode {
        let request = TransactionRequest::AddPartitions {
            transactional_id: id.into(),
            producer,
            partitions: partitions.iter().map(|partition| topic_partition(*partition)).collect(),
            verify_only,
        };
        let Some(TransactionReply::AddPartitions(error)) = self.call(version, request) else {
            panic!("an AddPartitions gets an immediate reply");
        };
        error
    }

    pub(crate) fn end_now(&mut self, version: i16, producer: ProducerEpoch, committed: bool) -> Option<EndTxnResponse> {
        self.call(version, end_request(ID, producer, committed))
            .map(end_response)
    }

    /// An end that is refused.
    pub(crate) fn end_error(&mut self, version: i16, producer: ProducerEpoch, committed: bool) -> ErrorCode {
        let response = self
            .end_now(version, producer, committed)
            .expect("an error gets an immediate reply");
        assert_eq!((response.producer_id, response.producer_epoch), (-1, -1));
        let error = error(response.error_code);
        assert_ne!(error, NoError);
        error
    }

    /// An end with all its markers.
    pub(crate) fn end(&mut self, version: i16, producer: ProducerEpoch, committed: bool) -> EndTxnResponse {
        assert_eq!(self.end_now(version, producer, committed), None);
        let mut responses = self.write_markers();
        assert_eq!(responses.len(), 1);
        responses.remove(0)
    }

    pub(crate) fn value(&self) -> TransactionLogValue {
        let mut records = self.coordinator.snapshot().into_iter();
        let record = records.find(|record| record.transactional_id == ID);
        record.expect("the id is known").value.expect("a snapshot has values")
    }

    pub(crate) fn state(&self) -> TransactionState {
        TransactionState::from_id(self.value().transaction_status).unwrap()
    }

    pub(crate) fn records(&self) -> usize {
        self.log.len()
    }

    pub(crate) fn stored(&self) -> &[(Bytes, Option<Bytes>)] {
        &self.log
    }
}

fn rebuild(log: &[(Bytes, Option<Bytes>)]) -> TransactionCoordinator {
    let mut coordinator = TransactionCoordinator::new(TransactionConfig::default(), 8);
    for (key, value) in log {
        coordinator.replay_stored(key, value.as_ref()).unwrap();
    }
    coordinator
}

pub(crate) fn error(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap()
}

pub(crate) fn producer(producer_id: i64, epoch: i16) -> ProducerEpoch {
    ProducerEpoch { producer_id, epoch }
}

pub(crate) fn topic_partition(partition: i32) -> TopicPartition {
    TopicPartition {
        topic: "sales".into(),
        partition,
    }
}

pub(crate) fn init_request() -> InitProducerIdRequest {
    InitProducerIdRequest {
        transactional_id: Some(ID.into()),
        transaction_timeout_ms: TIMEOUT_MS,
        ..InitProducerIdRequest::default()
    }
}

pub(crate) fn init_request_as(producer: ProducerEpoch) -> InitProducerIdRequest {
    InitProducerIdRequest {
        producer_id: producer.producer_id,
        producer_epoch: producer.epoch,
        ..init_request()
    }
}

pub(crate) fn end_request(id: &str, producer: ProducerEpoch, committed: bool) -> TransactionRequest {
    TransactionRequest::End(EndTxnRequest {
        transactional_id: id.into(),
        producer_id: producer.producer_id,
        producer_epoch: producer.epoch,
        committed,
        ..EndTxnRequest::default()
    })
}

pub(crate) fn end_response(reply: TransactionReply) -> EndTxnResponse {
    match reply {
        TransactionReply::End(response) => response,
        other => panic!("not the reply to an end: {other:?}"),
    }
}

/// A known producer at rest, with an epoch near the last.
pub(crate) fn stored_at(producer: ProducerEpoch) -> TransactionLogValue {
    TransactionLogValue {
        producer_id: producer.producer_id,
        previous_producer_id: producer.producer_id,
        producer_epoch: producer.epoch,
        transaction_timeout_ms: TIMEOUT_MS,
        transaction_status: TransactionState::Empty.id(),
        transaction_partitions: None,
        transaction_last_update_timestamp_ms: 1,
        transaction_start_timestamp_ms: -1,
        ..TransactionLogValue::default()
    }
}
