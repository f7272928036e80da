//! A member of a group, seen from the client: [`Member`] joins, says that it lives, learns what it reads, and leaves;
//! [`OffsetCalls`] commits and fetches offsets.
//!
//! `classic` is the protocol in which a member assigns, `consumer` the one in which the broker does (KIP-848). Both give the
//! same events, so the driver does not know which one runs. It has four things to do:
//!
//! 1. tell what happened: the application's wishes, answers ([`Member::handle_response`]), metadata, time;
//! 2. after that, always: send what [`Member::poll_request`] gives until it gives nothing, and come back with
//!    [`Member::handle_timeout`] when [`Member::poll_timeout`] says;
//! 3. inside the application's own calls (poll, unsubscribe, close): take [`Member::poll_event`], do what it says, and
//!    answer [`Member::handle_event_done`], until there is none;
//! 4. look at [`Member::take_coordinator_moved`] and [`Member::metadata_needed`], and find out what is asked for.
//!
//! Heartbeats go on while the application is busy with an event.

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
use common::{Common, Told};
use consumer::ConsumerProtocol;

/// What the application wants to read.
#[derive(Debug, Clone)]
pub enum Subscription {
    Topics(BTreeSet<ByteString>),
    /// Topics that a filter chooses, as far as the client knows them. If the group's leader knows of more topics that it
    /// chooses, they become part of the subscription.
    Matching {
        topics: BTreeSet<ByteString>,
        filter: TopicFilter,
    },
    /// A pattern that the broker looks after; for [`GroupProtocol::Consumer`] only.
    BrokerPattern(ByteString),
}

/// How to leave (KIP-1092).
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

/// Who we are in the group, as transactions and commits name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMetadata {
    pub group_id: ByteString,
    /// The generation of the classic protocol or the member's epoch of the consumer protocol; -1 for none.
    pub generation: i32,
    /// Empty for none.
    pub member_id: ByteString,
    pub instance_id: Option<ByteString>,
}

/// In whose name offsets can be committed now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    /// Without a subscription: partitions were assigned by hand, and the group only keeps offsets.
    Standalone,
    /// As a member. `is_epoch` tells the consumer protocol from the classic one.
    Member { identity: GroupMetadata, is_epoch: bool },
    /// In the middle of a rebalance: poll, then try again.
    Rebalancing,
    /// Not in the group, or not any more.
    NotMember,
}

/// The client's side of both group protocols.
#[derive(Debug)]
pub struct Member {
    common: Common,
    protocol: Box<dyn Protocol>,
}

impl Member {
    /// The seed makes the member id, so it must be different in each process.
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

    /// Replaces the subscription. Nothing is sent before the application polls. An empty list of topics is a subscription
    /// too (a pattern that matches nothing yet); to give up, [`Self::leave`].
    pub fn subscribe(&mut self, now_ms: i64, subscription: Subscription) {
        self.common.subscription = Some(subscription);
        self.protocol.subscription_changed(&mut self.common, now_ms);
    }

    /// Gives up the subscription: [`Self::poll_event`] has what is still to be told, then the group hears of it as `how`
    /// says. For unsubscribe and close; [`Self::is_gone`] tells when it is over.
    pub fn leave(&mut self, now_ms: i64, how: Leave) {
        self.common.subscription = None;
        self.common.leaving = Some(how);
        self.common.errors.clear();
        self.finish_leaving(now_ms);
    }

    /// Nothing is subscribed, nothing is owned, and no request to leave is under way.
    pub fn is_gone(&self) -> bool {
        let common = &self.common;
        common.subscription.is_none() && common.leaving.is_none() && common.farewells_are_over()
    }

    /// Asks for a rebalance, unless one is pending. The broker's own affair in the consumer protocol: there, nothing happens.
    pub fn enforce_rebalance(&mut self, reason: &str) {
        if self.common.subscription.is_some() {
            self.protocol.enforce_rebalance(reason);
        }
    }

    /// The application polls, so it lives. While it waits inside poll, call this before [`Self::handle_timeout`].
    pub fn handle_poll(&mut self, now_ms: i64) {
        self.common.polled_at = Some(now_ms);
    }

    /// The cluster as it is now: at least the topics that are subscribed to, and those of [`Self::group_topics`].
    pub fn handle_metadata(&mut self, now_ms: i64, metadata: Arc<MemberMetadata>) {
        self.common.metadata = metadata;
        self.protocol.metadata_changed(&mut self.common, now_ms);
    }

    pub fn handle_response(&mut self, now_ms: i64, call: CallId, answer: Result<MemberResponse, CallFailure>) {
        if self.common.is_farewell_answered(call) {
            return;
        }
        if matches!(
            answer,
            Err(CallFailure::NotSent | CallFailure::Disconnected | CallFailure::TimedOut)
        ) {
            self.common.coordinator_moved = true;
        }
        self.protocol.handle_response(&mut self.common, now_ms, call, answer);
    }

    /// A commit was refused because of who we are: [`OffsetEvent::MemberRefused`].
    pub fn handle_commit_refused(&mut self, now_ms: i64, sent: &GroupMetadata, error: ErrorCode) {
        self.protocol.handle_refused(&mut self.common, now_ms, sent, error);
    }

    pub fn handle_timeout(&mut self, now_ms: i64) {
        if self.common.poll_deadline().is_some_and(|deadline| deadline <= now_ms) {
            self.common.poll_expired = self.common.polled_at.take();
            let farewell = self.protocol.leave(&mut self.common, Why::PollExpired);
            self.common.farewells.extend(farewell);
        }
        self.protocol.handle_timeout(&mut self.common, now_ms);
    }

    /// The time of the last poll, once each time that `max.poll.interval.ms` has passed since it and the member has left.
    pub fn take_poll_expired(&mut self) -> Option<i64> {
        self.common.poll_expired.take()
    }

    /// The next request to send.
    pub fn poll_request(&mut self, now_ms: i64) -> Option<MemberCall> {
        if let Some(request) = self.common.farewells.pop_front() {
            let call = self.common.call(request, self.common.request_timeout_ms);
            self.common.farewell_calls.insert(call.id);
            return Some(call);
        }
        if self.common.failure.is_some() {
            return None;
        }
        self.protocol.poll_request(&mut self.common, now_ms)
    }

    /// When to call [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<i64> {
        if self.common.failure.is_some() {
            return None;
        }
        let deadlines = [self.common.poll_deadline(), self.protocol.poll_timeout(&self.common)];
        deadlines.into_iter().flatten().min()
    }

    /// What the application must hear next. There is no other before [`Self::handle_event_done`].
    ///
    /// - `Revoked`: stop fetching these, commit what is to be committed, tell the application;
    /// - `Lost`: drop these, tell the application;
    /// - `Assigned`: take `all` as the assignment, tell the application, and only then fetch what was added;
    /// - `Error` and `Fatal`: the application's call fails with it.
    pub fn poll_event(&mut self) -> Option<MemberEvent> {
        if self.common.told.is_some() {
            return None;
        }
        let event = self.next_event()?;
        self.common.told = Some(Told::from(&event));
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

    /// The application has heard of the event that [`Self::poll_event`] gave.
    pub fn handle_event_done(&mut self, now_ms: i64) {
        let Some(told) = self.common.told.take() else { return };
        match &told {
            Told::Revoked(partitions) => self.common.owned.retain(|owned| !partitions.contains(owned)),
            Told::Lost => self.common.owned.clear(),
            Told::Assigned | Told::Error => {}
        }
        self.protocol.event_done(&mut self.common, now_ms, &told);
        self.finish_leaving(now_ms);
    }

    fn finish_leaving(&mut self, now_ms: i64) {
        let common = &mut self.common;
        let Some(how) = common.leaving else { return };
        if !common.owned.is_empty() || common.told.is_some() {
            return;
        }
        let was_fatal = common.failure.take().is_some();
        common.leaving = None;
        let farewell = self.protocol.leave(common, Why::Asked(how));
        common.farewells.extend(farewell.filter(|_| !was_fatal));
        if common.subscription.is_some() {
            self.protocol.subscription_changed(common, now_ms);
        } else {
            common.polled_at = None;
        }
    }

    /// Who we are; generation -1 and no member id while we are in no group.
    pub fn identity(&self) -> GroupMetadata {
        match self.protocol.membership(&self.common) {
            Membership::Member { identity, .. } => identity,
            _ => self.common.identity(-1, ByteString::new()),
        }
    }

    /// In whose name offsets can be committed now.
    pub fn membership(&self) -> Membership {
        if self.common.subscription.is_none() && self.common.leaving.is_none() {
            return Membership::Standalone;
        }
        self.protocol.membership(&self.common)
    }

    /// What the application has been told that it owns.
    pub fn owned(&self) -> &BTreeSet<TopicPartition> {
        &self.common.owned
    }

    /// What ended this member, if anything did.
    pub fn failure(&self) -> Option<&MemberError> {
        self.common.failure.as_ref()
    }

    /// Whether the coordinator must be looked for anew since this was last asked.
    pub fn take_coordinator_moved(&mut self) -> bool {
        std::mem::take(&mut self.common.coordinator_moved)
    }

    /// What the last metadata lacked and the member waits for.
    pub fn metadata_needed(&self) -> Option<MetadataNeed> {
        self.protocol.metadata_needed(&self.common)
    }

    /// Topics of the whole group that this member must watch as its leader: part of every refresh of metadata.
    pub fn group_topics(&self) -> Option<&BTreeSet<ByteString>> {
        self.protocol.group_topics()
    }
}

/// Why a member gives up its membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Asked(Leave),
    /// The application has not polled for too long.
    PollExpired,
}

/// What the two protocols do differently.
trait Protocol: fmt::Debug + Send {
    fn subscription_changed(&mut self, common: &mut Common, now_ms: i64);

    fn enforce_rebalance(&mut self, reason: &str);

    fn metadata_changed(&mut self, common: &mut Common, now_ms: i64);

    fn next_event(&mut self, common: &mut Common) -> Option<MemberEvent>;

    fn event_done(&mut self, common: &mut Common, now_ms: i64, told: &Told);

    fn poll_request(&mut self, common: &mut Common, now_ms: i64) -> Option<MemberCall>;

    fn handle_response(
        &mut self,
        common: &mut Common,
        now_ms: i64,
        call: CallId,
        answer: Result<MemberResponse, CallFailure>,
    );

    fn handle_refused(&mut self, common: &mut Common, now_ms: i64, sent: &GroupMetadata, error: ErrorCode);

    fn handle_timeout(&mut self, common: &mut Common, now_ms: i64);

    fn poll_timeout(&self, common: &Common) -> Option<i64>;

    /// Forgets the membership, and gives what the group is to hear of it.
    fn leave(&mut self, common: &mut Common, why: Why) -> Option<MemberRequest>;

    fn membership(&self, common: &Common) -> Membership;

    fn metadata_needed(&self, common: &Common) -> Option<MetadataNeed>;

    fn group_topics(&self) -> Option<&BTreeSet<ByteString>>;
}
