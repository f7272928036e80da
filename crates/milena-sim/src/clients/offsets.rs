//! What both kinds of members do with offsets.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        OffsetCommitRequest, OffsetCommitResponse,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics},
        offset_fetch_response::OffsetFetchResponseGroup,
    },
};

use super::{Call, CallId, Io, Request};
use crate::checks::TopicPartition;

const TIMEOUT_MS: i64 = 3_000;
const COMMIT_VERSION: i16 = 9;
const FETCH_VERSION: i16 = 9;

/// As whom a member commits and asks.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub(super) group: ByteString,
    pub(super) member_id: ByteString,
    pub(super) instance: Option<ByteString>,
    pub(super) epoch: i32,
    /// Only members of the consumer protocol say who they are when they ask.
    pub(super) asks_as_member: bool,
}

/// Commits and fetches that are under way.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    commits: BTreeMap<CallId, (Call, Identity, BTreeMap<TopicPartition, i64>)>,
    fetches: BTreeMap<CallId, (Call, ByteString)>,
}

impl Offsets {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn commit<'a>(
        &mut self,
        io: &mut Io<'_>,
        identity: Identity,
        places: impl Iterator<Item = &'a TopicPartition>,
    ) {
        let values: BTreeMap<TopicPartition, i64> = places
            .map(|place| (place.clone(), io.checks.offsets.next_value()))
            .collect();
        let topics = values.iter().map(|(place, value)| OffsetCommitRequestTopic {
            name: place.topic.clone(),
            partitions: vec![OffsetCommitRequestPartition {
                partition_index: place.partition,
                committed_offset: *value,
                ..Default::default()
            }],
            ..Default::default()
        });
        let request = OffsetCommitRequest {
            group_id: identity.group.clone(),
            generation_id_or_member_epoch: identity.epoch,
            member_id: identity.member_id.clone(),
            group_instance_id: identity.instance.clone(),
            topics: topics.collect(),
            ..Default::default()
        };
        let request = Request::Group {
            version: COMMIT_VERSION,
            request: GroupRequest::OffsetCommit(request),
        };
        let call = io.send(request, TIMEOUT_MS);
        for (place, value) in &values {
            io.checks.offsets.sent(&identity.group, place, *value, &call);
        }
        self.commits.insert(call.id, (call, identity, values));
    }

    pub(super) fn fetch(&mut self, io: &mut Io<'_>, identity: Identity, places: &[TopicPartition]) {
        let topics = places.iter().map(|place| OffsetFetchRequestTopics {
            name: place.topic.clone(),
            partition_indexes: vec![place.partition],
            ..Default::default()
        });
        let (member_id, member_epoch) = match identity.asks_as_member {
            true => (Some(identity.member_id), identity.epoch),
            false => (None, -1),
        };
        let group = OffsetFetchRequestGroup {
            group_id: identity.group.clone(),
            member_id,
            member_epoch,
            topics: Some(topics.collect()),
            ..Default::default()
        };
        let request = GroupRequest::OffsetFetch {
            group,
            require_stable: true,
        };
        let request = Request::Group {
            version: FETCH_VERSION,
            request,
        };
        let call = io.send(request, TIMEOUT_MS);
        self.fetches.insert(call.id, (call, identity.group));
    }

    pub(super) fn unanswered(&mut self, call: CallId) {
        self.commits.remove(&call);
        self.fetches.remove(&call);
    }

    pub(super) fn answer(&mut self, io: &mut Io<'_>, call: CallId, reply: &GroupReply) {
        match reply {
            GroupReply::OffsetCommit(response) => {
                if let Some(commit) = self.commits.remove(&call) {
                    committed(io, &commit, response);
                }
            }
            GroupReply::OffsetFetch(response) => {
                if let Some((call, group)) = self.fetches.remove(&call) {
                    fetched(io, &call, &group, response);
                }
            }
            _ => {}
        }
    }
}

fn committed(
    io: &mut Io<'_>,
    (call, identity, values): &(Call, Identity, BTreeMap<TopicPartition, i64>),
    response: &OffsetCommitResponse,
) {
    let (now, group) = (io.now(), &identity.group);
    for topic in &response.topics {
        for partition in &topic.partitions {
            let place = TopicPartition {
                topic: topic.name.clone(),
                partition: partition.partition_index,
            };
            let Some(value) = values.get(&place) else {
                io.checks
                    .fail(format!("a commit was answered for {place}, which was not in it"));
                continue;
            };
            if partition.error_code == ErrorCode::None.code() {
                io.checks.offsets.succeeded(now, group, &place, *value);
                let held = io.checks.owners.check_commit(now, io.id, (group, &place), call.sent_at);
                io.checks.demand(held);
                let held = io
                    .checks
                    .fencing
                    .check(io.id, group, identity.instance.as_ref(), call.sent_at);
                io.checks.demand(held);
            } else {
                io.checks.offsets.refused(group, &place, *value);
            }
        }
    }
}

fn fetched(io: &mut Io<'_>, call: &Call, group: &ByteString, response: &OffsetFetchResponseGroup) {
    if response.error_code != ErrorCode::None.code() {
        return;
    }
    for topic in &response.topics {
        for partition in &topic.partitions {
            if partition.error_code != ErrorCode::None.code() {
                continue;
            }
            let place = TopicPartition {
                topic: topic.name.clone(),
                partition: partition.partition_index,
            };
            let times = (call.sent_at, io.now());
            let held = io.checks.offsets.read(times, group, &place, partition.committed_offset);
            io.checks.demand(held);
        }
    }
}
