//! All requests but `Produce`: one at a time, again after a while if need be.

use std::collections::BTreeSet;

use milena_wire::{api::ApiKey, errors::ErrorCode, messages::InitProducerIdRequest};

use super::{
    BatchCause, ControlCall, ControlRequest, ControlResponse, Sender, SenderEvent, Slot, Target, TransactionCause,
    TransactionError, answer::CONCURRENT_BACKOFF_MS, identity::Init,
};
use crate::{
    backoff::Backoff,
    member::{CallFailure, CallId, moves_coordinator},
    transaction::{NO_EPOCH, NO_PRODUCER_ID, ProducerEpoch},
};

#[derive(Debug)]
pub(super) struct Control {
    under_way: Option<Asked>,
    retry_at_ms: Option<i64>,
    backoff: Backoff,
}

#[derive(Debug)]
struct Asked {
    call: CallId,
    target: Target,
    what: What,
}

/// What an answer is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    Init,
    AddPartitions(BTreeSet<Slot>),
    AddOffsets,
    CommitOffsets,
    End,
}

impl What {
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

/// A request that is to be sent next.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) what: What,
    pub(super) target: Target,
    pub(super) request: ControlRequest,
    pub(super) versions: (i16, Option<i16>),
}

/// What can be done about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Done,
    Again,
    /// The transaction cannot go on.
    Abort,
    /// The same; and the coordinator does not know this producer any more, so that it has to ask anew.
    AbortUnknown,
    /// The producer cannot go on.
    GiveUp,
}

pub(super) fn verdict(error: ErrorCode) -> Verdict {
    match error {
        ErrorCode::None => Verdict::Done,
        ErrorCode::UnknownProducerId | ErrorCode::InvalidProducerIdMapping => Verdict::AbortUnknown,
        // Who commits offsets is not, or no more, who the group thinks it is; or may not do what it wants.
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
        | ErrorCode::OffsetMetadataTooLarge => Verdict::Abort,
        error if error.is_retriable() => Verdict::Again,
        _ => Verdict::GiveUp,
    }
}

impl Control {
    pub(super) fn new(backoff: Backoff) -> Self {
        Self {
            under_way: None,
            retry_at_ms: None,
            backoff,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_none()
    }
}

impl Sender {
    /// The next request that is no `Produce`.
    pub fn poll_control_request(&mut self, now_ms: i64) -> Option<ControlCall> {
        self.note_time(now_ms);
        self.advance();
        let is_early = self.control.retry_at_ms.is_some_and(|retry_at| retry_at > now_ms);
        if self.fatal.is_some() || !self.control.is_idle() || is_early {
            return None;
        }
        let wish = match self.identity.wanted {
            Some(init) => self.init_wish(init),
            None => self.transaction_wish()?,
        };
        self.control.retry_at_ms = None;
        self.note_asked(&wish);
        let call = CallId(self.next_id());
        self.control.under_way = Some(Asked {
            call,
            target: wish.target.clone(),
            what: wish.what,
        });
        Some(ControlCall {
            id: call,
            target: wish.target,
            request: wish.request,
            timeout_ms: self.config.request_timeout_ms,
            version_min: wish.versions.0,
            version_max: wish.versions.1,
        })
    }

    pub fn handle_control_response(&mut self, now_ms: i64, call: CallId, answer: Result<ControlResponse, CallFailure>) {
        self.note_time(now_ms);
        let Some(asked) = self.control.under_way.take_if(|asked| asked.call == call) else {
            return;
        };
        match answer {
            Ok(response) => self.answered(now_ms, &asked, response),
            Err(CallFailure::Unsupported { api }) => {
                self.give_up(TransactionError::Fatal(TransactionCause::Unsupported { api }));
            }
            Err(failure) => {
                match failure {
                    CallFailure::NotSent | CallFailure::CoordinatorUnknown => self.note_unsent(&asked.what),
                    _ => self.note_unanswered(&asked.what),
                }
                if failure != CallFailure::CoordinatorUnknown {
                    self.coordinator_moved(&asked.target);
                }
                self.ask_again(now_ms, None);
            }
        }
        self.advance();
    }

    /// The coordinator that a call is for could not be asked for: the broker has refused to say who it is.
    pub fn handle_lookup_refused(&mut self, now_ms: i64, call: CallId, error: ErrorCode) {
        self.note_time(now_ms);
        let Some(asked) = self.control.under_way.take_if(|asked| asked.call == call) else {
            return;
        };
        self.note_unsent(&asked.what);
        let cause = TransactionCause::Lookup(error);
        match verdict(error) {
            Verdict::Done | Verdict::Again => self.ask_again(now_ms, Some(error)),
            Verdict::Abort if asked.what == What::CommitOffsets => self.abortable(cause),
            _ if asked.what == What::Init => self.init_refused(cause),
            _ => self.give_up(TransactionError::Fatal(cause)),
        }
        self.advance();
    }

    fn answered(&mut self, now_ms: i64, asked: &Asked, response: ControlResponse) {
        match (&asked.what, response) {
            (What::Init, ControlResponse::InitProducerId(response)) => self.init_answered(now_ms, &response),
            (What::AddPartitions(slots), ControlResponse::AddPartitionsToTxn(response)) => {
                self.partitions_answered(now_ms, slots, &response);
            }
            (What::AddOffsets, ControlResponse::AddOffsetsToTxn(response)) => {
                self.group_answered(now_ms, &response);
            }
            (What::CommitOffsets, ControlResponse::TxnOffsetCommit(response)) => {
                self.offsets_answered(now_ms, &response);
            }
            (What::End, ControlResponse::EndTxn(response)) => self.end_answered(now_ms, &response),
            // An answer to something else is none.
            _ => {
                self.note_unanswered(&asked.what);
                self.ask_again(now_ms, None);
            }
        }
    }

    /// The same goes again after a while.
    pub(super) fn ask_again(&mut self, now_ms: i64, error: Option<ErrorCode>) {
        let mut wait_ms = self.control.backoff.next_ms(&mut self.random);
        if error == Some(ErrorCode::ConcurrentTransactions) {
            wait_ms = wait_ms.min(CONCURRENT_BACKOFF_MS);
        }
        self.control.retry_at_ms = Some(now_ms.saturating_add(wait_ms));
    }

    /// An answer that can be worked with.
    pub(super) fn ask_on(&mut self) {
        self.control.backoff.reset();
    }

    pub(super) fn coordinator_moved(&mut self, target: &Target) {
        if *target != Target::AnyBroker {
            self.tell_once(SenderEvent::CoordinatorMoved(target.clone()));
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

    fn init_wish(&self, init: Init) -> Wish {
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
        Wish {
            what: What::Init,
            target: match transaction {
                Some(_) => Target::TransactionCoordinator,
                None => Target::AnyBroker,
            },
            request: ControlRequest::InitProducerId(request),
            // Older ones cannot say who asks.
            versions: (if known == none { 0 } else { 3 }, None),
        }
    }

    /// Nothing is sent any more. What is under way is waited for.
    pub(super) fn give_up(&mut self, error: TransactionError) {
        if self.fatal.is_some() {
            return;
        }
        self.fatal = Some(error.clone());
        self.end_operations(&error);
        self.drop_waiting(&BatchCause::Stopped(Box::new(error)));
    }
}
