//! The group coordinator: members of groups, their assignments, and their committed offsets.
//!
//! `classic` is the protocol in which a member computes the assignment, `consumer` the one in which the broker does
//! (KIP-848), `offsets` the committed offsets. One coordinator serves the groups of one partition of
//! `__consumer_offsets`.

mod classic;
mod config;
mod consumer;
mod describe;
mod limits;
mod offsets;
mod records;
mod requests;
mod visible;

use std::{collections::BTreeMap, sync::Arc};

use bytestring::ByteString;
use milena_wire::decode::DecodeError;

pub use config::{GroupConfig, GroupOverrides, MigrationPolicy};
pub use consumer::CONSUMER_ASSIGNORS;
pub use limits::{GroupLimits, LimitExceeded};
pub use records::{GroupRecord, OffsetKey};
pub use requests::{GroupReply, GroupRequest};
pub use visible::VisibleTopics;

use crate::{Random, Ticket, TopicsImage, timers::Timers, transaction::ProducerEpoch};

use classic::ClassicGroup;
use consumer::ConsumerGroup;
use offsets::Offsets;

/// Effects of an input: first the records are appended, all or none; when they are durable, the replies are sent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GroupEffects {
    pub records: Vec<GroupRecord>,
    /// The transaction that the records belong to, if any: they are appended as transactional records of this producer.
    pub producer: Option<ProducerEpoch>,
    pub replies: Vec<(Ticket, GroupReply)>,
}

/// The circumstances of a request.
#[derive(Debug, Clone)]
pub struct GroupContext {
    pub now_ms: i64,
    pub ticket: Ticket,
    /// The version of the request; some replies depend on it.
    pub version: i16,
    pub client_id: ByteString,
    /// Kafka's form: `/127.0.0.1`.
    pub client_host: ByteString,
    /// The topics that regular expressions of the client may match.
    pub visible_topics: VisibleTopics,
}

#[derive(Debug)]
pub struct GroupCoordinator {
    config: GroupConfig,
    random: Random,
    topics: Arc<TopicsImage>,
    groups: BTreeMap<ByteString, Group>,
    offsets: Offsets,
    timers: Timers<Timer>,
}

/// A group that has or had members. A group that only commits offsets is not among these; it exists by its offsets.
#[derive(Debug)]
enum Group {
    Classic(ClassicGroup),
    Consumer(ConsumerGroup),
}

/// The owner of a deadline.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Classic { group: ByteString, of: classic::Timer },
    Consumer { group: ByteString, of: consumer::Timer },
    ExpireOffsets,
}

impl GroupCoordinator {
    pub fn new(config: GroupConfig, topics: Arc<TopicsImage>, seed: u64) -> Self {
        Self {
            config,
            random: Random::new(seed),
            topics,
            groups: BTreeMap::new(),
            offsets: Offsets::default(),
            timers: Timers::default(),
        }
    }

    /// Starts the sessions of all members, after the last record of the log was replayed.
    pub fn start(&mut self, now_ms: i64) -> GroupEffects {
        let mut effects = GroupEffects::default();
        self.classic_start(now_ms, &mut effects);
        self.consumer_start(now_ms, &mut effects);
        self.offsets_start(now_ms);
        effects
    }

    pub fn handle_request(&mut self, context: &GroupContext, request: GroupRequest) -> GroupEffects {
        let mut effects = GroupEffects::default();
        let reply = match request {
            GroupRequest::Join(request) => self.join(context, request, &mut effects),
            GroupRequest::Sync(request) => self.sync(context, request, &mut effects),
            GroupRequest::Heartbeat(request) => Some(self.heartbeat(context, &request)),
            GroupRequest::Leave(request) => Some(self.leave(context, request, &mut effects)),
            GroupRequest::ConsumerHeartbeat(request) => Some(self.consumer_heartbeat(context, request, &mut effects)),
            GroupRequest::OffsetCommit(request) => Some(self.commit_offsets(context, request, &mut effects)),
            GroupRequest::TxnOffsetCommit(request) => Some(self.commit_txn_offsets(context, request, &mut effects)),
            GroupRequest::OffsetFetch { group, require_stable } => {
                Some(self.fetch_offsets(context, group, require_stable))
            }
            GroupRequest::OffsetDelete(request) => Some(self.delete_offsets(context, request, &mut effects)),
            GroupRequest::Delete { group_id } => Some(self.delete_group(context, &group_id, &mut effects)),
            GroupRequest::Describe { group_id } => Some(self.describe_group(context, group_id)),
            GroupRequest::ConsumerDescribe { group_id } => Some(self.describe_consumer_group(context, group_id)),
            GroupRequest::List { states, types } => Some(self.list_groups(&states, &types)),
        };
        effects.replies.extend(reply.map(|reply| (context.ticket, reply)));
        effects
    }

    /// The time of the next [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<i64> {
        self.timers.next_deadline()
    }

    pub fn handle_timeout(&mut self, now_ms: i64) -> GroupEffects {
        let mut effects = GroupEffects::default();
        while let Some(timer) = self.timers.pop_due(now_ms) {
            match timer {
                Timer::Classic { group, of } => self.classic_timeout(now_ms, &group, of, &mut effects),
                Timer::Consumer { group, of } => self.consumer_timeout(now_ms, &group, of, &mut effects),
                Timer::ExpireOffsets => self.expire_offsets(now_ms, &mut effects),
            }
        }
        effects
    }

    /// Handles topics that were created, deleted, or got more partitions.
    pub fn set_topics(&mut self, now_ms: i64, topics: Arc<TopicsImage>) -> GroupEffects {
        let mut effects = GroupEffects::default();
        let before = std::mem::replace(&mut self.topics, topics);
        self.consumer_topics_changed(now_ms, &before, &mut effects);
        self.offsets_topics_changed(&before, &mut effects);
        effects
    }

    pub fn set_config(&mut self, config: GroupConfig) {
        self.config = config;
    }

    /// Applies a stored record. `producer` is set for records of a transaction, which count when it commits.
    pub fn replay(&mut self, producer: Option<ProducerEpoch>, record: GroupRecord) {
        match record {
            GroupRecord::Offset { key, value } => self.replay_offset(producer, key, value),
            GroupRecord::Classic { group_id, value } => self.replay_classic(group_id, value),
            record => self.replay_consumer(record),
        }
    }

    /// Applies a record in its stored form. Records of unknown types are ignored.
    pub fn replay_stored(
        &mut self,
        producer: Option<ProducerEpoch>,
        key: &bytes::Bytes,
        value: Option<&bytes::Bytes>,
    ) -> Result<(), DecodeError> {
        if let Some(record) = GroupRecord::decode(key, value)? {
            self.replay(producer, record);
        }
        Ok(())
    }

    /// Applies the marker that ends a transaction in this partition.
    pub fn replay_marker(&mut self, producer: ProducerEpoch, committed: bool) {
        self.end_txn_offsets(producer, committed);
    }

    /// Changes durable state: applies the record as if it came from the log, and has it appended.
    fn write(&mut self, record: GroupRecord, effects: &mut GroupEffects) {
        self.replay(None, record.clone());
        effects.records.push(record);
    }
}
