//! What the driver sends for the sender.

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

/// A `Produce` request. It is sent once; sending its batches again is the sender's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProduceCall {
    pub id: CallId,
    pub node: i32,
    /// A node that does not know this version cannot do what is asked.
    pub version_min: i16,
    /// A newer version would mean something else: from 12 on, partitions become part of the transaction by it.
    pub version_max: Option<i16>,
    /// After so long without an answer it has failed.
    pub timeout_ms: i64,
    /// At most one of each partition.
    pub batches: Vec<SentBatch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentBatch {
    pub slot: Slot,
    pub id: BatchId,
    pub stamp: Stamp,
}

/// What a `Produce` response says of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducePartitionResponse {
    pub slot: Slot,
    pub error: ErrorCode,
    /// -1 if it is not known.
    pub base_offset: i64,
    /// -1 unless the topic has log append time.
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
    /// A broker that does not know this version cannot do what is asked.
    pub version_min: i16,
    /// A newer version would mean something else.
    pub version_max: Option<i16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    AnyBroker,
    TransactionCoordinator,
    /// Of the group with this id.
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
