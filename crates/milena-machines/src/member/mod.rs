//! A group member, on the client's side: [`Member`] joins, sends heartbeats, receives assignments, and leaves;
//! [`OffsetCalls`] commits and fetches offsets.
//!
//! `classic` is the protocol in which a member assigns, `consumer` the one in which the broker does (KIP-848). Both
//! have the same events, so the driver does not know which one runs. It has four duties:
//!
//! 1. pass on events: calls of the application, responses ([`Member::handle_response`]), metadata, time;
//! 2. after each of them: send the requests of [`Member::poll_request`] until there is none, and call
//!    [`Member::handle_timeout`] at the time that [`Member::poll_timeout`] returns;
//! 3. inside the application's own calls (poll, unsubscribe, close): take [`Member::poll_event`], carry it out, and
//!    call [`Member::handle_event_done`], until there is none;
//! 4. check [`Member::take_coordinator_moved`] and [`Member::metadata_needed`], and look up the coordinator or the
//!    metadata.
//!
//! Heartbeats go on while the application handles an event.

mod call;
mod classic;
mod common;
mod config;
mod consumer;
mod event;
mod filter;
mod metadata;
mod offsets;

use std::{collections::BTreeSet, fmt, sync::Arc};

use bytestring::ByteString;
use milena_wire::errors::ErrorCode;

pub use call::{CallFailure, CallId, ForVersion, MemberCall, MemberRequest, MemberResponse};
pub use config::{GroupProtocol, MemberConfig, MemberConfigError};
pub use event::{MemberError, MemberEvent};
pub use filter::TopicFilter;
pub use metadata::{MemberMetadata, MetadataNeed};
pub use offsets::{
    CallCause, CommitId, CommitMode, FetchId, OffsetAndMetadata, OffsetCall, OffsetCalls, OffsetConfig, OffsetError,
    OffsetEvent, OffsetRequest, OffsetResponse,
};
pub(crate) use offsets::{code, moves_coordinator};

use crate::TopicPartition;

use classic::Classic;
use common::{Common, PendingEvent};
use consumer::ConsumerProtocol;

/// The subscription of the application.
#[derive(Debug, Clone)]
pub enum Subscription {
    Topics(BTreeSet<ByteString>),
    /// Topics that a filter matches, as far as the client knows them. If the group's leader knows of more matching
    /// topics, they become part of the subscription.
    Matching {
        topics: BTreeSet<ByteString>,
        filter: TopicFilter,
    },
    /// A pattern that the broker matches; for [`GroupProtocol::Consumer`] only.
    BrokerPattern(ByteString),
}

/// The way to leave a group (KIP-1092).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leave {
    /// A dynamic member leaves; a static one stays, and is expected back.
    #[default]
    Default,
    /// Leaves for good, also as a static member.
    Leave,
    /// Stays in the group until the session ends.
    Remain,
}

/// The identity of a member, as transactions and commits name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMetadata {
    pub group_id: ByteString,
    /// The generation of the classic protocol or the member epoch of the consumer protocol; -1 for none.
    pub generation: i32,
    /// Empty for none.
    pub member_id: ByteString,
    pub instance_id: Option<ByteString>,
}

/// The membership in whose name offsets can be committed now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    /// Without a subscription: partitions are assigned manually, and the group only stores offsets.
    Standalone,
    /// In the group. `is_epoch` tells the consumer protocol from the classic one.
    Member { identity: GroupMetadata, is_epoch: bool },
    /// In the middle of a rebalance: poll, then try again.
    Rebalancing,
    /// Not in the group, or no longer.
    NotMember,
}

/// The client's side of both group protocols.
#[derive(Debug)]
pub struct Member {
    common: Common,
    protocol: Box<dyn Protocol>,
}

impl Member {
    /// The member id is made from the seed, which must therefore differ in each process.
    pub fn new(config: MemberConfig, seed: u64) -> Result<Self, MemberConfigError> {
        let (mut common, protocol) = Common::new(config, seed);
        let protocol: Box<dyn Protocol> = match protocol {
            GroupProtocol::Classic {
                session_timeout_ms,
                heartbeat_interval_ms,
                assignors,
            } => Box::new(Classic::new(session_timeout_ms, heartbeat_interval_ms, assignors)?),
            GroupProtocol::Consumer { remote_assignor } => {
                Box::new(ConsumerProtocol::new(common.random.uuid().into(), remote_assignor))
            }
        };
        Ok(Self { common, protocol })
    }

    /// Replaces the subscription. Nothing is sent before the application polls. An empty list of topics is a
    /// subscription too (a pattern without a match so far); [`Self::leave`] ends it.
    pub fn subscribe(&mut self, now_ms: i64, subscription: Subscription) {
        self.common.subscription = Some(subscription);
        self.protocol.subscription_changed(&mut self.common, now_ms);
    }

    /// Ends the subscription: after the remaining events of [`Self::poll_event`] the member leaves as `how` says. For
    /// unsubscribe and close; [`Self::is_gone`] returns whether it is over.
    pub fn leave(&mut self, now_ms: i64, how: Leave) {
        self.common.subscription = None;
        self.common.leaving = Some(how);
        self.common.errors.clear();
        self.finish_leaving(now_ms);
    }

    /// Whether there is no subscription, no owned partition, and no request to leave in flight.
    pub fn is_gone(&self) -> bool {
        let common = &self.common;
        common.subscription.is_none() && common.leaving.is_none() && common.has_left()
    }

    /// Requests a rebalance, unless one is pending. No effect in the consumer protocol, where the broker decides.
    pub fn enforce_rebalance(&mut self, reason: &str) {
        if self.common.subscription.is_some() {
            self.protocol.enforce_rebalance(reason);
        }
    }

    /// Handles a poll of the application. While it waits inside poll, call this before [`Self::handle_timeout`].
    pub fn handle_poll(&mut self, now_ms: i64) {
        self.common.polled_at = Some(now_ms);
    }

    /// Handles new metadata: of all subscribed topics at least, and of those of [`Self::group_topics`].
    pub fn handle_metadata(&mut self, now_ms: i64, metadata: Arc<MemberMetadata>) {
        self.common.metadata = metadata;
        self.protocol.metadata_changed(&mut self.common, now_ms);
    }

    pub fn handle_response(&mut self, now_ms: i64, call: CallId, response: Result<MemberResponse, CallFailure>) {
        if self.common.take_leave_call(call) {
            return;
        }
        if matches!(
            response,
            Err(CallFailure::NotSent | CallFailure::Disconnected | CallFailure::TimedOut)
        ) {
            self.common.coordinator_moved = true;
        }
        self.protocol.handle_response(&mut self.common, now_ms, call, response);
    }

    /// Handles a commit that was refused because of the member's identity: [`OffsetEvent::MemberRefused`].
    pub fn handle_commit_refused(&mut self, now_ms: i64, sent: &GroupMetadata, error: ErrorCode) {
        self.protocol.handle_refused(&mut self.common, now_ms, sent, error);
    }

    pub fn handle_timeout(&mut self, now_ms: i64) {
        if self.common.poll_deadline().is_some_and(|deadline| deadline <= now_ms) {
            self.common.poll_expired = self.common.polled_at.take();
            let leave_request = self.protocol.leave(&mut self.common, LeaveCause::PollExpired);
            self.common.leave_requests.extend(leave_request);
        }
        self.protocol.handle_timeout(&mut self.common, now_ms);
    }

    /// The time of the last poll, once each time the member has left because of `max.poll.interval.ms`.
    pub fn take_poll_expired(&mut self) -> Option<i64> {
        self.common.poll_expired.take()
    }

    /// The next request to send.
    pub fn poll_request(&mut self, now_ms: i64) -> Option<MemberCall> {
        if let Some(request) = self.common.leave_requests.pop_front() {
            let call = self.common.call(request, self.common.request_timeout_ms);
            self.common.leave_calls.insert(call.id);
            return Some(call);
        }
        if self.common.failure.is_some() {
            return None;
        }
        self.protocol.poll_request(&mut self.common, now_ms)
    }

    /// The time of the next [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<i64> {
        if self.common.failure.is_some() {
            return None;
        }
        let deadlines = [self.common.poll_deadline(), self.protocol.poll_timeout(&self.common)];
        deadlines.into_iter().flatten().min()
    }

    /// The next event for the application. There is no other before [`Self::handle_event_done`].
    ///
    /// - `Revoked`: stop fetching these, commit, call the listener;
    /// - `Lost`: drop these, call the listener;
    /// - `Assigned`: take `all` as the assignment, call the listener, and only then fetch the added ones;
    /// - `Error` and `Fatal`: the application's call fails with it.
    pub fn poll_event(&mut self) -> Option<MemberEvent> {
        if self.common.pending_event.is_some() {
            return None;
        }
        let event = self.next_event()?;
        self.common.pending_event = Some(PendingEvent::from(&event));
        Some(event)
    }

    fn next_event(&mut self) -> Option<MemberEvent> {
        let common = &mut self.common;
        if common.failure.is_some() {
            return common.next_of_failure();
        }
        if common.leaving.is_some() {
            if common.owned.is_empty() {
                return None;
            }
            let owned = common.owned_list();
            return Some(match self.protocol.membership(common) {
                Membership::Member { .. } => MemberEvent::Revoked(owned),
                _ => MemberEvent::Lost(owned),
            });
        }
        if let Some(error) = common.errors.pop_front() {
            return Some(MemberEvent::Error(error));
        }
        self.protocol.next_event(common)
    }

    /// Handles that the application is done with the event of [`Self::poll_event`].
    pub fn handle_event_done(&mut self, now_ms: i64) {
        let Some(event) = self.common.pending_event.take() else {
            return; // A consumer that is dropped ends the event that may be pending.
        };
        match &event {
            PendingEvent::Revoked(partitions) => self.common.owned.retain(|owned| !partitions.contains(owned)),
            PendingEvent::Lost => self.common.owned.clear(),
            PendingEvent::Assigned | PendingEvent::Error => {}
        }
        self.protocol.event_done(&mut self.common, now_ms, &event);
        self.finish_leaving(now_ms);
    }

    fn finish_leaving(&mut self, now_ms: i64) {
        let common = &mut self.common;
        let Some(how) = common.leaving else {
            return; // A member that stays.
        };
        if !common.owned.is_empty() || common.pending_event.is_some() {
            return;
        }
        let was_fatal = common.failure.take().is_some();
        common.leaving = None;
        let leave_request = self.protocol.leave(common, LeaveCause::Requested(how));
        common.leave_requests.extend(leave_request.filter(|_| !was_fatal));
        if common.subscription.is_some() {
            self.protocol.subscription_changed(common, now_ms);
        } else {
            common.polled_at = None;
        }
    }

    /// The identity of the member; generation -1 and no member id outside of a group.
    pub fn identity(&self) -> GroupMetadata {
        match self.protocol.membership(&self.common) {
            Membership::Member { identity, .. } => identity,
            _ => self.common.identity(-1, ByteString::new()),
        }
    }

    /// The membership in whose name offsets can be committed now.
    pub fn membership(&self) -> Membership {
        if self.common.subscription.is_none() && self.common.leaving.is_none() {
            return Membership::Standalone;
        }
        self.protocol.membership(&self.common)
    }

    /// The partitions that the application owns, as far as it was event.
    pub fn owned(&self) -> &BTreeSet<TopicPartition> {
        &self.common.owned
    }

    /// The error that ended this member, if any.
    pub fn failure(&self) -> Option<&MemberError> {
        self.common.failure.as_ref()
    }

    /// Returns once that the coordinator must be looked up again.
    pub fn take_coordinator_moved(&mut self) -> bool {
        std::mem::take(&mut self.common.coordinator_moved)
    }

    /// The metadata that the member waits for.
    pub fn metadata_needed(&self) -> Option<MetadataNeed> {
        self.protocol.metadata_needed(&self.common)
    }

    /// The topics of the whole group, which its leader must watch: part of every metadata refresh.
    pub fn group_topics(&self) -> Option<&BTreeSet<ByteString>> {
        self.protocol.group_topics()
    }
}

/// The reason for leaving the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaveCause {
    Requested(Leave),
    /// The application has not polled within `max.poll.interval.ms`.
    PollExpired,
}

/// The differences between the two protocols.
trait Protocol: fmt::Debug + Send {
    fn subscription_changed(&mut self, common: &mut Common, now_ms: i64);

    fn enforce_rebalance(&mut self, reason: &str);

    fn metadata_changed(&mut self, common: &mut Common, now_ms: i64);

    fn next_event(&mut self, common: &mut Common) -> Option<MemberEvent>;

    fn event_done(&mut self, common: &mut Common, now_ms: i64, event: &PendingEvent);

    fn poll_request(&mut self, common: &mut Common, now_ms: i64) -> Option<MemberCall>;

    fn handle_response(
        &mut self,
        common: &mut Common,
        now_ms: i64,
        call: CallId,
        response: Result<MemberResponse, CallFailure>,
    );

    fn handle_refused(&mut self, common: &mut Common, now_ms: i64, sent: &GroupMetadata, error: ErrorCode);

    fn handle_timeout(&mut self, common: &mut Common, now_ms: i64);

    fn poll_timeout(&self, common: &Common) -> Option<i64>;

    /// Resets the membership, and returns the request to leave, if one must be sent.
    fn leave(&mut self, common: &mut Common, why: LeaveCause) -> Option<MemberRequest>;

    fn membership(&self, common: &Common) -> Membership;

    fn metadata_needed(&self, common: &Common) -> Option<MetadataNeed>;

    fn group_topics(&self) -> Option<&BTreeSet<ByteString>>;
}
