//! When to look for a coordinator, and what follows from the answer.

use bytestring::ByteString;
use milena_machines::Random;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{FindCoordinatorRequest, FindCoordinatorResponse},
};

use super::{CoordinatorEvent, CoordinatorKind, FindCoordinatorError};
use crate::{
    metadata::Broker,
    net::{Backoff, CallError},
};

/// Decides when to look for the coordinator. One look-up is in flight at most.
#[derive(Debug)]
pub(crate) struct Finder {
    key: ByteString,
    kind: CoordinatorKind,
    backoff: Backoff,
    random: Random,
    state: State,
    failures: u32,
    not_before_ms: i64,
    calls: u64,
    /// Why the last look-up brought nothing, until it is taken.
    failure: Option<FindFailure>,
}

/// A look-up that will be tried again.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FindFailure {
    Call(CallError),
    /// The broker said that there is no coordinator now.
    NotAvailable(ErrorCode),
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    /// Nobody has asked.
    Unknown,
    Wanted,
    Looking {
        id: u64,
    },
    Known(Broker),
}

impl Finder {
    pub(crate) fn new(kind: CoordinatorKind, key: ByteString, backoff: Backoff, seed: u64) -> Self {
        Self {
            key,
            kind,
            backoff,
            random: Random::new(seed),
            state: State::Unknown,
            failures: 0,
            not_before_ms: i64::MIN,
            calls: 0,
            failure: None,
        }
    }

    /// The coordinator, if it is known. Otherwise it will be looked for.
    pub(crate) fn find(&mut self) -> Option<&Broker> {
        if self.state == State::Unknown {
            self.state = State::Wanted;
        }
        match &self.state {
            State::Known(broker) => Some(broker),
            _ => None,
        }
    }

    /// The node was told or proved not to be the coordinator. Whether it was taken for it until now; if so it is looked
    /// for again.
    pub(crate) fn mark_unknown(&mut self, node_id: i32) -> bool {
        let known = matches!(&self.state, State::Known(broker) if broker.id == node_id);
        if known {
            self.state = State::Wanted;
        }
        known
    }

    /// Whether to send a request now; its fate comes back with this id.
    pub(crate) fn poll_request(&mut self, now_ms: i64) -> Option<u64> {
        if self.poll_timeout()? > now_ms {
            return None;
        }
        self.calls += 1;
        self.state = State::Looking { id: self.calls };
        Some(self.calls)
    }

    pub(crate) fn poll_timeout(&self) -> Option<i64> {
        (self.state == State::Wanted).then_some(self.not_before_ms)
    }

    pub(crate) fn handle_response(
        &mut self,
        now_ms: i64,
        id: u64,
        result: Result<(i16, FindCoordinatorResponse), CallError>,
    ) -> Option<CoordinatorEvent> {
        if self.state != (State::Looking { id }) {
            return None;
        }
        self.failure = None;
        match result.map(|(version, response)| self.found(version, &response)) {
            Ok(Found::Broker(broker)) => {
                self.failures = 0;
                self.not_before_ms = i64::MIN;
                self.state = State::Known(broker.clone());
                return Some(CoordinatorEvent::Found(broker));
            }
            Ok(Found::Refused(code, message)) => {
                self.state = State::Unknown;
                let key = self.key.clone();
                return Some(CoordinatorEvent::Failed(FindCoordinatorError::Refused {
                    key,
                    code,
                    message,
                }));
            }
            Err(error @ (CallError::UnsupportedVersion { .. } | CallError::BadRequest { .. } | CallError::Closed)) => {
                self.state = State::Unknown;
                return Some(CoordinatorEvent::Failed(error.into()));
            }
            Ok(Found::NotYet(code)) => self.failure = Some(FindFailure::NotAvailable(code)),
            Err(error) => self.failure = Some(FindFailure::Call(error)),
        }
        self.failures = self.failures.saturating_add(1);
        self.not_before_ms = now_ms.saturating_add(self.backoff.after(self.failures, &mut self.random));
        self.state = State::Wanted;
        None
    }

    /// Why the last look-up brought nothing and will be tried again.
    pub(crate) fn take_failure(&mut self) -> Option<FindFailure> {
        self.failure.take()
    }

    fn found(&self, version: i16, response: &FindCoordinatorResponse) -> Found {
        let (code, message, broker) = if version >= versions::find_coordinator::COORDINATORS {
            let Some(found) = response.coordinators.iter().find(|found| found.key == self.key) else {
                return Found::NotYet(ErrorCode::CoordinatorNotAvailable);
            };
            let broker = Broker::new(found.node_id, &found.host, found.port, None);
            (found.error_code, &found.error_message, broker)
        } else {
            let broker = Broker::new(response.node_id, &response.host, response.port, None);
            (response.error_code, &response.error_message, broker)
        };
        let code = ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError);
        match (code, broker) {
            (ErrorCode::None, Some(broker)) => Found::Broker(broker),
            (ErrorCode::None, None) => Found::NotYet(ErrorCode::CoordinatorNotAvailable),
            (code, _) if code.is_retriable() => Found::NotYet(code),
            (code, _) => Found::Refused(code, message.as_ref().map(ToString::to_string)),
        }
    }

    /// The request in the form of its version.
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

enum Found {
    Broker(Broker),
    NotYet(ErrorCode),
    Refused(ErrorCode, Option<String>),
}
