//! The protocol in which the broker assigns (KIP-848).
//!
//! Heartbeats carry everything (`heartbeat`): what we subscribe to and own goes there, epoch and target come back. While
//! the application polls, it is led to the target (`reconcile`), and the broker hears when it is there.

mod heartbeat;
mod leave;
mod reconcile;

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;
use milena_wire::{Uuid, errors::ErrorCode};

use super::{
    CallFailure, CallId, GroupMetadata, MemberCall, MemberError, MemberEvent, MemberRequest, MemberResponse,
    Membership, MetadataNeed, Protocol, Subscription, Why,
    common::{Common, Told},
};

/// The epoch of a member that wants to join.
const JOINING: i32 = 0;

/// Partitions by the id of their topic.
type PartitionsById = BTreeMap<Uuid, BTreeSet<i32>>;

#[derive(Debug)]
pub(super) struct ConsumerProtocol {
    /// For as long as the process lives.
    member_id: ByteString,
    remote_assignor: Option<ByteString>,
    /// As the broker last told; [`JOINING`] while we are in no group.
    epoch: i32,
    /// What we are to own, as the broker last told in this membership.
    target: Option<PartitionsById>,
    /// What we own; `None` until the application has first heard of something in this membership.
    current: Option<PartitionsById>,
    /// The application lets go, so it will hear what it has then, even if that is nothing new.
    is_moving: bool,
    /// What we will own when the application has heard of it.
    arriving: Option<PartitionsById>,
    /// The broker knows, or is about to hear, that we have come as near to the target as we can.
    is_reached: bool,
    /// Names of topics that we own or are to own. They are known even if metadata forgets them.
    names: BTreeMap<Uuid, ByteString>,
    /// The broker is to hear at once that we have got there.
    must_acknowledge: bool,
    /// What the broker knows of us; `None` if that is not certain.
    told: Option<ToldBroker>,
    /// The heartbeat that is under way. There is never a second one.
    call: Option<CallId>,
    /// It tells what we own.
    call_tells_owned: bool,
    heartbeat_interval_ms: i64,
    heartbeat_at: i64,
    /// Nothing is sent before this time.
    retry_at: i64,
}

/// Fields that are only sent when they have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ToldBroker {
    topics: BTreeSet<ByteString>,
    pattern: Option<ByteString>,
    owned: PartitionsById,
}

impl ConsumerProtocol {
    pub(super) fn new(member_id: ByteString, remote_assignor: Option<ByteString>) -> Self {
        Self {
            member_id,
            remote_assignor,
            epoch: JOINING,
            target: None,
            current: None,
            is_moving: false,
            arriving: None,
            is_reached: false,
            names: BTreeMap::new(),
            must_acknowledge: false,
            told: None,
            call: None,
            call_tells_owned: false,
            heartbeat_interval_ms: 0,
            heartbeat_at: i64::MIN,
            retry_at: i64::MIN,
        }
    }

    /// Out of the group. What the application owns is lost; when it knows, we join again.
    fn reset(&mut self) {
        self.epoch = JOINING;
        self.target = None;
        self.current = None;
        self.is_moving = false;
        self.arriving = None;
        self.is_reached = false;
        self.must_acknowledge = false;
        self.told = None;
        self.call = None;
        self.retry_at = i64::MIN;
    }

    fn is_in_group(&self) -> bool {
        self.epoch > JOINING
    }
}

impl Protocol for ConsumerProtocol {
    /// The next heartbeat carries it, and is due at once.
    fn subscription_changed(&mut self, _common: &mut Common, now_ms: i64) {
        self.heartbeat_at = self.heartbeat_at.min(now_ms);
    }

    /// The broker decides when to rebalance.
    fn enforce_rebalance(&mut self, _reason: &str) {}

    fn metadata_changed(&mut self, common: &mut Common, _now_ms: i64) {
        self.learn_names(common);
    }

    fn next_event(&mut self, common: &mut Common) -> Option<MemberEvent> {
        if !self.is_in_group() && !common.owned.is_empty() {
            return Some(MemberEvent::Lost(common.owned_list()));
        }
        self.reconcile(common)
    }

    fn event_done(&mut self, _common: &mut Common, _now_ms: i64, told: &Told) {
        self.reconciled(told);
    }

    fn poll_request(&mut self, common: &mut Common, now_ms: i64) -> Option<MemberCall> {
        self.next_heartbeat(common, now_ms)
    }

    fn handle_response(
        &mut self,
        common: &mut Common,
        now_ms: i64,
        call: CallId,
        answer: Result<MemberResponse, CallFailure>,
    ) {
        if self.call.take_if(|sent| *sent == call).is_none() {
            return;
        }
        match answer {
            Ok(MemberResponse::ConsumerHeartbeat(response)) => self.heartbeat_answered(common, now_ms, &response),
            Ok(_) => self.heartbeat_failed(common, now_ms, CallFailure::Disconnected),
            Err(failure) => self.heartbeat_failed(common, now_ms, failure),
        }
    }

    /// The next heartbeat tells whether we are still in the group.
    fn handle_refused(&mut self, _common: &mut Common, _now_ms: i64, _sent: &GroupMetadata, _error: ErrorCode) {}

    fn handle_timeout(&mut self, _common: &mut Common, _now_ms: i64) {}

    fn poll_timeout(&self, common: &Common) -> Option<i64> {
        let due = self.due(common)?;
        Some(due).filter(|due| *due != i64::MIN)
    }

    fn leave(&mut self, common: &mut Common, why: Why) -> Option<MemberRequest> {
        self.farewell(common, why)
    }

    fn membership(&self, common: &Common) -> Membership {
        if !self.is_in_group() {
            return Membership::NotMember;
        }
        Membership::Member {
            identity: common.identity(self.epoch, self.member_id.clone()),
            is_epoch: true,
        }
    }

    fn metadata_needed(&self, _common: &Common) -> Option<MetadataNeed> {
        let target = self.target.as_ref()?;
        let unknown = target.keys().filter(|id| !self.names.contains_key(*id));
        let topic_ids: BTreeSet<Uuid> = unknown.copied().collect();
        let topics = BTreeSet::new();
        (!topic_ids.is_empty()).then_some(MetadataNeed { topics, topic_ids })
    }

    fn group_topics(&self) -> Option<&BTreeSet<ByteString>> {
        None
    }
}

/// What is subscribed to, as the broker hears it.
fn subscribed(common: &Common) -> (BTreeSet<ByteString>, Option<ByteString>) {
    match &common.subscription {
        Some(Subscription::Topics(topics) | Subscription::Matching { topics, .. }) => (topics.clone(), None),
        Some(Subscription::BrokerPattern(pattern)) => (BTreeSet::new(), Some(pattern.clone())),
        None => (BTreeSet::new(), None),
    }
}
