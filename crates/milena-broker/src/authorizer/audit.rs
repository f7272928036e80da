//! The audit log: denials at the level info, permissions at debug, as Kafka's `kafka.authorizer.logger`.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytestring::ByteString;
use milena_machines::authorizer::{Operation, ResourceType};
use milena_wire::api::ApiKey;
use tracing::Level;

use super::BrokerAuthorizer;
use crate::net::Peer;

/// Loggers are separated by colons here; their clients see Kafka's name, `kafka.authorizer.logger`.
const TARGET: &str = "kafka::authorizer::logger";
/// The most denials that are logged in a second, so that a hostile client cannot fill the disk. All are counted.
const DENIALS_PER_SECOND_MAX: u32 = 1_000;
const SECOND: Duration = Duration::from_secs(1);

/// An operation on a resource that a request needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check<'a> {
    pub(crate) api: ApiKey,
    pub(crate) operation: Operation,
    pub(crate) resource_type: ResourceType,
    pub(crate) name: &'a ByteString,
    /// Whether the client has named the resource, or would only see less of a list without the right.
    pub(crate) is_explicit: bool,
}

#[derive(Debug, Default)]
pub(super) struct AuditLog {
    denials: Mutex<Denials>,
}

/// The denials of the current second.
#[derive(Debug, Default)]
struct Denials {
    began: Option<Instant>,
    logged: u32,
    left_out: u64,
}

impl AuditLog {
    pub(super) fn log(&self, authorizer: &BrokerAuthorizer, peer: &Peer, check: &Check<'_>, allowed: bool) {
        match (allowed, check.is_explicit) {
            (true, true) if tracing::enabled!(target: TARGET, Level::DEBUG) => log_allowed(authorizer, peer, check),
            (false, true) if tracing::enabled!(target: TARGET, Level::INFO) => {
                let (is_logged, left_out) = self.count_denial(Instant::now());
                if left_out > 0 {
                    tracing::warn!(
                        target: TARGET,
                        event = "authorization_denials_not_logged",
                        count = left_out,
                        "more denials than {DENIALS_PER_SECOND_MAX} in a second were not logged"
                    );
                }
                if is_logged {
                    log_denied(authorizer, peer, check);
                }
            }
            _ => {}
        }
    }

    /// Whether a denial is logged, and the number of those that were not in the second before.
    fn count_denial(&self, now: Instant) -> (bool, u64) {
        let mut denials = self.denials.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left_out = 0;
        if denials.began.is_none_or(|began| now.duration_since(began) >= SECOND) {
            left_out = denials.left_out;
            *denials = Denials {
                began: Some(now),
                ..Denials::default()
            };
        }
        let is_logged = denials.logged < DENIALS_PER_SECOND_MAX;
        match is_logged {
            true => denials.logged += 1,
            false => denials.left_out += 1,
        }
        (is_logged, left_out)
    }
}

fn log_denied(authorizer: &BrokerAuthorizer, peer: &Peer, check: &Check<'_>) {
    tracing::info!(
        target: TARGET,
        event = "authorization_denied",
        principal = %peer.principal,
        operation = %check.operation,
        resource_type = %check.resource_type,
        resource = &**check.name,
        host = %peer.address.ip().to_canonical(),
        listener = %peer.listener,
        api = %check.api,
        rule = authorizer.rule(peer, check),
        "denied"
    );
}

fn log_allowed(authorizer: &BrokerAuthorizer, peer: &Peer, check: &Check<'_>) {
    tracing::debug!(
        target: TARGET,
        event = "authorization_allowed",
        principal = %peer.principal,
        operation = %check.operation,
        resource_type = %check.resource_type,
        resource = &**check.name,
        host = %peer.address.ip().to_canonical(),
        listener = %peer.listener,
        api = %check.api,
        rule = authorizer.rule(peer, check),
        "allowed"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_denials_is_logged_in_part_and_its_rest_is_reported() {
        let (log, now) = (AuditLog::default(), Instant::now());
        for _ in 0..DENIALS_PER_SECOND_MAX {
            assert_eq!(log.count_denial(now), (true, 0));
        }
        assert_eq!(log.count_denial(now), (false, 0));
        assert_eq!(log.count_denial(now + SECOND / 2), (false, 0));
        assert_eq!(log.count_denial(now + SECOND), (true, 2));
        assert_eq!(log.count_denial(now + SECOND), (true, 0));
    }
}
