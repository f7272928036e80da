//! State that a member of either protocol has.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytestring::ByteString;

use super::{
    CallId, GroupMetadata, GroupProtocol, Leave, MemberCall, MemberConfig, MemberError, MemberEvent, MemberMetadata,
    MemberRequest, Subscription,
};
use crate::{Random, TopicPartition, backoff::Backoff};

#[derive(Debug)]
pub(super) struct Common {
    pub(super) group_id: ByteString,
    pub(super) instance_id: Option<ByteString>,
    pub(super) rack: Option<ByteString>,
    pub(super) rebalance_timeout_ms: i32,
    pub(super) request_timeout_ms: i64,
    pub(super) random: Random,
    pub(super) backoff: Backoff,
    pub(super) metadata: Arc<MemberMetadata>,
    pub(super) subscription: Option<Subscription>,
    /// The partitions that the application owns, as far as it was told. Those being revoked are still among them.
    pub(super) owned: BTreeSet<TopicPartition>,
    /// The time of the last poll; `None` if there was none since the subscription, or not within the limit.
    pub(super) polled_at: Option<i64>,
    /// The time of the last poll before the poll interval expired, until it is taken.
    pub(super) poll_expired: Option<i64>,
    /// The event that the application handles now.
    pub(super) pending_event: Option<PendingEvent>,
    /// Errors that the application has not seen yet.
    pub(super) errors: VecDeque<MemberError>,
    /// The error that ended this member, and whether the application has seen it.
    pub(super) failure: Option<MemberError>,
    pub(super) failure_reported: bool,
    pub(super) leaving: Option<Leave>,
    /// Requests to leave: to be sent, and in flight. They are sent once.
    pub(super) leave_requests: VecDeque<MemberRequest>,
    pub(super) leave_calls: BTreeSet<CallId>,
    pub(super) coordinator_moved: bool,
    last_call: u64,
}

/// An event that the application handles now.
#[derive(Debug)]
pub(super) enum PendingEvent {
    Revoked(BTreeSet<TopicPartition>),
    Lost,
    Assigned,
    Error,
}

impl From<&MemberEvent> for PendingEvent {
    fn from(event: &MemberEvent) -> Self {
        match event {
            MemberEvent::Revoked(partitions) => Self::Revoked(partitions.iter().cloned().collect()),
            MemberEvent::Lost(_) => Self::Lost,
            MemberEvent::Assigned { .. } => Self::Assigned,
            MemberEvent::Error(_) | MemberEvent::Fatal(_) => Self::Error,
        }
    }
}

impl Common {
    pub(super) fn new(config: MemberConfig, seed: u64) -> (Self, GroupProtocol) {
        let common = Self {
            group_id: config.group_id,
            instance_id: config.instance_id,
            rack: config.rack.filter(|rack| !rack.is_empty()),
            rebalance_timeout_ms: config.rebalance_timeout_ms,
            request_timeout_ms: config.request_timeout_ms,
            random: Random::new(seed),
            backoff: Backoff::new(config.retry_backoff_ms, config.retry_backoff_max_ms),
            metadata: Arc::default(),
            subscription: None,
            owned: BTreeSet::new(),
            polled_at: None,
            poll_expired: None,
            pending_event: None,
            errors: VecDeque::new(),
            failure: None,
            failure_reported: false,
            leaving: None,
            leave_requests: VecDeque::new(),
            leave_calls: BTreeSet::new(),
            coordinator_moved: false,
            last_call: 0,
        };
        (common, config.protocol)
    }

    pub(super) fn call(&mut self, request: MemberRequest, timeout_ms: i64) -> MemberCall {
        self.last_call += 1;
        MemberCall {
            id: CallId(self.last_call),
            min_version: request.min_version(),
            request,
            timeout_ms,
        }
    }

    pub(super) fn identity(&self, generation: i32, member_id: ByteString) -> GroupMetadata {
        GroupMetadata {
            group_id: self.group_id.clone(),
            generation,
            member_id,
            instance_id: self.instance_id.clone(),
        }
    }

    pub(super) fn owned_list(&self) -> Vec<TopicPartition> {
        self.owned.iter().cloned().collect()
    }

    /// Whether the application wants to be in the group, and polls.
    pub(super) fn wants_group(&self) -> bool {
        self.subscription.is_some() && self.polled_at.is_some() && self.leaving.is_none() && self.failure.is_none()
    }

    /// The end of the poll interval.
    pub(super) fn poll_deadline(&self) -> Option<i64> {
        let polled_at = self.polled_at.filter(|_| self.wants_group())?;
        Some(polled_at.saturating_add(i64::from(self.rebalance_timeout_ms)))
    }

    pub(super) fn next_backoff(&mut self) -> i64 {
        self.backoff.next_ms(&mut self.random)
    }

    /// Queues an error for the application; the same error is queued once.
    pub(super) fn report(&mut self, error: MemberError) {
        if !self.errors.contains(&error) {
            self.errors.push_back(error);
        }
    }

    /// Ends this member. A second error is ignored.
    pub(super) fn fail(&mut self, error: MemberError) {
        if self.failure.is_none() {
            self.failure = Some(error);
            self.failure_reported = false;
        }
    }

    /// First the loss of the partitions, then the failure itself.
    pub(super) fn next_of_failure(&mut self) -> Option<MemberEvent> {
        if !self.owned.is_empty() {
            return Some(MemberEvent::Lost(self.owned_list()));
        }
        if std::mem::replace(&mut self.failure_reported, true) {
            return None;
        }
        self.failure.clone().map(MemberEvent::Fatal)
    }

    pub(super) fn has_left(&self) -> bool {
        self.leave_requests.is_empty() && self.leave_calls.is_empty()
    }

    pub(super) fn take_leave_call(&mut self, call: CallId) -> bool {
        self.leave_calls.remove(&call)
    }
}
