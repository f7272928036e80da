//! The driver of the group coordinators: one machine for each partition of `__consumer_offsets`.

use std::sync::{
    Arc, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

use bytestring::ByteString;
use milena_log::AppendError;
use milena_machines::{
    GroupCoordinator, Ticket, TopicPartition,
    group::{GroupContext, GroupEffects, GroupRecord, GroupReply, GroupRequest},
};
use milena_wire::{errors::ErrorCode, records::ControlRecord};

use super::{
    answer::{Answer, Desk, take_own},
    internal_topics::GROUPS,
    load::{self, Entry},
    own_batch::{self, StoreError},
    shards::{HoldsMachine, Shard, Shards},
};
use crate::{
    config::BrokerConfig,
    net::Peer,
    node::{Node, random_seed},
    partition::EndMarker,
};

#[derive(Debug)]
pub(crate) struct Groups {
    shards: Shards<State>,
    next_ticket: AtomicU64,
}

impl Default for Groups {
    fn default() -> Self {
        Self {
            shards: Shards::new(&GROUPS),
            next_ticket: AtomicU64::new(0),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// `None` until the partition was read, and after a record could not be written: then the machine is ahead of it.
    machine: Option<GroupCoordinator>,
    /// Which picture of the topics the machine has.
    topics_version: u64,
    /// Which configuration it has.
    config: Option<Arc<BrokerConfig>>,
    desk: Desk<GroupReply>,
}

impl HoldsMachine for State {
    fn drop_machine(&mut self) {
        self.machine = None;
    }
}

impl Groups {
    /// Asks the coordinator of a group. An error means that it cannot be asked now.
    pub(crate) fn ask(
        &self,
        node: &Node,
        peer: &Asking<'_>,
        group_id: &str,
        request: GroupRequest,
    ) -> Result<Answer<GroupReply>, ErrorCode> {
        self.ask_shard(node, peer, self.shards.of(node, group_id)?, request)
    }

    /// The partition that keeps a group.
    pub(crate) fn partition_of(&self, node: &Node, group_id: &str) -> Result<TopicPartition, ErrorCode> {
        let shard = self.shards.of(node, group_id)?;
        Ok(TopicPartition {
            topic: shard.partition.topic.clone(),
            partition: shard.partition.index,
        })
    }

    /// Asks all coordinators the same.
    pub(crate) fn ask_all(
        &self,
        node: &Node,
        peer: &Asking<'_>,
        request: &GroupRequest,
    ) -> Result<Vec<Answer<GroupReply>>, ErrorCode> {
        // Before the first group there is no topic, and asking makes none.
        let shards = self.shards.existing(node)?.iter();
        shards
            .map(|shard| self.ask_shard(node, peer, shard, request.clone()))
            .collect()
    }

    fn ask_shard(
        &self,
        node: &Node,
        asking: &Asking<'_>,
        shard: &Shard<State>,
        request: GroupRequest,
    ) -> Result<Answer<GroupReply>, ErrorCode> {
        let ticket = Ticket(self.next_ticket.fetch_add(1, Ordering::Relaxed));
        let context = GroupContext {
            now_ms: node.now_ms(),
            ticket,
            version: asking.version,
            client_id: asking.client_id.clone().unwrap_or_default(),
            client_host: asking.peer.host.clone(),
        };
        let mut state = shard.ready(node)?;
        if let GroupRequest::TxnOffsetCommit(request) = &request {
            // The log would refuse the records of a producer that was fenced, and the machine must not get ahead of it.
            let log = &shard.partition.log;
            log.check_producer_epoch(request.producer_id, request.producer_epoch)
                .map_err(|_| ErrorCode::InvalidProducerEpoch)?;
        }
        let machine = state.machine.as_mut().ok_or(ErrorCode::CoordinatorNotAvailable)?;
        let mut effects = machine.handle_request(&context, request);
        let mut own = take_own(&mut effects.replies, ticket);
        let mut end_offset = shard.apply(node, &mut state, effects)?;
        // A group that waits for nobody goes on at once.
        let machine = state.machine.as_mut().ok_or(ErrorCode::CoordinatorNotAvailable)?;
        if machine
            .poll_timeout()
            .is_some_and(|deadline| deadline <= context.now_ms)
        {
            let mut effects = machine.handle_timeout(context.now_ms);
            own = own.or_else(|| take_own(&mut effects.replies, ticket));
            end_offset = shard.apply(node, &mut state, effects)?;
        }
        Ok(state.desk.take_or_wait(ticket, own, &shard.partition, end_offset))
    }

    /// Starts all coordinators that have something to look after.
    pub(super) fn load_all(&self, node: &Node) {
        for shard in self.shards.with_records(node) {
            // What failed is logged, and tried again when somebody asks.
            drop(shard.ready(node));
        }
    }

    /// Lets every machine whose time has come act; gives the next deadline of all.
    pub(super) fn handle_timeouts(&self, node: &Node) -> Option<i64> {
        let now_ms = node.now_ms();
        let deadlines = self.shards.started().iter().filter_map(|shard| {
            let mut state = shard.lock();
            let machine = state.machine.as_mut()?;
            if machine.poll_timeout().is_some_and(|deadline| deadline <= now_ms) {
                let effects = machine.handle_timeout(now_ms);
                // What failed is logged; the machine starts anew when somebody asks.
                shard.apply(node, &mut state, effects).ok()?;
            }
            state.machine.as_ref()?.poll_timeout()
        });
        deadlines.min()
    }

    /// Ends a transaction in a partition of the topic: what it committed counts from now on, or never will.
    pub(crate) fn append_marker(&self, node: &Node, index: i32, end: EndMarker) -> Result<i64, AppendError> {
        let shards = self.shards.all(node).unwrap_or_default();
        let Some(shard) = usize::try_from(index).ok().and_then(|index| shards.get(index)) else {
            return Ok(0);
        };
        let mut state = shard.lock();
        let appended = shard.partition.append_marker(end, node)?;
        let committed = matches!(end.marker, ControlRecord::Commit { .. });
        if let Some(machine) = &mut state.machine {
            machine.replay_marker(end.producer, committed);
        }
        Ok(appended.last_offset)
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) version: i16,
    pub(crate) client_id: &'a Option<ByteString>,
    pub(crate) peer: &'a Peer,
}

impl Shard<State> {
    /// The state with a machine that knows everything the log and the node know.
    fn ready(&self, node: &Node) -> Result<MutexGuard<'_, State>, ErrorCode> {
        let mut state = self.lock();
        if state.machine.is_none() {
            // Whoever waited for the machine that was there must ask again.
            state.desk.close();
            self.load(node, &mut state)?;
        }
        if state.topics_version != node.topics_version() {
            let (version, topics) = node.topics_image();
            let machine = state.machine.as_mut().ok_or(ErrorCode::CoordinatorNotAvailable)?;
            let effects = machine.set_topics(node.now_ms(), topics);
            state.topics_version = version;
            self.apply(node, &mut state, effects)?;
        }
        let config = node.config();
        if !state.config.as_ref().is_some_and(|known| Arc::ptr_eq(known, &config)) {
            if let Some(machine) = &mut state.machine {
                machine.set_config(config.groups.clone());
            }
            state.config = Some(config);
        }
        Ok(state)
    }

    fn load(&self, node: &Node, state: &mut State) -> Result<(), ErrorCode> {
        let (version, topics) = node.topics_image();
        let config = node.config();
        let mut machine = GroupCoordinator::new(config.groups.clone(), topics, random_seed());
        state.config = Some(config);
        let read = load::replay(&self.partition, |entry| {
            match entry {
                Entry::Record { producer, key, value } => machine.replay_stored(producer, key, value)?,
                Entry::Marker { producer, committed } => machine.replay_marker(producer, committed),
            }
            Ok(())
        });
        if let Err(error) = read {
            tracing::error!(topic = %self.partition.topic, partition = self.partition.index, %error, "groups cannot be read");
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        let effects = machine.start(node.now_ms());
        state.machine = Some(machine);
        state.topics_version = version;
        self.apply(node, state, effects)?;
        Ok(())
    }

    /// Stores the records and sends the answers on their way; gives the offset that all of it is below.
    fn apply(&self, node: &Node, state: &mut State, effects: GroupEffects) -> Result<i64, ErrorCode> {
        if !effects.records.is_empty()
            && let Err(error) = self.store(node, &effects)
        {
            tracing::error!(topic = %self.partition.topic, partition = self.partition.index, %error, "a change to a group cannot be stored");
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
        Ok(end_offset)
    }

    fn store(&self, node: &Node, effects: &GroupEffects) -> Result<(), StoreError> {
        let records: Result<Vec<_>, _> = effects.records.iter().map(GroupRecord::encode).collect();
        own_batch::append(&self.partition, &records?, effects.producer, node)
    }
}
