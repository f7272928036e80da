//! Adding partitions to a transaction. The first one begins it.

use bytestring::ByteString;
use milena_wire::{api::versions, errors::ErrorCode};

use super::{
    ClientVersion, ProducerEpoch, TransactionContext, TransactionCoordinator, TransactionEffects, TransactionState,
    fenced_in, metadata::Transaction,
};
use crate::TopicPartition;

impl TransactionCoordinator {
    pub(super) fn add_partitions(
        &mut self,
        context: &TransactionContext,
        id: &ByteString,
        producer: ProducerEpoch,
        partitions: Vec<TopicPartition>,
        effects: &mut TransactionEffects,
    ) -> ErrorCode {
        // From version 4 on, only brokers send this request, for producers that speak version 2.
        let client = if context.version >= versions::add_partitions_to_txn::BATCHES {
            ClientVersion::V2
        } else {
            ClientVersion::V1
        };
        self.add(context, client, (id, producer), partitions, effects)
    }

    pub(super) fn add_offsets(
        &mut self,
        context: &TransactionContext,
        id: &ByteString,
        producer: ProducerEpoch,
        partition: TopicPartition,
        effects: &mut TransactionEffects,
    ) -> ErrorCode {
        self.add(context, ClientVersion::V1, (id, producer), vec![partition], effects)
    }

    fn add(
        &mut self,
        context: &TransactionContext,
        client: ClientVersion,
        (id, producer): (&ByteString, ProducerEpoch),
        partitions: Vec<TopicPartition>,
        effects: &mut TransactionEffects,
    ) -> ErrorCode {
        let current = match self.writable(id, producer) {
            Ok(current) => current,
            Err(error) => return fenced_in(context.version, 2, error),
        };
        match current.state {
            TransactionState::Ongoing if has_all(current, &partitions) => ErrorCode::None,
            TransactionState::Dead | TransactionState::PrepareEpochFence => ErrorCode::UnknownServerError,
            _ => {
                let next = current.with_partitions(partitions, client, context.now_ms);
                self.write(id, &next, effects);
                ErrorCode::None
            }
        }
    }

    /// Checks that a producer may write into these partitions. The error ends the transaction but not the producer: it
    /// aborts and continues.
    pub fn verify_partitions(
        &self,
        id: &ByteString,
        producer: ProducerEpoch,
        partitions: &[TopicPartition],
    ) -> ErrorCode {
        if !self.config.partition_verification {
            return ErrorCode::None;
        }
        match self.writable(id, producer) {
            Ok(current) if has_all(current, partitions) => ErrorCode::None,
            Ok(_) => ErrorCode::TransactionAbortable,
            Err(error) => error,
        }
    }

    /// The transaction of this producer, unless it is being ended.
    fn writable(&self, id: &ByteString, producer: ProducerEpoch) -> Result<&Transaction, ErrorCode> {
        let current = self.known(id)?;
        if current.producer.producer_id != producer.producer_id {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        if current.producer.epoch != producer.epoch {
            return Err(ErrorCode::ProducerFenced);
        }
        if current.state.prepared().is_some() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        Ok(current)
    }
}

fn has_all(transaction: &Transaction, partitions: &[TopicPartition]) -> bool {
    partitions
        .iter()
        .all(|partition| transaction.partitions.contains(partition))
}
