//! The driver of the transaction coordinators: one machine for each partition of `__transaction_state`.
//!
//! A transaction ends in steps, and each waits until the one before is durable: the verdict, the markers, that they are
//! written. What has begun is carried to its end whether or not the client still waits.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicU64, Ordering},
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
    answer::{Answer, Desk, take_own, wait_durable},
    internal_topics::TRANSACTIONS,
    load::{self, Entry},
    own_batch::{self, StoreError},
    shards::{HoldsMachine, Shard, Shards},
};
use crate::{
    config::BrokerConfig,
    node::Node,
    partition::{EndMarker, Partition},
};

/// How long to wait before a marker that could not be written is tried again.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Transactions {
    shards: Shards<State>,
    next_ticket: AtomicU64,
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            shards: Shards::new(&TRANSACTIONS),
            next_ticket: AtomicU64::new(0),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// `None` until the partition was read, and after a record could not be written: then the machine is ahead of it.
    machine: Option<TransactionCoordinator>,
    /// How many machines there were: what an earlier one asked for is asked for again by the present one.
    loads: u64,
    /// Which configuration it has.
    config: Option<Arc<BrokerConfig>>,
    desk: Desk<TransactionReply>,
}

impl HoldsMachine for State {
    fn drop_machine(&mut self) {
        self.machine = None;
    }
}

/// What is left to do after the records of an event were appended.
#[derive(Debug, Default)]
struct Applied {
    /// Everything is below this offset.
    end_offset: i64,
    markers: Vec<Markers>,
    /// Which machine has asked for it.
    loads: u64,
}

impl Transactions {
    /// Asks the coordinator of a transactional id. An error means that it cannot be asked now.
    pub(crate) fn ask(
        &self,
        node: &Arc<Node>,
        version: i16,
        transactional_id: &str,
        request: TransactionRequest,
    ) -> Result<Answer<TransactionReply>, ErrorCode> {
        let shard = self.shards.of(node, transactional_id)?;
        self.ask_shard(node, version, shard, request)
    }

    /// Asks all coordinators the same.
    pub(crate) fn ask_all(
        &self,
        node: &Arc<Node>,
        version: i16,
        request: &TransactionRequest,
    ) -> Result<Vec<Answer<TransactionReply>>, ErrorCode> {
        // Before the first transaction there is no topic, and asking makes none.
        let shards = self.shards.existing(node)?.iter();
        shards
            .map(|shard| self.ask_shard(node, version, shard, request.clone()))
            .collect()
    }

    fn ask_shard(
        &self,
        node: &Arc<Node>,
        version: i16,
        shard: &Arc<Shard<State>>,
        request: TransactionRequest,
    ) -> Result<Answer<TransactionReply>, ErrorCode> {
        let context = TransactionContext {
            now_ms: node.now_ms(),
            ticket: Ticket(self.next_ticket.fetch_add(1, Ordering::Relaxed)),
            version,
        };
        let mut state = shard.ready(node)?;
        let machine = state.machine.as_mut().ok_or(ErrorCode::CoordinatorNotAvailable)?;
        let mut effects = machine.handle_request(&context, request, &mut || node.new_producer_id().ok());
        let own = take_own(&mut effects.replies, context.ticket);
        let applied = shard.apply(node, &mut state, effects)?;
        let answer = state
            .desk
            .take_or_wait(context.ticket, own, &shard.partition, applied.end_offset);
        drop(state);
        carry_out(node, shard, applied);
        Ok(answer.settled())
    }

    /// Does something while a transaction is known to be open and to have this partition: nobody can end it meanwhile.
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

    /// Starts all coordinators that have something to look after.
    pub(super) fn load_all(&self, node: &Arc<Node>) {
        for shard in self.shards.with_records(node) {
            // What failed is logged, and tried again when somebody asks.
            drop(shard.ready(node));
        }
    }

    /// Lets every machine whose time has come act; gives the next deadline of all.
    pub(super) fn handle_timeouts(&self, node: &Arc<Node>) -> Option<i64> {
        let now_ms = node.now_ms();
        let deadlines = self.shards.started().iter().filter_map(|shard| {
            let mut state = shard.lock();
            let machine = state.machine.as_mut()?;
            if machine.poll_timeout().is_some_and(|deadline| deadline <= now_ms) {
                let effects = machine.handle_timeout(now_ms, &mut || node.new_producer_id().ok());
                // What failed is logged; the machine starts anew when somebody asks.
                let applied = shard.apply(node, &mut state, effects).ok()?;
                drop(state);
                carry_out(node, shard, applied);
                state = shard.lock();
            }
            state.machine.as_ref()?.poll_timeout()
        });
        deadlines.min()
    }
}

impl Shard<State> {
    /// The state with a machine that knows everything the log and the node know.
    fn ready<'a>(self: &'a Arc<Self>, node: &Arc<Node>) -> Result<MutexGuard<'a, State>, ErrorCode> {
        let mut state = self.lock();
        if state.machine.is_none() {
            // Whoever waited for the machine that was there must ask again.
            state.desk.close();
            let applied = self.load(node, &mut state)?;
            drop(state);
            carry_out(node, self, applied);
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

    fn load(&self, node: &Node, state: &mut State) -> Result<Applied, ErrorCode> {
        let config = node.config();
        let mut machine = TransactionCoordinator::new(config.transactions.clone(), node.leader_epoch);
        state.config = Some(config);
        let read = load::replay(&self.partition, |entry| match entry {
            Entry::Record { key, value, .. } => machine.replay_stored(key, value),
            Entry::Marker { .. } => Ok(()),
        });
        if let Err(error) = read {
            tracing::error!(partition = self.partition.index, %error, "transactions cannot be read");
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        let effects = machine.start(node.now_ms());
        state.machine = Some(machine);
        state.loads += 1;
        self.apply(node, state, effects)
    }

    /// Stores the records and sends the answers on their way.
    fn apply(&self, node: &Node, state: &mut State, effects: TransactionEffects) -> Result<Applied, ErrorCode> {
        if !effects.records.is_empty()
            && let Err(error) = self.store(node, &effects)
        {
            tracing::error!(partition = self.partition.index, %error, "a change to a transaction cannot be stored");
            // The machine is ahead of its log. Those who wait learn that they must ask again.
            state.machine = None;
            state.desk.close();
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        if let Some(machine) = &state.machine {
            node.wake.no_later_than(machine.poll_timeout());
        }
        let end_offset = self.partition.log.view().log_end_offset;
        state.desk.answer(effects.replies, end_offset);
        Ok(Applied {
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

/// Ends transactions whose verdicts were stored: here and now if nothing has to wait, else in a task.
fn carry_out(node: &Arc<Node>, shard: &Arc<Shard<State>>, applied: Applied) {
    let Applied {
        end_offset,
        markers,
        loads,
    } = applied;
    for markers in markers {
        let end = Ending {
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

/// The end of one transaction, as it is carried out.
struct Ending {
    node: Arc<Node>,
    shard: Arc<Shard<State>>,
    markers: Markers,
    loads: u64,
}

impl Ending {
    /// Nothing is left to do if the disk fails to sync: the next start finds the verdict, if it survived, and carries it
    /// out. Nor if there is another machine by now, which asks for the same markers.
    async fn run(self, verdict_end_offset: i64) {
        if wait_durable(&self.shard.partition, verdict_end_offset).await.is_err() {
            return;
        }
        let mut written = vec![];
        for TopicPartition { topic, partition } in &self.markers.partitions {
            let found = self.node.topics().by_name(topic).cloned();
            // A topic that was deleted needs no marker.
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
        if let Some(applied) = self.tell() {
            carry_out(&self.node, &self.shard, applied);
        }
    }

    /// Writes the marker of one partition, until the disk takes it; gives the offset that it is below.
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
                // Held meanwhile, so that a marker never comes after the end that another machine has carried out.
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
                    tracing::error!(%topic, partition, %error, "a transaction cannot be ended yet");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Tells the machine that all markers are written.
    fn tell(&self) -> Option<Applied> {
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

/// As [`append_marker`]; gives the offset that the marker is below. Where a newer producer or coordinator has ended the
/// transaction already, or the topic was just deleted, there is nothing to write.
fn write_marker(node: &Node, partition: &Arc<Partition>, end: EndMarker) -> Result<i64, AppendError> {
    match append_marker(node, partition, end) {
        Ok(last_offset) => Ok(last_offset + 1),
        Err(AppendError::Producer(ProducerError::OldEpoch { .. } | ProducerError::OldCoordinator { .. })) => Ok(0),
        Err(AppendError::Storage(StorageError::Retired { .. })) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Appends the marker that ends a transaction in one partition; gives its offset.
pub(crate) fn append_marker(node: &Node, partition: &Arc<Partition>, end: EndMarker) -> Result<i64, AppendError> {
    if partition.topic == CONSUMER_OFFSETS {
        return node.groups.append_marker(node, partition.index, end);
    }
    let appended = partition.append_marker(end, node)?;
    Ok(appended.last_offset)
}
