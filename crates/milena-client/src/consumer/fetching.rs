//! Fetches: when to send one, and the handling of its response. Runs on the io thread and inside `poll`.

use std::sync::Arc;

use milena_machines::{
    TopicPartition,
    fetch::{FetchErrorAction, FetchFrom, FetchSession, Fetchable, Position, PositionEpoch, SessionPartition},
};
use milena_wire::{
    Uuid,
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
    completed_fetch::{CompletedFetch, FetchEnd, FetchOrigin, scan_headers},
    shared::{ConsumerCore, ConsumerShared},
};
use crate::{
    config::IsolationLevel,
    io,
    metadata::{Broker, LeaderHint, MetadataCache, Refresh},
    net::{ApiResponse, CallError, SendOptions},
};

/// The fetch session with one broker.
#[derive(Debug, Default)]
pub(crate) struct NodeFetch {
    session: FetchSession<PositionEpoch>,
    in_flight: bool,
    retry_at_ms: i64,
}

impl NodeFetch {
    /// The time of the next fetch, if it is in the future.
    pub(super) fn next_retry(&self, now_ms: i64) -> Option<i64> {
        Some(self.retry_at_ms).filter(|at_ms| *at_ms > now_ms)
    }
}

/// The minimum of `max_wait_ms`.
const WAIT_MS_MIN: i32 = 5;

impl ConsumerShared {
    /// Sends a fetch to each broker without one in flight, within the byte budget. The next fetch does not wait until
    /// the buffer is empty.
    pub(super) fn send_fetches(self: &Arc<Self>, core: &mut ConsumerCore, now_ms: i64) {
        let cluster = self.metadata.cache();
        let mut ready = vec![];
        for node in cluster.brokers().map(|broker| broker.id) {
            let busy = |node: &NodeFetch| node.in_flight || node.retry_at_ms > now_ms;
            if core.nodes.get(&node).is_some_and(busy) {
                continue;
            }
            let ConsumerCore { positions, buffer, .. } = &mut *core;
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

    /// Whether more of a partition should be fetched. One completed fetch may be buffered while the next is in flight,
    /// so that no partition takes the whole budget.
    fn wants_more(&self, buffer: &Buffer, partition: &TopicPartition) -> bool {
        buffer.bytes_of(partition) <= self.partition_bytes() && !buffer.ends(partition)
    }

    /// The time that a broker may wait for records. Partitions that are left out of this fetch, because they are paused
    /// or buffered, cannot be fetched until it returns. The wait is therefore no longer than they have been left out:
    /// they are delayed by a factor of two at most, and a long pause does not cost many requests.
    fn wait_ms(&self, core: &ConsumerCore, now_ms: i64, node: i32) -> i32 {
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

    /// Sends a fetch to one broker. Returns whether the budget allowed it.
    fn send_fetch(
        self: &Arc<Self>,
        core: &mut ConsumerCore,
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
        // The broker may delay the response by the allowed wait; that is not a timeout.
        let wait_ms = self.wait_ms(core, now_ms, node);
        let options = SendOptions::timeout_ms(i64::from(wait_ms) + i64::from(self.config.request_timeout_ms));
        let targets = self.fetch_targets(fetchable);
        // Since this version requests have topic ids instead of names. A topic may lack an id in an upgraded cluster.
        let options = match targets.iter().all(|target| target.topic_id.is_some()) {
            true => options,
            false => options.version_max(versions::fetch::TOPIC_IDS - 1),
        };
        let budget = FetchBudget {
            max_bytes: reserved,
            max_wait_ms: wait_ms,
        };
        let (builder, handler) = (Arc::clone(self), Arc::clone(self));
        connection.send_built(
            move |version| builder.build_fetch(node, &targets, budget, version),
            options,
            move |result| handler.handle_fetch(node, reserved, result),
        );
        true
    }

    fn fetch_targets(&self, fetchable: Vec<Fetchable>) -> Vec<FetchTarget> {
        let cluster = self.metadata.cache();
        let targets = fetchable.into_iter().map(|fetchable| FetchTarget {
            topic_id: cluster.topic_id(&fetchable.partition.topic),
            fetchable,
        });
        targets.collect()
    }

    fn build_fetch(&self, node: i32, targets: &[FetchTarget], budget: FetchBudget, version: i16) -> FetchRequest {
        let max_bytes = i32::try_from(budget.max_bytes).unwrap_or(i32::MAX);
        let mut request = FetchRequest {
            max_wait_ms: budget.max_wait_ms,
            min_bytes: self.config.fetch_min_bytes,
            max_bytes,
            isolation_level: i8::from(self.reads_committed()),
            rack_id: self.config.client_rack.clone().unwrap_or_default().into(),
            ..Default::default()
        };
        let partitions = targets
            .iter()
            .map(|FetchTarget { fetchable, topic_id }| SessionPartition {
                partition: fetchable.partition.clone(),
                topic_id: topic_id.filter(|_| version >= versions::fetch::TOPIC_IDS),
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
        fetch.session.build(partitions.collect(), &mut request);
        request
    }

    fn handle_fetch(
        self: &Arc<Self>,
        node: i32,
        reserved: usize,
        result: Result<ApiResponse<FetchResponse>, CallError>,
    ) {
        let now_ms = io::now_ms();
        let mut guard = self.core();
        let core = &mut *guard;
        core.buffer.unreserve(reserved);
        if core.closed {
            return;
        }
        let buffered = core.buffer.len();
        self.take_response(core, now_ms, node, result);
        let notifies = core.buffer.len() != buffered || core.positions.stuck().is_some();
        // The next fetch leaves before the records of this one are decoded.
        self.drive_locked(core, now_ms);
        drop(guard);
        if notifies {
            self.signal().notify();
        }
    }

    fn take_response(
        &self,
        core: &mut ConsumerCore,
        now_ms: i64,
        node: i32,
        result: Result<ApiResponse<FetchResponse>, CallError>,
    ) {
        let fetch = core.nodes.entry(node).or_default();
        fetch.in_flight = false;
        let response = match result {
            Ok(response) => {
                let throttle_ms = response.body.throttle_time_ms;
                core.metrics.record_fetch(now_ms, response.latency_us, throttle_ms);
                response.body
            }
            Err(error) => {
                tracing::debug!(event = "fetch_failed", node, %error, "fetch failed");
                fetch.session.handle_failure();
                fetch.retry_at_ms = now_ms + self.config.retry_backoff_ms;
                core.positions.handle_node_lost(node);
                self.refresh_metadata();
                return;
            }
        };
        if let Err(problem) = fetch.session.handle_response(&response) {
            tracing::debug!(event = "fetch_session_reset", node, %problem, "fetch session reset");
            fetch.retry_at_ms = now_ms + self.config.retry_backoff_ms;
            self.refresh_metadata();
            return;
        }
        self.update_leaders(&response);
        let mut totals = FetchTotals::default();
        for topic in response.responses {
            self.take_topic(core, now_ms, node, topic, &mut totals);
        }
        core.metrics
            .record_fetched_records(now_ms, totals.bytes, totals.records);
    }

    fn take_topic(
        &self,
        core: &mut ConsumerCore,
        now_ms: i64,
        node: i32,
        topic: FetchableTopicResponse,
        totals: &mut FetchTotals,
    ) {
        for data in topic.partitions {
            let session = core.nodes.get(&node).map(|fetch| &fetch.session);
            let requested =
                session.and_then(|session| session.requested(&topic.topic, topic.topic_id, data.partition_index));
            let Some(requested) = requested else { continue };
            let origin = FetchOrigin {
                partition: requested.partition.clone(),
                epoch: requested.tag,
                position: Position {
                    offset: requested.offset,
                    epoch: Some(requested.last_fetched_epoch).filter(|epoch| *epoch >= 0),
                },
            };
            let batches = self.take_partition(core, now_ms, &origin, &data);
            if let Some(batches) = batches {
                let aborted = self
                    .reads_committed()
                    .then(|| AbortedTransactions::new(data.aborted_transactions.as_deref()));
                take_records(core, origin, batches, aborted, totals);
            }
        }
    }

    /// Handles the response for one partition. Returns its records, if any.
    fn take_partition(
        &self,
        core: &mut ConsumerCore,
        now_ms: i64,
        origin: &FetchOrigin,
        data: &PartitionData,
    ) -> Option<Batches> {
        let FetchOrigin { partition, epoch, .. } = origin;
        let code = ErrorCode::from_code(data.error_code).unwrap_or(ErrorCode::UnknownServerError);
        if code != ErrorCode::None {
            match core.positions.handle_fetch_error(now_ms, partition, *epoch, code) {
                FetchErrorAction::Retry => {}
                FetchErrorAction::RefreshMetadata => self.refresh_metadata(),
                FetchErrorAction::ResetWhenDrained => core
                    .buffer
                    .push(CompletedFetch::ending(origin.clone(), FetchEnd::OutOfRange)),
                FetchErrorAction::Raise(error) => core
                    .buffer
                    .push(CompletedFetch::ending(origin.clone(), FetchEnd::Error(error))),
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
            tracing::warn!(
                event = "log_truncated",
                %partition,
                from = end.offset,
                "the log of {partition} was truncated below the position; reading continues at {}",
                end.offset
            );
            core.positions.handle_divergence(partition, *epoch, end);
            return None;
        }
        if data.preferred_read_replica >= 0 {
            let until_ms = now_ms + self.config.metadata_max_age_ms;
            let replica = data.preferred_read_replica;
            core.positions
                .handle_preferred_replica(partition, *epoch, replica, until_ms);
        }
        let records = data.records.clone().filter(|records| !records.is_empty());
        records.map(Batches::new)
    }

    /// Evicts the buffered records of one paused partition if paused records fill the whole budget.
    fn make_room(&self, core: &mut ConsumerCore) {
        if !core.buffer.is_full_of_paused(&core.positions) {
            return;
        }
        if let Some((partition, epoch)) = core.buffer.evict_largest() {
            tracing::debug!(event = "paused_records_evicted", %partition, "buffered records of a paused partition evicted");
            core.positions.refetch(&partition, epoch);
        }
    }

    /// Applies the current leaders in a response (KIP-951).
    fn update_leaders(&self, response: &FetchResponse) {
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

    /// Closes the fetch sessions, as far as possible without waiting.
    pub(super) fn close_sessions(&self) {
        let cluster = self.metadata.cache();
        let mut core = self.core();
        for (node, fetch) in &mut core.nodes {
            // A fetch that waits at the broker blocks the connection.
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

/// The most that one fetch may return, and how long the broker may wait for it.
#[derive(Debug, Clone, Copy)]
struct FetchBudget {
    max_bytes: usize,
    max_wait_ms: i32,
}

/// A partition to fetch, with the id of its topic if it has one.
#[derive(Debug)]
struct FetchTarget {
    fetchable: Fetchable,
    topic_id: Option<Uuid>,
}

/// The size of one response, for the metrics.
#[derive(Debug, Default)]
struct FetchTotals {
    bytes: usize,
    records: usize,
}

fn take_records(
    core: &mut ConsumerCore,
    origin: FetchOrigin,
    batches: Batches,
    aborted: Option<AbortedTransactions>,
    totals: &mut FetchTotals,
) {
    totals.bytes += batches.leftover();
    // Bytes that are no batch are reported when the application reaches them.
    let scanned = scan_headers(batches.clone()).ok().flatten();
    let FetchOrigin {
        partition,
        epoch,
        position,
    } = &origin;
    let is_current = match scanned {
        Some((next, records)) => {
            totals.records += records;
            core.positions.handle_fetched(partition, *epoch, position.offset, next)
        }
        None => core.positions.deliverable(partition, *epoch).is_some(),
    };
    if is_current {
        let mut completed = CompletedFetch::new(origin, batches, aborted);
        if scanned.is_none() {
            completed.set_end(FetchEnd::Unreadable);
        }
        core.buffer.push(completed);
    }
}
