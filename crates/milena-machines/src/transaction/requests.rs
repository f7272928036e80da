//! Requests and replies of the transaction coordinator.

use bytestring::ByteString;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        EndTxnRequest, EndTxnResponse, InitProducerIdRequest, InitProducerIdResponse, describe_transactions_response,
        list_transactions_response,
    },
};
use regex::Regex;

use super::ProducerEpoch;
use crate::TopicPartition;

#[derive(Debug, Clone)]
pub enum TransactionRequest {
    InitProducerId(InitProducerIdRequest),
    /// Also implied by `Produce` 12 and `TxnOffsetCommit` 5: then with version 4 or later of `AddPartitionsToTxn`,
    /// which means that the producer speaks version 2 of transactions.
    AddPartitions {
        transactional_id: ByteString,
        producer: ProducerEpoch,
        partitions: Vec<TopicPartition>,
        /// Adds nothing: checks that all partitions are part of the transaction.
        verify_only: bool,
    },
    AddOffsets {
        transactional_id: ByteString,
        producer: ProducerEpoch,
        /// The partition of `__consumer_offsets` of the group.
        partition: TopicPartition,
    },
    End(EndTxnRequest),
    Describe {
        transactional_id: ByteString,
    },
    /// A filter that is empty, negative or absent matches everything.
    List {
        /// Names of states. An unknown name matches nothing.
        states: Vec<ByteString>,
        producer_ids: Vec<i64>,
        /// Only transactions that began longer ago than this.
        duration_ms: i64,
        pattern: Option<IdPattern>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum TransactionReply {
    InitProducerId(InitProducerIdResponse),
    /// The same for all partitions: all were added, or none.
    AddPartitions(ErrorCode),
    AddOffsets(ErrorCode),
    End(EndTxnResponse),
    Describe(describe_transactions_response::TransactionState),
    List(Vec<list_transactions_response::TransactionState>),
}

/// A regular expression that must match a whole transactional id.
#[derive(Debug, Clone)]
pub struct IdPattern(Regex);

impl IdPattern {
    /// The error becomes `INVALID_REGULAR_EXPRESSION`.
    pub fn new(pattern: &str) -> Result<Self, regex::Error> {
        // Compiled by itself first: `a)|(b` is only valid between parentheses.
        Regex::new(pattern)?;
        Regex::new(&format!(r"\A(?:{pattern})\z")).map(Self)
    }

    pub(super) fn matches(&self, transactional_id: &str) -> bool {
        self.0.is_match(transactional_id)
    }
}

/// The error of a `Produce` of this version when the coordinator refuses to add or verify its partition.
pub fn produce_error(error: ErrorCode, version: i16) -> ErrorCode {
    match error {
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::TransactionAbortable if version < versions::produce::TRANSACTION_ABORTABLE => {
            ErrorCode::InvalidTxnState
        }
        // Old producers retry on this one.
        ErrorCode::ConcurrentTransactions if version < versions::produce::ADDS_PARTITIONS => {
            ErrorCode::NotEnoughReplicas
        }
        ErrorCode::CoordinatorLoadInProgress | ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator => {
            ErrorCode::NotEnoughReplicas
        }
        error => error,
    }
}
