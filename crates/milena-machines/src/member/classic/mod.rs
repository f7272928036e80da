//! The protocol in which a member assigns.
//!
//! A rebalance: the application gives back what must be given back (`events`), `JoinGroup` is sent and answered when all
//! members have joined (`join`), the leader assigns (`leader`), `SyncGroup` brings the assignment (`sync`), and the
//! application hears of it (`events`). From the answer to `JoinGroup` on there are heartbeats (`heartbeat`).

mod events;
mod heartbeat;
mod join;
mod leader;
mod leave;
mod sync;

use std::collections::BTreeSet;

use bytestring::ByteString;
use milena_wire::{api::ApiKey, errors::ErrorCode, messages::SyncGroupRequest};

use super::{
    CallFailure, CallId, GroupMetadata, MemberCall, MemberConfigError, MemberError, MemberEvent, MemberRequest,
    MemberResponse, Membership, MetadataNeed, Protocol, Subscription, Why,
    common::{Common, Told},
    offsets::moves_coordinator,
};
use crate::assign::{Assignor, MemberAssignment, RebalanceProtocol};

use leader::Leader;

const PROTOCOL_TYPE: &str = "consumer";
const NO_GENERATION: i32 = -1;
/// Longer reasons are cut, as Kafka's client does.
const REASON_LEN_MAX: usize = 255;

#[derive(Debug)]
pub(super) struct Classic {
    session_timeout_ms: i64,
    heartbeat_interval_ms: i64,
    assignors: Vec<Box<dyn Assignor>>,
    /// The greatest protocol that all assignors can serve.
    protocol: RebalanceProtocol,
    phase: Phase,
    generation: Generation,
    /// What the group's members agreed on.
    assignor: ByteString,
    /// Why to join again, if there is a reason that nothing else tells.
    rejoin: Option<ByteString>,
    /// The application has given back what it must before the next join.
    is_prepared: bool,
    /// The event that the application is busy with is such a giving back.
    is_preparing: bool,
    /// The topics that the last join named.
    joined_topics: BTreeSet<ByteString>,
    /// Set from the answer to `JoinGroup` to the next join, if we are the leader.
    leader: Option<Leader>,
    /// What the leader gave us, until the application has heard of it.
    received: Option<MemberAssignment>,
    /// To be sent.
    sync: Option<SyncGroupRequest>,
    /// The `JoinGroup` or `SyncGroup` that is under way.
    join_call: Option<Sent>,
    heartbeat_call: Option<Sent>,
    heartbeat_at: i64,
    /// When the coordinator will have been silent for too long.
    session_ends: i64,
    /// No join before this time.
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

/// Who we are in the group.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Generation {
    id: i32,
    member_id: ByteString,
}

/// A request that is under way, and who we were when it left: what its answer says of us counts only if we still are.
#[derive(Debug)]
struct Sent {
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
            is_prepared: false,
            is_preparing: false,
            joined_topics: BTreeSet::new(),
            leader: None,
            received: None,
            sync: None,
            join_call: None,
            heartbeat_call: None,
            heartbeat_at: 0,
            session_ends: 0,
            retry_at: i64::MIN,
        })
    }

    /// Out of the group, or so it seems: all is as before the first join, but what the application owns is lost.
    fn reset(&mut self, keeps_member_id: bool, reason: &str) {
        self.phase = Phase::Unjoined;
        self.generation.id = NO_GENERATION;
        if !keeps_member_id {
            self.generation = Generation::NONE;
        }
        self.rejoin = Some(truncated(reason));
        self.is_prepared = false;
        self.leader = None;
        self.received = None;
        self.sync = None;
        self.join_call = None;
        self.heartbeat_call = None;
    }

    fn request_rejoin(&mut self, reason: &str) {
        self.rejoin = Some(truncated(reason));
    }

    fn is_current(&self, sent: &Sent) -> bool {
        sent.generation == self.generation
    }

    /// A broker that cannot do what is asked will not learn it.
    fn check_supported(&self, common: &mut Common, failure: CallFailure) {
        let CallFailure::Unsupported { api } = failure else {
            return;
        };
        common.fail(if common.instance_id.is_some() {
            MemberError::InstanceUnsupported
        } else {
            let (error, message) = (ErrorCode::UnsupportedVersion, None);
            MemberError::Refused { api, error, message }
        });
    }

    fn refuse(&self, common: &mut Common, api: ApiKey, error: ErrorCode) {
        common.coordinator_moved |= moves_coordinator(error);
        if !is_passing(error) {
            let message = None;
            common.tell(MemberError::Refused { api, error, message });
        }
    }

    fn fenced(&mut self, common: &mut Common) {
        self.reset(false, "the group instance id was fenced");
        let instance_id = common.instance_id.clone().unwrap_or_default();
        common.fail(MemberError::FencedInstance { instance_id });
    }
}

/// Passes without anybody's help.
fn is_passing(error: ErrorCode) -> bool {
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
    /// Other topics are seen when it is next asked whether to join.
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
        self.next_of_assignment(common)
    }

    fn event_done(&mut self, _common: &mut Common, _now_ms: i64, told: &Told) {
        self.assignment_told(told);
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
        answer: Result<MemberResponse, CallFailure>,
    ) {
        if let Some(sent) = self.heartbeat_call.take_if(|sent| sent.id == call) {
            return match answer {
                Ok(MemberResponse::Heartbeat(response)) => self.heartbeat_answered(common, now_ms, &sent, &response),
                Ok(_) => self.heartbeat_failed(common, now_ms, CallFailure::Disconnected),
                Err(failure) => self.heartbeat_failed(common, now_ms, failure),
            };
        }
        if let Some(sent) = self.join_call.take_if(|sent| sent.id == call) {
            match answer {
                Ok(MemberResponse::Join(response)) => self.join_answered(common, now_ms, &sent, response),
                Ok(MemberResponse::Sync(response)) => self.sync_answered(common, now_ms, &sent, &response),
                Ok(_) => self.join_failed(common, now_ms, CallFailure::Disconnected),
                Err(failure) => self.join_failed(common, now_ms, failure),
            }
        }
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

    fn leave(&mut self, common: &mut Common, why: Why) -> Option<MemberRequest> {
        self.farewell(common, why)
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

/// The topics that a classic member subscribes to: those that it knows of.
fn topics(common: &Common) -> Option<&BTreeSet<ByteString>> {
    match common.subscription.as_ref()? {
        Subscription::Topics(topics) | Subscription::Matching { topics, .. } => Some(topics),
        Subscription::BrokerPattern(_) => None,
    }
}
