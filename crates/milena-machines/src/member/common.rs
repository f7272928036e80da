//! What a member of either protocol has.

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
    /// What the application has been told that it owns. What is being revoked is still its own.
    pub(super) owned: BTreeSet<TopicPartition>,
    /// When the application last polled; `None` if it has not since it subscribed, or not for too long.
    pub(super) polled_at: Option<i64>,
    /// When the application last polled before it stayed away for too long, until it is taken.
    pub(super) poll_expired: Option<i64>,
    /// What the application is busy with.
    pub(super) told: Option<Told>,
    /// What it must hear of besides.
    pub(super) errors: VecDeque<MemberError>,
    /// What ended this member, and whether the application knows.
    pub(super) failure: Option<MemberError>,
    pub(super) failure_told: bool,
    pub(super) leaving: Option<Leave>,
    /// Requests to leave that are to be sent, and those under way. They are sent once.
    pub(super) farewells: VecDeque<MemberRequest>,
    pub(super) farewell_calls: BTreeSet<CallId>,
    pub(super) coordinator_moved: bool,
    last_call: u64,
}

/// An event that the application is busy with.
#[derive(Debug)]
pub(super) enum Told {
    Revoked(BTreeSet<TopicPartition>),
    Lost,
    Assigned,
    Error,
}

impl From<&MemberEvent> for Told {
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
            told: None,
            errors: VecDeque::new(),
            failure: None,
            failure_told: false,
            leaving: None,
            farewells: VecDeque::new(),
            farewell_calls: BTreeSet::new(),
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

    /// Whether the application wants to be in the group, and is there to hear of it.
    pub(super) fn wants_group(&self) -> bool {
        self.subscription.is_some() && self.polled_at.is_some() && self.leaving.is_none() && self.failure.is_none()
    }

    /// When the application will have stayed away for too long.
    pub(super) fn poll_deadline(&self) -> Option<i64> {
        let polled_at = self.polled_at.filter(|_| self.wants_group())?;
        Some(polled_at.saturating_add(i64::from(self.rebalance_timeout_ms)))
    }

    pub(super) fn next_backoff(&mut self) -> i64 {
        self.backoff.next_ms(&mut self.random)
    }

    /// The application hears of it, once however often it happens before.
    pub(super) fn tell(&mut self, error: MemberError) {
        if !self.errors.contains(&error) {
            self.errors.push_back(error);
        }
    }

    /// Ends this member. A second reason adds nothing.
    pub(super) fn fail(&mut self, error: MemberError) {
        if self.failure.is_none() {
            self.failure = Some(error);
            self.failure_told = false;
        }
    }

    /// First what is lost by it, then the failure itself.
    pub(super) fn next_of_failure(&mut self) -> Option<MemberEvent> {
        if !self.owned.is_empty() {
            return Some(MemberEvent::Lost(self.owned_list()));
        }
        if std::mem::replace(&mut self.failure_told, true) {
            return None;
        }
        self.failure.clone().map(MemberEvent::Fatal)
    }

    pub(super) fn farewells_are_over(&self) -> bool {
        self.farewells.is_empty() && self.farewell_calls.is_empty()
    }

    pub(super) fn is_farewell_answered(&mut self, call: CallId) -> bool {
        self.farewell_calls.remove(&call)
    }
}
