//! `DescribeTransactions` and `ListTransactions`.

use bytestring::ByteString;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        describe_transactions_response::{self, TopicData},
        list_transactions_response,
    },
};

use super::{IdPattern, TransactionCoordinator, TransactionState, metadata::Transaction};

/// The filters of `ListTransactions`.
pub(super) struct Filter<'a> {
    pub(super) states: &'a [ByteString],
    pub(super) producer_ids: &'a [i64],
    pub(super) duration_ms: i64,
    pub(super) pattern: Option<&'a IdPattern>,
}

impl TransactionCoordinator {
    pub(super) fn describe(&self, id: ByteString) -> describe_transactions_response::TransactionState {
        let found = match self.known(&id) {
            Ok(transaction) if transaction.state != TransactionState::Dead => Ok(transaction),
            Err(ErrorCode::InvalidRequest) => Err(ErrorCode::InvalidRequest),
            _ => Err(ErrorCode::TransactionalIdNotFound),
        };
        match found {
            Ok(transaction) => described(id, transaction),
            Err(error) => describe_transactions_response::TransactionState {
                error_code: error as i16,
                transactional_id: id,
                ..Default::default()
            },
        }
    }

    pub(super) fn list(&self, now_ms: i64, filter: &Filter<'_>) -> Vec<list_transactions_response::TransactionState> {
        let found = self
            .transactions
            .iter()
            .filter(|(id, transaction)| filter.lets_through(id, transaction, now_ms));
        let listed = found.map(|(id, transaction)| list_transactions_response::TransactionState {
            transactional_id: id.clone(),
            producer_id: transaction.producer.producer_id,
            transaction_state: transaction.state.name().into(),
            ..Default::default()
        });
        listed.collect()
    }
}

impl Filter<'_> {
    fn lets_through(&self, id: &str, transaction: &Transaction, now_ms: i64) -> bool {
        let name = transaction.state.name();
        let age_ms = now_ms.saturating_sub(transaction.start_ms);
        transaction.state != TransactionState::Dead
            && (self.producer_ids.is_empty() || self.producer_ids.contains(&transaction.producer.producer_id))
            && (self.states.is_empty() || self.states.iter().any(|state| *state == name))
            && (self.duration_ms < 0 || age_ms > self.duration_ms)
            && self.pattern.is_none_or(|pattern| pattern.matches(id))
    }
}

fn described(id: ByteString, transaction: &Transaction) -> describe_transactions_response::TransactionState {
    let topics = transaction.partitions_by_topic().into_iter().map(|topic| TopicData {
        topic: topic.topic,
        partitions: topic.partition_ids,
        ..TopicData::default()
    });
    describe_transactions_response::TransactionState {
        error_code: ErrorCode::None as i16,
        transactional_id: id,
        transaction_state: transaction.state.name().into(),
        transaction_timeout_ms: transaction.timeout_ms,
        transaction_start_time_ms: transaction.start_ms,
        producer_id: transaction.producer.producer_id,
        producer_epoch: transaction.producer.epoch,
        topics: topics.collect(),
        ..Default::default()
    }
}
