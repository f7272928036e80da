//! Asking leaders for offsets: the ends of partitions, and what was written when.

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

use super::{error::OffsetsError, shared::Shared};
use crate::{
    io,
    net::{Answer, CallError, Role, SendOptions},
};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
/// What a leader found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundOffset {
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) epoch: Option<i32>,
}

/// Outcome for one partition; `Ok(None)` if there is no such record.
type Outcome = Result<Option<FoundOffset>, OffsetsError>;
type Questions = BTreeMap<TopicPartition, i64>;
type Answers = BTreeMap<TopicPartition, Outcome>;

impl Shared {
    /// Finds out where the partitions that need a reset begin, in the background.
    pub(super) fn start_resets(self: &Arc<Self>, needed: Vec<ResetNeeded>) {
        let shared = Arc::clone(self);
        self.io.spawn(async move { shared.reset(needed).await });
    }

    async fn reset(self: Arc<Self>, needed: Vec<ResetNeeded>) {
        let questions = needed
            .iter()
            .map(|reset| (reset.partition.clone(), reset.to.timestamp()))
            .collect();
        let mut answers = self.ask_leaders(questions, self.request_timeout_ms()).await;
        // Nothing is as young as asked for: then what comes next is.
        let none_so_young = |answer: &Outcome| matches!(answer, Ok(None));
        let again: Questions = answers
            .iter()
            .filter(|(_, answer)| none_so_young(answer))
            .map(|(partition, _)| (partition.clone(), LATEST))
            .collect();
        if !again.is_empty() {
            answers.extend(self.ask_leaders(again, self.request_timeout_ms()).await);
        }
        let now_ms = io::now_ms();
        let mut core = self.core();
        for ResetNeeded { partition, epoch, .. } in &needed {
            match answers.remove(partition) {
                Some(Ok(Some(found))) => {
                    let position = Position {
                        offset: found.offset,
                        epoch: found.epoch,
                    };
                    tracing::debug!(%partition, offset = found.offset, "reading begins here");
                    core.positions.handle_reset(partition, *epoch, position);
                }
                Some(Err(error)) => {
                    tracing::debug!(%partition, %error, "could not find where to begin; it is tried again");
                    core.positions.handle_lookup_failed(now_ms, partition, *epoch);
                }
                Some(Ok(None)) | None => core.positions.handle_lookup_failed(now_ms, partition, *epoch),
            }
        }
        self.drive_locked(&mut core, now_ms);
        drop(core);
        self.bell().ring();
    }

    /// The ends of partitions or their records of a time, asked for until all leaders have answered or it is too late.
    pub(super) async fn list_offsets(
        self: &Arc<Self>,
        mut questions: Questions,
        timeout: Duration,
    ) -> Result<BTreeMap<TopicPartition, Option<FoundOffset>>, OffsetsError> {
        let deadline_ms = io::now_ms().saturating_add(i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX));
        let mut found = BTreeMap::new();
        let mut cause = None;
        loop {
            self.want_topics_of(questions.keys());
            let left_ms = deadline_ms.saturating_sub(io::now_ms());
            if left_ms <= 0 && !questions.is_empty() {
                let trouble = self.metadata.trouble().map(|trouble| trouble.to_string());
                return Err(OffsetsError::timed_out(questions.keys(), trouble.or(cause)));
            }
            for (partition, outcome) in self.ask_leaders(questions.clone(), left_ms).await {
                match outcome {
                    Ok(answer) => {
                        questions.remove(&partition);
                        found.insert(partition, answer);
                    }
                    Err(error) if error.is_retriable() => cause = Some(error.to_string()),
                    Err(error) => return Err(error),
                }
            }
            if questions.is_empty() {
                return Ok(found);
            }
            let retry_ms = io::now_ms().saturating_add(self.config.retry_backoff_ms);
            self.io.sleep_until(retry_ms.min(deadline_ms)).await;
        }
    }

    /// Asks each leader once.
    async fn ask_leaders(self: &Arc<Self>, questions: Questions, timeout_ms: i64) -> Answers {
        let cluster = self.metadata.cache();
        let mut answers = Answers::new();
        let mut by_leader: BTreeMap<i32, Vec<(TopicPartition, i64, i32)>> = BTreeMap::new();
        for (partition, timestamp) in questions {
            match cluster.leader(&partition.topic, partition.partition) {
                Some(leader) => {
                    let epoch = leader.epoch.unwrap_or(-1);
                    let asked = by_leader.entry(leader.broker.id).or_default();
                    asked.push((partition, timestamp, epoch));
                }
                None => {
                    self.refresh_metadata();
                    let outcome = OffsetsError::no_leader(&cluster, &partition);
                    answers.insert(partition, Err(outcome));
                }
            }
        }
        let (done, mut results) = mpsc::unbounded_channel();
        for (node, asked) in by_leader {
            let Some(broker) = cluster.broker(node) else { continue };
            let connection = self.connections.node(node, Role::Data, &broker.endpoint());
            let request = self.list_request(&asked, timeout_ms);
            let version_min = if self.reads_committed() {
                versions::list_offsets::ISOLATION_LEVEL
            } else {
                versions::list_offsets::ONE_OFFSET
            };
            let options = SendOptions::timeout_ms(timeout_ms.min(self.request_timeout_ms()).max(1));
            let done = done.clone();
            connection.send(request, options.version_min(version_min), move |result| {
                // Whoever asked may have gone.
                let _ = done.send((asked, result));
            });
        }
        drop(done);
        while let Some((asked, result)) = results.recv().await {
            self.read_answer(asked, result, &mut answers);
        }
        answers
    }

    fn list_request(&self, asked: &[(TopicPartition, i64, i32)], timeout_ms: i64) -> ListOffsetsRequest {
        let mut topics: Vec<ListOffsetsTopic> = vec![];
        for (partition, timestamp, leader_epoch) in asked {
            let entry = ListOffsetsPartition {
                partition_index: partition.partition,
                current_leader_epoch: *leader_epoch,
                timestamp: *timestamp,
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

    fn read_answer(
        &self,
        asked: Vec<(TopicPartition, i64, i32)>,
        result: Result<Answer<ListOffsetsResponse>, CallError>,
        answers: &mut Answers,
    ) {
        let response = match result {
            Ok(answer) => answer.response,
            Err(error) => {
                self.refresh_metadata();
                for (partition, ..) in asked {
                    answers.insert(partition, Err(OffsetsError::from(error.clone())));
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
                answers.insert(partition, outcome);
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
    /// What ListOffsets calls it.
    fn timestamp(self) -> i64 {
        match self {
            Self::Earliest => EARLIEST,
            Self::Latest => LATEST,
            Self::Ago { millis } => io::wall_ms().saturating_sub(millis).max(0),
        }
    }
}

/// The questions for one end of each partition.
pub(super) fn ends<'a>(partitions: impl IntoIterator<Item = &'a TopicPartition>, to: ResetTo) -> Questions {
    let partitions = partitions.into_iter();
    partitions
        .map(|partition| (partition.clone(), to.timestamp()))
        .collect()
}
