//! When to ask for metadata, for what, and what follows from the answer.

use std::{collections::BTreeSet, sync::Arc};

use bytestring::ByteString;
use milena_machines::{Random, TopicPartition};
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
    net::{Backoff, CallError, ClientSettings},
};

/// Older versions cannot say that a topic is not to be created.
pub(crate) const VERSION_MIN: i16 = versions::metadata::AUTO_CREATION;
/// The topics that metadata is wanted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    All,
    Topics(BTreeSet<ByteString>),
    /// Of a broker that can be asked by id.
    Ids(BTreeSet<Uuid>),
}

/// Why an update is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refresh {
    /// Something is wanted that was not wanted before.
    New,
    /// What we have seems to be out of date. If the answers bring nothing new, they are asked for less and less often.
    Stale,
}

/// Why an attempt to learn of the cluster failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MetadataError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("the broker answered Metadata with {0}")]
    Refused(ErrorCode),
    #[error("the broker answered Metadata without naming any broker; it may just be starting")]
    NoBrokers,
    #[error("there is no bootstrap server to ask")]
    NoBootstrap,
}

/// A request for metadata that is to be sent now. Its fate comes back with its id.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MetadataCall {
    pub(crate) id: u64,
    pub(crate) request: MetadataRequest,
    pub(crate) versions: VersionRange,
}

/// Decides when to ask for metadata. It has the cache and one request in flight at most.
#[derive(Debug)]
pub(crate) struct Refresher {
    cache: Arc<MetadataCache>,
    wanted: Wanted,
    max_age_ms: i64,
    allow_auto_create: bool,
    recovery: MetadataRecovery,
    rebootstrap_trigger_ms: i64,
    backoff: Backoff,
    random: Random,
    needed: bool,
    /// Grows when something new is wanted, which an answer to an older request cannot have.
    wanted_version: u64,
    in_flight: Option<InFlight>,
    calls: u64,
    /// The next request leaves not before.
    not_before_ms: i64,
    success_ms: Option<i64>,
    failures: u32,
    /// Answers in a row that brought nothing new.
    equivalent: u32,
    /// Since when we have tried without success.
    trying_since_ms: Option<i64>,
    trouble: Option<MetadataError>,
}

#[derive(Debug)]
struct InFlight {
    id: u64,
    wanted_version: u64,
}

impl Refresher {
    pub(crate) fn new(settings: &ClientSettings, seed: u64) -> Self {
        Self {
            cache: Arc::default(),
            wanted: Wanted::Topics(BTreeSet::new()),
            max_age_ms: settings.metadata_max_age_ms,
            allow_auto_create: settings.allow_auto_create_topics,
            recovery: settings.metadata_recovery,
            rebootstrap_trigger_ms: settings.rebootstrap_trigger_ms,
            backoff: Backoff::new(settings.retry_backoff_ms, settings.retry_backoff_max_ms),
            random: Random::new(seed),
            needed: true,
            wanted_version: 0,
            in_flight: None,
            calls: 0,
            not_before_ms: i64::MIN,
            success_ms: None,
            failures: 0,
            equivalent: 0,
            trying_since_ms: None,
            trouble: None,
        }
    }

    pub(crate) fn cache(&self) -> &Arc<MetadataCache> {
        &self.cache
    }

    /// How long ago the last answer came.
    pub(crate) fn age_ms(&self, now_ms: i64) -> Option<i64> {
        self.success_ms.map(|success_ms| now_ms - success_ms)
    }

    /// Why the last attempt failed; `None` if it did not.
    pub(crate) fn trouble(&self) -> Option<&MetadataError> {
        self.trouble.as_ref()
    }

    /// Replaces what is wanted. What is new is asked for at once.
    pub(crate) fn want(&mut self, wanted: Wanted) {
        let new = match (&self.wanted, &wanted) {
            (Wanted::All, Wanted::All | Wanted::Topics(_)) => false,
            (Wanted::Topics(old), Wanted::Topics(new)) => !new.is_subset(old),
            (Wanted::Ids(old), Wanted::Ids(new)) => !new.is_subset(old),
            _ => true,
        };
        self.wanted = wanted;
        if new {
            self.wanted_version += 1;
            self.needed = true;
            self.equivalent = 0;
            // Unless attempts fail, there is no reason to wait.
            if self.failures == 0 {
                self.not_before_ms = i64::MIN;
            }
        }
    }

    /// Asks for an update. An answer to what is in flight will do. Gives the version of the cache now.
    pub(crate) fn request_update(&mut self, why: Refresh) -> u64 {
        self.needed = true;
        if why == Refresh::New {
            self.equivalent = 0;
        }
        self.cache.version
    }

    /// Takes newer leaders that another answer named. Gives their partitions.
    pub(crate) fn handle_leaders(&mut self, hints: &[LeaderHint], brokers: &[Broker]) -> Vec<TopicPartition> {
        let mut changed = Vec::new();
        for hint in hints {
            // What others hold of the cache is copied only for a change.
            if self.cache.is_newer(hint, brokers) {
                Arc::make_mut(&mut self.cache).handle_leader(hint, brokers);
                changed.push(hint.partition.clone());
            }
        }
        changed
    }

    /// A leader's epoch was heard of. If it is newer than the one we know, its leader must be found.
    pub(crate) fn handle_epoch(&mut self, partition: &TopicPartition, epoch: i32) -> bool {
        let seen = self.cache.seen_epoch(&partition.topic, partition.partition);
        if seen.is_none_or(|seen| epoch <= seen) {
            return false;
        }
        self.needed = true;
        Arc::make_mut(&mut self.cache).handle_epoch(partition, epoch)
    }

    /// None of the brokers that we know can be reached. Whether to ask the bootstrap servers instead.
    pub(crate) fn handle_unreachable(&mut self) -> bool {
        let rebootstrap = self.recovery == MetadataRecovery::Rebootstrap && self.cache.brokers().len() > 0;
        if rebootstrap {
            self.rebootstrap();
        }
        rebootstrap
    }

    /// The request that is to be sent now.
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
            wanted_version: self.wanted_version,
        });
        Some(MetadataCall {
            id: self.calls,
            request: self.request(),
            versions: self.versions(),
        })
    }

    /// When the next request is due; `None` while one is in flight.
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

    /// Takes the answer and its version, or why there is none. Whether the cache has changed.
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
        let wanted = &self.wanted;
        let learned = Arc::make_mut(&mut self.cache).update(response, version, |name, id| match wanted {
            Wanted::All => false,
            Wanted::Topics(topics) => topics.contains(name),
            Wanted::Ids(ids) => id.is_some_and(|id| ids.contains(&id)),
        });
        let aged = self
            .success_ms
            .is_none_or(|success_ms| success_ms.saturating_add(self.max_age_ms) <= now_ms);
        self.equivalent = match learned.progress || aged {
            true => 0,
            false => self.equivalent.saturating_add(1),
        };
        let newer_wanted = in_flight.wanted_version < self.wanted_version;
        self.needed = learned.stale || newer_wanted;
        self.success_ms = Some(now_ms);
        self.failures = 0;
        self.trying_since_ms = None;
        self.trouble = None;
        self.not_before_ms = if newer_wanted {
            i64::MIN
        } else {
            now_ms.saturating_add(self.backoff.step(self.equivalent.saturating_sub(1), &mut self.random))
        };
    }

    fn handle_failure(&mut self, now_ms: i64, error: MetadataError) -> bool {
        let told = error == MetadataError::Refused(ErrorCode::RebootstrapRequired);
        let rebootstrap = told && self.recovery == MetadataRecovery::Rebootstrap;
        self.needed = true;
        self.failures = self.failures.saturating_add(1);
        self.not_before_ms = now_ms.saturating_add(self.backoff.after(self.failures, &mut self.random));
        self.trouble = Some(error);
        if rebootstrap {
            self.rebootstrap();
        }
        rebootstrap
    }

    fn rebootstrap(&mut self) {
        self.needed = true;
        if self.cache.brokers().len() > 0 {
            tracing::info!("beginning again with the bootstrap servers");
            Arc::make_mut(&mut self.cache).forget_brokers();
        }
    }

    fn request(&self) -> MetadataRequest {
        let topics = match &self.wanted {
            Wanted::All => None,
            Wanted::Topics(names) => Some(names.iter().map(by_name).collect()),
            Wanted::Ids(ids) => Some(ids.iter().map(by_id).collect()),
        };
        MetadataRequest {
            // Asking for all of them creates none.
            allow_auto_topic_creation: self.allow_auto_create && matches!(self.wanted, Wanted::Topics(_)),
            topics,
            ..MetadataRequest::default()
        }
    }

    fn versions(&self) -> VersionRange {
        match self.wanted {
            Wanted::Ids(_) => VersionRange::new(versions::metadata::TOPIC_IDS, i16::MAX),
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
