//! The protocol in which a member assigns.
//!
//! A rebalance: the application revokes partitions if it must (`events`), `JoinGroup` is sent and its response comes
//! when all members have joined (`join`), the leader assigns (`leader`), `SyncGroup` returns the assignment (`sync`),
//! and the application gets it (`events`). From the `JoinGroup` response on there are heartbeats (`heartbeat`).

mod events;
mod heartbeat;
mod join;
mod leader;
mod leave;
mod sync;

use std::collections::BTreeSet;

use bytestring::ByteString;
use milena_invariant::violated;
use milena_wire::{api::ApiKey, errors::ErrorCode, messages::SyncGroupRequest};

use super::{
    CallFailure, CallId, GroupMetadata, LeaveCause, MemberCall, MemberConfigError, MemberError, MemberEvent,
    MemberRequest, MemberResponse, Membership, MetadataNeed, Protocol, Subscription,
    common::{Common, PendingEvent},
    offsets::moves_coordinator,
};
use crate::assign::{Assignor, MemberAssignment, RebalanceProtocol};

use leader::Leader;

const PROTOCOL_TYPE: &str = "consumer";
const NO_GENERATION: i32 = -1;
/// Longer reasons are truncated, as in Kafka's client.
const REASON_LEN_MAX: usize = 255;

#[derive(Debug)]
pub(super) struct Classic {
    session_timeout_ms: i64,
    heartbeat_interval_ms: i64,
    assignors: Vec<Box<dyn Assignor>>,
    /// The greatest rebalance protocol that all assignors support.
    protocol: RebalanceProtocol,
    phase: Phase,
    generation: Generation,
    /// The assignor that the coordinator selected.
    assignor: ByteString,
    /// The reason to rejoin, unless the state alone requires it.
    rejoin: Option<ByteString>,
    /// The application has revoked its partitions for the next join.
    has_revoked: bool,
    /// The application handles that revocation now.
    is_revoking: bool,
    /// The topics in the last join.
    joined_topics: BTreeSet<ByteString>,
    /// Set from the `JoinGroup` response to the next join, if this member is the leader.
    leader: Option<Leader>,
    /// The assignment, until the application gets it.
    received: Option<MemberAssignment>,
    /// The next request to send.
    sync: Option<SyncGroupRequest>,
    /// The `JoinGroup` or `SyncGroup` in flight.
    join_call: Option<InFlight>,
    heartbeat_call: Option<InFlight>,
    heartbeat_at: i64,
    /// The time when the session ends without a response.
    session_deadline: i64,
    /// The end of the backoff before a join.
    retry_at: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// In no generation.
    Unjoined,
    Joining,
    /// The leader waits for metadata.
    Assigning,
    Syncing,
    Stable,
}

/// Generation and member id; Kafka's client has the same pair.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Generation {
    id: i32,
    member_id: ByteString,
}

/// A request in flight, with the generation in which it was sent: errors about the membership count only if that is
/// still the current one.
#[derive(Debug)]
struct InFlight {
    id: CallId,
    generation: Generation,
}

impl Generation {
    const NONE: Self = Self {
        id: NO_GENERATION,
        member_id: ByteString::from_static(""),
    };

    fn is_valid(&self) -> bool {
        self.id != NO_GENERATION && !self.member_id.is_empty()
    }
}

impl Classic {
    pub(super) fn new(
        session_timeout_ms: i32,
        heartbeat_interval_ms: i32,
        assignors: Vec<Box<dyn Assignor>>,
    ) -> Result<Self, MemberConfigError> {
        Ok(Self {
            session_timeout_ms: i64::from(session_timeout_ms),
            heartbeat_interval_ms: i64::from(heartbeat_interval_ms),
            protocol: common_protocol(&assignors)?,
            assignors,
            phase: Phase::Unjoined,
            generation: Generation::NONE,
            assignor: ByteString::new(),
            rejoin: None,
            has_revoked: false,
            is_revoking: false,
            joined_topics: BTreeSet::new(),
            leader: None,
            received: None,
            sync: None,
            join_call: None,
            heartbeat_call: None,
            heartbeat_at: 0,
            session_deadline: 0,
            retry_at: i64::MIN,
        })
    }

    /// Leaves the group, as far as the member knows: the state is that before the first join, and the application's
    /// partitions are lost.
    fn reset(&mut self, keeps_member_id: bool, reason: &str) {
        self.phase = Phase::Unjoined;
        self.generation.id = NO_GENERATION;
        if !keeps_member_id {
            self.generation = Generation::NONE;
        }
        self.rejoin = Some(truncated(reason));
        self.has_revoked = false;
        self.leader = None;
        self.received = None;
        self.sync = None;
        self.join_call = None;
        self.heartbeat_call = None;
    }

    fn request_rejoin(&mut self, reason: &str) {
        self.rejoin = Some(truncated(reason));
    }

    fn is_current(&self, sent: &InFlight) -> bool {
        sent.generation == self.generation
    }

    /// A missing version is final: the broker will not learn it.
    fn check_supported(&self, common: &mut Common, failure: CallFailure) {
        let CallFailure::Unsupported { api } = failure else {
            return; // Retried.
        };
        common.fail(if common.instance_id.is_some() {
            MemberError::InstanceUnsupported
        } else {
            let (error, message) = (ErrorCode::UnsupportedVersion, None);
            MemberError::Refused { api, error, message }
        });
    }

    fn handle_error(&self, common: &mut Common, api: ApiKey, error: ErrorCode) {
        common.coordinator_moved |= moves_coordinator(error);
        if !is_transient(error) {
            let message = None;
            common.report(MemberError::Refused { api, error, message });
        }
    }

    fn fenced(&mut self, common: &mut Common) {
        self.reset(false, "the group instance id was fenced");
        let instance_id = common.instance_id.clone().unwrap_or_default();
        common.fail(MemberError::FencedInstance { instance_id });
    }
}

/// Whether the error goes away by itself.
fn is_transient(error: ErrorCode) -> bool {
    moves_coordinator(error)
        || matches!(
            error,
            ErrorCode::CoordinatorLoadInProgress | ErrorCode::RebalanceInProgress | ErrorCode::RequestTimedOut
        )
}

fn common_protocol(assignors: &[Box<dyn Assignor>]) -> Result<RebalanceProtocol, MemberConfigError> {
    let names: Vec<&str> = assignors.iter().map(|assignor| assignor.name()).collect();
    let first = assignors.first().ok_or(MemberConfigError::NoAssignor)?;
    let mut seen = BTreeSet::new();
    if let Some(name) = names.iter().find(|name| !seen.insert(**name)) {
        let name = (*name).to_owned();
        return Err(MemberConfigError::AssignorTwice { name });
    }
    let of_all = |protocol: &&RebalanceProtocol| assignors.iter().all(|other| other.protocols().contains(protocol));
    let common = first.protocols().iter().filter(of_all).max();
    let names = names.join(", ");
    common.copied().ok_or(MemberConfigError::NoCommonProtocol { names })
}

fn truncated(reason: &str) -> ByteString {
    let end = (0..=REASON_LEN_MAX).rev().find(|end| reason.is_char_boundary(*end));
    let end = end.unwrap_or(0).min(reason.len());
    reason.get(..end).unwrap_or_default().into()
}

impl Protocol for Classic {
    /// Changed topics are noticed by `change`, before the next join.
    fn subscription_changed(&mut self, common: &mut Common, _now_ms: i64) {
        if matches!(common.subscription, Some(Subscription::BrokerPattern(_))) {
            common.fail(MemberError::PatternNeedsConsumerProtocol);
        }
    }

    fn enforce_rebalance(&mut self, reason: &str) {
        if self.rejoin.is_none() {
            self.request_rejoin(reason);
        }
    }

    fn metadata_changed(&mut self, common: &mut Common, now_ms: i64) {
        self.watch_metadata(common, now_ms);
    }

    fn next_event(&mut self, common: &mut Common) -> Option<MemberEvent> {
        self.next_assignment_event(common)
    }

    fn event_done(&mut self, _common: &mut Common, _now_ms: i64, event: &PendingEvent) {
        self.assignment_done(event);
    }

    fn poll_request(&mut self, common: &mut Common, now_ms: i64) -> Option<MemberCall> {
        let sync = self.next_sync(common);
        let heartbeat = sync.or_else(|| self.next_heartbeat(common, now_ms));
        heartbeat.or_else(|| self.next_join(common, now_ms))
    }

    fn handle_response(
        &mut self,
        common: &mut Common,
        now_ms: i64,
        call: CallId,
        response: Result<MemberResponse, CallFailure>,
    ) {
        if let Some(sent) = self.heartbeat_call.take_if(|sent| sent.id == call) {
            return match response {
                Ok(MemberResponse::Heartbeat(response)) => {
                    self.handle_heartbeat_response(common, now_ms, &sent, &response)
                }
                Ok(_) => {
                    violated!("a_response_is_of_its_request");
                    self.heartbeat_failed(common, now_ms, CallFailure::Disconnected);
                }
                Err(failure) => self.heartbeat_failed(common, now_ms, failure),
            };
        }
        if let Some(sent) = self.join_call.take_if(|sent| sent.id == call) {
            match response {
                Ok(MemberResponse::Join(response)) => self.handle_join_response(common, now_ms, &sent, response),
                Ok(MemberResponse::Sync(response)) => self.handle_sync_response(common, now_ms, &sent, &response),
                Ok(_) => {
                    violated!("a_response_is_of_its_request");
                    self.join_failed(common, now_ms, CallFailure::Disconnected);
                }
                Err(failure) => self.join_failed(common, now_ms, failure),
            }
        }
        // Any other call is stale: its membership was reset, or its session ended, meanwhile.
    }

    fn handle_refused(&mut self, common: &mut Common, _now_ms: i64, sent: &GroupMetadata, error: ErrorCode) {
        let is_current = sent.generation == self.generation.id && sent.member_id == self.generation.member_id;
        if !is_current || self.phase != Phase::Stable {
            return;
        }
        match error {
            ErrorCode::RebalanceInProgress => {
                self.request_rejoin("offset commit failed since group is already rebalancing")
            }
            ErrorCode::IllegalGeneration => {
                self.reset(true, "encountered ILLEGAL_GENERATION from OFFSET_COMMIT response")
            }
            ErrorCode::UnknownMemberId => {
                self.reset(false, "encountered UNKNOWN_MEMBER_ID from OFFSET_COMMIT response")
            }
            ErrorCode::FencedInstanceId => self.fenced(common),
            _ => {}
        }
    }

    fn handle_timeout(&mut self, common: &mut Common, now_ms: i64) {
        self.check_session(common, now_ms);
    }

    fn poll_timeout(&self, common: &Common) -> Option<i64> {
        let join = self.wants_join(common).then_some(self.retry_at);
        let join = join.filter(|retry_at| *retry_at != i64::MIN);
        [join, self.heartbeat_deadline()].into_iter().flatten().min()
    }

    fn leave(&mut self, common: &mut Common, why: LeaveCause) -> Option<MemberRequest> {
        self.leave_request(common, why)
    }

    fn membership(&self, common: &Common) -> Membership {
        match self.phase {
            Phase::Unjoined => Membership::NotMember,
            Phase::Joining | Phase::Assigning | Phase::Syncing => Membership::Rebalancing,
            Phase::Stable => Membership::Member {
                identity: common.identity(self.generation.id, self.generation.member_id.clone()),
                is_epoch: false,
            },
        }
    }

    fn metadata_needed(&self, common: &Common) -> Option<MetadataNeed> {
        let topics = self.leader.as_ref()?.unknown_topics(&common.metadata);
        let topic_ids = BTreeSet::new();
        (!topics.is_empty()).then_some(MetadataNeed { topics, topic_ids })
    }

    fn group_topics(&self) -> Option<&BTreeSet<ByteString>> {
        self.leader.as_ref().map(Leader::topics)
    }
}

/// The topics that a classic member subscribes to, as far as it knows them.
fn topics(common: &Common) -> Option<&BTreeSet<ByteString>> {
    match common.subscription.as_ref()? {
        Subscription::Topics(topics) | Subscription::Matching { topics, .. } => Some(topics),
        Subscription::BrokerPattern(_) => None,
    }
}
