//! The protocol in which the broker assigns (KIP-848).
//!
//! Heartbeats carry everything (`heartbeat`): subscription and owned partitions in the request, epoch and target in the
//! response. While the application polls, it is reconciled with the target (`reconcile`), and the next heartbeat
//! acknowledges it.

mod heartbeat;
mod leave;
mod reconcile;

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;
use milena_invariant::violated;
use milena_wire::{Uuid, errors::ErrorCode};

use super::{
    CallFailure, CallId, GroupMetadata, LeaveCause, MemberCall, MemberError, MemberEvent, MemberRequest,
    MemberResponse, Membership, MetadataNeed, Protocol, Subscription,
    common::{Common, PendingEvent},
};

/// The epoch of a member that wants to join.
const JOIN_EPOCH: i32 = 0;

/// Partitions by topic id.
type PartitionsById = BTreeMap<Uuid, BTreeSet<i32>>;

#[derive(Debug)]
pub(super) struct ConsumerProtocol {
    /// The same for the lifetime of the process.
    member_id: ByteString,
    remote_assignor: Option<ByteString>,
    /// The epoch of the last response; [`JOIN_EPOCH`] outside of a group.
    epoch: i32,
    /// The target of the last response in this membership.
    target: Option<PartitionsById>,
    /// The owned partitions; `None` before the first assignment of this membership.
    current: Option<PartitionsById>,
    /// The application revokes, and gets an assignment afterwards even if nothing is new.
    is_reconciling: bool,
    /// The owned partitions after the event that the application handles now.
    pending_assignment: Option<PartitionsById>,
    /// The broker knows, or the next heartbeat tells it, that the member is as near to the target as possible.
    is_acknowledged: bool,
    /// Names of topics that are owned or in the target. They are kept even if they vanish from the metadata.
    names: BTreeMap<Uuid, ByteString>,
    /// The next heartbeat is due at once, as an acknowledgement.
    must_acknowledge: bool,
    /// The fields that the broker knows; `None` if that is uncertain.
    sent_fields: Option<SentFields>,
    /// The heartbeat in flight. There is never a second one.
    call: Option<CallId>,
    /// Whether it reports the owned partitions.
    call_reports_owned: bool,
    heartbeat_interval_ms: i64,
    heartbeat_at: i64,
    /// The end of the backoff.
    retry_at: i64,
}

/// Fields that are only sent when they have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SentFields {
    topics: BTreeSet<ByteString>,
    pattern: Option<ByteString>,
    owned: PartitionsById,
}

impl ConsumerProtocol {
    pub(super) fn new(member_id: ByteString, remote_assignor: Option<ByteString>) -> Self {
        Self {
            member_id,
            remote_assignor,
            epoch: JOIN_EPOCH,
            target: None,
            current: None,
            is_reconciling: false,
            pending_assignment: None,
            is_acknowledged: false,
            names: BTreeMap::new(),
            must_acknowledge: false,
            sent_fields: None,
            call: None,
            call_reports_owned: false,
            heartbeat_interval_ms: 0,
            heartbeat_at: i64::MIN,
            retry_at: i64::MIN,
        }
    }

    /// Handles the end of the membership. The application's partitions are lost; once it has seen that, the member
    /// rejoins.
    fn reset(&mut self) {
        self.epoch = JOIN_EPOCH;
        self.target = None;
        self.current = None;
        self.is_reconciling = false;
        self.pending_assignment = None;
        self.is_acknowledged = false;
        self.must_acknowledge = false;
        self.sent_fields = None;
        self.call = None;
        self.retry_at = i64::MIN;
    }

    fn is_in_group(&self) -> bool {
        self.epoch > JOIN_EPOCH
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
        self.update_names(common);
    }

    fn next_event(&mut self, common: &mut Common) -> Option<MemberEvent> {
        if !self.is_in_group() && !common.owned.is_empty() {
            return Some(MemberEvent::Lost(common.owned_list()));
        }
        self.reconcile(common)
    }

    fn event_done(&mut self, _common: &mut Common, _now_ms: i64, event: &PendingEvent) {
        self.reconciled(event);
    }

    fn poll_request(&mut self, common: &mut Common, now_ms: i64) -> Option<MemberCall> {
        self.next_heartbeat(common, now_ms)
    }

    fn handle_response(
        &mut self,
        common: &mut Common,
        now_ms: i64,
        call: CallId,
        response: Result<MemberResponse, CallFailure>,
    ) {
        if self.call.take_if(|sent| *sent == call).is_none() {
            return; // Stale: the membership was reset meanwhile.
        }
        match response {
            Ok(MemberResponse::ConsumerHeartbeat(response)) => {
                self.handle_heartbeat_response(common, now_ms, &response)
            }
            Ok(_) => {
                violated!("a_response_is_of_its_request");
                self.heartbeat_failed(common, now_ms, CallFailure::Disconnected);
            }
            Err(failure) => self.heartbeat_failed(common, now_ms, failure),
        }
    }

    /// The next heartbeat tells whether the member is still in the group.
    fn handle_refused(&mut self, _common: &mut Common, _now_ms: i64, _sent: &GroupMetadata, _error: ErrorCode) {}

    fn handle_timeout(&mut self, _common: &mut Common, _now_ms: i64) {}

    fn poll_timeout(&self, common: &Common) -> Option<i64> {
        let due = self.heartbeat_due(common)?;
        Some(due).filter(|due| *due != i64::MIN)
    }

    fn leave(&mut self, common: &mut Common, why: LeaveCause) -> Option<MemberRequest> {
        self.leave_request(common, why)
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

/// The subscription in the form of a heartbeat.
fn subscribed(common: &Common) -> (BTreeSet<ByteString>, Option<ByteString>) {
    match &common.subscription {
        Some(Subscription::Topics(topics) | Subscription::Matching { topics, .. }) => (topics.clone(), None),
        Some(Subscription::BrokerPattern(pattern)) => (BTreeSet::new(), Some(pattern.clone())),
        None => (BTreeSet::new(), None),
    }
}
