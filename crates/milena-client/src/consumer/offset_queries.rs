//! ListOffsets requests: log start and end offsets, and offsets by time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use milena_machines::{
    TopicPartition,
    fetch::{Position, ResetNeeded, ResetTo},
};
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        ListOffsetsRequest, ListOffsetsResponse,
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
    },
};
use tokio::sync::mpsc;

use super::{error::OffsetsError, shared::ConsumerShared};
use crate::{
    io,
    net::{ApiResponse, CallError, Role, SendOptions},
};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
/// An offset in a ListOffsets response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundOffset {
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) epoch: Option<i32>,
}

/// A query about one partition, as it is sent to the leader.
#[derive(Debug)]
struct OffsetQuery {
    partition: TopicPartition,
    timestamp: i64,
    leader_epoch: i32,
}

/// The outcome for one partition; `Ok(None)` without a matching record.
type OffsetOutcome = Result<Option<FoundOffset>, OffsetsError>;
type OffsetQueries = BTreeMap<TopicPartition, i64>;
type OffsetOutcomes = BTreeMap<TopicPartition, OffsetOutcome>;

impl ConsumerShared {
    /// Determines the reset positions of these partitions in the background.
    pub(super) fn start_resets(self: &Arc<Self>, needed: Vec<ResetNeeded>) {
        let shared = Arc::clone(self);
        self.io.spawn(async move { shared.reset(needed).await });
    }

    async fn reset(self: Arc<Self>, needed: Vec<ResetNeeded>) {
        let queries = needed
            .iter()
            .map(|reset| (reset.partition.clone(), reset.to.timestamp()))
            .collect();
        let mut outcomes = self.query_leaders(queries, self.request_timeout_ms()).await;
        // Without a record that is young enough, reading starts at the end.
        let none_so_young = |outcome: &OffsetOutcome| matches!(outcome, Ok(None));
        let again: OffsetQueries = outcomes
            .iter()
            .filter(|(_, outcome)| none_so_young(outcome))
            .map(|(partition, _)| (partition.clone(), LATEST))
            .collect();
        if !again.is_empty() {
            outcomes.extend(self.query_leaders(again, self.request_timeout_ms()).await);
        }
        let now_ms = io::now_ms();
        let mut core = self.core();
        for ResetNeeded { partition, epoch, .. } in &needed {
            match outcomes.remove(partition) {
                Some(Ok(Some(found))) => {
                    let position = Position {
                        offset: found.offset,
                        epoch: found.epoch,
                    };
                    tracing::debug!(event = "position_reset", %partition, offset = found.offset, "position reset");
                    core.positions.handle_reset(partition, *epoch, position);
                }
                Some(Err(error)) => {
                    tracing::debug!(event = "position_reset_failed", %partition, %error, "position reset failed; retrying");
                    core.positions.handle_lookup_failed(now_ms, partition, *epoch);
                }
                Some(Ok(None)) | None => core.positions.handle_lookup_failed(now_ms, partition, *epoch),
            }
        }
        self.drive_locked(&mut core, now_ms);
        drop(core);
        self.signal().notify();
    }

    /// Queries log ends or offsets by time, with retries until all leaders have responded or the timeout is over.
    pub(super) async fn list_offsets(
        self: &Arc<Self>,
        mut queries: OffsetQueries,
        timeout: Duration,
    ) -> Result<BTreeMap<TopicPartition, Option<FoundOffset>>, OffsetsError> {
        let deadline_ms = io::now_ms().saturating_add(i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX));
        let mut found = BTreeMap::new();
        let mut cause = None;
        let refusals = self.connections.authentication().last();
        loop {
            if let Some((_, error)) = self.connections.authentication().after(refusals) {
                return Err(OffsetsError::Authentication(error));
            }
            self.select_topics_of(queries.keys());
            let left_ms = deadline_ms.saturating_sub(io::now_ms());
            if left_ms <= 0 && !queries.is_empty() {
                let metadata_error = self.metadata.last_error().map(|error| error.to_string());
                return Err(OffsetsError::timed_out(queries.keys(), metadata_error.or(cause)));
            }
            for (partition, outcome) in self.query_leaders(queries.clone(), left_ms).await {
                match outcome {
                    Ok(offset) => {
                        queries.remove(&partition);
                        found.insert(partition, offset);
                    }
                    Err(error) if error.is_retriable() => cause = Some(error.to_string()),
                    Err(error) => return Err(error),
                }
            }
            if queries.is_empty() {
                return Ok(found);
            }
            let retry_ms = io::now_ms().saturating_add(self.config.retry_backoff_ms);
            self.io.sleep_until(retry_ms.min(deadline_ms)).await;
        }
    }

    /// Sends one request to each leader.
    async fn query_leaders(self: &Arc<Self>, queries: OffsetQueries, timeout_ms: i64) -> OffsetOutcomes {
        let cluster = self.metadata.cache();
        let mut outcomes = OffsetOutcomes::new();
        let mut by_leader: BTreeMap<i32, Vec<OffsetQuery>> = BTreeMap::new();
        for (partition, timestamp) in queries {
            match cluster.leader(&partition.topic, partition.partition) {
                Some(leader) => {
                    let leader_epoch = leader.epoch.unwrap_or(-1);
                    by_leader.entry(leader.broker.id).or_default().push(OffsetQuery {
                        partition,
                        timestamp,
                        leader_epoch,
                    });
                }
                None => {
                    self.refresh_metadata();
                    let outcome = OffsetsError::no_leader(&cluster, &partition);
                    outcomes.insert(partition, Err(outcome));
                }
            }
        }
        let (done, mut results) = mpsc::unbounded_channel();
        for (node, queries) in by_leader {
            let Some(broker) = cluster.broker(node) else { continue };
            let connection = self.connections.node(node, Role::Data, &broker.endpoint());
            let request = self.list_request(&queries, timeout_ms);
            let version_min = if self.reads_committed() {
                versions::list_offsets::ISOLATION_LEVEL
            } else {
                versions::list_offsets::ONE_OFFSET
            };
            let options = SendOptions::timeout_ms(timeout_ms.min(self.request_timeout_ms()).max(1));
            let done = done.clone();
            connection.send(request, options.version_min(version_min), move |result| {
                // The caller may have dropped the future.
                let _ = done.send((queries, result));
            });
        }
        drop(done);
        while let Some((queries, result)) = results.recv().await {
            self.read_response(queries, result, &mut outcomes);
        }
        outcomes
    }

    fn list_request(&self, queries: &[OffsetQuery], timeout_ms: i64) -> ListOffsetsRequest {
        let mut topics: Vec<ListOffsetsTopic> = vec![];
        for query in queries {
            let partition = &query.partition;
            let entry = ListOffsetsPartition {
                partition_index: partition.partition,
                current_leader_epoch: query.leader_epoch,
                timestamp: query.timestamp,
                ..Default::default()
            };
            match topics.last_mut() {
                Some(topic) if topic.name == partition.topic => topic.partitions.push(entry),
                _ => topics.push(ListOffsetsTopic {
                    name: partition.topic.clone(),
                    partitions: vec![entry],
                    ..Default::default()
                }),
            }
        }
        ListOffsetsRequest {
            replica_id: -1,
            isolation_level: i8::from(self.reads_committed()),
            topics,
            timeout_ms: i32::try_from(timeout_ms).unwrap_or(i32::MAX),
            ..Default::default()
        }
    }

    fn read_response(
        &self,
        queries: Vec<OffsetQuery>,
        result: Result<ApiResponse<ListOffsetsResponse>, CallError>,
        outcomes: &mut OffsetOutcomes,
    ) {
        let response = match result {
            Ok(response) => response.body,
            Err(error) => {
                self.refresh_metadata();
                for query in queries {
                    outcomes.insert(query.partition, Err(OffsetsError::from(error.clone())));
                }
                return;
            }
        };
        for topic in response.topics {
            for data in topic.partitions {
                let partition = TopicPartition::new(&*topic.name, data.partition_index);
                let code = ErrorCode::from_code(data.error_code).unwrap_or(ErrorCode::UnknownServerError);
                let outcome = match code {
                    ErrorCode::None => Ok((data.offset >= 0).then_some(FoundOffset {
                        offset: data.offset,
                        timestamp: data.timestamp,
                        epoch: Some(data.leader_epoch).filter(|epoch| *epoch >= 0),
                    })),
                    code => {
                        if code.invalidates_metadata() {
                            self.refresh_metadata();
                        }
                        Err(OffsetsError::Broker {
                            partition: partition.clone(),
                            code,
                        })
                    }
                };
                outcomes.insert(partition, outcome);
            }
        }
    }

    pub(super) fn request_timeout_ms(&self) -> i64 {
        i64::from(self.config.request_timeout_ms)
    }
}

trait ResetTimestamp {
    fn timestamp(self) -> i64;
}

impl ResetTimestamp for ResetTo {
    /// The special timestamps of ListOffsets.
    fn timestamp(self) -> i64 {
        match self {
            Self::Earliest => EARLIEST,
            Self::Latest => LATEST,
            Self::Ago { millis } => io::wall_ms().saturating_sub(millis).max(0),
        }
    }
}

/// Queries for one end of each partition.
pub(super) fn ends<'a>(partitions: impl IntoIterator<Item = &'a TopicPartition>, to: ResetTo) -> OffsetQueries {
    let partitions = partitions.into_iter();
    partitions
        .map(|partition| (partition.clone(), to.timestamp()))
        .collect()
}
