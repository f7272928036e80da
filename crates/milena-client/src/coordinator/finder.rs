//! The finder: when to look up a coordinator, and the handling of the response.

use bytestring::ByteString;
use milena_machines::{Random, backoff::Backoff};
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{FindCoordinatorRequest, FindCoordinatorResponse},
};

use super::{CoordinatorEvent, CoordinatorKind, FindCoordinatorError};
use crate::{metadata::Broker, net::CallError};

/// Decides when to look up the coordinator. At most one look-up is in flight.
#[derive(Debug)]
pub(crate) struct Finder {
    key: ByteString,
    backoff: Backoff,
    random: Random,
    state: FinderState,
    failures: u32,
    not_before_ms: i64,
    calls: u64,
    /// The failure of the last look-up, until it is taken.
    failure: Option<FindFailure>,
}

/// A failed look-up that will be retried.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FindFailure {
    Call(CallError),
    /// The broker responded that no coordinator is available.
    NotAvailable(ErrorCode),
}

#[derive(Debug, Clone, PartialEq)]
enum FinderState {
    /// Not needed yet.
    Unknown,
    Needed,
    InFlight {
        id: u64,
    },
    Known(Broker),
}

impl Finder {
    pub(crate) fn new(key: ByteString, backoff: Backoff, seed: u64) -> Self {
        Self {
            key,
            backoff,
            random: Random::new(seed),
            state: FinderState::Unknown,
            failures: 0,
            not_before_ms: i64::MIN,
            calls: 0,
            failure: None,
        }
    }

    /// Returns the coordinator, if it is known. Otherwise it will be looked up.
    pub(crate) fn find(&mut self) -> Option<&Broker> {
        if self.state == FinderState::Unknown {
            self.state = FinderState::Needed;
        }
        match &self.state {
            FinderState::Known(broker) => Some(broker),
            _ => None,
        }
    }

    /// Handles that a node is not the coordinator. Returns whether it was taken for it; then the coordinator is looked
    /// up again.
    pub(crate) fn mark_unknown(&mut self, node_id: i32) -> bool {
        let known = matches!(&self.state, FinderState::Known(broker) if broker.id == node_id);
        if known {
            self.state = FinderState::Needed;
        }
        known
    }

    /// Returns the id of a look-up to send now. Its result comes back with this id.
    pub(crate) fn poll_request(&mut self, now_ms: i64) -> Option<u64> {
        if self.poll_timeout()? > now_ms {
            return None;
        }
        self.calls += 1;
        self.state = FinderState::InFlight { id: self.calls };
        Some(self.calls)
    }

    pub(crate) fn poll_timeout(&self) -> Option<i64> {
        (self.state == FinderState::Needed).then_some(self.not_before_ms)
    }

    pub(crate) fn handle_response(
        &mut self,
        now_ms: i64,
        id: u64,
        result: Result<(i16, FindCoordinatorResponse), CallError>,
    ) -> Option<CoordinatorEvent> {
        if self.state != (FinderState::InFlight { id }) {
            return None;
        }
        self.failure = None;
        match result.map(|(version, response)| self.found(version, &response)) {
            Ok(FindOutcome::Broker(broker)) => {
                self.failures = 0;
                self.not_before_ms = i64::MIN;
                self.state = FinderState::Known(broker.clone());
                return Some(CoordinatorEvent::Found(broker));
            }
            Ok(FindOutcome::Refused(code, message)) => {
                self.state = FinderState::Unknown;
                let key = self.key.clone();
                return Some(CoordinatorEvent::Failed(FindCoordinatorError::Refused {
                    key,
                    code,
                    message,
                }));
            }
            Err(
                error @ (CallError::UnsupportedVersion { .. } | CallError::EncodeFailed { .. } | CallError::Closed),
            ) => {
                self.state = FinderState::Unknown;
                return Some(CoordinatorEvent::Failed(error.into()));
            }
            Ok(FindOutcome::NotYet(code)) => self.failure = Some(FindFailure::NotAvailable(code)),
            Err(error) => self.failure = Some(FindFailure::Call(error)),
        }
        self.failures = self.failures.saturating_add(1);
        self.not_before_ms = now_ms.saturating_add(self.backoff.after_ms(self.failures, &mut self.random));
        self.state = FinderState::Needed;
        None
    }

    /// Takes the failure of the last look-up, if it will be retried.
    pub(crate) fn take_failure(&mut self) -> Option<FindFailure> {
        self.failure.take()
    }

    fn found(&self, version: i16, response: &FindCoordinatorResponse) -> FindOutcome {
        let (code, message, broker) = if version >= versions::find_coordinator::COORDINATORS {
            let Some(found) = response.coordinators.iter().find(|found| found.key == self.key) else {
                return FindOutcome::NotYet(ErrorCode::CoordinatorNotAvailable);
            };
            let broker = Broker::new(found.node_id, &found.host, found.port, None);
            (found.error_code, &found.error_message, broker)
        } else {
            let broker = Broker::new(response.node_id, &response.host, response.port, None);
            (response.error_code, &response.error_message, broker)
        };
        let code = ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError);
        match (code, broker) {
            (ErrorCode::None, Some(broker)) => FindOutcome::Broker(broker),
            (ErrorCode::None, None) => FindOutcome::NotYet(ErrorCode::CoordinatorNotAvailable),
            (code, _) if code.is_retriable() => FindOutcome::NotYet(code),
            (code, _) => FindOutcome::Refused(code, message.as_ref().map(ToString::to_string)),
        }
    }

    /// The request for this version.
    pub(super) fn request(kind: CoordinatorKind, key: ByteString, version: i16) -> FindCoordinatorRequest {
        let key_type = match kind {
            CoordinatorKind::Group => 0,
            CoordinatorKind::Transaction => 1,
        };
        let (key, coordinator_keys) = match version >= versions::find_coordinator::COORDINATORS {
            true => (ByteString::new(), vec![key]),
            false => (key, vec![]),
        };
        FindCoordinatorRequest {
            key,
            key_type,
            coordinator_keys,
            ..FindCoordinatorRequest::default()
        }
    }
}

enum FindOutcome {
    Broker(Broker),
    NotYet(ErrorCode),
    Refused(ErrorCode, Option<String>),
}
