//! Commits and fetches of a group's offsets.
//!
//! Commits are sent one at a time, in the order of the calls. An asynchronous commit is never sent again, so that it
//! cannot overwrite a newer one. A synchronous one is retried until its deadline, with the identity that the member has
//! by then.

mod commit;
mod fetch;
mod request;
mod response;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use bytestring::ByteString;
use milena_invariant::violated;
use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    messages::{OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse},
};

use super::{CallFailure, CallId, GroupMetadata, MemberMetadata, Membership};
use crate::{Random, TopicPartition};

use commit::Commit;
use fetch::Fetch;
pub(crate) use response::{code, moves_coordinator};

#[derive(Debug, Clone)]
pub struct OffsetConfig {
    pub group_id: ByteString,
    /// `request.timeout.ms`
    pub request_timeout_ms: i64,
    /// `retry.backoff.ms`
    pub retry_backoff_ms: i64,
    /// `retry.backoff.max.ms`
    pub retry_backoff_max_ms: i64,
}

/// A committed offset: that of the next record to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetAndMetadata {
    pub offset: i64,
    /// The leader epoch of the last record that was read.
    pub leader_epoch: Option<i32>,
    /// Text of the application.
    pub metadata: ByteString,
}

impl OffsetAndMetadata {
    /// An offset without text and without a leader epoch.
    pub fn new(offset: i64) -> Self {
        Self {
            offset,
            leader_epoch: None,
            metadata: ByteString::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitMode {
    /// The caller waits: retried until the deadline.
    Sync { deadline_ms: i64 },
    /// As [`Self::Sync`], for partitions that are revoked. If their topic is deleted, so are its offsets: the commit
    /// does not wait for the topic.
    Last { deadline_ms: i64 },
    /// Sent once.
    Async,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FetchId(u64);

/// A request for the group's coordinator, like [`super::MemberCall`].
#[derive(Debug, Clone, PartialEq)]
pub struct OffsetCall {
    pub id: CallId,
    pub request: OffsetRequest,
    pub timeout_ms: i64,
    /// The newest version that the driver may use: not all topics have a known id.
    pub max_version: i16,
}

#[derive(Debug, Clone, PartialEq)]
pub enum OffsetRequest {
    Commit(OffsetCommitRequest),
    Fetch(OffsetFetchRequest),
}

#[derive(Debug, Clone, PartialEq)]
pub enum OffsetResponse {
    Commit(OffsetCommitResponse),
    Fetch(OffsetFetchResponse),
}

impl OffsetRequest {
    pub fn api(&self) -> ApiKey {
        match self {
            Self::Commit(_) => ApiKey::OffsetCommit,
            Self::Fetch(_) => ApiKey::OffsetFetch,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum OffsetEvent {
    /// A commit is done. Each of its partitions has a result.
    Committed {
        id: CommitId,
        results: BTreeMap<TopicPartition, Result<(), OffsetError>>,
    },
    /// A fetch is done. Each of its partitions has a result; `None` where nothing is committed.
    Fetched {
        id: FetchId,
        results: BTreeMap<TopicPartition, Result<Option<OffsetAndMetadata>, OffsetError>>,
    },
    /// The coordinator refused the identity of the member: for [`super::Member::handle_commit_refused`].
    MemberRefused { sent: GroupMetadata, error: ErrorCode },
}

/// The reason of a failure that a retry may resolve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallCause {
    #[error("{0}")]
    NoResponse(#[from] CallFailure),
    #[error("{0}")]
    Error(ErrorCode),
}

/// The error of a partition's commit or fetch, by the possible reactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OffsetError {
    /// Kafka's `CommitFailedException`.
    #[error(
        "the consumer is not in the group any more: its partitions may belong to others by now; poll more often, or \
         raise max.poll.interval.ms"
    )]
    CommitFailed,
    /// Kafka's `RebalanceInProgressException`.
    #[error("the group rebalances: poll until it is done, then commit again")]
    RebalanceInProgress,
    #[error("another consumer has joined the group with the same group.instance.id")]
    FencedInstance,
    /// Kafka's `RetriableCommitFailedException`.
    #[error("it may succeed when it is tried again: {0}")]
    Retriable(CallCause),
    #[error("it did not succeed in time{}", last(last_cause))]
    TimedOut { last_cause: Option<CallCause> },
    #[error("the broker refused it with {0}")]
    Refused(ErrorCode),
    #[error("the broker does not support {api:?} as it is needed here")]
    Unsupported { api: ApiKey },
}

fn last(cause: &Option<CallCause>) -> String {
    cause.map_or_else(String::new, |cause| format!(": {cause}"))
}

/// Commits and fetches of one group. Driven like [`super::Member`].
#[derive(Debug)]
pub struct OffsetCalls {
    config: OffsetConfig,
    random: Random,
    metadata: Arc<MemberMetadata>,
    commits: VecDeque<Commit>,
    fetches: BTreeMap<FetchId, Fetch>,
    /// The commit in flight. It stays until its response, also if its deadline has passed.
    commit_in_flight: Option<commit::InFlight>,
    fetches_in_flight: BTreeMap<CallId, fetch::InFlight>,
    events: VecDeque<OffsetEvent>,
    coordinator_moved: bool,
    metadata_outdated: bool,
    last_id: u64,
}

impl OffsetCalls {
    pub fn new(config: OffsetConfig, seed: u64) -> Self {
        Self {
            config,
            random: Random::new(seed),
            metadata: Arc::default(),
            commits: VecDeque::new(),
            fetches: BTreeMap::new(),
            commit_in_flight: None,
            fetches_in_flight: BTreeMap::new(),
            events: VecDeque::new(),
            coordinator_moved: false,
            metadata_outdated: false,
            last_id: 0,
        }
    }

    /// Commits after all earlier commits. An empty commit is done when those are.
    pub fn commit(&mut self, offsets: BTreeMap<TopicPartition, OffsetAndMetadata>, mode: CommitMode) -> CommitId {
        let id = CommitId(self.next_id());
        let backoff = self.backoff();
        let metadata = Arc::clone(&self.metadata);
        self.commits
            .push_back(Commit::new(id, offsets, mode, metadata, backoff));
        id
    }

    /// Fetches committed offsets, and waits for transactions that are about to change them.
    pub fn fetch(&mut self, partitions: BTreeSet<TopicPartition>, deadline_ms: i64) -> FetchId {
        let id = FetchId(self.next_id());
        let fetch = Fetch::new(partitions, deadline_ms, self.backoff());
        self.fetches.insert(id, fetch);
        id
    }

    /// Drops a fetch: there will be no event.
    pub fn forget_fetch(&mut self, id: FetchId) {
        self.fetches.remove(&id);
    }

    /// Fails the commits of partitions that are no longer owned: they could overwrite those of the new owner. To be
    /// called when `Revoked` is done, and for `Lost`.
    pub fn handle_released(&mut self, partitions: &[TopicPartition]) {
        for commit in &mut self.commits {
            commit.release(partitions);
        }
    }

    /// Handles new topic ids.
    pub fn handle_metadata(&mut self, metadata: Arc<MemberMetadata>) {
        self.metadata = metadata;
    }

    /// Whether any commit is not done yet.
    pub fn has_commits(&self) -> bool {
        !self.commits.is_empty() || self.commit_in_flight.is_some()
    }

    pub fn handle_response(
        &mut self,
        now_ms: i64,
        call: CallId,
        response: Result<OffsetResponse, CallFailure>,
        membership: &Membership,
    ) {
        if matches!(
            response,
            Err(CallFailure::NotSent | CallFailure::Disconnected | CallFailure::TimedOut)
        ) {
            self.coordinator_moved = true;
        }
        if self.commit_in_flight.as_ref().is_some_and(|sent| sent.call == call) {
            self.handle_commit_response(now_ms, response, membership);
        } else if let Some(sent) = self.fetches_in_flight.remove(&call) {
            self.handle_fetch_response(now_ms, &sent, response);
        } else {
            violated!("every_offset_response_has_a_request");
        }
    }

    pub fn handle_timeout(&mut self, now_ms: i64) {
        self.expire_commits(now_ms);
        self.expire_fetches(now_ms);
    }

    /// The next request to send, with the current identity of the member.
    pub fn poll_request(&mut self, now_ms: i64, membership: &Membership) -> Option<OffsetCall> {
        let commit = self.next_commit(now_ms, membership);
        commit.or_else(|| self.next_fetch(now_ms, membership))
    }

    /// The time of the next [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<i64> {
        let commits = self.commits.iter().filter_map(Commit::deadline_ms).min();
        let first = self.commits.front().filter(|_| self.commit_in_flight.is_none());
        let retry = first.and_then(|commit| commit.retry_at);
        let fetches = self.fetches.values().map(Fetch::next_deadline).min();
        [commits, retry, fetches].into_iter().flatten().min()
    }

    pub fn poll_event(&mut self) -> Option<OffsetEvent> {
        self.events.pop_front()
    }

    /// Returns once that the coordinator must be looked up again.
    pub fn take_coordinator_moved(&mut self) -> bool {
        std::mem::take(&mut self.coordinator_moved)
    }

    /// Returns once that the broker did not know a topic id, so that the metadata must be refreshed.
    pub fn take_metadata_outdated(&mut self) -> bool {
        std::mem::take(&mut self.metadata_outdated)
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}
