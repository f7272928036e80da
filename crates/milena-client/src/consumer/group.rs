//! The driver of a consumer's membership: carries calls to the coordinator and answers back.

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
    shared::{Core, Shared},
    subscription::Subscription,
};
use crate::{
    coordinator::{Coordinator, CoordinatorEvent},
    io,
    metrics::{ConsumerMetrics, GroupCall},
    net::{Answer, CallError, Connection, SendOptions},
};

pub(crate) type CommitResults = BTreeMap<TopicPartition, Result<(), OffsetError>>;
pub(crate) type Committed = BTreeMap<TopicPartition, Result<Option<OffsetAndMetadata>, OffsetError>>;

/// A consumer's group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) member: Member,
    pub(crate) offsets: OffsetCalls,
    pub(crate) coordinator: Coordinator,
    /// What the application must hear, until it has heard it.
    pub(crate) event: Option<MemberEvent>,
    /// Why the coordinator cannot be found; told once.
    pub(crate) trouble: Option<GroupError>,
    /// The topics that a pattern matched last.
    pub(crate) matched: Option<BTreeSet<ByteString>>,
    pub(crate) auto_commit: Option<AutoCommit>,
    /// Whether somebody wants to hear of commits.
    pub(crate) tells_commits: bool,
    /// What was committed and has not been told yet.
    pub(crate) committed: Vec<BTreeMap<TopicPartition, OffsetAndMetadata>>,
    pub(crate) notices: Arc<MemberNotices>,
    committing: BTreeMap<CommitId, Committing>,
    retries: CommitRetries,
    fetching: BTreeMap<FetchId, Fetching>,
}

/// When positions are committed without being asked to.
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

    /// Begins to count, if it does not yet.
    pub(crate) fn restart_if_off(&mut self, now_ms: i64) {
        if self.due_ms == i64::MAX {
            self.restart(now_ms);
        }
    }

    /// Counts the interval from now on.
    pub(crate) fn restart(&mut self, now_ms: i64) {
        self.due_ms = now_ms.saturating_add(self.interval_ms);
    }
}

/// A commit that is under way.
#[derive(Debug)]
struct Committing {
    done: Done,
    /// Kept only if somebody wants to hear of it.
    offsets: Option<BTreeMap<TopicPartition, OffsetAndMetadata>>,
}

/// The receiver of the result of a commit.
#[derive(Debug)]
enum Done {
    /// An automatic commit, whose result has no receiver.
    Unwaited,
    Once(oneshot::Sender<CommitResults>),
    /// It may be tried again.
    Retried(RetriedCommit),
}

/// Who waits for committed offsets.
#[derive(Debug)]
enum Fetching {
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
            trouble: None,
            matched: None,
            auto_commit,
            tells_commits: false,
            committed: vec![],
            notices,
            committing: BTreeMap::new(),
            retries: CommitRetries::default(),
            fetching: BTreeMap::new(),
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
        self.start_commit(offsets, mode, Done::Once(done));
        results
    }

    /// Commits asynchronously, and again until `deadline_ms` as long as no newer commit begins.
    pub(crate) fn commit_retried(&mut self, offsets: Offsets, deadline_ms: i64) -> oneshot::Receiver<CommitResults> {
        let (done, results) = oneshot::channel();
        let commit = RetriedCommit {
            sequence: self.retries.handle_new(),
            deadline_ms,
            offsets: offsets.clone(),
            done,
        };
        self.start_commit(offsets, CommitMode::Async, Done::Retried(commit));
        results
    }

    fn retry_commit(&mut self, now_ms: i64) {
        if let Some(commit) = self.retries.poll_commit(now_ms) {
            self.start_commit(commit.offsets.clone(), CommitMode::Async, Done::Retried(commit));
        }
    }

    fn start_commit(
        &mut self,
        offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
        mode: CommitMode,
        done: Done,
    ) -> CommitId {
        let kept = self.tells_commits.then(|| offsets.clone());
        let id = self.offsets.commit(offsets, mode);
        self.committing.insert(id, Committing { done, offsets: kept });
        id
    }

    pub(crate) fn fetch_committed(
        &mut self,
        partitions: BTreeSet<TopicPartition>,
        deadline_ms: i64,
    ) -> oneshot::Receiver<Committed> {
        let (done, results) = oneshot::channel();
        let id = self.offsets.fetch(partitions, deadline_ms);
        self.fetching.insert(id, Fetching::Application(done));
        results
    }
}

impl Shared {
    pub(super) fn drive_group(self: &Arc<Self>, core: &mut Core, now_ms: i64) {
        let Some(group) = &mut core.group else { return };
        if self.is_polling() && !matches!(core.subscription, Subscription::Manual | Subscription::None) {
            group.member.handle_poll(now_ms);
        }
        group.member.handle_timeout(now_ms);
        if let Some(polled_ms) = group.member.take_poll_expired() {
            core.metrics.poll_expired();
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
                    core.metrics.rebalance_began(now_ms);
                }
                self.bell().ring();
            }
        }
        if group.offsets.take_metadata_outdated() {
            self.refresh_metadata();
        }
        self.take_offset_events(core, now_ms);
    }

    fn send_group_calls(self: &Arc<Self>, group: &mut Group, metrics: &mut ConsumerMetrics, now_ms: i64) {
        // Without a coordinator the machines wait: when it is found, this is called again.
        let Some(connection) = group.coordinator.connection() else {
            return;
        };
        while let Some(call) = group.member.poll_request(now_ms) {
            if matches!(call.request, MemberRequest::Join(_)) {
                metrics.rebalance_began(now_ms);
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
        let carrier = Carrier::new(self, connection, call.id);
        match call.request {
            MemberRequest::Join(request) => carrier.send(connection, request, options, MemberResponse::Join),
            MemberRequest::Sync(request) => carrier.send(connection, request, options, MemberResponse::Sync),
            MemberRequest::Heartbeat(request) => carrier.send(connection, request, options, MemberResponse::Heartbeat),
            MemberRequest::ConsumerHeartbeat(request) => {
                carrier.send(connection, request, options, MemberResponse::ConsumerHeartbeat);
            }
            MemberRequest::Leave(request) => {
                let build = move |version| request.for_version(version);
                connection.send_built(build, options, move |result| {
                    carrier.member_answered(result, MemberResponse::Leave);
                });
            }
        }
    }

    fn send_offset_call(self: &Arc<Self>, connection: &Connection, call: OffsetCall) {
        let options = SendOptions::timeout_ms(call.timeout_ms).version_max(call.max_version);
        let carrier = Carrier::new(self, connection, call.id);
        match call.request {
            OffsetRequest::Commit(request) => connection.send(request, options, move |result| {
                carrier.offsets_answered(result, OffsetResponse::Commit);
            }),
            OffsetRequest::Fetch(request) => {
                let build = move |version| request.for_version(version);
                connection.send_built(build, options, move |result| {
                    carrier.offsets_answered(result, OffsetResponse::Fetch);
                });
            }
        }
    }

    fn take_offset_events(&self, core: &mut Core, now_ms: i64) {
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

    fn take_commit(&self, core: &mut Core, now_ms: i64, id: CommitId, results: CommitResults) {
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
            Some(_) => core.metrics.commit_failed(),
            None => group.notices.handle_committed(now_ms),
        }
        let Some(Committing { done, offsets }) = group.committing.remove(&id) else {
            return;
        };
        if let Some(mut offsets) = offsets {
            offsets.retain(|partition, _| results.get(partition).is_some_and(Result::is_ok));
            group
                .committed
                .extend(Some(offsets).filter(|offsets| !offsets.is_empty()));
        }
        let unobserved = match done {
            Done::Unwaited => return group.notices.handle_auto_commit(now_ms, &results),
            Done::Once(done) => done.send(results),
            Done::Retried(commit) => {
                let backoff_ms = self.config.retry_backoff_ms;
                let over = group.retries.handle_results(now_ms, backoff_ms, commit, results);
                over.map_or(Ok(()), |(commit, results)| commit.done.send(results))
            }
        };
        if let Err(results) = unobserved {
            group.notices.handle_unobserved(now_ms, &results);
        }
    }

    fn take_committed(&self, core: &mut Core, now_ms: i64, id: FetchId, results: Committed) {
        let Some(group) = &mut core.group else { return };
        match group.fetching.remove(&id) {
            Some(Fetching::Application(done)) => {
                let _ = done.send(results);
            }
            Some(Fetching::Positions(asked)) => {
                for (partition, turn) in asked {
                    match results.get(&partition) {
                        Some(Ok(committed)) => {
                            // Whoever committed may know of a newer leader than we do.
                            if let Some(epoch) = committed.as_ref().and_then(|committed| committed.leader_epoch) {
                                self.metadata.handle_epoch(&partition, epoch);
                            }
                            let position = committed.as_ref().map(|committed| Position {
                                offset: committed.offset,
                                epoch: committed.leader_epoch,
                            });
                            core.positions.handle_committed(&partition, turn, position);
                        }
                        Some(Err(error)) => {
                            tracing::debug!(%partition, %error, "the committed offset is not known yet");
                            core.positions.handle_lookup_failed(now_ms, &partition, turn);
                        }
                        None => core.positions.handle_lookup_failed(now_ms, &partition, turn),
                    }
                }
            }
            None => {}
        }
    }

    /// Asks the group where partitions begin that have no place yet.
    pub(super) fn ask_committed(self: &Arc<Self>, core: &mut Core, now_ms: i64) {
        let Some(group) = &mut core.group else { return };
        let asked = core.positions.poll_committed(now_ms);
        if asked.is_empty() {
            return;
        }
        let partitions = asked.iter().map(|(partition, _)| partition.clone()).collect();
        let deadline_ms = now_ms + i64::from(self.config.default_api_timeout_ms);
        let id = group.offsets.fetch(partitions, deadline_ms);
        group.fetching.insert(id, Fetching::Positions(asked));
        self.send_group_calls(group, &mut core.metrics, now_ms);
    }

    /// Commits what was handed out, if it is time.
    pub(super) fn commit_if_due(self: &Arc<Self>, core: &mut Core, now_ms: i64) {
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
            let id = group.start_commit(offsets, CommitMode::Async, Done::Unwaited);
            if let Some(auto_commit) = &mut group.auto_commit {
                auto_commit.under_way = Some(id);
            }
            core.is_dirty = true;
        }
    }

    /// The coordinator was found, or cannot be.
    pub(super) fn handle_coordinator(self: &Arc<Self>, event: &CoordinatorEvent) {
        let mut core = self.core();
        if let (CoordinatorEvent::Failed(error), Some(group)) = (event, &mut core.group) {
            group.trouble = Some(GroupError::Coordinator(error.to_string()));
            self.bell().ring();
        }
        self.drive_locked(&mut core, io::now_ms());
    }
}

/// Positions as they are committed.
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

/// Brings the answer of one call back to the machines.
struct Carrier {
    shared: Arc<Shared>,
    node: i32,
    call: CallId,
}

impl Carrier {
    fn new(shared: &Arc<Shared>, connection: &Connection, call: CallId) -> Self {
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
        connection.send(request, options, move |result| self.member_answered(result, wrap));
    }

    fn member_answered<T>(self, result: Result<Answer<T>, CallError>, wrap: fn(T) -> MemberResponse) {
        let latency_us = result.as_ref().map(|answer| answer.latency_us).ok();
        let answer = result
            .map(|answer| wrap(answer.response))
            .map_err(|error| failure(&error));
        let now_ms = io::now_ms();
        let mut core = self.shared.core();
        if let (Ok(answer), Some(latency_us)) = (&answer, latency_us) {
            measure(&mut core.metrics, now_ms, answer, latency_us);
        }
        if let Some(group) = &mut core.group {
            group.member.handle_response(now_ms, self.call, answer);
            if group.member.take_coordinator_moved() {
                group.coordinator.mark_unknown(self.node);
            }
            let member = &group.member;
            if member.metadata_needed().is_some() || member.group_topics().is_some() {
                self.shared.want_topics(&core);
            }
        }
        self.shared.drive_locked(&mut core, now_ms);
        drop(core);
        self.shared.bell().ring();
    }

    fn offsets_answered<T>(self, result: Result<Answer<T>, CallError>, wrap: fn(T) -> OffsetResponse) {
        let latency_us = result.as_ref().map(|answer| answer.latency_us).ok();
        let answer = result
            .map(|answer| wrap(answer.response))
            .map_err(|error| failure(&error));
        let now_ms = io::now_ms();
        let mut core = self.shared.core();
        if let (Ok(OffsetResponse::Commit(_)), Some(latency_us)) = (&answer, latency_us) {
            core.metrics.called(now_ms, GroupCall::Commit, latency_us);
        }
        if let Some(group) = &mut core.group {
            let membership = group.member.membership();
            group.offsets.handle_response(now_ms, self.call, answer, &membership);
            if group.offsets.take_coordinator_moved() {
                group.coordinator.mark_unknown(self.node);
            }
        }
        self.shared.drive_locked(&mut core, now_ms);
        drop(core);
        self.shared.bell().ring();
    }
}

fn measure(metrics: &mut ConsumerMetrics, now_ms: i64, answer: &MemberResponse, latency_us: u64) {
    let failed = |code: i16| code != 0 && code != ErrorCode::MemberIdRequired.code();
    let (call, has_failed) = match answer {
        MemberResponse::Join(answer) => (GroupCall::Join, failed(answer.error_code)),
        MemberResponse::Sync(answer) => (GroupCall::Sync, failed(answer.error_code)),
        MemberResponse::Heartbeat(_) | MemberResponse::ConsumerHeartbeat(_) => (GroupCall::Heartbeat, false),
        MemberResponse::Leave(_) => return,
    };
    metrics.called(now_ms, call, latency_us);
    if has_failed {
        metrics.rebalance_failed(now_ms);
    }
}

fn failure(error: &CallError) -> CallFailure {
    match error {
        CallError::UnsupportedVersion { api, .. } => CallFailure::Unsupported { api: *api },
        CallError::TimedOut { .. } => CallFailure::TimedOut,
        error => {
            tracing::debug!(%error, "the coordinator did not answer");
            CallFailure::Disconnected
        }
    }
}
