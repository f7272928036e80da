//! The driver of the group membership: sends the requests of the machines and returns the responses.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytestring::ByteString;
use milena_machines::{
    TopicPartition,
    fetch::{Position, PositionEpoch},
    member::{
        CallFailure, CallId, CommitId, CommitMode, FetchId, ForVersion, Member, MemberCall, MemberEvent, MemberRequest,
        MemberResponse, OffsetAndMetadata, OffsetCall, OffsetCalls, OffsetError, OffsetEvent, OffsetRequest,
        OffsetResponse,
    },
};
use milena_wire::{errors::ErrorCode, message::Request};
use tokio::sync::oneshot;

use super::{
    api::Offsets,
    commit_retry::{CommitRetries, RetriedCommit},
    error::GroupError,
    notices::{MemberNotices, first_error},
    shared::{ConsumerCore, ConsumerShared},
    subscription::Subscription,
};
use crate::{
    coordinator::{Coordinator, CoordinatorEvent},
    io,
    metrics::{ConsumerMetrics, GroupCall},
    net::{ApiResponse, CallError, Connection, SendOptions},
};

pub(crate) type CommitResults = BTreeMap<TopicPartition, Result<(), OffsetError>>;
pub(crate) type Committed = BTreeMap<TopicPartition, Result<Option<OffsetAndMetadata>, OffsetError>>;

/// The group membership of a consumer.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) member: Member,
    pub(crate) offsets: OffsetCalls,
    pub(crate) coordinator: Coordinator,
    /// The event that the application must handle next.
    pub(crate) event: Option<MemberEvent>,
    /// The reason why the coordinator cannot be found, until `poll` returns it.
    pub(crate) coordinator_error: Option<GroupError>,
    /// The topics that the pattern matched last.
    pub(crate) matched: Option<BTreeSet<ByteString>>,
    pub(crate) auto_commit: Option<AutoCommit>,
    /// Whether there are interceptors for commits.
    pub(crate) reports_commits: bool,
    /// Commits that were not reported to the interceptors yet.
    pub(crate) committed: Vec<BTreeMap<TopicPartition, OffsetAndMetadata>>,
    pub(crate) notices: Arc<MemberNotices>,
    pending_commits: BTreeMap<CommitId, PendingCommit>,
    retries: CommitRetries,
    pending_fetches: BTreeMap<FetchId, OffsetFetchReceiver>,
}

/// The schedule of `enable.auto.commit`.
#[derive(Debug)]
pub(crate) struct AutoCommit {
    interval_ms: i64,
    due_ms: i64,
    under_way: Option<CommitId>,
}

impl AutoCommit {
    pub(crate) fn new(interval_ms: i64) -> Self {
        Self {
            interval_ms,
            due_ms: i64::MAX,
            under_way: None,
        }
    }

    /// Starts the interval, if it is not running.
    pub(crate) fn restart_if_off(&mut self, now_ms: i64) {
        if self.due_ms == i64::MAX {
            self.restart(now_ms);
        }
    }

    /// Restarts the interval.
    pub(crate) fn restart(&mut self, now_ms: i64) {
        self.due_ms = now_ms.saturating_add(self.interval_ms);
    }
}

/// A commit in flight.
#[derive(Debug)]
struct PendingCommit {
    done: CommitReceiver,
    /// Kept for interceptors only.
    offsets: Option<BTreeMap<TopicPartition, OffsetAndMetadata>>,
}

/// The receiver of the result of a commit.
#[derive(Debug)]
enum CommitReceiver {
    /// An automatic commit.
    Unwaited,
    Once(oneshot::Sender<CommitResults>),
    /// An asynchronous commit that may be retried.
    Retried(RetriedCommit),
}

/// The receiver of committed offsets.
#[derive(Debug)]
enum OffsetFetchReceiver {
    Positions(Vec<(TopicPartition, PositionEpoch)>),
    Application(oneshot::Sender<Committed>),
}

impl Group {
    pub(crate) fn new(
        member: Member,
        offsets: OffsetCalls,
        coordinator: Coordinator,
        auto_commit: Option<AutoCommit>,
        notices: Arc<MemberNotices>,
    ) -> Self {
        Self {
            member,
            offsets,
            coordinator,
            event: None,
            coordinator_error: None,
            matched: None,
            auto_commit,
            reports_commits: false,
            committed: vec![],
            notices,
            pending_commits: BTreeMap::new(),
            retries: CommitRetries::default(),
            pending_fetches: BTreeMap::new(),
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<i64> {
        let deadlines = [
            self.member.poll_timeout(),
            self.offsets.poll_timeout(),
            self.retries.poll_timeout(),
        ];
        deadlines.into_iter().flatten().min()
    }

    pub(crate) fn commit(
        &mut self,
        offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
        mode: CommitMode,
    ) -> oneshot::Receiver<CommitResults> {
        let (done, results) = oneshot::channel();
        self.retries.handle_new();
        self.start_commit(offsets, mode, CommitReceiver::Once(done));
        results
    }

    /// Commits asynchronously, with retries until `deadline_ms` as long as no newer commit starts.
    pub(crate) fn commit_retried(&mut self, offsets: Offsets, deadline_ms: i64) -> oneshot::Receiver<CommitResults> {
        let (done, results) = oneshot::channel();
        let commit = RetriedCommit {
            sequence: self.retries.handle_new(),
            deadline_ms,
            offsets: offsets.clone(),
            done,
        };
        self.start_commit(offsets, CommitMode::Async, CommitReceiver::Retried(commit));
        results
    }

    fn retry_commit(&mut self, now_ms: i64) {
        if let Some(commit) = self.retries.poll_commit(now_ms) {
            self.start_commit(
                commit.offsets.clone(),
                CommitMode::Async,
                CommitReceiver::Retried(commit),
            );
        }
    }

    fn start_commit(
        &mut self,
        offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
        mode: CommitMode,
        done: CommitReceiver,
    ) -> CommitId {
        let kept = self.reports_commits.then(|| offsets.clone());
        let id = self.offsets.commit(offsets, mode);
        self.pending_commits.insert(id, PendingCommit { done, offsets: kept });
        id
    }

    pub(crate) fn fetch_committed(
        &mut self,
        partitions: BTreeSet<TopicPartition>,
        deadline_ms: i64,
    ) -> oneshot::Receiver<Committed> {
        let (done, results) = oneshot::channel();
        let id = self.offsets.fetch(partitions, deadline_ms);
        self.pending_fetches.insert(id, OffsetFetchReceiver::Application(done));
        results
    }
}

impl ConsumerShared {
    pub(super) fn drive_group(self: &Arc<Self>, core: &mut ConsumerCore, now_ms: i64) {
        let Some(group) = &mut core.group else { return };
        if self.is_polling() && !matches!(core.subscription, Subscription::Manual | Subscription::None) {
            group.member.handle_poll(now_ms);
        }
        group.member.handle_timeout(now_ms);
        if let Some(polled_ms) = group.member.take_poll_expired() {
            core.metrics.record_poll_timeout();
            let max_ms = self.config.max_poll_interval_ms;
            group.notices.handle_poll_expired(max_ms, now_ms - polled_ms);
        }
        group.offsets.handle_timeout(now_ms);
        group.retry_commit(now_ms);
        self.send_group_calls(group, &mut core.metrics, now_ms);
        if group.event.is_none() {
            group.event = group.member.poll_event();
            if let Some(event) = &group.event {
                if !matches!(event, MemberEvent::Error(_) | MemberEvent::Fatal(_)) {
                    core.metrics.record_rebalance_start(now_ms);
                }
                self.signal().notify();
            }
        }
        if group.offsets.take_metadata_outdated() {
            self.refresh_metadata();
        }
        self.take_offset_events(core, now_ms);
    }

    fn send_group_calls(self: &Arc<Self>, group: &mut Group, metrics: &mut ConsumerMetrics, now_ms: i64) {
        // Without a coordinator the machines wait; this runs again when it is found.
        let Some(connection) = group.coordinator.connection() else {
            return;
        };
        while let Some(call) = group.member.poll_request(now_ms) {
            if matches!(call.request, MemberRequest::Join(_)) {
                metrics.record_rebalance_start(now_ms);
            }
            self.send_member_call(&connection, call);
        }
        let membership = group.member.membership();
        while let Some(call) = group.offsets.poll_request(now_ms, &membership) {
            self.send_offset_call(&connection, call);
        }
    }

    fn send_member_call(self: &Arc<Self>, connection: &Connection, call: MemberCall) {
        let options = SendOptions::timeout_ms(call.timeout_ms).version_min(call.min_version);
        let pending = PendingCall::new(self, connection, call.id);
        match call.request {
            MemberRequest::Join(request) => pending.send(connection, request, options, MemberResponse::Join),
            MemberRequest::Sync(request) => pending.send(connection, request, options, MemberResponse::Sync),
            MemberRequest::Heartbeat(request) => pending.send(connection, request, options, MemberResponse::Heartbeat),
            MemberRequest::ConsumerHeartbeat(request) => {
                pending.send(connection, request, options, MemberResponse::ConsumerHeartbeat);
            }
            MemberRequest::Leave(request) => {
                let build = move |version| request.for_version(version);
                connection.send_built(build, options, move |result| {
                    pending.handle_member_response(result, MemberResponse::Leave);
                });
            }
        }
    }

    fn send_offset_call(self: &Arc<Self>, connection: &Connection, call: OffsetCall) {
        let options = SendOptions::timeout_ms(call.timeout_ms).version_max(call.max_version);
        let pending = PendingCall::new(self, connection, call.id);
        match call.request {
            OffsetRequest::Commit(request) => connection.send(request, options, move |result| {
                pending.handle_offset_response(result, OffsetResponse::Commit);
            }),
            OffsetRequest::Fetch(request) => {
                let build = move |version| request.for_version(version);
                connection.send_built(build, options, move |result| {
                    pending.handle_offset_response(result, OffsetResponse::Fetch);
                });
            }
        }
    }

    fn take_offset_events(&self, core: &mut ConsumerCore, now_ms: i64) {
        while let Some(event) = core.group.as_mut().and_then(|group| group.offsets.poll_event()) {
            match event {
                OffsetEvent::Committed { id, results } => self.take_commit(core, now_ms, id, results),
                OffsetEvent::Fetched { id, results } => self.take_committed(core, now_ms, id, results),
                OffsetEvent::MemberRefused { sent, error } => {
                    if let Some(group) = &mut core.group {
                        group.member.handle_commit_refused(now_ms, &sent, error);
                    }
                }
            }
        }
    }

    fn take_commit(&self, core: &mut ConsumerCore, now_ms: i64, id: CommitId, results: CommitResults) {
        let Some(group) = &mut core.group else { return };
        if let Some(auto_commit) = &mut group.auto_commit
            && auto_commit.under_way == Some(id)
        {
            auto_commit.under_way = None;
            if let Some(OffsetError::Retriable(_)) = first_error(&results) {
                auto_commit.due_ms = now_ms + self.config.retry_backoff_ms;
            }
        }
        match first_error(&results) {
            Some(_) => core.metrics.record_commit_failure(),
            None => group.notices.handle_committed(now_ms),
        }
        let Some(PendingCommit { done, offsets }) = group.pending_commits.remove(&id) else {
            return;
        };
        if let Some(mut offsets) = offsets {
            offsets.retain(|partition, _| results.get(partition).is_some_and(Result::is_ok));
            group
                .committed
                .extend(Some(offsets).filter(|offsets| !offsets.is_empty()));
        }
        let unobserved = match done {
            CommitReceiver::Unwaited => return group.notices.handle_auto_commit(now_ms, &results),
            CommitReceiver::Once(done) => done.send(results),
            CommitReceiver::Retried(commit) => {
                let backoff_ms = self.config.retry_backoff_ms;
                let over = group.retries.handle_results(now_ms, backoff_ms, commit, results);
                over.map_or(Ok(()), |(commit, results)| commit.done.send(results))
            }
        };
        if let Err(results) = unobserved {
            group.notices.handle_unobserved(now_ms, &results);
        }
    }

    fn take_committed(&self, core: &mut ConsumerCore, now_ms: i64, id: FetchId, results: Committed) {
        let Some(group) = &mut core.group else { return };
        match group.pending_fetches.remove(&id) {
            Some(OffsetFetchReceiver::Application(done)) => {
                let _ = done.send(results);
            }
            Some(OffsetFetchReceiver::Positions(requested)) => {
                for (partition, epoch) in requested {
                    match results.get(&partition) {
                        Some(Ok(committed)) => {
                            // The committed epoch may be newer than the metadata.
                            if let Some(epoch) = committed.as_ref().and_then(|committed| committed.leader_epoch) {
                                self.metadata.handle_epoch(&partition, epoch);
                            }
                            let position = committed.as_ref().map(|committed| Position {
                                offset: committed.offset,
                                epoch: committed.leader_epoch,
                            });
                            core.positions.handle_committed(&partition, epoch, position);
                        }
                        Some(Err(error)) => {
                            tracing::debug!(event = "offset_fetch_failed", %partition, %error, "committed offset unknown; retrying");
                            core.positions.handle_lookup_failed(now_ms, &partition, epoch);
                        }
                        None => core.positions.handle_lookup_failed(now_ms, &partition, epoch),
                    }
                }
            }
            None => {}
        }
    }

    /// Requests the committed offsets of partitions without a position.
    pub(super) fn request_committed(self: &Arc<Self>, core: &mut ConsumerCore, now_ms: i64) {
        let Some(group) = &mut core.group else { return };
        let requested = core.positions.poll_committed(now_ms);
        if requested.is_empty() {
            return;
        }
        let partitions = requested.iter().map(|(partition, _)| partition.clone()).collect();
        let deadline_ms = now_ms + i64::from(self.config.default_api_timeout_ms);
        let id = group.offsets.fetch(partitions, deadline_ms);
        group
            .pending_fetches
            .insert(id, OffsetFetchReceiver::Positions(requested));
        self.send_group_calls(group, &mut core.metrics, now_ms);
    }

    /// Commits the delivered positions if the interval of `enable.auto.commit` is over.
    pub(super) fn commit_if_due(self: &Arc<Self>, core: &mut ConsumerCore, now_ms: i64) {
        let is_due = |auto: &AutoCommit| auto.due_ms <= now_ms && auto.under_way.is_none();
        let group = core.group.as_ref();
        if !group.and_then(|group| group.auto_commit.as_ref()).is_some_and(is_due) {
            return;
        }
        let offsets = committable(core.consumed_of(None));
        let Some(group) = &mut core.group else { return };
        let Some(auto_commit) = &mut group.auto_commit else {
            return;
        };
        auto_commit.restart(now_ms);
        if !offsets.is_empty() {
            group.retries.handle_new();
            let id = group.start_commit(offsets, CommitMode::Async, CommitReceiver::Unwaited);
            if let Some(auto_commit) = &mut group.auto_commit {
                auto_commit.under_way = Some(id);
            }
            core.is_dirty = true;
        }
    }

    /// Handles the result of a coordinator look-up.
    pub(super) fn handle_coordinator(self: &Arc<Self>, event: &CoordinatorEvent) {
        let mut core = self.core();
        if let (CoordinatorEvent::Failed(error), Some(group)) = (event, &mut core.group) {
            group.coordinator_error = Some(GroupError::Coordinator(error.to_string()));
            self.signal().notify();
        }
        self.drive_locked(&mut core, io::now_ms());
    }
}

/// Positions as offsets to commit.
pub(super) fn committable(
    positions: BTreeMap<TopicPartition, Position>,
) -> BTreeMap<TopicPartition, OffsetAndMetadata> {
    let committable = |position: Position| OffsetAndMetadata {
        offset: position.offset,
        leader_epoch: position.epoch,
        metadata: ByteString::new(),
    };
    let positions = positions.into_iter();
    positions
        .map(|(partition, position)| (partition, committable(position)))
        .collect()
}

/// The context of a request to the coordinator.
struct PendingCall {
    shared: Arc<ConsumerShared>,
    node: i32,
    call: CallId,
}

impl PendingCall {
    fn new(shared: &Arc<ConsumerShared>, connection: &Connection, call: CallId) -> Self {
        Self {
            shared: Arc::clone(shared),
            node: connection.node_id(),
            call,
        }
    }

    fn send<R>(self, connection: &Connection, request: R, options: SendOptions, wrap: fn(R::Response) -> MemberResponse)
    where
        R: Request + Send + 'static,
        R::Response: crate::net::Throttled,
    {
        connection.send(request, options, move |result| {
            self.handle_member_response(result, wrap)
        });
    }

    fn handle_member_response<T>(self, result: Result<ApiResponse<T>, CallError>, wrap: fn(T) -> MemberResponse) {
        let latency_us = result.as_ref().map(|response| response.latency_us).ok();
        let response = result
            .map(|response| wrap(response.body))
            .map_err(|error| failure(&error));
        let now_ms = io::now_ms();
        let mut core = self.shared.core();
        if let (Ok(response), Some(latency_us)) = (&response, latency_us) {
            measure(&mut core.metrics, now_ms, response, latency_us);
        }
        if let Some(group) = &mut core.group {
            group.member.handle_response(now_ms, self.call, response);
            if group.member.take_coordinator_moved() {
                group.coordinator.mark_unknown(self.node);
            }
            let member = &group.member;
            if member.metadata_needed().is_some() || member.group_topics().is_some() {
                self.shared.select_topics(&core);
            }
        }
        self.shared.drive_locked(&mut core, now_ms);
        drop(core);
        self.shared.signal().notify();
    }

    fn handle_offset_response<T>(self, result: Result<ApiResponse<T>, CallError>, wrap: fn(T) -> OffsetResponse) {
        let latency_us = result.as_ref().map(|response| response.latency_us).ok();
        let response = result
            .map(|response| wrap(response.body))
            .map_err(|error| failure(&error));
        let now_ms = io::now_ms();
        let mut core = self.shared.core();
        if let (Ok(OffsetResponse::Commit(_)), Some(latency_us)) = (&response, latency_us) {
            core.metrics.record_call(now_ms, GroupCall::Commit, latency_us);
        }
        if let Some(group) = &mut core.group {
            let membership = group.member.membership();
            group.offsets.handle_response(now_ms, self.call, response, &membership);
            if group.offsets.take_coordinator_moved() {
                group.coordinator.mark_unknown(self.node);
            }
        }
        self.shared.drive_locked(&mut core, now_ms);
        drop(core);
        self.shared.signal().notify();
    }
}

fn measure(metrics: &mut ConsumerMetrics, now_ms: i64, response: &MemberResponse, latency_us: u64) {
    let failed = |code: i16| code != 0 && code != ErrorCode::MemberIdRequired.code();
    let (call, has_failed) = match response {
        MemberResponse::Join(response) => (GroupCall::Join, failed(response.error_code)),
        MemberResponse::Sync(response) => (GroupCall::Sync, failed(response.error_code)),
        MemberResponse::Heartbeat(_) | MemberResponse::ConsumerHeartbeat(_) => (GroupCall::Heartbeat, false),
        MemberResponse::Leave(_) => return,
    };
    metrics.record_call(now_ms, call, latency_us);
    if has_failed {
        metrics.record_rebalance_failure(now_ms);
    }
}

fn failure(error: &CallError) -> CallFailure {
    match error {
        CallError::UnsupportedVersion { api, .. } => CallFailure::Unsupported { api: *api },
        CallError::TimedOut { .. } => CallFailure::TimedOut,
        error => {
            tracing::debug!(event = "group_request_failed", %error, "no response from the coordinator");
            CallFailure::Disconnected
        }
    }
}
