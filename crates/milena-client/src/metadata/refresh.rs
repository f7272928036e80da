//! The refresher: when to request metadata, for which topics, and the handling of the response.

use std::{collections::BTreeSet, sync::Arc};

use bytestring::ByteString;
use milena_machines::{Random, TopicPartition, backoff::Backoff};
use milena_wire::{
    Uuid,
    api::versions,
    errors::ErrorCode,
    message::VersionRange,
    messages::{MetadataRequest, MetadataResponse, metadata_request::MetadataRequestTopic},
};

use super::{Broker, LeaderHint, MetadataCache};
use crate::{
    config::MetadataRecovery,
    net::{CallError, ClientSettings},
};

/// Older versions cannot disable the creation of topics.
pub(crate) const VERSION_MIN: i16 = versions::metadata::AUTO_CREATION;
/// The topics to request metadata for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TopicSelection {
    All,
    Topics(BTreeSet<ByteString>),
    /// By id, for brokers that support it.
    Ids(BTreeSet<Uuid>),
}

/// The reason for an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refresh {
    /// Something new was selected.
    New,
    /// The cache seems to be out of date. While responses bring nothing new, the interval between requests grows.
    Stale,
}

/// The reason why an attempt to get metadata failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MetadataError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("the broker refused the Metadata request: {0}")]
    Refused(ErrorCode),
    #[error("the Metadata response names no broker; the cluster may be starting")]
    NoBrokers,
    #[error("there is no bootstrap server")]
    NoBootstrap,
}

/// A Metadata request to send now. Its result comes back with its id.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MetadataCall {
    pub(crate) id: u64,
    pub(crate) request: MetadataRequest,
    pub(crate) versions: VersionRange,
}

/// Decides when to request metadata. It owns the cache and has at most one request in flight.
#[derive(Debug)]
pub(crate) struct Refresher {
    cache: Arc<MetadataCache>,
    selection: TopicSelection,
    max_age_ms: i64,
    allow_auto_create: bool,
    recovery: MetadataRecovery,
    rebootstrap_trigger_ms: i64,
    backoff: Backoff,
    random: Random,
    needed: bool,
    /// Grows when a topic is added, which the response to an older request cannot contain.
    selection_version: u64,
    in_flight: Option<InFlight>,
    calls: u64,
    /// The earliest time of the next request.
    not_before_ms: i64,
    success_ms: Option<i64>,
    failures: u32,
    /// Consecutive responses without new information.
    equivalent: u32,
    /// Start of the attempts since the last success.
    trying_since_ms: Option<i64>,
    last_error: Option<MetadataError>,
}

#[derive(Debug)]
struct InFlight {
    id: u64,
    selection_version: u64,
}

impl Refresher {
    pub(crate) fn new(settings: &ClientSettings, seed: u64) -> Self {
        Self {
            cache: Arc::default(),
            selection: TopicSelection::Topics(BTreeSet::new()),
            max_age_ms: settings.metadata_max_age_ms,
            allow_auto_create: settings.allow_auto_create_topics,
            recovery: settings.metadata_recovery,
            rebootstrap_trigger_ms: settings.rebootstrap_trigger_ms,
            backoff: Backoff::new(settings.retry_backoff_ms, settings.retry_backoff_max_ms),
            random: Random::new(seed),
            needed: true,
            selection_version: 0,
            in_flight: None,
            calls: 0,
            not_before_ms: i64::MIN,
            success_ms: None,
            failures: 0,
            equivalent: 0,
            trying_since_ms: None,
            last_error: None,
        }
    }

    pub(crate) fn cache(&self) -> &Arc<MetadataCache> {
        &self.cache
    }

    /// The time since the last response.
    pub(crate) fn age_ms(&self, now_ms: i64) -> Option<i64> {
        self.success_ms.map(|success_ms| now_ms - success_ms)
    }

    /// The error of the last attempt; `None` if it succeeded.
    pub(crate) fn last_error(&self) -> Option<&MetadataError> {
        self.last_error.as_ref()
    }

    /// Replaces the topics of interest. New topics are requested at once.
    pub(crate) fn select(&mut self, selection: TopicSelection) {
        let new = match (&self.selection, &selection) {
            (TopicSelection::All, TopicSelection::All | TopicSelection::Topics(_)) => false,
            (TopicSelection::Topics(old), TopicSelection::Topics(new)) => !new.is_subset(old),
            (TopicSelection::Ids(old), TopicSelection::Ids(new)) => !new.is_subset(old),
            _ => true,
        };
        self.selection = selection;
        if new {
            self.selection_version += 1;
            self.needed = true;
            self.equivalent = 0;
            // Without failures there is no backoff to keep.
            if self.failures == 0 {
                self.not_before_ms = i64::MIN;
            }
        }
    }

    /// Requests an update; a request in flight counts. Returns the current version of the cache.
    pub(crate) fn request_update(&mut self, why: Refresh) -> u64 {
        self.needed = true;
        if why == Refresh::New {
            self.equivalent = 0;
        }
        self.cache.version
    }

    /// Applies newer leaders that another response has named. Returns their partitions.
    pub(crate) fn handle_leaders(&mut self, hints: &[LeaderHint], brokers: &[Broker]) -> Vec<TopicPartition> {
        let mut changed = Vec::new();
        for hint in hints {
            // The cache is copied on write only for a change.
            if self.cache.is_newer(hint, brokers) {
                Arc::make_mut(&mut self.cache).handle_leader(hint, brokers);
                changed.push(hint.partition.clone());
            }
        }
        changed
    }

    /// Records a leader epoch that was seen elsewhere. A newer one requests an update to find its leader.
    pub(crate) fn handle_epoch(&mut self, partition: &TopicPartition, epoch: i32) -> bool {
        let seen = self.cache.seen_epoch(&partition.topic, partition.partition);
        if seen.is_none_or(|seen| epoch <= seen) {
            return false;
        }
        self.needed = true;
        Arc::make_mut(&mut self.cache).handle_epoch(partition, epoch)
    }

    /// Handles that no known broker can be reached. Returns whether to use the bootstrap servers instead.
    pub(crate) fn handle_unreachable(&mut self) -> bool {
        let rebootstrap = self.recovery == MetadataRecovery::Rebootstrap && self.cache.brokers().len() > 0;
        if rebootstrap {
            self.rebootstrap();
        }
        rebootstrap
    }

    /// Returns the request to send now.
    pub(crate) fn poll_request(&mut self, now_ms: i64) -> Option<MetadataCall> {
        if self.poll_timeout()? > now_ms {
            return None;
        }
        let since = *self.trying_since_ms.get_or_insert(now_ms);
        if self.recovery == MetadataRecovery::Rebootstrap && now_ms - since > self.rebootstrap_trigger_ms {
            self.trying_since_ms = Some(now_ms);
            self.rebootstrap();
        }
        self.calls += 1;
        self.in_flight = Some(InFlight {
            id: self.calls,
            selection_version: self.selection_version,
        });
        Some(MetadataCall {
            id: self.calls,
            request: self.request(),
            versions: self.versions(),
        })
    }

    /// The time of the next request; `None` while one is in flight.
    pub(crate) fn poll_timeout(&self) -> Option<i64> {
        if self.in_flight.is_some() {
            return None;
        }
        let due_ms = match self.success_ms {
            Some(success_ms) if !self.needed => success_ms.saturating_add(self.max_age_ms),
            _ => i64::MIN,
        };
        Some(due_ms.max(self.not_before_ms))
    }

    /// Handles a response with its version, or the error. Returns whether the cache has changed.
    pub(crate) fn handle_response(
        &mut self,
        now_ms: i64,
        id: u64,
        result: Result<(i16, MetadataResponse), MetadataError>,
    ) -> bool {
        let Some(in_flight) = self.in_flight.take_if(|in_flight| in_flight.id == id) else {
            return false;
        };
        let result = result.and_then(|(version, response)| match ErrorCode::from_code(response.error_code) {
            Some(ErrorCode::None) if response.brokers.is_empty() => Err(MetadataError::NoBrokers),
            Some(ErrorCode::None) => Ok((version, response)),
            code => Err(MetadataError::Refused(code.unwrap_or(ErrorCode::UnknownServerError))),
        });
        match result {
            Ok((version, response)) => {
                self.handle_success(now_ms, &in_flight, version, &response);
                true
            }
            Err(error) => self.handle_failure(now_ms, error),
        }
    }

    fn handle_success(&mut self, now_ms: i64, in_flight: &InFlight, version: i16, response: &MetadataResponse) {
        let selection = &self.selection;
        let change = Arc::make_mut(&mut self.cache).update(response, version, |name, id| match selection {
            TopicSelection::All => false,
            TopicSelection::Topics(topics) => topics.contains(name),
            TopicSelection::Ids(ids) => id.is_some_and(|id| ids.contains(&id)),
        });
        let aged = self
            .success_ms
            .is_none_or(|success_ms| success_ms.saturating_add(self.max_age_ms) <= now_ms);
        self.equivalent = match change.progress || aged {
            true => 0,
            false => self.equivalent.saturating_add(1),
        };
        let newer_selection = in_flight.selection_version < self.selection_version;
        self.needed = change.stale || newer_selection;
        self.success_ms = Some(now_ms);
        self.failures = 0;
        self.trying_since_ms = None;
        self.last_error = None;
        self.not_before_ms = if newer_selection {
            i64::MIN
        } else {
            now_ms.saturating_add(self.backoff.after_ms(self.equivalent.max(1), &mut self.random))
        };
    }

    fn handle_failure(&mut self, now_ms: i64, error: MetadataError) -> bool {
        let is_required = error == MetadataError::Refused(ErrorCode::RebootstrapRequired);
        let rebootstrap = is_required && self.recovery == MetadataRecovery::Rebootstrap;
        self.needed = true;
        self.failures = self.failures.saturating_add(1);
        self.not_before_ms = now_ms.saturating_add(self.backoff.after_ms(self.failures, &mut self.random));
        self.last_error = Some(error);
        if rebootstrap {
            self.rebootstrap();
        }
        rebootstrap
    }

    fn rebootstrap(&mut self) {
        self.needed = true;
        if self.cache.brokers().len() > 0 {
            tracing::info!(event = "rebootstrap", "using the bootstrap servers again");
            Arc::make_mut(&mut self.cache).forget_brokers();
        }
    }

    fn request(&self) -> MetadataRequest {
        let topics = match &self.selection {
            TopicSelection::All => None,
            TopicSelection::Topics(names) => Some(names.iter().map(by_name).collect()),
            TopicSelection::Ids(ids) => Some(ids.iter().map(by_id).collect()),
        };
        MetadataRequest {
            // A request for all topics creates none.
            allow_auto_topic_creation: self.allow_auto_create && matches!(self.selection, TopicSelection::Topics(_)),
            topics,
            ..MetadataRequest::default()
        }
    }

    fn versions(&self) -> VersionRange {
        match self.selection {
            TopicSelection::Ids(_) => VersionRange::new(versions::metadata::TOPIC_IDS, i16::MAX),
            _ => VersionRange::new(VERSION_MIN, i16::MAX),
        }
    }
}

fn by_name(name: &ByteString) -> MetadataRequestTopic {
    MetadataRequestTopic {
        name: Some(name.clone()),
        ..MetadataRequestTopic::default()
    }
}

fn by_id(id: &Uuid) -> MetadataRequestTopic {
    MetadataRequestTopic {
        topic_id: *id,
        name: None,
        ..MetadataRequestTopic::default()
    }
}
