//! Commits, one after the other.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use bytestring::ByteString;
use milena_wire::{errors::ErrorCode, messages::OffsetCommitResponse};

use super::{
    CallCause, CallFailure, CallId, CommitId, CommitMode, Membership, OffsetAndMetadata, OffsetCall, OffsetCalls,
    OffsetError, OffsetEvent, OffsetResponse,
    answer::{code, moves_coordinator},
    request::{self, TopicIds},
};
use crate::{
    TopicPartition,
    backoff::Backoff,
    member::{GroupMetadata, MemberMetadata},
};

/// A commit that is not over.
#[derive(Debug)]
pub(super) struct Commit {
    id: CommitId,
    /// What is still to be committed.
    offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
    results: BTreeMap<TopicPartition, Result<(), OffsetError>>,
    /// Of these, what is not under way will not be.
    released: BTreeSet<TopicPartition>,
    mode: CommitMode,
    /// The cluster when the offsets were given: a topic that is made anew later has the same name, but not these offsets.
    metadata: Arc<MemberMetadata>,
    backoff: Backoff,
    pub(super) retry_at: Option<i64>,
    last_cause: Option<CallCause>,
}

/// A commit that is under way, and in whose name.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) call: CallId,
    commit: CommitId,
    identity: GroupMetadata,
    ids: TopicIds,
}

/// What an answer says of one partition.
enum Verdict {
    Over(Result<(), OffsetError>),
    /// In the name that the member has by now.
    AgainAtOnce(CallCause),
    Again(CallCause),
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
        let ours = partitions.iter().filter(|place| self.offsets.contains_key(*place));
        self.released.extend(ours.cloned());
    }

    /// What was released is not sent, or not again.
    fn end_released(&mut self) {
        for place in std::mem::take(&mut self.released) {
            self.end(&place, Err(OffsetError::CommitFailed));
        }
    }

    /// What was read of a topic is nothing to one of the same name.
    fn end_replaced(&mut self, metadata: &MemberMetadata) {
        let is_replaced = |place: &&TopicPartition| {
            let ids = (self.metadata.topic_id(&place.topic), metadata.topic_id(&place.topic));
            matches!(ids, (Some(old), Some(new)) if old != new)
        };
        let replaced: Vec<TopicPartition> = self.offsets.keys().filter(is_replaced).cloned().collect();
        for place in replaced {
            self.end(&place, Err(OffsetError::Refused(ErrorCode::UnknownTopicId)));
        }
    }

    /// Gives all that is not over the same end.
    fn end_rest(&mut self, error: OffsetError) {
        let rest = std::mem::take(&mut self.offsets);
        self.results.extend(rest.into_keys().map(|place| (place, Err(error))));
    }

    fn end(&mut self, place: &TopicPartition, result: Result<(), OffsetError>) {
        if let Some((place, _)) = self.offsets.remove_entry(place) {
            self.results.insert(place, result);
        }
    }
}

impl OffsetCalls {
    pub(super) fn next_commit(&mut self, now_ms: i64, membership: &Membership) -> Option<OffsetCall> {
        while self.sent_commit.is_none() {
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
        self.sent_commit = Some(Sent {
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

    pub(super) fn commit_answered(
        &mut self,
        now_ms: i64,
        answer: Result<OffsetResponse, CallFailure>,
        membership: &Membership,
    ) {
        let Some(sent) = self.sent_commit.take() else { return };
        // Its deadline has passed: nobody waits for the answer.
        if self.commits.front().is_none_or(|commit| commit.id != sent.commit) {
            return;
        }
        match answer {
            Ok(OffsetResponse::Commit(response)) => self.judge(now_ms, &sent, &response, membership),
            Ok(OffsetResponse::Fetch(_)) => self.retry_commit(now_ms, CallFailure::Disconnected.into()),
            Err(CallFailure::Unsupported { api }) => self.end_first_commit(OffsetError::Unsupported { api }),
            Err(failure) => self.retry_commit(now_ms, failure.into()),
        }
        self.finish_first_commit();
    }

    fn judge(&mut self, now_ms: i64, sent: &Sent, response: &OffsetCommitResponse, membership: &Membership) {
        let (mut retry, mut at_once, mut refused) = (None, true, None);
        for topic in &response.topics {
            let name = sent.ids.name(&topic.name, topic.topic_id);
            for partition in &topic.partitions {
                let place = TopicPartition::new(name.clone(), partition.partition_index);
                let error = code(partition.error_code);
                self.coordinator_moved |= moves_coordinator(error) || error == ErrorCode::RequestTimedOut;
                self.metadata_outdated |= error == ErrorCode::UnknownTopicId;
                let Some(commit) = self.commits.front_mut() else { return };
                match verdict(error, commit.mode, &sent.identity, membership) {
                    Verdict::Over(result) => commit.end(&place, result),
                    Verdict::AgainAtOnce(cause) => retry = Some(cause),
                    Verdict::Again(cause) => (retry, at_once) = (Some(cause), false),
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
            // The answer forgot some.
            None => self.end_first_commit(OffsetError::Refused(ErrorCode::UnknownServerError)),
        }
        if let Some(commit) = self.commits.front_mut().filter(|_| at_once) {
            commit.retry_at = None;
        }
    }

    /// One that is waited for is tried again, any other has failed.
    fn retry_commit(&mut self, now_ms: i64, cause: CallCause) {
        let Some(commit) = self.commits.front_mut() else { return };
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

/// The coordinator says something about us, not about the offset.
fn concerns_member(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::UnknownMemberId
            | ErrorCode::IllegalGeneration
            | ErrorCode::FencedInstanceId
            | ErrorCode::RebalanceInProgress
    )
}

fn verdict(error: ErrorCode, mode: CommitMode, sent: &GroupMetadata, membership: &Membership) -> Verdict {
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
        ErrorCode::None => Verdict::Over(Ok(())),
        ErrorCode::RebalanceInProgress => Verdict::Over(Err(OffsetError::RebalanceInProgress)),
        ErrorCode::FencedInstanceId if is_unchanged => Verdict::Over(Err(OffsetError::FencedInstance)),
        ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration | ErrorCode::FencedInstanceId => {
            Verdict::Over(Err(not_member))
        }
        ErrorCode::StaleMemberEpoch => match now.filter(|_| !is_unchanged) {
            Some(_) if mode != CommitMode::Async => Verdict::AgainAtOnce(CallCause::Error(error)),
            Some(_) => Verdict::Again(CallCause::Error(error)),
            None => Verdict::Over(Err(OffsetError::CommitFailed)),
        },
        ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId if matches!(mode, CommitMode::Last { .. }) => {
            Verdict::Over(Err(OffsetError::Refused(error)))
        }
        error if error.is_retriable() => Verdict::Again(CallCause::Error(error)),
        error => Verdict::Over(Err(OffsetError::Refused(error))),
    }
}
