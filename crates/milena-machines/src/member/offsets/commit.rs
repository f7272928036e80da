//! Commits, one at a time.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use bytestring::ByteString;
use milena_invariant::violated;
use milena_wire::{errors::ErrorCode, messages::OffsetCommitResponse};

use super::{
    CallCause, CallFailure, CallId, CommitId, CommitMode, Membership, OffsetAndMetadata, OffsetCall, OffsetCalls,
    OffsetError, OffsetEvent, OffsetResponse,
    request::{self, TopicIds},
    response::{code, moves_coordinator},
};
use crate::{
    TopicPartition,
    backoff::Backoff,
    member::{GroupMetadata, MemberMetadata},
};

/// A commit that is not done.
#[derive(Debug)]
pub(super) struct Commit {
    id: CommitId,
    /// Partitions that are still to be committed.
    offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
    results: BTreeMap<TopicPartition, Result<(), OffsetError>>,
    /// Revoked partitions: they are not sent, or not again.
    released: BTreeSet<TopicPartition>,
    mode: CommitMode,
    /// The metadata when the offsets were given: a topic created later may have the same name, but not these offsets.
    metadata: Arc<MemberMetadata>,
    backoff: Backoff,
    pub(super) retry_at: Option<i64>,
    last_cause: Option<CallCause>,
}

/// A commit in flight, with the identity that it was sent with.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) call: CallId,
    commit: CommitId,
    identity: GroupMetadata,
    ids: TopicIds,
}

/// The consequence of one partition's response.
enum Outcome {
    Done(Result<(), OffsetError>),
    /// With the current identity of the member.
    RetryNow(CallCause),
    Retry(CallCause),
}

impl Commit {
    pub(super) fn new(
        id: CommitId,
        offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
        mode: CommitMode,
        metadata: Arc<MemberMetadata>,
        backoff: Backoff,
    ) -> Self {
        Self {
            id,
            offsets,
            results: BTreeMap::new(),
            released: BTreeSet::new(),
            mode,
            metadata,
            backoff,
            retry_at: None,
            last_cause: None,
        }
    }

    pub(super) fn deadline_ms(&self) -> Option<i64> {
        match self.mode {
            CommitMode::Sync { deadline_ms } | CommitMode::Last { deadline_ms } => Some(deadline_ms),
            CommitMode::Async => None,
        }
    }

    pub(super) fn release(&mut self, partitions: &[TopicPartition]) {
        let ours = partitions
            .iter()
            .filter(|topic_partition| self.offsets.contains_key(*topic_partition));
        self.released.extend(ours.cloned());
    }

    /// Fails the partitions that were revoked.
    fn end_released(&mut self) {
        for topic_partition in std::mem::take(&mut self.released) {
            self.end(&topic_partition, Err(OffsetError::CommitFailed));
        }
    }

    /// Fails the partitions of topics that were created again: their offsets have no meaning for the new topic.
    fn end_replaced(&mut self, metadata: &MemberMetadata) {
        let is_replaced = |topic_partition: &&TopicPartition| {
            let ids = (
                self.metadata.topic_id(&topic_partition.topic),
                metadata.topic_id(&topic_partition.topic),
            );
            matches!(ids, (Some(old), Some(new)) if old != new)
        };
        let replaced: Vec<TopicPartition> = self.offsets.keys().filter(is_replaced).cloned().collect();
        for topic_partition in replaced {
            self.end(&topic_partition, Err(OffsetError::Refused(ErrorCode::UnknownTopicId)));
        }
    }

    /// Ends all remaining partitions with the same error.
    fn end_rest(&mut self, error: OffsetError) {
        let rest = std::mem::take(&mut self.offsets);
        self.results
            .extend(rest.into_keys().map(|topic_partition| (topic_partition, Err(error))));
    }

    fn end(&mut self, topic_partition: &TopicPartition, result: Result<(), OffsetError>) {
        if let Some((topic_partition, _)) = self.offsets.remove_entry(topic_partition) {
            self.results.insert(topic_partition, result);
        }
    }
}

impl OffsetCalls {
    pub(super) fn next_commit(&mut self, now_ms: i64, membership: &Membership) -> Option<OffsetCall> {
        while self.commit_in_flight.is_none() {
            let commit = self.commits.front_mut()?;
            let refused = match membership {
                Membership::Rebalancing => Some(OffsetError::RebalanceInProgress),
                Membership::NotMember => Some(OffsetError::CommitFailed),
                Membership::Standalone | Membership::Member { .. } => None,
            };
            if let Some(error) = refused {
                commit.end_rest(error);
            }
            commit.end_released();
            commit.end_replaced(&self.metadata);
            if commit.offsets.is_empty() {
                self.finish_first_commit();
                continue;
            }
            if commit.retry_at.is_some_and(|retry_at| retry_at > now_ms) {
                return None;
            }
            return self.send_first_commit(membership);
        }
        None
    }

    fn send_first_commit(&mut self, membership: &Membership) -> Option<OffsetCall> {
        let identity = match membership {
            Membership::Member { identity, .. } => identity.clone(),
            _ => GroupMetadata {
                group_id: self.config.group_id.clone(),
                generation: -1,
                member_id: "".into(),
                instance_id: None,
            },
        };
        let call = CallId(self.next_id());
        let commit = self.commits.front_mut()?;
        commit.retry_at = None;
        // It may have been unknown then and be known now.
        let known = |topic: &ByteString| {
            commit
                .metadata
                .topic_id(topic)
                .or_else(|| self.metadata.topic_id(topic))
        };
        let ids = TopicIds::of(known, commit.offsets.keys());
        let request = request::commit(&identity, &commit.offsets, known);
        let max_version = ids.max_version();
        self.commit_in_flight = Some(InFlight {
            call,
            commit: commit.id,
            identity,
            ids,
        });
        Some(OffsetCall {
            id: call,
            request,
            timeout_ms: self.config.request_timeout_ms,
            max_version,
        })
    }

    pub(super) fn handle_commit_response(
        &mut self,
        now_ms: i64,
        response: Result<OffsetResponse, CallFailure>,
        membership: &Membership,
    ) {
        let Some(sent) = self.commit_in_flight.take() else {
            violated!("a_commit_response_has_a_commit_in_flight");
            return;
        };
        // Its deadline has passed: the response is of no interest.
        if self.commits.front().is_none_or(|commit| commit.id != sent.commit) {
            return;
        }
        match response {
            Ok(OffsetResponse::Commit(response)) => self.handle_commit_results(now_ms, &sent, &response, membership),
            Ok(OffsetResponse::Fetch(_)) => {
                violated!("a_response_is_of_its_request");
                self.retry_commit(now_ms, CallFailure::Disconnected.into());
            }
            Err(CallFailure::Unsupported { api }) => self.end_first_commit(OffsetError::Unsupported { api }),
            Err(failure) => self.retry_commit(now_ms, failure.into()),
        }
        self.finish_first_commit();
    }

    fn handle_commit_results(
        &mut self,
        now_ms: i64,
        sent: &InFlight,
        response: &OffsetCommitResponse,
        membership: &Membership,
    ) {
        let (mut retry, mut at_once, mut refused) = (None, true, None);
        for topic in &response.topics {
            let name = sent.ids.name(&topic.name, topic.topic_id);
            for partition in &topic.partitions {
                let topic_partition = TopicPartition::new(name.clone(), partition.partition_index);
                let error = code(partition.error_code);
                self.coordinator_moved |= moves_coordinator(error) || error == ErrorCode::RequestTimedOut;
                self.metadata_outdated |= error == ErrorCode::UnknownTopicId;
                let Some(commit) = self.commits.front_mut() else {
                    violated!("the_commit_in_flight_is_the_first");
                    return;
                };
                match outcome(error, commit.mode, &sent.identity, membership) {
                    Outcome::Done(result) => commit.end(&topic_partition, result),
                    Outcome::RetryNow(cause) => retry = Some(cause),
                    Outcome::Retry(cause) => (retry, at_once) = (Some(cause), false),
                }
                if concerns_member(error) && !sent.identity.member_id.is_empty() {
                    refused = Some(error);
                }
            }
        }
        if let Some(error) = refused {
            let sent = sent.identity.clone();
            self.events.push_back(OffsetEvent::MemberRefused { sent, error });
        }
        match retry {
            Some(cause) => self.retry_commit(now_ms, cause),
            // The response left some out.
            None => self.end_first_commit(OffsetError::Refused(ErrorCode::UnknownServerError)),
        }
        if let Some(commit) = self.commits.front_mut().filter(|_| at_once) {
            commit.retry_at = None;
        }
    }

    /// A synchronous commit is retried, any other has failed.
    fn retry_commit(&mut self, now_ms: i64, cause: CallCause) {
        let Some(commit) = self.commits.front_mut() else {
            violated!("the_commit_in_flight_is_the_first");
            return;
        };
        commit.last_cause = Some(cause);
        match commit.mode {
            CommitMode::Async => commit.end_rest(OffsetError::Retriable(cause)),
            CommitMode::Sync { deadline_ms } | CommitMode::Last { deadline_ms } if deadline_ms <= now_ms => {
                let last_cause = Some(cause);
                commit.end_rest(OffsetError::TimedOut { last_cause });
            }
            CommitMode::Sync { .. } | CommitMode::Last { .. } => {
                commit.retry_at = Some(now_ms.saturating_add(commit.backoff.next_ms(&mut self.random)));
            }
        }
    }

    fn end_first_commit(&mut self, error: OffsetError) {
        if let Some(commit) = self.commits.front_mut() {
            commit.end_rest(error);
        }
    }

    fn finish_first_commit(&mut self) {
        if let Some(commit) = self.commits.pop_front_if(|commit| commit.offsets.is_empty()) {
            let Commit { id, results, .. } = commit;
            self.events.push_back(OffsetEvent::Committed { id, results });
        }
    }

    pub(super) fn expire_commits(&mut self, now_ms: i64) {
        let is_late = |commit: &Commit| commit.deadline_ms().is_some_and(|deadline| deadline <= now_ms);
        let (late, rest): (VecDeque<Commit>, VecDeque<Commit>) =
            std::mem::take(&mut self.commits).into_iter().partition(is_late);
        self.commits = rest;
        for mut commit in late {
            let last_cause = commit.last_cause;
            commit.end_rest(OffsetError::TimedOut { last_cause });
            let Commit { id, results, .. } = commit;
            self.events.push_back(OffsetEvent::Committed { id, results });
        }
    }
}

/// Whether the error is about the member, not about the offset.
fn concerns_member(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::UnknownMemberId
            | ErrorCode::IllegalGeneration
            | ErrorCode::FencedInstanceId
            | ErrorCode::RebalanceInProgress
    )
}

fn outcome(error: ErrorCode, mode: CommitMode, sent: &GroupMetadata, membership: &Membership) -> Outcome {
    let now = match membership {
        Membership::Member { identity, .. } => Some(identity),
        _ => None,
    };
    let is_unchanged = now.is_some_and(|now| now == sent);
    let not_member = match membership {
        Membership::Rebalancing => OffsetError::RebalanceInProgress,
        _ => OffsetError::CommitFailed,
    };
    match error {
        ErrorCode::None => Outcome::Done(Ok(())),
        ErrorCode::RebalanceInProgress => Outcome::Done(Err(OffsetError::RebalanceInProgress)),
        ErrorCode::FencedInstanceId if is_unchanged => Outcome::Done(Err(OffsetError::FencedInstance)),
        ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration | ErrorCode::FencedInstanceId => {
            Outcome::Done(Err(not_member))
        }
        ErrorCode::StaleMemberEpoch => match now.filter(|_| !is_unchanged) {
            Some(_) if mode != CommitMode::Async => Outcome::RetryNow(CallCause::Error(error)),
            Some(_) => Outcome::Retry(CallCause::Error(error)),
            None => Outcome::Done(Err(OffsetError::CommitFailed)),
        },
        ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId if matches!(mode, CommitMode::Last { .. }) => {
            Outcome::Done(Err(OffsetError::Refused(error)))
        }
        error if error.is_retriable() => Outcome::Retry(CallCause::Error(error)),
        error => Outcome::Done(Err(OffsetError::Refused(error))),
    }
}
