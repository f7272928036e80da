//! Transactions: listed, described and aborted; fencing of producers.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytestring::ByteString;
use milena_machines::TopicPartition;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        DescribeTransactionsRequest, InitProducerIdRequest, InitProducerIdResponse, ListTransactionsRequest,
        ListTransactionsResponse, WriteTxnMarkersRequest, WriteTxnMarkersResponse,
        describe_transactions_response::TransactionState,
        write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic},
    },
};

use super::{
    Admin, AdminError, Listed, Results,
    call::{AdminCall, CallContext, ItemResults},
    error::{BrokerError, check},
    own,
    route::Route,
};
use crate::consumer::Node;

/// A filter of transactions. The default matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransactionFilter {
    /// States, as in `Ongoing` and `CompleteCommit`.
    pub states: BTreeSet<ByteString>,
    pub producer_ids: BTreeSet<i64>,
    /// Minimum age of the open transaction.
    pub open_for: Option<Duration>,
    /// Regular expression for the transactional id, in the syntax of the broker (RE2).
    pub pattern: Option<ByteString>,
}

/// A transactional id in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionListing {
    pub transactional_id: ByteString,
    pub producer_id: i64,
    /// As in `Ongoing`.
    pub state: ByteString,
    /// The broker id of its coordinator.
    pub coordinator: i32,
}

/// The state of a transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionDescription {
    pub coordinator: Node,
    /// As in `Ongoing`.
    pub state: ByteString,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub timeout_ms: i32,
    /// In milliseconds since the epoch, if a transaction is open.
    pub start_time_ms: Option<i64>,
    /// The partitions of the open transaction.
    pub partitions: BTreeSet<TopicPartition>,
}

/// An open transaction in one partition, as [`describe_producers`](Admin::describe_producers) returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbortTransaction {
    pub partition: TopicPartition,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub coordinator_epoch: i32,
}

/// The producer id and epoch after fencing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FencedProducer {
    pub producer_id: i64,
    pub producer_epoch: i16,
}

impl Admin {
    /// Returns the transactional ids of all brokers, sorted.
    pub async fn list_transactions(&self, filter: TransactionFilter) -> Result<Listed<TransactionListing>, AdminError> {
        let brokers = self.broker_ids().await?;
        let version_min = match (&filter.pattern, filter.open_for) {
            (Some(_), _) => versions::list_transactions::ID_PATTERN,
            (None, Some(_)) => versions::list_transactions::DURATION_FILTER,
            (None, None) => 0,
        };
        let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let call = AdminCall::new(
            "transactions of broker",
            |id: &i32| Route::Broker(*id),
            move |_| ListTransactionsRequest {
                state_filters: filter.states.iter().cloned().collect(),
                producer_id_filters: filter.producer_ids.iter().copied().collect(),
                duration_filter: filter.open_for.map_or(-1, millis),
                transactional_id_pattern: filter.pattern.clone(),
                ..Default::default()
            },
            |context: &CallContext<i32>, response: ListTransactionsResponse| {
                check(response.error_code, None)?;
                unknown_states(&response)?;
                let listed = response.transaction_states.iter().map(|state| TransactionListing {
                    transactional_id: own(&state.transactional_id),
                    producer_id: state.producer_id,
                    state: own(&state.transaction_state),
                    coordinator: context.node.id,
                });
                context.all(&listed.collect::<Vec<_>>())
            },
        );
        let mut listed = Listed::of(self.call(call.version_min(version_min), brokers).await);
        listed
            .found
            .sort_unstable_by(|a, b| a.transactional_id.cmp(&b.transactional_id));
        Ok(listed)
    }

    /// Returns the state of transactional ids.
    pub async fn describe_transactions<N: Into<ByteString>>(
        &self,
        ids: impl IntoIterator<Item = N>,
    ) -> Results<ByteString, TransactionDescription> {
        let call = AdminCall::new(
            "transactional id",
            |id: &ByteString| Route::Transaction(id.clone()),
            |batch| DescribeTransactionsRequest {
                transactional_ids: batch.keys.clone(),
                ..Default::default()
            },
            |context, response| {
                let states = response.transaction_states.iter();
                Ok(states
                    .map(|state| (own(&state.transactional_id), described(context, state)))
                    .collect())
            },
        );
        self.call(call, ids.into_iter().map(Into::into)).await
    }

    /// Aborts a hanging transaction in one partition by writing an abort marker, bypassing its coordinator. For
    /// transactions that no producer will end and that block `read_committed` consumers. To abort a transaction that its
    /// coordinator knows, [fence its producer](Self::fence_producers).
    pub async fn abort_transaction(&self, transaction: AbortTransaction) -> Result<(), AdminError> {
        let partition = transaction.partition.clone();
        let call = AdminCall::new(
            "transaction in",
            |partition: &TopicPartition| Route::Leader(partition.clone()),
            move |_| WriteTxnMarkersRequest {
                markers: vec![marker(&transaction)],
                ..Default::default()
            },
            |_, response: WriteTxnMarkersResponse| marked(&response),
        );
        // A newer producer epoch means that the transaction has ended.
        let finals = &[ErrorCode::InvalidProducerEpoch, ErrorCode::TransactionCoordinatorFenced];
        self.call_one(call.finals(finals), partition).await
    }

    /// Fences producers: their open transactions are aborted and their requests fail. Returns the new producer ids and
    /// epochs.
    pub async fn fence_producers<N: Into<ByteString>>(
        &self,
        ids: impl IntoIterator<Item = N>,
    ) -> Results<ByteString, FencedProducer> {
        let call = AdminCall::new(
            "transactional id",
            |id: &ByteString| Route::Transaction(id.clone()),
            |batch| InitProducerIdRequest {
                transactional_id: batch.keys.first().cloned(),
                // Any valid timeout: this producer writes nothing.
                transaction_timeout_ms: batch.timeout_ms,
                producer_id: -1,
                producer_epoch: -1,
                ..Default::default()
            },
            |context: &CallContext<ByteString>, response: InitProducerIdResponse| {
                check(response.error_code, None)?;
                context.all(&FencedProducer {
                    producer_id: response.producer_id,
                    producer_epoch: response.producer_epoch,
                })
            },
        );
        self.call(call.one_by_one(), ids.into_iter().map(Into::into)).await
    }
}

/// Refuses unknown states: a broker would silently return nothing for them.
fn unknown_states(response: &ListTransactionsResponse) -> Result<(), BrokerError> {
    if response.unknown_state_filters.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = response.unknown_state_filters.iter().map(|name| &**name).collect();
    Err(BrokerError {
        code: ErrorCode::InvalidRequest,
        message: Some(format!("there is no state {}", names.join(", "))),
    })
}

fn described(
    context: &CallContext<ByteString>,
    state: &TransactionState,
) -> Result<TransactionDescription, BrokerError> {
    check(state.error_code, None)?;
    let partitions = state.topics.iter().flat_map(|topic| {
        let name = own(&topic.topic);
        topic
            .partitions
            .iter()
            .map(move |number| TopicPartition::new(name.clone(), *number))
    });
    Ok(TransactionDescription {
        coordinator: context.node.clone(),
        state: own(&state.transaction_state),
        producer_id: state.producer_id,
        producer_epoch: state.producer_epoch,
        timeout_ms: state.transaction_timeout_ms,
        start_time_ms: Some(state.transaction_start_time_ms).filter(|time| *time >= 0),
        partitions: partitions.collect(),
    })
}

fn marker(transaction: &AbortTransaction) -> WritableTxnMarker {
    WritableTxnMarker {
        producer_id: transaction.producer_id,
        producer_epoch: transaction.producer_epoch,
        transaction_result: false,
        topics: vec![WritableTxnMarkerTopic {
            name: transaction.partition.topic.clone(),
            partition_indexes: vec![transaction.partition.partition],
            ..Default::default()
        }],
        coordinator_epoch: transaction.coordinator_epoch,
        ..Default::default()
    }
}

fn marked(response: &WriteTxnMarkersResponse) -> ItemResults<TopicPartition, ()> {
    let mut results = BTreeMap::new();
    for topic in response.markers.iter().flat_map(|marker| &marker.topics) {
        let name = own(&topic.name);
        for partition in &topic.partitions {
            let key = TopicPartition::new(name.clone(), partition.partition_index);
            results.insert(key, check(partition.error_code, None));
        }
    }
    Ok(results.into_iter().collect())
}
