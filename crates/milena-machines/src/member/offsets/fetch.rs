//! Asking what is committed.

use std::collections::{BTreeMap, BTreeSet};

use milena_wire::{errors::ErrorCode, messages::OffsetFetchResponse};

use super::{
    CallCause, CallFailure, CallId, FetchId, Membership, OffsetAndMetadata, OffsetCall, OffsetCalls, OffsetError,
    OffsetEvent, OffsetResponse,
    answer::{self, moves_coordinator},
    request::{self, TopicIds},
};
use crate::{TopicPartition, backoff::Backoff, member::GroupMetadata};

/// A fetch that is not over.
#[derive(Debug)]
pub(super) struct Fetch {
    /// What is not known yet.
    places: BTreeSet<TopicPartition>,
    results: BTreeMap<TopicPartition, Result<Option<OffsetAndMetadata>, OffsetError>>,
    deadline_ms: i64,
    backoff: Backoff,
    retry_at: Option<i64>,
    is_sent: bool,
    last_cause: Option<CallCause>,
}

/// A fetch that is under way.
#[derive(Debug)]
pub(super) struct Sent {
    fetch: FetchId,
    ids: TopicIds,
}

impl Fetch {
    pub(super) fn new(places: BTreeSet<TopicPartition>, deadline_ms: i64, backoff: Backoff) -> Self {
        Self {
            places,
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

    fn end(&mut self, place: TopicPartition, result: Result<Option<OffsetAndMetadata>, OffsetError>) {
        // Our own name of it: that of the answer would keep its frame in memory.
        if let Some(place) = self.places.take(&place) {
            self.results.insert(place, result);
        }
    }

    fn end_rest(&mut self, error: OffsetError) {
        let rest = std::mem::take(&mut self.places);
        self.results.extend(rest.into_iter().map(|place| (place, Err(error))));
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
        let ids = TopicIds::of(|topic| self.metadata.topic_id(topic), fetch.places.iter());
        let request = request::fetch(&self.config.group_id, member, fetch.places.iter(), &self.metadata);
        let max_version = ids.max_version();
        self.sent_fetches.insert(call, Sent { fetch: id, ids });
        Some(OffsetCall {
            id: call,
            request,
            timeout_ms: self.config.request_timeout_ms,
            max_version,
        })
    }

    pub(super) fn fetch_answered(&mut self, now_ms: i64, sent: &Sent, answer: Result<OffsetResponse, CallFailure>) {
        if let Some(fetch) = self.fetches.get_mut(&sent.fetch) {
            fetch.is_sent = false;
        }
        match answer {
            Ok(OffsetResponse::Fetch(response)) => self.read_fetched(now_ms, sent, response),
            Ok(OffsetResponse::Commit(_)) => self.retry_fetch(now_ms, sent.fetch, CallFailure::Disconnected.into()),
            Err(CallFailure::Unsupported { api }) => {
                if let Some(fetch) = self.fetches.get_mut(&sent.fetch) {
                    fetch.end_rest(OffsetError::Unsupported { api });
                }
            }
            Err(failure) => self.retry_fetch(now_ms, sent.fetch, failure.into()),
        }
        self.finish_fetches();
    }

    fn read_fetched(&mut self, now_ms: i64, sent: &Sent, response: OffsetFetchResponse) {
        let (error, offsets) = answer::fetched(response, &sent.ids);
        self.coordinator_moved |= moves_coordinator(error);
        let Some(fetch) = self.fetches.get_mut(&sent.fetch) else {
            return;
        };
        if error != ErrorCode::None {
            // The member's epoch may have changed since it was sent. To ask again, as whoever we are by then, does no harm.
            let is_stale = matches!(error, ErrorCode::StaleMemberEpoch | ErrorCode::UnknownMemberId);
            if is_stale || error.is_retriable() {
                self.retry_fetch(now_ms, sent.fetch, CallCause::Error(error));
            } else {
                fetch.end_rest(OffsetError::Refused(error));
            }
            return;
        }
        let mut retry = None;
        for (place, code, offset) in offsets {
            match code {
                ErrorCode::None => fetch.end(place, Ok(offset)),
                ErrorCode::UnknownTopicOrPartition => fetch.end(place, Err(OffsetError::Refused(code))),
                code if code.is_retriable() => {
                    self.metadata_outdated |= code == ErrorCode::UnknownTopicId;
                    retry = Some(CallCause::Error(code));
                }
                code => fetch.end(place, Err(OffsetError::Refused(code))),
            }
        }
        match retry {
            Some(cause) => self.retry_fetch(now_ms, sent.fetch, cause),
            // The answer forgot some.
            None => fetch.end_rest(OffsetError::Refused(ErrorCode::UnknownServerError)),
        }
    }

    fn retry_fetch(&mut self, now_ms: i64, id: FetchId, cause: CallCause) {
        let Some(fetch) = self.fetches.get_mut(&id) else { return };
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
            .filter(|(_, fetch)| fetch.places.is_empty())
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
