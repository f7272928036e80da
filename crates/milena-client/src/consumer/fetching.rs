//! Fetches: when to send one, and what to do with its answer. All of it runs on the io thread or in a moment of `poll`.

use std::sync::Arc;

use milena_machines::{
    TopicPartition,
    fetch::{FetchErrorAction, FetchFrom, FetchSession, Fetchable, Position, PositionEpoch, SessionPartition},
};
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        FetchRequest, FetchResponse,
        fetch_response::{FetchableTopicResponse, PartitionData},
    },
    records::Batches,
};

use super::{
    aborted::AbortedTransactions,
    buffer::Buffer,
    fetched::{End, Fetched, look_over},
    shared::{Core, Shared},
};
use crate::{
    config::IsolationLevel,
    io,
    metadata::{Broker, LeaderHint, MetadataCache, Refresh},
    net::{Answer, CallError, SendOptions},
};

/// What is under way to one broker.
#[derive(Debug, Default)]
pub(crate) struct NodeFetch {
    session: FetchSession<PositionEpoch>,
    in_flight: bool,
    retry_at_ms: i64,
}

impl NodeFetch {
    /// When it may be asked again, if that is not now.
    pub(super) fn next_retry(&self, now_ms: i64) -> Option<i64> {
        Some(self.retry_at_ms).filter(|at_ms| *at_ms > now_ms)
    }
}

/// Brokers may wait so long for records, whoever else wants something of them.
const WAIT_MS_MIN: i32 = 5;

impl Shared {
    /// Sends a fetch to each broker that has none to answer, as far as the budget goes. What is buffered does not keep the
    /// next from being asked for.
    pub(super) fn send_fetches(self: &Arc<Self>, core: &mut Core, now_ms: i64) {
        let cluster = self.metadata.cache();
        let mut ready = vec![];
        for node in cluster.brokers().map(|broker| broker.id) {
            let busy = |node: &NodeFetch| node.in_flight || node.retry_at_ms > now_ms;
            if core.nodes.get(&node).is_some_and(busy) {
                continue;
            }
            let Core { positions, buffer, .. } = &mut *core;
            let leader = |partition: &TopicPartition| fetch_from(&cluster, partition);
            let fetchable = positions.fetchable(now_ms, node, leader, |partition| self.wants_more(buffer, partition));
            if !fetchable.is_empty() {
                ready.push((node, fetchable));
            }
        }
        let mut left = ready.len();
        for (node, fetchable) in ready {
            if !self.send_fetch(core, now_ms, node, fetchable, left) {
                self.make_room(core);
                return;
            }
            left -= 1;
        }
    }

    /// At most one fetch of a partition is buffered while the next is asked for: so no partition takes the budget of all.
    fn wants_more(&self, buffer: &Buffer, partition: &TopicPartition) -> bool {
        buffer.bytes_of(partition) <= self.partition_bytes() && !buffer.ends(partition)
    }

    /// How long a broker may wait for records. As long as it does it cannot be asked for partitions that are left out now,
    /// because they are paused or have enough in the buffer. So it waits no longer than they have been left out: when their
    /// time comes they wait twice as long at most, and one that is left out for long does not cost many requests.
    fn wait_ms(&self, core: &Core, now_ms: i64, node: i32) -> i32 {
        let most_ms = self.config.fetch_max_wait_ms;
        let left_out_ms = core.positions.left_out_ms(now_ms, node);
        left_out_ms.map_or(most_ms, |left_out_ms| {
            let wait_ms = i32::try_from(left_out_ms).unwrap_or(most_ms);
            wait_ms.max(WAIT_MS_MIN).min(most_ms)
        })
    }

    fn partition_bytes(&self) -> usize {
        usize::try_from(self.config.max_partition_fetch_bytes).unwrap_or(0)
    }

    /// Says whether the budget had room for it.
    fn send_fetch(
        self: &Arc<Self>,
        core: &mut Core,
        now_ms: i64,
        node: i32,
        fetchable: Vec<Fetchable>,
        fetches: usize,
    ) -> bool {
        let Some(endpoint) = self.metadata.cache().broker(node).map(Broker::endpoint) else {
            return true;
        };
        let fetch_max = usize::try_from(self.config.fetch_max_bytes).unwrap_or(0);
        let wanted = fetchable.len().saturating_mul(self.partition_bytes()).min(fetch_max);
        let Some(reserved) = core.buffer.reserve(wanted, fetches) else {
            return false;
        };
        core.nodes.entry(node).or_default().in_flight = true;
        let connection = self.connections.records(node, &endpoint);
        // A broker may hold the fetch for as long as it was allowed to wait, and is not late then.
        let wait_ms = self.wait_ms(core, now_ms, node);
        let options = SendOptions::timeout_ms(i64::from(wait_ms) + i64::from(self.config.request_timeout_ms));
        let (builder, handler) = (Arc::clone(self), Arc::clone(self));
        connection.send_built(
            move |version| builder.build_fetch(node, &fetchable, (reserved, wait_ms), version),
            options,
            move |result| handler.handle_fetch(node, reserved, result),
        );
        true
    }

    fn build_fetch(
        &self,
        node: i32,
        fetchable: &[Fetchable],
        (max_bytes, max_wait_ms): (usize, i32),
        version: i16,
    ) -> FetchRequest {
        let cluster = self.metadata.cache();
        let max_bytes = i32::try_from(max_bytes).unwrap_or(i32::MAX);
        let mut request = FetchRequest {
            max_wait_ms,
            min_bytes: self.config.fetch_min_bytes,
            max_bytes,
            isolation_level: i8::from(self.reads_committed()),
            rack_id: self.config.client_rack.clone().unwrap_or_default().into(),
            ..Default::default()
        };
        let wanted = fetchable.iter().map(|fetchable| SessionPartition {
            partition: fetchable.partition.clone(),
            topic_id: cluster
                .topic_id(&fetchable.partition.topic)
                .filter(|_| version >= versions::fetch::TOPIC_IDS),
            offset: fetchable.position.offset,
            leader_epoch: fetchable.leader_epoch,
            last_fetched_epoch: fetchable
                .position
                .epoch
                .filter(|_| version >= versions::fetch::DIVERGING_EPOCH)
                .unwrap_or(-1),
            max_bytes: self.config.max_partition_fetch_bytes.min(max_bytes),
            tag: fetchable.epoch,
        });
        let mut core = self.core();
        let fetch = core.nodes.entry(node).or_default();
        fetch.session.build(wanted.collect(), &mut request);
        request
    }

    fn handle_fetch(self: &Arc<Self>, node: i32, reserved: usize, result: Result<Answer<FetchResponse>, CallError>) {
        let now_ms = io::now_ms();
        let mut guard = self.core();
        let core = &mut *guard;
        core.buffer.unreserve(reserved);
        if core.closed {
            return;
        }
        let buffered = core.buffer.len();
        self.take_answer(core, now_ms, node, result);
        let rings = core.buffer.len() != buffered || core.positions.stuck().is_some();
        // The next fetch goes out before anybody looks into the records of this one.
        self.drive_locked(core, now_ms);
        drop(guard);
        if rings {
            self.bell().ring();
        }
    }

    fn take_answer(&self, core: &mut Core, now_ms: i64, node: i32, result: Result<Answer<FetchResponse>, CallError>) {
        let fetch = core.nodes.entry(node).or_default();
        fetch.in_flight = false;
        let response = match result {
            Ok(answer) => {
                let throttle_ms = answer.response.throttle_time_ms;
                core.metrics.fetched(now_ms, answer.latency_us, throttle_ms);
                answer.response
            }
            Err(error) => {
                tracing::debug!(node, %error, "a fetch was not answered");
                fetch.session.handle_failure();
                fetch.retry_at_ms = now_ms + self.config.retry_backoff_ms;
                core.positions.handle_node_lost(node);
                self.refresh_metadata();
                return;
            }
        };
        if let Err(problem) = fetch.session.handle_response(&response) {
            tracing::debug!(node, %problem, "a fetch session begins anew");
            fetch.retry_at_ms = now_ms + self.config.retry_backoff_ms;
            self.refresh_metadata();
            return;
        }
        self.learn_leaders(&response);
        let mut held = Held::default();
        for topic in response.responses {
            self.take_topic(core, now_ms, node, topic, &mut held);
        }
        core.metrics.fetch_held(now_ms, held.bytes, held.records);
    }

    fn take_topic(&self, core: &mut Core, now_ms: i64, node: i32, topic: FetchableTopicResponse, held: &mut Held) {
        for data in topic.partitions {
            let session = core.nodes.get(&node).map(|fetch| &fetch.session);
            let asked =
                session.and_then(|session| session.requested(&topic.topic, topic.topic_id, data.partition_index));
            let Some(asked) = asked else { continue };
            let epoch = Some(asked.last_fetched_epoch).filter(|epoch| *epoch >= 0);
            let position = Position {
                offset: asked.offset,
                epoch,
            };
            let place = (asked.partition.clone(), asked.tag);
            let batches = self.take_partition(core, now_ms, (place.clone(), position), &data);
            if let Some(batches) = batches {
                let aborted = self
                    .reads_committed()
                    .then(|| AbortedTransactions::new(data.aborted_transactions.as_deref()));
                take_records(core, place, position, batches, aborted, held);
            }
        }
    }

    /// Takes note of what a broker says of a partition; gives the records, if there are any.
    fn take_partition(
        &self,
        core: &mut Core,
        now_ms: i64,
        (place, position): ((TopicPartition, PositionEpoch), Position),
        data: &PartitionData,
    ) -> Option<Batches> {
        let (partition, turn) = &place;
        let code = ErrorCode::from_code(data.error_code).unwrap_or(ErrorCode::UnknownServerError);
        if code != ErrorCode::None {
            match core.positions.handle_fetch_error(now_ms, partition, *turn, code) {
                FetchErrorAction::Retry => {}
                FetchErrorAction::RefreshMetadata => self.refresh_metadata(),
                FetchErrorAction::ResetWhenDrained => {
                    core.buffer.push(Fetched::ending(place, position, End::OutOfRange))
                }
                FetchErrorAction::Raise(error) => core.buffer.push(Fetched::ending(place, position, End::Error(error))),
            }
            return None;
        }
        let PartitionData {
            high_watermark,
            last_stable_offset,
            log_start_offset,
            ..
        } = *data;
        core.positions
            .handle_ends(partition, high_watermark, last_stable_offset, log_start_offset);
        if data.diverging_epoch.end_offset >= 0 {
            let end = Position {
                offset: data.diverging_epoch.end_offset,
                epoch: Some(data.diverging_epoch.epoch).filter(|epoch| *epoch >= 0),
            };
            tracing::warn!(%partition, from = end.offset, "records that were read have been cut off");
            core.positions.handle_divergence(partition, *turn, end);
            return None;
        }
        if data.preferred_read_replica >= 0 {
            let until_ms = now_ms + self.config.metadata_max_age_ms;
            let replica = data.preferred_read_replica;
            core.positions
                .handle_preferred_replica(partition, *turn, replica, until_ms);
        }
        let records = data.records.clone().filter(|records| !records.is_empty());
        records.map(Batches::new)
    }

    /// When records of paused partitions alone fill the budget, those of one are let go, or nothing else could be read.
    fn make_room(&self, core: &mut Core) {
        if !core.buffer.is_full_of_paused(&core.positions) {
            return;
        }
        if let Some((partition, turn)) = core.buffer.evict_largest() {
            tracing::debug!(%partition, "paused records make room; they are read again later");
            core.positions.refetch(&partition, turn);
        }
    }

    /// What a broker that does not lead says of who does (KIP-951).
    fn learn_leaders(&self, response: &FetchResponse) {
        if response.node_endpoints.is_empty() {
            return;
        }
        let cluster = self.metadata.cache();
        let mut hints = vec![];
        for topic in &response.responses {
            let name = cluster.topic_name(topic.topic_id).unwrap_or(&topic.topic);
            for data in topic
                .partitions
                .iter()
                .filter(|data| data.current_leader.leader_id >= 0)
            {
                hints.push(LeaderHint {
                    partition: TopicPartition::new(&**name, data.partition_index),
                    leader_id: data.current_leader.leader_id,
                    leader_epoch: data.current_leader.leader_epoch,
                });
            }
        }
        let brokers = response
            .node_endpoints
            .iter()
            .filter_map(|node| Broker::new(node.node_id, &node.host, node.port, node.rack.as_deref()));
        let brokers: Vec<Broker> = brokers.collect();
        self.metadata.handle_leaders(&hints, &brokers);
    }

    pub(super) fn refresh_metadata(&self) {
        self.metadata.request_update(Refresh::Stale);
    }

    /// Lets brokers forget what we read, as far as connections allow it at once.
    pub(super) fn close_sessions(&self) {
        let cluster = self.metadata.cache();
        let mut core = self.core();
        for (node, fetch) in &mut core.nodes {
            // A fetch that waits at the broker keeps the connection from hearing anything else.
            if let (false, Some(request), Some(broker)) =
                (fetch.in_flight, fetch.session.close(), cluster.broker(*node))
            {
                let connection = self.connections.records(*node, &broker.endpoint());
                connection.send(request, SendOptions::default(), |_| {});
            }
        }
    }

    pub(super) fn reads_committed(&self) -> bool {
        self.config.isolation_level == IsolationLevel::ReadCommitted
    }
}

fn fetch_from(cluster: &MetadataCache, partition: &TopicPartition) -> Option<FetchFrom> {
    let leader = cluster.leader(&partition.topic, partition.partition)?;
    Some(FetchFrom {
        node: leader.broker.id,
        leader_epoch: leader.epoch.unwrap_or(-1),
    })
}

/// What an answer brought, for the metrics.
#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    records: usize,
}

fn take_records(
    core: &mut Core,
    place: (TopicPartition, PositionEpoch),
    position: Position,
    batches: Batches,
    aborted: Option<AbortedTransactions>,
    held: &mut Held,
) {
    held.bytes += batches.leftover();
    // What cannot be cut into batches is told when the application comes to it.
    let looked_over = look_over(batches.clone()).ok().flatten();
    let wanted = match looked_over {
        Some((next, records)) => {
            held.records += records;
            core.positions.handle_fetched(&place.0, place.1, position.offset, next)
        }
        None => core.positions.deliverable(&place.0, place.1).is_some(),
    };
    if wanted {
        let mut fetched = Fetched::new(place, position, batches, aborted);
        if looked_over.is_none() {
            fetched.set_end(End::Unreadable);
        }
        core.buffer.push(fetched);
    }
}
