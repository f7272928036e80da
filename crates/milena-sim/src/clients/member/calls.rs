//! Requests of the machines on their way, and what their answers prove.

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;
use milena_machines::{
    TopicPartition, TopicsImage,
    assign::decode_assignment,
    group::{GroupReply, GroupRequest},
    member::{
        CallFailure, CallId as MachineCall, ForVersion, GroupMetadata, MemberRequest, MemberResponse, OffsetRequest,
        OffsetResponse,
    },
};
use milena_wire::{
    Uuid,
    errors::ErrorCode,
    messages::{
        ConsumerGroupHeartbeatResponse, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchResponse,
        offset_fetch_response::OffsetFetchResponseGroup,
    },
};

use super::{MemberSettings, Process, Proof};
use crate::clients::{Call, CallId, Io, Reply, Request};

const JOIN_VERSION: i16 = 9;
const SYNC_VERSION: i16 = 5;
const HEARTBEAT_VERSION: i16 = 4;
const LEAVE_VERSION: i16 = 5;
const CONSUMER_VERSION: i16 = 1;

/// A request that is under way.
#[derive(Debug)]
pub(super) struct UnderWay {
    call: Call,
    machine: MachineCall,
    what: What,
    /// The process has begun anew since it was sent: its answer proves nothing.
    is_outdated: bool,
}

impl UnderWay {
    fn new(call: Call, machine: MachineCall, what: What) -> Self {
        Self {
            call,
            machine,
            what,
            is_outdated: false,
        }
    }
}

/// What the checks must know when it is answered.
#[derive(Debug)]
enum What {
    Join {
        is_new: bool,
    },
    Sync {
        generation: i32,
    },
    Heartbeat,
    Leave,
    /// With the epoch that it named, and whether there was nothing to let go of.
    ConsumerHeartbeat {
        epoch: i32,
        is_clean: bool,
    },
    Commit {
        identity: GroupMetadata,
        values: BTreeMap<TopicPartition, i64>,
    },
    Fetch,
}

impl Process {
    /// Sends what the machines want to send.
    pub(super) fn send(&mut self, settings: &MemberSettings, io: &mut Io<'_>) {
        while let Some(call) = self.member.poll_request(io.now()) {
            let what = self.before_sending(settings, io, &call.request);
            let version = match &call.request {
                MemberRequest::Join(_) => JOIN_VERSION,
                MemberRequest::Sync(_) => SYNC_VERSION,
                MemberRequest::Heartbeat(_) => HEARTBEAT_VERSION,
                MemberRequest::Leave(_) => LEAVE_VERSION,
                MemberRequest::ConsumerHeartbeat(_) => CONSUMER_VERSION,
            };
            let request = match call.request {
                MemberRequest::Join(request) => GroupRequest::Join(request),
                MemberRequest::Sync(request) => GroupRequest::Sync(request),
                MemberRequest::Heartbeat(request) => GroupRequest::Heartbeat(request),
                MemberRequest::Leave(request) => GroupRequest::Leave(request.for_version(version)),
                MemberRequest::ConsumerHeartbeat(request) => GroupRequest::ConsumerHeartbeat(request),
            };
            let sent = io.send(Request::Group { version, request }, call.timeout_ms);
            self.calls.insert(sent.id, UnderWay::new(sent, call.id, what));
        }
        let now = io.now();
        while let Some(call) = self.offsets.poll_request(now, &self.member.membership()) {
            let version = call.max_version;
            let (request, what) = match call.request {
                OffsetRequest::Commit(request) => {
                    let what = committing(&request);
                    (GroupRequest::OffsetCommit(request), what)
                }
                OffsetRequest::Fetch(request) => {
                    let mut request = request.for_version(version);
                    let Some(group) = request.groups.pop() else { continue };
                    let require_stable = request.require_stable;
                    (GroupRequest::OffsetFetch { group, require_stable }, What::Fetch)
                }
            };
            let sent = io.send(Request::Group { version, request }, call.timeout_ms);
            if let What::Commit { values, .. } = &what {
                for (place, value) in values {
                    io.checks.offsets.sent(&settings.group, place, *value, &sent);
                }
            }
            self.calls.insert(sent.id, UnderWay::new(sent, call.id, what));
        }
        let overdue = |timeout: Option<i64>| timeout.is_some_and(|timeout| timeout <= now);
        if overdue(self.member.poll_timeout()) || overdue(self.offsets.poll_timeout()) {
            io.checks.fail(format!(
                "a machine of client {} wants to be woken for what it could do now",
                io.id
            ));
        }
    }

    fn before_sending(&mut self, settings: &MemberSettings, io: &mut Io<'_>, request: &MemberRequest) -> What {
        let now = io.now();
        match request {
            MemberRequest::Join(request) => {
                self.outdate_calls();
                let is_new = request.member_id.is_empty();
                if let Some(instance) = settings.instance.as_ref().filter(|_| is_new) {
                    io.checks.takes_over(now, io.id, &settings.group, instance);
                }
                What::Join { is_new }
            }
            MemberRequest::Sync(request) => What::Sync {
                generation: request.generation_id,
            },
            MemberRequest::Heartbeat(_) => What::Heartbeat,
            MemberRequest::Leave(_) => {
                self.is_out(io);
                What::Leave
            }
            MemberRequest::ConsumerHeartbeat(request) if request.member_epoch < 0 => {
                self.is_out(io);
                What::Leave
            }
            MemberRequest::ConsumerHeartbeat(request) => {
                if request.member_epoch == 0 {
                    self.outdate_calls();
                }
                if let Some(owned) = &request.topic_partitions {
                    let owned = owned.iter().map(|topic| (topic.topic_id, topic.partitions.as_slice()));
                    self.proof.told = by_name(io.topics, owned).0;
                }
                What::ConsumerHeartbeat {
                    epoch: request.member_epoch,
                    is_clean: !self.proof.must_revoke(),
                }
            }
        }
    }

    pub(super) fn unanswered(&mut self, io: &mut Io<'_>, call: CallId) {
        let Some(under_way) = self.calls.remove(&call) else {
            return;
        };
        let failure = match io.random.below(2) {
            0 => CallFailure::Disconnected,
            _ => CallFailure::TimedOut,
        };
        let now = io.now();
        match under_way.what {
            What::Commit { .. } | What::Fetch => {
                let membership = self.member.membership();
                self.offsets
                    .handle_response(now, under_way.machine, Err(failure), &membership);
            }
            _ => self.member.handle_response(now, under_way.machine, Err(failure)),
        }
        // There is one broker, which is the coordinator.
        self.member.take_coordinator_moved();
        self.offsets.take_coordinator_moved();
    }

    pub(super) fn answer(&mut self, settings: &MemberSettings, io: &mut Io<'_>, call: CallId, reply: Reply) {
        let Some(under_way) = self.calls.remove(&call) else {
            return;
        };
        let UnderWay {
            call,
            machine,
            what,
            is_outdated,
        } = under_way;
        let Reply::Group(reply) = reply else {
            return io
                .checks
                .fail(format!("client {} got the wrong answer {reply:?}", io.id));
        };
        let now = io.now();
        match reply {
            GroupReply::OffsetCommit(response) => {
                if let What::Commit { identity, values } = &what {
                    committed(io, &call, (identity, values), &response);
                }
                let membership = self.member.membership();
                self.offsets
                    .handle_response(now, machine, Ok(OffsetResponse::Commit(response)), &membership);
            }
            GroupReply::OffsetFetch(group) => {
                fetched(io, &call, &settings.group, &group);
                let response = OffsetFetchResponse {
                    groups: vec![group],
                    ..Default::default()
                };
                let membership = self.member.membership();
                self.offsets
                    .handle_response(now, machine, Ok(OffsetResponse::Fetch(response)), &membership);
            }
            reply => {
                if !is_outdated {
                    self.learn(settings, io, &call, &what, &reply);
                }
                match member_response(reply) {
                    Some(response) => self.member.handle_response(now, machine, Ok(response)),
                    None => io
                        .checks
                        .fail(format!("client {} got the answer to another question", io.id)),
                }
                self.proof.hold(settings, io, &self.reads);
            }
        }
    }

    /// What an answer proves to the checks.
    fn learn(&mut self, settings: &MemberSettings, io: &mut Io<'_>, call: &Call, what: &What, reply: &GroupReply) {
        let (group, instance) = (&settings.group, settings.instance.as_ref());
        let now = io.now();
        match (what, reply) {
            (What::Join { is_new }, GroupReply::Join(response)) if response.error_code == 0 => {
                // Whoever comes in has a new session, also in the place of an older process.
                self.proof.let_in_at = is_new.then_some(call.sent_at);
                // What is ours in the new generation is not known yet. A member that expired in a group in which the
                // broker assigns is let in again as if it were new, as by Kafka, and does not hear of it.
                self.proof.target = None;
                io.checks.joined((call.sent_at, now), io.id, group, instance);
            }
            (What::Sync { generation }, GroupReply::Sync(response)) if response.error_code == 0 => {
                let assignment = decode_assignment(&response.assignment).unwrap_or_default();
                self.proof.target = Some(assignment.partitions.into_iter().collect());
                let began_at = io.checks.owners.begun_at(*generation).max(self.proof.proven_at);
                self.proof.proven_at = self.proof.let_in_at.take().map_or(began_at, |at| began_at.max(at));
            }
            (What::Heartbeat, GroupReply::Heartbeat(response)) if response.error_code == 0 => {
                self.proof.proven_at = self.proof.proven_at.max(call.sent_at);
                let held = io.checks.fencing.check(io.id, group, instance, call.sent_at);
                io.checks.demand(held);
            }
            (What::ConsumerHeartbeat { epoch, is_clean }, GroupReply::ConsumerHeartbeat(response))
                if response.error_code == 0 =>
            {
                if *epoch == 0 {
                    self.proof.target = None;
                    io.checks.joined((call.sent_at, now), io.id, group, instance);
                }
                self.aim(io, response);
                self.proof.proven_at = self.proof.proven_at.max(call.sent_at);
                if *is_clean && !self.proof.must_revoke() {
                    self.proof.clean_at = self.proof.clean_at.max(call.sent_at);
                }
                let held = io.checks.fencing.check(io.id, group, instance, call.sent_at);
                io.checks.demand(held);
            }
            _ => self.doubt(io, call, reply),
        }
    }

    /// Whoever is told that it is out may believe in nothing any more.
    fn doubt(&mut self, io: &mut Io<'_>, call: &Call, reply: &GroupReply) {
        let code = match reply {
            GroupReply::Join(response) => response.error_code,
            GroupReply::Sync(response) => response.error_code,
            GroupReply::Heartbeat(response) => response.error_code,
            GroupReply::ConsumerHeartbeat(response) => response.error_code,
            _ => 0,
        };
        let is_out = [
            ErrorCode::UnknownMemberId,
            ErrorCode::IllegalGeneration,
            ErrorCode::FencedInstanceId,
            ErrorCode::FencedMemberEpoch,
            ErrorCode::GroupIdNotFound,
        ];
        if is_out.iter().any(|error| error.code() == code) {
            // It says nothing of what was sent later, such as a new start that did not wait for it.
            self.is_out_since(io, call.sent_at);
        }
    }

    fn outdate_calls(&mut self) {
        self.calls.values_mut().for_each(|call| call.is_outdated = true);
    }

    pub(super) fn is_out(&mut self, io: &mut Io<'_>) {
        let now = io.now();
        self.is_out_since(io, now);
    }

    fn is_out_since(&mut self, io: &mut Io<'_>, sent_at: i64) {
        self.proof = Proof::default();
        let earlier = self
            .calls
            .values_mut()
            .filter(|under_way| under_way.call.sent_at <= sent_at);
        earlier.for_each(|under_way| under_way.is_outdated = true);
        io.checks.owners.doubt(io.now(), io.id);
    }

    fn aim(&mut self, io: &mut Io<'_>, response: &ConsumerGroupHeartbeatResponse) {
        let Some(assignment) = &response.assignment else { return };
        let topics = assignment.topic_partitions.iter();
        let topics = topics.map(|topic| (topic.topic_id, topic.partitions.as_slice()));
        let (target, unknown) = by_name(io.topics, topics);
        if let Some(id) = unknown {
            io.checks
                .fail(format!("client {} was assigned topic {id}, which is not there", io.id));
        }
        self.proof.target = Some(target);
    }
}

/// Partitions by the names of their topics, and an id that no topic has.
fn by_name<'a>(
    topics: &TopicsImage,
    partitions: impl Iterator<Item = (Uuid, &'a [i32])>,
) -> (BTreeSet<TopicPartition>, Option<Uuid>) {
    let (mut places, mut unknown) = (BTreeSet::new(), None);
    for (id, partitions) in partitions {
        match topics.by_id(id) {
            Some((name, _)) => {
                places.extend(
                    partitions
                        .iter()
                        .map(|partition| TopicPartition::new(name.clone(), *partition)),
                );
            }
            None => unknown = Some(id),
        }
    }
    (places, unknown)
}

fn member_response(reply: GroupReply) -> Option<MemberResponse> {
    match reply {
        GroupReply::Join(response) => Some(MemberResponse::Join(response)),
        GroupReply::Sync(response) => Some(MemberResponse::Sync(response)),
        GroupReply::Heartbeat(response) => Some(MemberResponse::Heartbeat(response)),
        GroupReply::Leave(response) => Some(MemberResponse::Leave(response)),
        GroupReply::ConsumerHeartbeat(response) => Some(MemberResponse::ConsumerHeartbeat(response)),
        _ => None,
    }
}

fn committing(request: &OffsetCommitRequest) -> What {
    let values = request.topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(|partition| {
            let place = TopicPartition::new(topic.name.clone(), partition.partition_index);
            (place, partition.committed_offset)
        })
    });
    What::Commit {
        identity: GroupMetadata {
            group_id: request.group_id.clone(),
            generation: request.generation_id_or_member_epoch,
            member_id: request.member_id.clone(),
            instance_id: request.group_instance_id.clone(),
        },
        values: values.collect(),
    }
}

fn committed(
    io: &mut Io<'_>,
    call: &Call,
    (identity, values): (&GroupMetadata, &BTreeMap<TopicPartition, i64>),
    response: &OffsetCommitResponse,
) {
    let (now, group) = (io.now(), &identity.group_id);
    for topic in &response.topics {
        for partition in &topic.partitions {
            let place = TopicPartition::new(topic.name.clone(), partition.partition_index);
            let Some(value) = values.get(&place) else {
                io.checks
                    .fail(format!("a commit was answered for {place}, which was not in it"));
                continue;
            };
            if partition.error_code == ErrorCode::None.code() {
                io.checks.offsets.succeeded(now, group, &place, *value);
                let held = io.checks.owners.check_commit(now, io.id, (group, &place), call.sent_at);
                io.checks.demand(held);
                let instance = identity.instance_id.as_ref();
                let held = io.checks.fencing.check(io.id, group, instance, call.sent_at);
                io.checks.demand(held);
            } else {
                io.checks.offsets.refused(group, &place, *value, call.id);
            }
        }
    }
}

fn fetched(io: &mut Io<'_>, call: &Call, group: &ByteString, response: &OffsetFetchResponseGroup) {
    if response.error_code != ErrorCode::None.code() {
        return;
    }
    for topic in &response.topics {
        for partition in &topic.partitions {
            if partition.error_code != ErrorCode::None.code() {
                continue;
            }
            let place = TopicPartition::new(topic.name.clone(), partition.partition_index);
            let times = (call.sent_at, io.now());
            let held = io.checks.offsets.read(times, group, &place, partition.committed_offset);
            io.checks.demand(held);
        }
    }
}
