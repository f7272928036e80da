//! Log lines about unavailable metadata, and about topics with errors.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytestring::ByteString;
use milena_wire::errors::ErrorCode;

use super::{MetadataCache, MetadataError};
use crate::{
    net::CallError,
    outages::{Failure, Outages},
};

/// Connection failures have warnings of their own. After this time without a broker, there is one about metadata too.
const UNREACHABLE_GRACE_MS: i64 = 5_000;
/// A new cluster or topic may need this long until its metadata is complete.
const NEW_GRACE_MS: i64 = 1_000;

/// The outages of one client's metadata.
#[derive(Debug, Default)]
pub(super) struct MetadataNotices {
    outages: Mutex<NoticeState>,
}

#[derive(Debug, Default)]
struct NoticeState {
    cluster: Outages<(), &'static str>,
    topics: Outages<ByteString, i16>,
}

impl MetadataNotices {
    pub(super) fn handle_failure(&self, now_ms: i64, client: &str, error: &MetadataError) {
        let (cause, grace_ms) = cause(error);
        let failure = Failure {
            cause,
            reason: error.to_string(),
            grace_ms,
        };
        let Some(warning) = self.state().cluster.handle_failure(now_ms, &(), failure) else {
            return;
        };
        tracing::warn!(
            event = "metadata_unavailable",
            client,
            cause,
            failures = warning.failures,
            unavailable_ms = warning.for_ms,
            "no cluster metadata for {} ms: {error}; retrying",
            warning.for_ms
        );
    }

    pub(super) fn handle_success(&self, now_ms: i64, client: &str, cache: &MetadataCache) {
        let mut state = self.state();
        if let Some(recovery) = state.cluster.handle_success(now_ms, &()) {
            tracing::info!(
                event = "metadata_available",
                client,
                failures = recovery.failures,
                unavailable_ms = recovery.for_ms,
                "cluster metadata is available again"
            );
        }
        for (topic, code) in cache.topic_errors() {
            state.handle_topic_error(now_ms, client, topic, code);
        }
        let failing = state.topics.all_failing();
        let recovered = failing.filter(|(topic, _)| cache.topic_error(topic).is_none());
        let recovered: Vec<ByteString> = recovered.map(|(topic, _)| topic.clone()).collect();
        for topic in recovered {
            let recovery = state.topics.handle_success(now_ms, &topic);
            // A topic that is no longer selected has not recovered.
            if let Some(recovery) = recovery.filter(|_| cache.topic(&topic).is_some()) {
                tracing::info!(
                    event = "topic_available",
                    client,
                    topic = &*topic,
                    unavailable_ms = recovery.for_ms,
                    "topic {topic} is available again"
                );
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, NoticeState> {
        self.outages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NoticeState {
    fn handle_topic_error(&mut self, now_ms: i64, client: &str, topic: &ByteString, code: ErrorCode) {
        let failure = Failure {
            cause: code.code(),
            reason: code.to_string(),
            grace_ms: if code.is_retriable() { NEW_GRACE_MS } else { 0 },
        };
        if let Some(warning) = self.topics.handle_failure(now_ms, topic, failure) {
            tracing::warn!(
                event = "topic_unavailable",
                client,
                topic = &**topic,
                code = code.code(),
                failures = warning.failures,
                unavailable_ms = warning.for_ms,
                "topic {topic} is unavailable: {code}; retrying"
            );
        }
    }
}

fn cause(error: &MetadataError) -> (&'static str, i64) {
    match error {
        MetadataError::Call(
            CallError::ConnectFailed { .. }
            | CallError::Authentication(_)
            | CallError::Disconnected { .. }
            | CallError::TimedOut { .. }
            | CallError::TooManyWaiting { .. },
        ) => ("unreachable", UNREACHABLE_GRACE_MS),
        MetadataError::Call(_) => ("call_failed", 0),
        MetadataError::Refused(_) => ("refused", 0),
        MetadataError::NoBrokers => ("no_brokers", NEW_GRACE_MS),
        MetadataError::NoBootstrap => ("no_bootstrap", 0),
    }
}
