//! All requests but `Produce`: one at a time, with retries.

use std::collections::BTreeSet;

use milena_invariant::violated;
use milena_wire::{api::ApiKey, errors::ErrorCode, messages::InitProducerIdRequest};

use super::{
    BatchCause, ControlCall, ControlRequest, ControlResponse, Sender, SenderEvent, Slot, Target, TransactionCause,
    TransactionError, identity::Init, response::CONCURRENT_BACKOFF_MS,
};
use crate::{
    backoff::Backoff,
    member::{CallFailure, CallId, moves_coordinator},
    transaction::{NO_EPOCH, NO_PRODUCER_ID, ProducerEpoch},
};

#[derive(Debug)]
pub(super) struct Control {
    in_flight: Option<InFlightControl>,
    retry_at_ms: Option<i64>,
    backoff: Backoff,
}

#[derive(Debug)]
struct InFlightControl {
    call: CallId,
    target: Target,
    kind: ControlKind,
}

/// The subject of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ControlKind {
    Init,
    AddPartitions(BTreeSet<Slot>),
    AddOffsets,
    CommitOffsets,
    End,
}

impl ControlKind {
    pub(super) fn api(&self) -> ApiKey {
        match self {
            Self::Init => ApiKey::InitProducerId,
            Self::AddPartitions(_) => ApiKey::AddPartitionsToTxn,
            Self::AddOffsets => ApiKey::AddOffsetsToTxn,
            Self::CommitOffsets => ApiKey::TxnOffsetCommit,
            Self::End => ApiKey::EndTxn,
        }
    }
}

/// The next request to send.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) kind: ControlKind,
    pub(super) target: Target,
    pub(super) request: ControlRequest,
    pub(super) versions: (i16, Option<i16>),
}

/// The reaction to an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorAction {
    Done,
    Retry,
    /// The transaction must be aborted.
    Abort,
    /// As [`Self::Abort`]; and the coordinator does not know this producer any more, so that it must be initialized
    /// again.
    AbortUnknown,
    /// The producer is ended.
    Fatal,
}

pub(super) fn action_for(error: ErrorCode) -> ErrorAction {
    match error {
        ErrorCode::None => ErrorAction::Done,
        ErrorCode::UnknownProducerId | ErrorCode::InvalidProducerIdMapping => ErrorAction::AbortUnknown,
        // The committing member is not in the group any more, or lacks a permission.
        ErrorCode::TransactionAbortable
        | ErrorCode::GroupAuthorizationFailed
        | ErrorCode::TopicAuthorizationFailed
        | ErrorCode::OperationNotAttempted
        | ErrorCode::FencedInstanceId
        | ErrorCode::UnknownMemberId
        | ErrorCode::IllegalGeneration
        | ErrorCode::RebalanceInProgress
        | ErrorCode::StaleMemberEpoch
        | ErrorCode::FencedMemberEpoch
        | ErrorCode::OffsetMetadataTooLarge => ErrorAction::Abort,
        error if error.is_retriable() => ErrorAction::Retry,
        _ => ErrorAction::Fatal,
    }
}

impl Control {
    pub(super) fn new(backoff: Backoff) -> Self {
        Self {
            in_flight: None,
            retry_at_ms: None,
            backoff,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_none()
    }
}

impl Sender {
    /// The next request other than `Produce`.
    pub fn poll_control_request(&mut self, now_ms: i64) -> Option<ControlCall> {
        self.note_time(now_ms);
        self.advance();
        let is_early = self.control.retry_at_ms.is_some_and(|retry_at| retry_at > now_ms);
        if self.fatal.is_some() || !self.control.is_idle() || is_early {
            return None;
        }
        let next = match self.identity.wanted {
            Some(init) => self.init_request(init),
            None => self.transaction_request()?,
        };
        self.control.retry_at_ms = None;
        self.note_requested(&next);
        let call = CallId(self.next_id());
        self.control.in_flight = Some(InFlightControl {
            call,
            target: next.target.clone(),
            kind: next.kind,
        });
        Some(ControlCall {
            id: call,
            target: next.target,
            request: next.request,
            timeout_ms: self.config.request_timeout_ms,
            version_min: next.versions.0,
            version_max: next.versions.1,
        })
    }

    pub fn handle_control_response(
        &mut self,
        now_ms: i64,
        call: CallId,
        response: Result<ControlResponse, CallFailure>,
    ) {
        self.note_time(now_ms);
        let Some(in_flight) = self.control.in_flight.take_if(|in_flight| in_flight.call == call) else {
            violated!("every_control_response_has_a_request");
            return;
        };
        match response {
            Ok(response) => self.handle_response(now_ms, &in_flight, response),
            Err(CallFailure::Unsupported { api }) => {
                self.give_up(TransactionError::Fatal(TransactionCause::Unsupported { api }));
            }
            Err(failure) => {
                match failure {
                    CallFailure::NotSent | CallFailure::NotAuthenticated | CallFailure::CoordinatorUnknown => {
                        self.note_unsent(&in_flight.kind);
                    }
                    _ => self.note_no_response(&in_flight.kind),
                }
                if failure != CallFailure::CoordinatorUnknown {
                    self.coordinator_moved(&in_flight.target);
                }
                self.retry_control(now_ms, None);
            }
        }
        self.advance();
    }

    /// Handles a failed lookup of the coordinator that a call is for.
    pub fn handle_lookup_refused(&mut self, now_ms: i64, call: CallId, error: ErrorCode) {
        self.note_time(now_ms);
        let Some(in_flight) = self.control.in_flight.take_if(|in_flight| in_flight.call == call) else {
            violated!("every_failed_lookup_has_a_request");
            return;
        };
        self.note_unsent(&in_flight.kind);
        let cause = TransactionCause::Lookup(error);
        match action_for(error) {
            ErrorAction::Done | ErrorAction::Retry => self.retry_control(now_ms, Some(error)),
            ErrorAction::Abort if in_flight.kind == ControlKind::CommitOffsets => self.abortable(cause),
            _ if in_flight.kind == ControlKind::Init => self.init_refused(cause),
            _ => self.give_up(TransactionError::Fatal(cause)),
        }
        self.advance();
    }

    fn handle_response(&mut self, now_ms: i64, in_flight: &InFlightControl, response: ControlResponse) {
        match (&in_flight.kind, response) {
            (ControlKind::Init, ControlResponse::InitProducerId(response)) => {
                self.handle_init_response(now_ms, &response)
            }
            (ControlKind::AddPartitions(slots), ControlResponse::AddPartitionsToTxn(response)) => {
                self.handle_add_partitions_response(now_ms, slots, &response);
            }
            (ControlKind::AddOffsets, ControlResponse::AddOffsetsToTxn(response)) => {
                self.handle_add_offsets_response(now_ms, &response);
            }
            (ControlKind::CommitOffsets, ControlResponse::TxnOffsetCommit(response)) => {
                self.handle_offsets_response(now_ms, &response);
            }
            (ControlKind::End, ControlResponse::EndTxn(response)) => self.handle_end_response(now_ms, &response),
            _ => {
                violated!("a_response_is_of_its_request");
                self.note_no_response(&in_flight.kind);
                self.retry_control(now_ms, None);
            }
        }
    }

    /// Retries the request after a backoff.
    pub(super) fn retry_control(&mut self, now_ms: i64, error: Option<ErrorCode>) {
        let mut wait_ms = self.control.backoff.next_ms(&mut self.random);
        if error == Some(ErrorCode::ConcurrentTransactions) {
            wait_ms = wait_ms.min(CONCURRENT_BACKOFF_MS);
        }
        self.control.retry_at_ms = Some(now_ms.saturating_add(wait_ms));
    }

    /// Resets the backoff after a usable response.
    pub(super) fn reset_control_backoff(&mut self) {
        self.control.backoff.reset();
    }

    pub(super) fn coordinator_moved(&mut self, target: &Target) {
        if *target != Target::AnyBroker {
            self.emit_once(SenderEvent::CoordinatorMoved(target.clone()));
        }
    }

    pub(super) fn check_coordinator(&mut self, target: &Target, error: ErrorCode) {
        if moves_coordinator(error) {
            self.coordinator_moved(target);
        }
    }

    pub(super) fn control_deadline(&self) -> Option<i64> {
        let retry_at = self.control.retry_at_ms;
        retry_at.filter(|_| self.fatal.is_none() && self.control.is_idle())
    }

    fn init_request(&self, init: Init) -> PendingRequest {
        let none = ProducerEpoch {
            producer_id: NO_PRODUCER_ID,
            epoch: NO_EPOCH,
        };
        let known = match init {
            Init::New => none,
            Init::Next => self.identity.producer.unwrap_or(none),
        };
        let transaction = self.config.transaction.as_ref();
        let request = InitProducerIdRequest {
            transactional_id: transaction.map(|transaction| transaction.transactional_id.clone()),
            transaction_timeout_ms: transaction.map_or(i32::MAX, |transaction| transaction.timeout_ms),
            producer_id: known.producer_id,
            producer_epoch: known.epoch,
            ..InitProducerIdRequest::default()
        };
        PendingRequest {
            kind: ControlKind::Init,
            target: match transaction {
                Some(_) => Target::TransactionCoordinator,
                None => Target::AnyBroker,
            },
            request: ControlRequest::InitProducerId(request),
            // Older versions have no fields for the producer.
            versions: (if known == none { 0 } else { 3 }, None),
        }
    }

    /// Ends the sender: nothing is sent any more. Requests in flight are awaited.
    pub(super) fn give_up(&mut self, error: TransactionError) {
        if self.fatal.is_some() {
            return;
        }
        self.fatal = Some(error.clone());
        self.end_operations(&error);
        self.drop_waiting(&BatchCause::Stopped(Box::new(error)));
    }
}
