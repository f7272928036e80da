//! Partitions are assigned and records arrive.

use std::sync::Arc;

use bytestring::ByteString;
use milena_client::consumer::{ConsumerRecords, GroupMetadata, RecordRef, RecordRun, TopicPartition};
use milena_machines::app::{
    Arrival, Assignment, CommittedOffset, HandlerId, HeldRecord, PartitionId, RetryInfo, Role, SourceId,
};

use super::{Engine, OwnedPartition, Payload, State, TopicBinding};
use crate::{
    failure::{self, HeaderTrust},
    handler::{Scope, States, TopicScope},
    offset_store::PartitionOwner,
    policy::RetryOrdering,
};

/// A partition that the group gave us, and where it begins.
pub(super) struct Begin {
    pub(super) partition: TopicPartition,
    pub(super) position: i64,
    pub(super) committed: Option<CommittedOffset>,
    /// The leader epoch of the record before the position.
    pub(super) leader_epoch: Option<i32>,
    /// Its held records, if its handler keeps the order of keys through retries.
    pub(super) held: Option<Vec<HeldRecord>>,
    /// Its ownership in the offset store.
    pub(super) owner: Option<PartitionOwner>,
}

impl Engine {
    /// Handler and role of a topic that a source reads; `None` if it has no handler.
    pub(super) fn find_topic(&self, source: SourceId, topic: &str, states: &States) -> Option<TopicBinding> {
        let found = self.routing.find(topic)?;
        let route = self
            .routes
            .get(found.place)
            .filter(|_| found.delivery == self.delivery)?;
        let returns = route.policy.retry.ordering == RetryOrdering::Return;
        let header_trust = match found.role {
            Role::Main if returns => HeaderTrust::Returned,
            Role::Main => HeaderTrust::None,
            Role::HeldKeys | Role::RetryTopic { .. } => HeaderTrust::All,
        };
        Some(TopicBinding {
            handler: HandlerId(u16::try_from(found.place).unwrap_or(u16::MAX)),
            role: found.role,
            scope: Arc::new(TopicScope {
                handler: found.place,
                source: usize::from(source.0),
                group: Arc::clone(&self.group),
                handler_name: Arc::from(route.topics.text()),
                clock: self.clock.clone(),
                states: states.clone(),
                captures: found.captures,
                header_trust,
                owner: None,
            }),
        })
    }

    pub(super) fn assigned(&self, source: SourceId, states: &States, begins: Vec<Begin>) {
        self.act(Some(source), |state, now_ms| {
            for mut begin in begins {
                let Some(mut topic) = state.topic(self, source, &begin.partition.topic, states) else {
                    tracing::error!(event = "partition_without_handler", partition = %begin.partition,
                        "partition {} was assigned, but its topic has no handler", begin.partition);
                    continue;
                };
                let assignment = Assignment {
                    partition: begin.partition.clone(),
                    source,
                    handler: topic.handler,
                    role: topic.role,
                    position: begin.position,
                    committed: begin.committed,
                    leader_epoch: begin.leader_epoch,
                };
                if begin.owner.is_some() {
                    topic.scope = Arc::new(TopicScope {
                        owner: begin.owner.clone(),
                        ..TopicScope::clone(&topic.scope)
                    });
                }
                let committed = assignment.committed.clone();
                let id = state.scheduler.handle_assigned(now_ms, assignment);
                if let Some(held) = begin.held.take() {
                    state.scheduler.handle_held_records(now_ms, id, held);
                }
                let owned = OwnedPartition {
                    id,
                    source,
                    topic,
                    begin: begin.position,
                    committed,
                    owner: begin.owner,
                };
                state.refusals.forget_partition(&begin.partition);
                state.owned.insert(begin.partition, owned);
            }
        });
    }

    /// Assigns a partition again at the end of the last committed transaction. Returns that offset.
    pub(super) fn begin_again(&self, source: SourceId, partition: &TopicPartition) -> Option<i64> {
        self.act(Some(source), |state, now_ms| {
            let State { scheduler, owned, .. } = state;
            let owned = owned.get_mut(partition)?;
            let assignment = Assignment {
                partition: partition.clone(),
                source,
                handler: owned.topic.handler,
                role: owned.topic.role,
                position: owned.begin,
                committed: owned.committed.clone(),
                leader_epoch: None,
            };
            owned.id = scheduler.handle_assigned(now_ms, assignment);
            Some(owned.begin)
        })
    }

    /// The ids of partitions that are assigned.
    pub(super) fn ids(&self, partitions: &[TopicPartition]) -> Vec<PartitionId> {
        let state = self.state();
        let owned = partitions.iter().filter_map(|partition| state.owned.get(partition));
        owned.map(|owned| owned.id).collect()
    }

    pub(super) fn revoking(&self, source: SourceId, ids: &[PartitionId]) {
        self.act(Some(source), |state, now_ms| {
            state.scheduler.handle_revoking(now_ms, ids)
        });
    }

    /// Whether all of these are released, or not assigned any more.
    pub(super) fn are_released(&self, ids: &[PartitionId]) -> bool {
        let state = self.state();
        let is_ours = |id: &PartitionId| state.owned.values().any(|owned| owned.id == *id);
        ids.iter().all(|id| state.released.contains(id) || !is_ours(id))
    }

    /// Drops partitions that have another owner already.
    pub(super) fn lost(&self, source: SourceId, ids: &[PartitionId]) {
        self.act(Some(source), |state, now_ms| {
            state.scheduler.handle_lost(now_ms, ids);
            state.owned.retain(|_, owned| !ids.contains(&owned.id));
        });
        self.forget(ids);
    }

    /// Forgets released partitions that the listener has handed back.
    pub(super) fn forget(&self, ids: &[PartitionId]) {
        self.state().released.retain(|id| !ids.contains(id));
    }

    pub(super) fn accept(&self, source: SourceId, group: Option<GroupMetadata>, records: &ConsumerRecords) {
        self.act(Some(source), |state, now_ms| {
            if let Some(known) = state.groups.get_mut(usize::from(source.0)) {
                *known = group;
            }
            let State {
                scheduler,
                owned,
                parts,
                ..
            } = state;
            let end_of = |partition: &TopicPartition| parts.get(partition).map_or(i64::MAX, |part| part.end);
            for run in records.runs() {
                let partition = run.topic_partition();
                let Some(owned) = owned.get(partition) else { continue };
                let end = end_of(partition);
                let scope = Arc::new(Arc::clone(&owned.topic.scope));
                let last = run.get(run.len().saturating_sub(1));
                let is_run = run.is_gapless() && last.is_some_and(|last| last.offset() < end);
                if is_run && scheduler.takes_run(now_ms, owned.id) {
                    scheduler.accept(now_ms, owned.id, run_arrival(run, &scope));
                    continue;
                }
                for record in run.iter().take_while(|record| record.offset() < end) {
                    if let Some(arrival) = self.arrival(owned.topic.role, record, &scope) {
                        scheduler.accept(now_ms, owned.id, arrival);
                    }
                }
            }
            for (partition, position) in records.next_offsets() {
                if let Some(owned) = owned.get(partition) {
                    scheduler.handle_position(now_ms, owned.id, position.offset.min(end_of(partition)));
                }
            }
        });
    }

    /// `None` for a record of a retry topic that belongs to another group.
    fn arrival(&self, role: Role, record: RecordRef<'_>, scope: &Scope) -> Option<Arrival<Payload>> {
        let mut records = record.to_run();
        let retry = match role {
            Role::Main => returned(scope, record),
            role => {
                let failure_record = failure::read(record.headers());
                if let Some(failure_record) = &failure_record {
                    records = restored(record, failure_record);
                }
                let group = failure_record
                    .as_ref()
                    .and_then(|failure_record| failure_record.group.as_deref());
                if group.is_some_and(|group| group != &*self.group) {
                    return None;
                }
                let written_due = failure_record
                    .as_ref()
                    .and_then(|failure_record| failure_record.due_at_ms);
                Some(RetryInfo {
                    attempts: failure_record
                        .as_ref()
                        .map_or(0, |failure_record| failure_record.attempts),
                    due_ms: match role {
                        Role::RetryTopic { delay_ms, .. } => {
                            Some(written_due.unwrap_or_else(|| record.timestamp().saturating_add(delay_ms)))
                        }
                        _ => written_due,
                    },
                    first_failed_ms: failure_record.and_then(|failure_record| failure_record.first_failed_at_ms),
                    returns: 0,
                })
            }
        };
        let bytes = record.key().map_or(0, <[u8]>::len) + record.value().map_or(0, <[u8]>::len);
        Some(Arrival {
            offset: record.offset(),
            leader_epoch: record.leader_epoch(),
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            retry,
            payload: Payload::new(records, scope),
        })
    }
}

/// A record of a retry topic with the timestamp that it had in its own topic.
fn restored(record: RecordRef<'_>, failure_record: &failure::FailureRecord) -> RecordRun {
    let timestamp = failure_record.origin.timestamp;
    if timestamp < 0 || timestamp == record.timestamp() {
        return record.to_run();
    }
    record.to_owned().with_timestamp(timestamp).as_ref().to_run()
}

/// The history of a record that has come back to its own topic.
fn returned(scope: &Scope, record: RecordRef<'_>) -> Option<RetryInfo> {
    if scope.header_trust != HeaderTrust::Returned {
        return None;
    }
    let returns = failure::returns(record.headers());
    (returns > 0).then(|| {
        let failure_record = scope.failure_record(record);
        RetryInfo {
            attempts: failure_record
                .as_ref()
                .map_or(0, |failure_record| failure_record.attempts),
            due_ms: None,
            first_failed_ms: failure_record.and_then(|failure_record| failure_record.first_failed_at_ms),
            returns,
        }
    })
}

/// A run without gaps.
fn run_arrival(records: RecordRun, scope: &Scope) -> Arrival<Payload> {
    let first = records.get(0);
    Arrival {
        offset: first.map_or(0, |first| first.offset()),
        leader_epoch: first.and_then(|first| first.leader_epoch()),
        bytes: u32::try_from(records.size()).unwrap_or(u32::MAX),
        retry: None,
        payload: Payload::new(records, scope),
    }
}

impl State {
    fn topic(&mut self, engine: &Engine, source: SourceId, name: &ByteString, states: &States) -> Option<TopicBinding> {
        let key = (source, ByteString::from(&**name));
        if let Some(topic) = self.topics.get(&key) {
            return Some(topic.clone());
        }
        let topic = engine.find_topic(source, name, states)?;
        self.topics.insert(key, topic.clone());
        Some(topic)
    }
}
