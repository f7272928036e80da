//! Requests of the sender.

use bytestring::ByteString;
use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    messages::{
        AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
        EndTxnRequest, EndTxnResponse, InitProducerIdRequest, InitProducerIdResponse, TxnOffsetCommitRequest,
        TxnOffsetCommitResponse,
    },
};

use super::{BatchId, Slot, Stamp};
use crate::member::CallId;

/// A `Produce` request. It is sent once; retries of its batches are the sender's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProduceCall {
    pub id: CallId,
    pub node: i32,
    /// A node without this version cannot serve the request.
    pub version_min: i16,
    /// A newer version would have another meaning: from 12 on it adds partitions to the transaction.
    pub version_max: Option<i16>,
    /// The time until it fails without a response.
    pub timeout_ms: i64,
    /// At most one for each partition.
    pub batches: Vec<SentBatch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentBatch {
    pub slot: Slot,
    pub id: BatchId,
    pub stamp: Stamp,
}

/// The result of one partition in a `Produce` response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducePartitionResponse {
    pub slot: Slot,
    pub error: ErrorCode,
    /// -1 if it is not known.
    pub base_offset: i64,
    /// -1 unless the topic uses log append time.
    pub log_append_time_ms: i64,
    /// -1 if it is not known.
    pub log_start_offset: i64,
}

/// Any other request, at most one at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlCall {
    pub id: CallId,
    pub target: Target,
    pub request: ControlRequest,
    pub timeout_ms: i64,
    /// A broker without this version cannot serve the request.
    pub version_min: i16,
    /// A newer version would have another meaning.
    pub version_max: Option<i16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    AnyBroker,
    TransactionCoordinator,
    /// The coordinator of the group with this id.
    GroupCoordinator(ByteString),
}

#[derive(Debug, Clone, PartialEq)]
pub enum ControlRequest {
    InitProducerId(InitProducerIdRequest),
    AddPartitionsToTxn(AddPartitionsToTxnRequest),
    AddOffsetsToTxn(AddOffsetsToTxnRequest),
    TxnOffsetCommit(TxnOffsetCommitRequest),
    EndTxn(EndTxnRequest),
}

impl ControlRequest {
    pub fn api(&self) -> ApiKey {
        match self {
            Self::InitProducerId(_) => ApiKey::InitProducerId,
            Self::AddPartitionsToTxn(_) => ApiKey::AddPartitionsToTxn,
            Self::AddOffsetsToTxn(_) => ApiKey::AddOffsetsToTxn,
            Self::TxnOffsetCommit(_) => ApiKey::TxnOffsetCommit,
            Self::EndTxn(_) => ApiKey::EndTxn,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum ControlResponse {
    InitProducerId(InitProducerIdResponse),
    AddPartitionsToTxn(AddPartitionsToTxnResponse),
    AddOffsetsToTxn(AddOffsetsToTxnResponse),
    TxnOffsetCommit(TxnOffsetCommitResponse),
    EndTxn(EndTxnResponse),
}
