//! The driver of the group coordinators: one machine for each partition of `__consumer_offsets`.

use std::sync::{
    Arc, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use bytestring::ByteString;
use milena_log::AppendError;
use milena_machines::{
    GroupCoordinator, Ticket, TopicPartition,
    group::{GroupContext, GroupEffects, GroupRecord, GroupReply, GroupRequest, VisibleTopics},
};
use milena_wire::{errors::ErrorCode, messages::ConsumerGroupHeartbeatResponse, records::ControlRecord};

use super::{
    internal_topics::GROUPS,
    load::{self, Entry},
    own_batch::{self, StoreError},
    reply::{PendingReply, ReplyWaiters, take_own},
    shards::{MachineState, Shard, Shards},
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
    /// The groups of all loaded coordinators.
    groups: AtomicUsize,
}

impl Default for Groups {
    fn default() -> Self {
        Self {
            shards: Shards::new(&GROUPS),
            next_ticket: AtomicU64::new(0),
            groups: AtomicUsize::new(0),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// `None` before the partition is loaded, and after a record could not be written: the machine is then ahead of its log.
    machine: Option<GroupCoordinator>,
    /// The version of the topics that the machine knows.
    topics_version: u64,
    /// The configuration that the machine knows.
    config: Option<Arc<BrokerConfig>>,
    waiters: ReplyWaiters<GroupReply>,
    /// The share of the machine in [`Groups::groups`], and the counts that it follows from.
    counted: usize,
    counted_from: Option<(usize, usize)>,
}

impl MachineState for State {
    fn drop_machine(&mut self) {
        self.machine = None;
    }
}

impl Groups {
    /// Sends a request to the coordinator of a group; an error means that the coordinator is not available.
    pub(crate) fn request(
        &self,
        node: &Node,
        peer: &RequestSource<'_>,
        group_id: &str,
        request: GroupRequest,
    ) -> Result<PendingReply<GroupReply>, ErrorCode> {
        self.request_shard(node, peer, self.shards.of(node, group_id)?, request)
    }

    /// The partition that stores a group.
    pub(crate) fn partition_of(&self, node: &Node, group_id: &str) -> Result<TopicPartition, ErrorCode> {
        let shard = self.shards.of(node, group_id)?;
        Ok(TopicPartition {
            topic: shard.partition.topic.clone(),
            partition: shard.partition.index,
        })
    }

    /// Sends one request to all coordinators.
    pub(crate) fn request_all(
        &self,
        node: &Node,
        peer: &RequestSource<'_>,
        request: &GroupRequest,
    ) -> Result<Vec<PendingReply<GroupReply>>, ErrorCode> {
        // Before the first group there is no topic, and this creates none.
        let shards = self.shards.existing(node)?.iter();
        shards
            .map(|shard| self.request_shard(node, peer, shard, request.clone()))
            .collect()
    }

    fn request_shard(
        &self,
        node: &Node,
        source: &RequestSource<'_>,
        shard: &Shard<State>,
        request: GroupRequest,
    ) -> Result<PendingReply<GroupReply>, ErrorCode> {
        let ticket = Ticket(self.next_ticket.fetch_add(1, Ordering::Relaxed));
        let context = GroupContext {
            now_ms: node.now_ms(),
            ticket,
            version: source.version,
            client_id: source.client_id.as_deref().map(ByteString::from).unwrap_or_default(),
            client_host: source.peer.host.clone(),
            visible_topics: source.visible_topics.clone(),
        };
        let mut state = shard.ready(node)?;
        self.recount(&mut state);
        if let Some(refused) = self.check_limits(node, &state, &context.client_id, &request)? {
            return Ok(PendingReply::Ready(refused));
        }
        if let GroupRequest::TxnOffsetCommit(request) = &request {
            // The log would refuse the records of a producer that was fenced, and the machine must not get ahead of it.
            let log = &shard.partition.log;
            log.check_producer_epoch(request.producer_id, request.producer_epoch)
                .map_err(|_| ErrorCode::InvalidProducerEpoch)?;
        }
        let machine = state.machine.as_mut().ok_or(ErrorCode::CoordinatorNotAvailable)?;
        let mut effects = machine.handle_request(&context, request.detached());
        let mut own = take_own(&mut effects.replies, ticket);
        let mut end_offset = shard.apply(node, &mut state, effects)?;
        // A deadline that has passed already is handled at once.
        let machine = state.machine.as_mut().ok_or(ErrorCode::CoordinatorNotAvailable)?;
        if machine
            .poll_timeout()
            .is_some_and(|deadline| deadline <= context.now_ms)
        {
            let mut effects = machine.handle_timeout(context.now_ms);
            own = own.or_else(|| take_own(&mut effects.replies, ticket));
            end_offset = shard.apply(node, &mut state, effects)?;
        }
        self.recount(&mut state);
        Ok(state.waiters.take_or_wait(ticket, own, &shard.partition, end_offset))
    }

    /// Counts the groups of a machine after a change.
    fn recount(&self, state: &mut State) {
        let counts = state.machine.as_ref().map(GroupCoordinator::group_counts);
        if counts == state.counted_from {
            return;
        }
        state.counted_from = counts;
        let now = state.machine.as_ref().map_or(0, GroupCoordinator::count_groups);
        let before = std::mem::replace(&mut state.counted, now);
        self.groups.fetch_add(now, Ordering::Relaxed);
        self.groups.fetch_sub(before, Ordering::Relaxed);
    }

    /// Checks that a request keeps to the limits; returns the reply if it does not and the API has a field for the reason.
    fn check_limits(
        &self,
        node: &Node,
        state: &State,
        client_id: &str,
        request: &GroupRequest,
    ) -> Result<Option<GroupReply>, ErrorCode> {
        let may_create = self.groups.load(Ordering::Relaxed) < node.config().limits.groups;
        let machine = state.machine.as_ref().ok_or(ErrorCode::CoordinatorNotAvailable)?;
        let Err(exceeded) = machine.check_limits(client_id, request, may_create) else {
            return Ok(None);
        };
        node.limit_log.refused(&exceeded.text, node.now_ms());
        match request {
            GroupRequest::ConsumerHeartbeat(_) => {
                let response = ConsumerGroupHeartbeatResponse {
                    error_code: exceeded.code.code(),
                    error_message: Some(exceeded.text.into()),
                    ..Default::default()
                };
                Ok(Some(GroupReply::ConsumerHeartbeat(response)))
            }
            _ => Err(exceeded.code),
        }
    }

    /// Loads all coordinators whose partitions have records.
    pub(super) fn load_all(&self, node: &Node) {
        for shard in self.shards.with_records(node) {
            // A failure is logged; the next request tries again.
            drop(shard.ready(node));
        }
    }

    /// Handles the deadlines that have passed and returns the next one of all machines.
    pub(super) fn handle_timeouts(&self, node: &Node) -> Option<i64> {
        let now_ms = node.now_ms();
        let deadlines = self.shards.started().iter().filter_map(|shard| {
            let mut state = shard.lock();
            let machine = state.machine.as_mut()?;
            if machine.poll_timeout().is_some_and(|deadline| deadline <= now_ms) {
                let effects = machine.handle_timeout(now_ms);
                // A failure is logged; the next request loads the machine anew.
                shard.apply(node, &mut state, effects).ok()?;
                self.recount(&mut state);
            }
            state.machine.as_ref()?.poll_timeout()
        });
        deadlines.min()
    }

    /// Ends a transaction in a partition of the topic: its offsets take effect, or are dropped.
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

/// The origin of a request: API version, client id and peer.
#[derive(Debug, Clone)]
pub(crate) struct RequestSource<'a> {
    pub(crate) version: i16,
    pub(crate) client_id: &'a Option<ByteString>,
    pub(crate) peer: &'a Peer,
    pub(crate) visible_topics: VisibleTopics,
}

impl Shard<State> {
    /// Locks the state, with a machine that is loaded and knows the current topics and configuration.
    fn ready(&self, node: &Node) -> Result<MutexGuard<'_, State>, ErrorCode> {
        let mut state = self.lock();
        if state.machine.is_none() {
            // Requests that wait for the previous machine must be retried.
            state.waiters.close();
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
            tracing::error!(
                event = "groups_not_loaded",
                topic = %self.partition.topic,
                partition = self.partition.index,
                %error,
                "groups cannot be loaded; their coordinator is not available"
            );
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        let effects = machine.start(node.now_ms());
        state.machine = Some(machine);
        state.topics_version = version;
        self.apply(node, state, effects)?;
        Ok(())
    }

    /// Stores the records and sends the replies; returns the offset that must be durable before they leave.
    fn apply(&self, node: &Node, state: &mut State, effects: GroupEffects) -> Result<i64, ErrorCode> {
        if !effects.records.is_empty()
            && let Err(error) = self.store(node, &effects)
        {
            tracing::error!(
                event = "group_not_stored",
                topic = %self.partition.topic,
                partition = self.partition.index,
                %error,
                "a change to a group cannot be stored; its coordinator is loaded anew"
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
        Ok(end_offset)
    }

    fn store(&self, node: &Node, effects: &GroupEffects) -> Result<(), StoreError> {
        let records: Result<Vec<_>, _> = effects.records.iter().map(GroupRecord::encode).collect();
        own_batch::append(&self.partition, &records?, effects.producer, node)
    }
}
