//! Requests of the machines in flight, and the facts that their responses prove.

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

/// A request in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    call: Call,
    machine: MachineCall,
    kind: RequestKind,
    /// The process has rejoined since it was sent: its response proves nothing.
    is_outdated: bool,
}

impl InFlight {
    fn new(call: Call, machine: MachineCall, kind: RequestKind) -> Self {
        Self {
            call,
            machine,
            kind,
            is_outdated: false,
        }
    }
}

/// Facts for the checks when the response comes.
#[derive(Debug)]
enum RequestKind {
    Join {
        is_new: bool,
    },
    Sync {
        generation: i32,
    },
    Heartbeat,
    Leave,
    /// With the epoch in it, and whether there was nothing to revoke.
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
    /// Sends the requests of the machines.
    pub(super) fn send(&mut self, settings: &MemberSettings, io: &mut Io<'_>) {
        while let Some(call) = self.member.poll_request(io.now()) {
            let kind = self.before_sending(settings, io, &call.request);
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
            self.calls.insert(sent.id, InFlight::new(sent, call.id, kind));
        }
        let now = io.now();
        while let Some(call) = self.offsets.poll_request(now, &self.member.membership()) {
            let version = call.max_version;
            let (request, kind) = match call.request {
                OffsetRequest::Commit(request) => {
                    let kind = committing(&request);
                    (GroupRequest::OffsetCommit(request), kind)
                }
                OffsetRequest::Fetch(request) => {
                    let mut request = request.for_version(version);
                    let Some(group) = request.groups.pop() else { continue };
                    let require_stable = request.require_stable;
                    (GroupRequest::OffsetFetch { group, require_stable }, RequestKind::Fetch)
                }
            };
            let sent = io.send(Request::Group { version, request }, call.timeout_ms);
            if let RequestKind::Commit { values, .. } = &kind {
                for (topic_partition, value) in values {
                    io.checks.offsets.sent(&settings.group, topic_partition, *value, &sent);
                }
            }
            self.calls.insert(sent.id, InFlight::new(sent, call.id, kind));
        }
        let overdue = |timeout: Option<i64>| timeout.is_some_and(|timeout| timeout <= now);
        if overdue(self.member.poll_timeout()) || overdue(self.offsets.poll_timeout()) {
            io.checks.fail(format!(
                "a machine of client {} asks for a wake-up for something that it could do now",
                io.id
            ));
        }
    }

    fn before_sending(&mut self, settings: &MemberSettings, io: &mut Io<'_>, request: &MemberRequest) -> RequestKind {
        let now = io.now();
        match request {
            MemberRequest::Join(request) => {
                self.outdate_calls();
                let is_new = request.member_id.is_empty();
                if let Some(instance) = settings.instance.as_ref().filter(|_| is_new) {
                    io.checks.takes_over(now, io.id, &settings.group, instance);
                }
                RequestKind::Join { is_new }
            }
            MemberRequest::Sync(request) => RequestKind::Sync {
                generation: request.generation_id,
            },
            MemberRequest::Heartbeat(_) => RequestKind::Heartbeat,
            MemberRequest::Leave(_) => {
                self.is_out(io);
                RequestKind::Leave
            }
            MemberRequest::ConsumerHeartbeat(request) if request.member_epoch < 0 => {
                self.is_out(io);
                RequestKind::Leave
            }
            MemberRequest::ConsumerHeartbeat(request) => {
                if request.member_epoch == 0 {
                    self.outdate_calls();
                }
                if let Some(owned) = &request.topic_partitions {
                    let owned = owned.iter().map(|topic| (topic.topic_id, topic.partitions.as_slice()));
                    self.proof.reported = by_name(io.topics, owned).0;
                }
                RequestKind::ConsumerHeartbeat {
                    epoch: request.member_epoch,
                    is_clean: !self.proof.must_revoke(),
                }
            }
        }
    }

    pub(super) fn handle_no_reply(&mut self, io: &mut Io<'_>, call: CallId) {
        let Some(in_flight) = self.calls.remove(&call) else {
            return;
        };
        let failure = match io.random.below(2) {
            0 => CallFailure::Disconnected,
            _ => CallFailure::TimedOut,
        };
        let now = io.now();
        match in_flight.kind {
            RequestKind::Commit { .. } | RequestKind::Fetch => {
                let membership = self.member.membership();
                self.offsets
                    .handle_response(now, in_flight.machine, Err(failure), &membership);
            }
            _ => self.member.handle_response(now, in_flight.machine, Err(failure)),
        }
        // There is one broker, which is the coordinator.
        self.member.take_coordinator_moved();
        self.offsets.take_coordinator_moved();
    }

    pub(super) fn handle_reply(&mut self, settings: &MemberSettings, io: &mut Io<'_>, call: CallId, reply: Reply) {
        let Some(in_flight) = self.calls.remove(&call) else {
            return;
        };
        let InFlight {
            call,
            machine,
            kind,
            is_outdated,
        } = in_flight;
        let Reply::Group(reply) = reply else {
            return io
                .checks
                .fail(format!("client {} got the wrong reply {reply:?}", io.id));
        };
        let now = io.now();
        match reply {
            GroupReply::OffsetCommit(response) => {
                if let RequestKind::Commit { identity, values } = &kind {
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
                    self.learn(settings, io, &call, &kind, &reply);
                }
                match member_response(reply) {
                    Some(response) => self.member.handle_response(now, machine, Ok(response)),
                    None => io
                        .checks
                        .fail(format!("client {} got the reply to another request", io.id)),
                }
                self.proof.extend_claims(settings, io, &self.reads);
            }
        }
    }

    /// The facts that a response proves to the checks.
    fn learn(
        &mut self,
        settings: &MemberSettings,
        io: &mut Io<'_>,
        call: &Call,
        kind: &RequestKind,
        reply: &GroupReply,
    ) {
        let (group, instance) = (&settings.group, settings.instance.as_ref());
        let now = io.now();
        match (kind, reply) {
            (RequestKind::Join { is_new }, GroupReply::Join(response)) if response.error_code == 0 => {
                // A member that is let in has a new session, also in the topic_partition of an older process.
                self.proof.let_in_at = is_new.then_some(call.sent_at);
                // The assignment in the new generation is not known yet. A member that expired in a group of the
                // consumer protocol is let in again as if it were new, as by Kafka, and gets no error.
                self.proof.target = None;
                io.checks.joined((call.sent_at, now), io.id, group, instance);
            }
            (RequestKind::Sync { generation }, GroupReply::Sync(response)) if response.error_code == 0 => {
                let assignment = decode_assignment(&response.assignment).unwrap_or_default();
                self.proof.target = Some(assignment.partitions.into_iter().collect());
                let began_at = io.checks.owners.begun_at(*generation).max(self.proof.proven_at);
                self.proof.proven_at = self.proof.let_in_at.take().map_or(began_at, |at| began_at.max(at));
            }
            (RequestKind::Heartbeat, GroupReply::Heartbeat(response)) if response.error_code == 0 => {
                self.proof.proven_at = self.proof.proven_at.max(call.sent_at);
                let result = io.checks.fencing.check(io.id, group, instance, call.sent_at);
                io.checks.demand(result);
            }
            (RequestKind::ConsumerHeartbeat { epoch, is_clean }, GroupReply::ConsumerHeartbeat(response))
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
                let result = io.checks.fencing.check(io.id, group, instance, call.sent_at);
                io.checks.demand(result);
            }
            _ => self.doubt(io, call, reply),
        }
    }

    /// A member that was told to be out may believe in nothing any more.
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
            // It says nothing about later requests, such as a rejoin that did not wait for it.
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
            .filter(|in_flight| in_flight.call.sent_at <= sent_at);
        earlier.for_each(|in_flight| in_flight.is_outdated = true);
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

/// Partitions by topic name, and a topic id that does not exist.
fn by_name<'a>(
    topics: &TopicsImage,
    partitions: impl Iterator<Item = (Uuid, &'a [i32])>,
) -> (BTreeSet<TopicPartition>, Option<Uuid>) {
    let (mut named, mut unknown) = (BTreeSet::new(), None);
    for (id, partitions) in partitions {
        match topics.by_id(id) {
            Some((name, _)) => {
                named.extend(
                    partitions
                        .iter()
                        .map(|partition| TopicPartition::new(name.clone(), *partition)),
                );
            }
            None => unknown = Some(id),
        }
    }
    (named, unknown)
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

fn committing(request: &OffsetCommitRequest) -> RequestKind {
    let values = request.topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(|partition| {
            let topic_partition = TopicPartition::new(topic.name.clone(), partition.partition_index);
            (topic_partition, partition.committed_offset)
        })
    });
    RequestKind::Commit {
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
            let topic_partition = TopicPartition::new(topic.name.clone(), partition.partition_index);
            let Some(value) = values.get(&topic_partition) else {
                io.checks.fail(format!(
                    "the reply to a commit has {topic_partition}, which was not in it"
                ));
                continue;
            };
            if partition.error_code == ErrorCode::None.code() {
                io.checks.offsets.succeeded(now, group, &topic_partition, *value);
                let result = io
                    .checks
                    .owners
                    .check_commit(now, io.id, (group, &topic_partition), call.sent_at);
                io.checks.demand(result);
                let instance = identity.instance_id.as_ref();
                let result = io.checks.fencing.check(io.id, group, instance, call.sent_at);
                io.checks.demand(result);
            } else {
                io.checks.offsets.refused(group, &topic_partition, *value, call.id);
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
            let topic_partition = TopicPartition::new(topic.name.clone(), partition.partition_index);
            let times = (call.sent_at, io.now());
            let result = io
                .checks
                .offsets
                .read(times, group, &topic_partition, partition.committed_offset);
            io.checks.demand(result);
        }
    }
}
