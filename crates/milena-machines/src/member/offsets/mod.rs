//! Committing and fetching the offsets of a group.
//!
//! Commits leave one at a time, in the order of the calls. One that is not waited for is never sent again, so it cannot
//! overwrite a newer one. One that is waited for is tried until its deadline, in the name that the member has by then.

mod answer;
mod commit;
mod fetch;
mod request;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use bytestring::ByteString;
use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    messages::{OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse},
};

use super::{CallFailure, CallId, GroupMetadata, MemberMetadata, Membership};
use crate::{Random, TopicPartition};

pub(crate) use answer::{code, moves_coordinator};
use commit::Commit;
use fetch::Fetch;

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
    /// Text of the application's own.
    pub metadata: ByteString,
}

impl OffsetAndMetadata {
    /// An offset without text, and without the epoch of what was read.
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
    /// Somebody waits for it: it is tried again until the deadline.
    Sync { deadline_ms: i64 },
    /// The same for partitions that are given up. If their topic is gone, so are its offsets: nobody waits for it to come
    /// back.
    Last { deadline_ms: i64 },
    /// It is sent once.
    Async,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FetchId(u64);

/// A request for the group's coordinator; as [`super::MemberCall`].
#[derive(Debug, Clone, PartialEq)]
pub struct OffsetCall {
    pub id: CallId,
    pub request: OffsetRequest,
    pub timeout_ms: i64,
    /// The driver must not use a newer version: not all topics have a known id.
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
    /// A commit is over. Each of its partitions has a result.
    Committed {
        id: CommitId,
        results: BTreeMap<TopicPartition, Result<(), OffsetError>>,
    },
    /// A fetch is over. Each of its partitions has a result; `None` where nothing is committed.
    Fetched {
        id: FetchId,
        results: BTreeMap<TopicPartition, Result<Option<OffsetAndMetadata>, OffsetError>>,
    },
    /// The coordinator does not know us as who we said we are: for [`super::Member::handle_commit_refused`].
    MemberRefused { sent: GroupMetadata, error: ErrorCode },
}

/// Why a request may succeed when it is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallCause {
    #[error("{0}")]
    NoResponse(#[from] CallFailure),
    #[error("{0}")]
    Error(ErrorCode),
}

/// What became of a partition's offset, told apart by what can be done.
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

/// Commits and fetches of one group. Driven as [`super::Member`] is.
#[derive(Debug)]
pub struct OffsetCalls {
    config: OffsetConfig,
    random: Random,
    metadata: Arc<MemberMetadata>,
    commits: VecDeque<Commit>,
    fetches: BTreeMap<FetchId, Fetch>,
    /// The commit that is under way. It keeps its place even if nobody waits for it any more.
    sent_commit: Option<commit::Sent>,
    sent_fetches: BTreeMap<CallId, fetch::Sent>,
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
            sent_commit: None,
            sent_fetches: BTreeMap::new(),
            events: VecDeque::new(),
            coordinator_moved: false,
            metadata_outdated: false,
            last_id: 0,
        }
    }

    /// Commits behind all that were asked for before. Nothing to commit is done when those are.
    pub fn commit(&mut self, offsets: BTreeMap<TopicPartition, OffsetAndMetadata>, mode: CommitMode) -> CommitId {
        let id = CommitId(self.next_id());
        let backoff = self.backoff();
        let metadata = Arc::clone(&self.metadata);
        self.commits
            .push_back(Commit::new(id, offsets, mode, metadata, backoff));
        id
    }

    /// Asks what is committed, and waits for transactions that are about to change it.
    pub fn fetch(&mut self, partitions: BTreeSet<TopicPartition>, deadline_ms: i64) -> FetchId {
        let id = FetchId(self.next_id());
        let fetch = Fetch::new(partitions, deadline_ms, self.backoff());
        self.fetches.insert(id, fetch);
        id
    }

    /// Nobody waits for this fetch any more: there will be no event.
    pub fn forget_fetch(&mut self, id: FetchId) {
        self.fetches.remove(&id);
    }

    /// These are no longer ours. What waits to be committed for them, or would be tried again, has failed: it could
    /// overwrite what their new owner commits. To be called when `Revoked` is done, and for `Lost`.
    pub fn handle_released(&mut self, partitions: &[TopicPartition]) {
        for commit in &mut self.commits {
            commit.release(partitions);
        }
    }

    /// The ids of topics.
    pub fn handle_metadata(&mut self, metadata: Arc<MemberMetadata>) {
        self.metadata = metadata;
    }

    /// Whether any commit is not over yet.
    pub fn has_commits(&self) -> bool {
        !self.commits.is_empty() || self.sent_commit.is_some()
    }

    pub fn handle_response(
        &mut self,
        now_ms: i64,
        call: CallId,
        answer: Result<OffsetResponse, CallFailure>,
        membership: &Membership,
    ) {
        if matches!(
            answer,
            Err(CallFailure::NotSent | CallFailure::Disconnected | CallFailure::TimedOut)
        ) {
            self.coordinator_moved = true;
        }
        if self.sent_commit.as_ref().is_some_and(|sent| sent.call == call) {
            self.commit_answered(now_ms, answer, membership);
        } else if let Some(sent) = self.sent_fetches.remove(&call) {
            self.fetch_answered(now_ms, &sent, answer);
        }
    }

    pub fn handle_timeout(&mut self, now_ms: i64) {
        self.expire_commits(now_ms);
        self.expire_fetches(now_ms);
    }

    /// The next request to send, in the name that the member has now.
    pub fn poll_request(&mut self, now_ms: i64, membership: &Membership) -> Option<OffsetCall> {
        let commit = self.next_commit(now_ms, membership);
        commit.or_else(|| self.next_fetch(now_ms, membership))
    }

    /// When to call [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<i64> {
        let commits = self.commits.iter().filter_map(Commit::deadline_ms).min();
        let first = self.commits.front().filter(|_| self.sent_commit.is_none());
        let retry = first.and_then(|commit| commit.retry_at);
        let fetches = self.fetches.values().map(Fetch::next_deadline).min();
        [commits, retry, fetches].into_iter().flatten().min()
    }

    pub fn poll_event(&mut self) -> Option<OffsetEvent> {
        self.events.pop_front()
    }

    /// Whether the coordinator must be looked for anew since this was last asked.
    pub fn take_coordinator_moved(&mut self) -> bool {
        std::mem::take(&mut self.coordinator_moved)
    }

    /// Whether the broker did not know a topic's id since this was last asked: metadata must be refreshed.
    pub fn take_metadata_outdated(&mut self) -> bool {
        std::mem::take(&mut self.metadata_outdated)
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}
