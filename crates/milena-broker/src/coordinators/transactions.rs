//! The driver of the transaction coordinators: one machine for each partition of `__transaction_state`.
//!
//! A transaction ends in steps, and each waits until the one before is durable: the decision, the markers, the completion.
//! An end that has begun is completed even if the client no longer waits.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

use bytestring::ByteString;
use milena_log::{AppendError, ProducerError, StorageError};
use milena_machines::{
    Ticket, TopicPartition, TransactionCoordinator,
    transaction::{
        Markers, ProducerEpoch, TransactionContext, TransactionEffects, TransactionRecord, TransactionReply,
        TransactionRequest,
    },
};
use milena_wire::{errors::ErrorCode, records::ControlRecord};

use super::{
    CONSUMER_OFFSETS,
    internal_topics::TRANSACTIONS,
    load::{self, Entry},
    own_batch::{self, StoreError},
    reply::{PendingReply, ReplyWaiters, take_own, wait_durable},
    shards::{MachineState, Shard, Shards},
};
use crate::{
    config::BrokerConfig,
    node::Node,
    partition::{EndMarker, Partition},
};

/// The backoff after a marker could not be written.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Transactions {
    shards: Shards<State>,
    next_ticket: AtomicU64,
    /// The transactional ids of all loaded coordinators.
    ids: AtomicUsize,
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            shards: Shards::new(&TRANSACTIONS),
            next_ticket: AtomicU64::new(0),
            ids: AtomicUsize::new(0),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// `None` before the partition is loaded, and after a record could not be written: the machine is then ahead of its log.
    machine: Option<TransactionCoordinator>,
    /// The number of machines so far. Markers that an earlier machine requested are requested again by the current one.
    loads: u64,
    /// The configuration that the machine knows.
    config: Option<Arc<BrokerConfig>>,
    waiters: ReplyWaiters<TransactionReply>,
    /// The share of the machine in [`Transactions::ids`].
    counted: usize,
}

impl MachineState for State {
    fn drop_machine(&mut self) {
        self.machine = None;
    }
}

/// The effects of an event that are left after its records were appended.
#[derive(Debug, Default)]
struct AppliedEffects {
    /// All records are below this offset.
    end_offset: i64,
    markers: Vec<Markers>,
    /// The machine that requested them, see [`State::loads`].
    loads: u64,
}

impl Transactions {
    /// Sends a request to the coordinator of a transactional id; an error means that the coordinator is not available.
    pub(crate) fn request(
        &self,
        node: &Arc<Node>,
        version: i16,
        transactional_id: &str,
        request: TransactionRequest,
    ) -> Result<PendingReply<TransactionReply>, ErrorCode> {
        let shard = self.shards.of(node, transactional_id)?;
        self.request_shard(node, version, shard, request)
    }

    /// Sends one request to all coordinators.
    pub(crate) fn request_all(
        &self,
        node: &Arc<Node>,
        version: i16,
        request: &TransactionRequest,
    ) -> Result<Vec<PendingReply<TransactionReply>>, ErrorCode> {
        // Before the first transaction there is no topic, and this creates none.
        let shards = self.shards.existing(node)?.iter();
        shards
            .map(|shard| self.request_shard(node, version, shard, request.clone()))
            .collect()
    }

    fn request_shard(
        &self,
        node: &Arc<Node>,
        version: i16,
        shard: &Arc<Shard<State>>,
        request: TransactionRequest,
    ) -> Result<PendingReply<TransactionReply>, ErrorCode> {
        let context = TransactionContext {
            now_ms: node.now_ms(),
            ticket: Ticket(self.next_ticket.fetch_add(1, Ordering::Relaxed)),
            version,
        };
        let mut state = shard.ready(node)?;
        self.recount(&mut state);
        let may_create = self.ids.load(Ordering::Relaxed) < node.config().limits.transactional_ids;
        let machine = state.machine.as_mut().ok_or(ErrorCode::CoordinatorNotAvailable)?;
        if let Err(exceeded) = machine.check_limits(&request, may_create) {
            node.limit_log.refused(&exceeded.text, node.now_ms());
            return Err(exceeded.code);
        }
        let request = request.detached();
        let mut effects = machine.handle_request(&context, request, &mut || node.new_producer_id().ok());
        let own = take_own(&mut effects.replies, context.ticket);
        let applied = shard.apply(node, &mut state, effects)?;
        let reply = state
            .waiters
            .take_or_wait(context.ticket, own, &shard.partition, applied.end_offset);
        self.recount(&mut state);
        drop(state);
        end_transactions(node, shard, applied);
        Ok(reply.settled())
    }

    /// Counts the transactional ids of a machine after a change.
    fn recount(&self, state: &mut State) {
        let now = state.machine.as_ref().map_or(0, TransactionCoordinator::ids_len);
        let before = std::mem::replace(&mut state.counted, now);
        self.ids.fetch_add(now, Ordering::Relaxed);
        self.ids.fetch_sub(before, Ordering::Relaxed);
    }

    /// Runs `act` under the lock of the coordinator if the transaction is open and has the partition, so that it cannot end
    /// meanwhile.
    pub(crate) fn while_open<T>(
        &self,
        node: &Arc<Node>,
        transactional_id: &ByteString,
        producer: ProducerEpoch,
        partition: TopicPartition,
        act: impl FnOnce() -> T,
    ) -> Result<T, ErrorCode> {
        let shard = self.shards.of(node, transactional_id)?;
        let state = shard.ready(node)?;
        let machine = state.machine.as_ref().ok_or(ErrorCode::CoordinatorNotAvailable)?;
        match machine.verify_partitions(transactional_id, producer, &[partition]) {
            ErrorCode::None => Ok(act()),
            error => Err(error),
        }
    }

    /// Loads all coordinators whose partitions have records.
    pub(super) fn load_all(&self, node: &Arc<Node>) {
        for shard in self.shards.with_records(node) {
            // A failure is logged; the next request tries again.
            drop(shard.ready(node));
        }
    }

    /// Handles the deadlines that have passed and returns the next one of all machines.
    pub(super) fn handle_timeouts(&self, node: &Arc<Node>) -> Option<i64> {
        let now_ms = node.now_ms();
        let deadlines = self.shards.started().iter().filter_map(|shard| {
            let mut state = shard.lock();
            let machine = state.machine.as_mut()?;
            if machine.poll_timeout().is_some_and(|deadline| deadline <= now_ms) {
                let effects = machine.handle_timeout(now_ms, &mut || node.new_producer_id().ok());
                // A failure is logged; the next request loads the machine anew.
                let applied = shard.apply(node, &mut state, effects).ok()?;
                drop(state);
                end_transactions(node, shard, applied);
                state = shard.lock();
            }
            state.machine.as_ref()?.poll_timeout()
        });
        deadlines.min()
    }
}

impl Shard<State> {
    /// Locks the state, with a machine that is loaded and knows the current configuration.
    fn ready<'a>(self: &'a Arc<Self>, node: &Arc<Node>) -> Result<MutexGuard<'a, State>, ErrorCode> {
        let mut state = self.lock();
        if state.machine.is_none() {
            // Requests that wait for the previous machine must be retried.
            state.waiters.close();
            let applied = self.load(node, &mut state)?;
            drop(state);
            end_transactions(node, self, applied);
            state = self.lock();
        }
        let config = node.config();
        if !state.config.as_ref().is_some_and(|known| Arc::ptr_eq(known, &config)) {
            if let Some(machine) = &mut state.machine {
                machine.set_config(config.transactions.clone());
            }
            state.config = Some(config);
        }
        Ok(state)
    }

    fn load(&self, node: &Node, state: &mut State) -> Result<AppliedEffects, ErrorCode> {
        let config = node.config();
        let mut machine = TransactionCoordinator::new(config.transactions.clone(), node.leader_epoch);
        state.config = Some(config);
        let read = load::replay(&self.partition, |entry| match entry {
            Entry::Record { key, value, .. } => machine.replay_stored(key, value),
            Entry::Marker { .. } => Ok(()),
        });
        if let Err(error) = read {
            tracing::error!(
                event = "transactions_not_loaded",
                partition = self.partition.index,
                %error,
                "transactions cannot be loaded; their coordinator is not available"
            );
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        let effects = machine.start(node.now_ms());
        state.machine = Some(machine);
        state.loads += 1;
        self.apply(node, state, effects)
    }

    /// Stores the records and sends the replies.
    fn apply(&self, node: &Node, state: &mut State, effects: TransactionEffects) -> Result<AppliedEffects, ErrorCode> {
        if !effects.records.is_empty()
            && let Err(error) = self.store(node, &effects)
        {
            tracing::error!(
                event = "transaction_not_stored",
                partition = self.partition.index,
                %error,
                "a change to a transaction cannot be stored; its coordinator is loaded anew"
            );
            // The machine is ahead of its log, so it is dropped, and clients must retry.
            state.machine = None;
            state.waiters.close();
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        if let Some(machine) = &state.machine {
            node.deadline_timer.no_later_than(machine.poll_timeout());
        }
        let end_offset = self.partition.log.view().log_end_offset;
        state.waiters.send(effects.replies, end_offset);
        Ok(AppliedEffects {
            end_offset,
            markers: effects.markers,
            loads: state.loads,
        })
    }

    fn store(&self, node: &Node, effects: &TransactionEffects) -> Result<(), StoreError> {
        let records: Result<Vec<_>, _> = effects.records.iter().map(TransactionRecord::encode).collect();
        own_batch::append(&self.partition, &records?, None, node)
    }
}

/// Ends transactions whose decisions were stored: here if nothing has to wait, else in a task.
fn end_transactions(node: &Arc<Node>, shard: &Arc<Shard<State>>, applied: AppliedEffects) {
    let AppliedEffects {
        end_offset,
        markers,
        loads,
    } = applied;
    for markers in markers {
        let end = TransactionEnd {
            node: Arc::clone(node),
            shard: Arc::clone(shard),
            markers,
            loads,
        };
        let mut end: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(end.run(end_offset));
        let mut context = Context::from_waker(Waker::noop());
        if end.as_mut().poll(&mut context).is_pending() {
            tokio::spawn(end);
        }
    }
}

/// The end of one transaction: its markers, then its completion.
struct TransactionEnd {
    node: Arc<Node>,
    shard: Arc<Shard<State>>,
    markers: Markers,
    loads: u64,
}

impl TransactionEnd {
    /// Gives up if the disk fails to sync: the next start finds the decision, if it survived, and completes it. Gives up too
    /// if another machine was loaded meanwhile, which requests the same markers.
    async fn run(self, decision_end_offset: i64) {
        if wait_durable(&self.shard.partition, decision_end_offset).await.is_err() {
            return;
        }
        let mut written = vec![];
        for TopicPartition { topic, partition } in &self.markers.partitions {
            let found = self.node.topics().by_name(topic).cloned();
            // A deleted topic needs no marker.
            let Some(partition) = found.and_then(|topic| topic.partition(*partition).cloned()) else {
                continue;
            };
            let Some(end_offset) = self.write(&partition).await else {
                return;
            };
            written.push((partition, end_offset));
        }
        for (partition, end_offset) in written {
            if wait_durable(&partition, end_offset).await.is_err() {
                return;
            }
        }
        if let Some(applied) = self.complete() {
            end_transactions(&self.node, &self.shard, applied);
        }
    }

    /// Writes the marker of one partition, with retries; returns the offset that it is below.
    async fn write(&self, partition: &Arc<Partition>) -> Option<i64> {
        let coordinator_epoch = self.markers.coordinator_epoch;
        let end = EndMarker {
            marker: match self.markers.committed {
                true => ControlRecord::Commit { coordinator_epoch },
                false => ControlRecord::Abort { coordinator_epoch },
            },
            producer: self.markers.producer,
            has_new_epoch: self.markers.transaction_version >= 2,
        };
        loop {
            let written = {
                // The lock is held meanwhile, so that a marker never follows a completion by another machine.
                let state = self.shard.lock();
                if state.loads != self.loads {
                    return None;
                }
                write_marker(&self.node, partition, end)
            };
            match written {
                Ok(end_offset) => return Some(end_offset),
                Err(error) => {
                    let (topic, partition) = (&partition.topic, partition.index);
                    tracing::error!(
                        event = "marker_not_written",
                        %topic,
                        partition,
                        %error,
                        "transaction marker cannot be written; retrying"
                    );
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Reports to the machine that all markers are written.
    fn complete(&self) -> Option<AppliedEffects> {
        let mut state = self.shard.lock();
        if state.loads != self.loads {
            return None;
        }
        let machine = state.machine.as_mut()?;
        let (id, producer) = (&self.markers.transactional_id, self.markers.producer);
        let effects = machine.handle_markers_written(self.node.now_ms(), id, producer);
        self.shard.apply(&self.node, &mut state, effects).ok()
    }
}

/// Like [`append_marker`], but returns the offset that the marker is below. Writes nothing if a newer producer or
/// coordinator has ended the transaction already, or the topic was deleted.
fn write_marker(node: &Node, partition: &Arc<Partition>, end: EndMarker) -> Result<i64, AppendError> {
    match append_marker(node, partition, end) {
        Ok(last_offset) => Ok(last_offset + 1),
        Err(AppendError::Producer(ProducerError::OldEpoch { .. } | ProducerError::OldCoordinator { .. })) => Ok(0),
        Err(AppendError::Storage(StorageError::Retired { .. })) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Appends the marker that ends a transaction in one partition; returns its offset.
pub(crate) fn append_marker(node: &Node, partition: &Arc<Partition>, end: EndMarker) -> Result<i64, AppendError> {
    if partition.topic == CONSUMER_OFFSETS {
        return node.groups.append_marker(node, partition.index, end);
    }
    let appended = partition.append_marker(end, node)?;
    Ok(appended.last_offset)
}
