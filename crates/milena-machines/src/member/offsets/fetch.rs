//! Fetches of committed offsets.

use std::collections::{BTreeMap, BTreeSet};

use milena_invariant::violated;
use milena_wire::{errors::ErrorCode, messages::OffsetFetchResponse};

use super::{
    CallCause, CallFailure, CallId, FetchId, Membership, OffsetAndMetadata, OffsetCall, OffsetCalls, OffsetError,
    OffsetEvent, OffsetResponse,
    request::{self, TopicIds},
    response::{self, moves_coordinator},
};
use crate::{TopicPartition, backoff::Backoff, member::GroupMetadata};

/// A fetch that is not done.
#[derive(Debug)]
pub(super) struct Fetch {
    /// Partitions without a result.
    partitions: BTreeSet<TopicPartition>,
    results: BTreeMap<TopicPartition, Result<Option<OffsetAndMetadata>, OffsetError>>,
    deadline_ms: i64,
    backoff: Backoff,
    retry_at: Option<i64>,
    is_sent: bool,
    last_cause: Option<CallCause>,
}

/// A fetch in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    fetch: FetchId,
    ids: TopicIds,
}

impl Fetch {
    pub(super) fn new(partitions: BTreeSet<TopicPartition>, deadline_ms: i64, backoff: Backoff) -> Self {
        Self {
            partitions,
            results: BTreeMap::new(),
            deadline_ms,
            backoff,
            retry_at: None,
            is_sent: false,
            last_cause: None,
        }
    }

    pub(super) fn next_deadline(&self) -> i64 {
        self.retry_at.unwrap_or(self.deadline_ms).min(self.deadline_ms)
    }

    fn end(&mut self, topic_partition: TopicPartition, result: Result<Option<OffsetAndMetadata>, OffsetError>) {
        // The stored name: that of the response would keep its frame in memory.
        if let Some(topic_partition) = self.partitions.take(&topic_partition) {
            self.results.insert(topic_partition, result);
        }
    }

    fn end_rest(&mut self, error: OffsetError) {
        let rest = std::mem::take(&mut self.partitions);
        self.results
            .extend(rest.into_iter().map(|topic_partition| (topic_partition, Err(error))));
    }
}

impl OffsetCalls {
    pub(super) fn next_fetch(&mut self, now_ms: i64, membership: &Membership) -> Option<OffsetCall> {
        self.finish_fetches();
        let is_due = |fetch: &Fetch| !fetch.is_sent && fetch.retry_at.is_none_or(|retry_at| retry_at <= now_ms);
        let id = *self.fetches.iter().find(|(_, fetch)| is_due(fetch))?.0;
        let call = CallId(self.next_id());
        let fetch = self.fetches.get_mut(&id)?;
        (fetch.is_sent, fetch.retry_at) = (true, None);
        let member: Option<&GroupMetadata> = match membership {
            Membership::Member {
                identity,
                is_epoch: true,
            } => Some(identity),
            _ => None,
        };
        let ids = TopicIds::of(|topic| self.metadata.topic_id(topic), fetch.partitions.iter());
        let request = request::fetch(&self.config.group_id, member, fetch.partitions.iter(), &self.metadata);
        let max_version = ids.max_version();
        self.fetches_in_flight.insert(call, InFlight { fetch: id, ids });
        Some(OffsetCall {
            id: call,
            request,
            timeout_ms: self.config.request_timeout_ms,
            max_version,
        })
    }

    pub(super) fn handle_fetch_response(
        &mut self,
        now_ms: i64,
        sent: &InFlight,
        response: Result<OffsetResponse, CallFailure>,
    ) {
        if let Some(fetch) = self.fetches.get_mut(&sent.fetch) {
            fetch.is_sent = false;
        }
        match response {
            Ok(OffsetResponse::Fetch(response)) => self.handle_fetched_offsets(now_ms, sent, response),
            Ok(OffsetResponse::Commit(_)) => {
                violated!("a_response_is_of_its_request");
                self.retry_fetch(now_ms, sent.fetch, CallFailure::Disconnected.into());
            }
            Err(CallFailure::Unsupported { api }) => {
                if let Some(fetch) = self.fetches.get_mut(&sent.fetch) {
                    fetch.end_rest(OffsetError::Unsupported { api });
                }
            }
            Err(failure) => self.retry_fetch(now_ms, sent.fetch, failure.into()),
        }
        self.finish_fetches();
    }

    fn handle_fetched_offsets(&mut self, now_ms: i64, sent: &InFlight, response: OffsetFetchResponse) {
        let (error, offsets) = response::fetched(response, &sent.ids);
        self.coordinator_moved |= moves_coordinator(error);
        let Some(fetch) = self.fetches.get_mut(&sent.fetch) else {
            return; // Stale: dropped or expired meanwhile.
        };
        if error != ErrorCode::None {
            // The member epoch may have changed since it was sent. A retry with the new one does no harm.
            let is_stale = matches!(error, ErrorCode::StaleMemberEpoch | ErrorCode::UnknownMemberId);
            if is_stale || error.is_retriable() {
                self.retry_fetch(now_ms, sent.fetch, CallCause::Error(error));
            } else {
                fetch.end_rest(OffsetError::Refused(error));
            }
            return;
        }
        let mut retry = None;
        for (topic_partition, code, offset) in offsets {
            match code {
                ErrorCode::None => fetch.end(topic_partition, Ok(offset)),
                ErrorCode::UnknownTopicOrPartition => fetch.end(topic_partition, Err(OffsetError::Refused(code))),
                code if code.is_retriable() => {
                    self.metadata_outdated |= code == ErrorCode::UnknownTopicId;
                    retry = Some(CallCause::Error(code));
                }
                code => fetch.end(topic_partition, Err(OffsetError::Refused(code))),
            }
        }
        match retry {
            Some(cause) => self.retry_fetch(now_ms, sent.fetch, cause),
            // The response left some out.
            None => fetch.end_rest(OffsetError::Refused(ErrorCode::UnknownServerError)),
        }
    }

    fn retry_fetch(&mut self, now_ms: i64, id: FetchId, cause: CallCause) {
        let Some(fetch) = self.fetches.get_mut(&id) else {
            return; // Stale: dropped or expired meanwhile.
        };
        fetch.last_cause = Some(cause);
        fetch.retry_at = Some(now_ms.saturating_add(fetch.backoff.next_ms(&mut self.random)));
    }

    pub(super) fn expire_fetches(&mut self, now_ms: i64) {
        for fetch in self.fetches.values_mut().filter(|fetch| fetch.deadline_ms <= now_ms) {
            let last_cause = fetch.last_cause;
            fetch.end_rest(OffsetError::TimedOut { last_cause });
        }
        self.finish_fetches();
    }

    fn finish_fetches(&mut self) {
        let over: Vec<FetchId> = self
            .fetches
            .iter()
            .filter(|(_, fetch)| fetch.partitions.is_empty())
            .map(|(id, _)| *id)
            .collect();
        for id in over {
            if let Some(Fetch { results, .. }) = self.fetches.remove(&id) {
                self.events.push_back(OffsetEvent::Fetched { id, results });
            }
        }
    }

    pub(super) fn backoff(&self) -> Backoff {
        Backoff::new(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)
    }
}
