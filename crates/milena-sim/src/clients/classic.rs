//! A member of the classic protocol, as Kafka's Java client is one.

use std::collections::BTreeSet;

use bytestring::ByteString;
use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        ConsumerProtocolAssignment, ConsumerProtocolSubscription, HeartbeatRequest, JoinGroupRequest,
        JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest, SyncGroupResponse,
        consumer_protocol_assignment::TopicPartition as AssignedPartitions,
        consumer_protocol_subscription::TopicPartition as OwnedPartitions,
        join_group_request::JoinGroupRequestProtocol, join_group_response::JoinGroupResponseMember,
        leave_group_request::MemberIdentity, sync_group_request::SyncGroupRequestAssignment,
    },
    prefixed::{decode_newest, encode_versioned},
};

use super::{
    Call, CallId, Client, Io, Reply, Request,
    assignor::{self, Subscriber},
    offsets::{Identity, Offsets},
};
use crate::checks::{LeaderNote, Subscription, TopicPartition};

const JOIN_VERSION: i16 = 9;
const SYNC_VERSION: i16 = 5;
const HEARTBEAT_VERSION: i16 = 4;
const LEAVE_VERSION: i16 = 5;
const SUBSCRIPTION_VERSION: i16 = 3;

const REQUEST_TIMEOUT_MS: i64 = 3_000;
const HEARTBEAT_INTERVAL_MS: u64 = 1_500;

/// What a process is started with.
#[derive(Debug, Clone)]
pub(crate) struct ClassicSettings {
    pub(crate) group: ByteString,
    pub(crate) instance: Option<ByteString>,
    pub(crate) topics: Vec<ByteString>,
    pub(crate) cooperative: bool,
    pub(crate) session_ms: i32,
    pub(crate) rebalance_ms: i32,
    /// Leaves for good at this time.
    pub(crate) leaves_at: Option<i64>,
}

#[derive(Debug)]
pub(crate) struct ClassicMember {
    settings: ClassicSettings,
    state: State,
    member_id: ByteString,
    generation: i32,
    owned: BTreeSet<TopicPartition>,
    /// The one request about membership that is under way.
    call: Option<Call>,
    offsets: Offsets,
    /// Since when the session lasts at least: what is owned is owned since then.
    proven_at: i64,
    /// Empty in a group in which the broker assigns.
    leader: ByteString,
    /// How many partitions there were when what this leader has was assigned.
    assigned_count: Option<i32>,
    due: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Down,
    Joining,
    Syncing,
    Stable,
    Gone,
}

impl ClassicMember {
    pub(crate) fn new(settings: ClassicSettings) -> Self {
        Self {
            settings,
            state: State::Down,
            member_id: ByteString::new(),
            generation: -1,
            owned: BTreeSet::new(),
            call: None,
            offsets: Offsets::default(),
            proven_at: i64::MIN,
            leader: ByteString::new(),
            assigned_count: None,
            due: i64::MIN,
        }
    }

    fn start(&mut self, io: &mut Io<'_>) {
        let ClassicSettings { group, topics, .. } = &self.settings;
        let (group, topics) = (group.clone(), topics.clone());
        if let Some(instance) = &self.settings.instance {
            io.checks.fencing.started(io.id, &group, instance);
        }
        let pattern = None;
        io.checks.members.insert(io.id, Subscription { group, topics, pattern });
        self.member_id = ByteString::new();
        self.join(io);
    }

    fn lose_all(&mut self, io: &mut Io<'_>) {
        self.generation = -1;
        self.owned.clear();
        io.checks.owners.release_all(io.id);
    }

    /// Begins to join, or begins anew.
    fn join(&mut self, io: &mut Io<'_>) {
        if !self.settings.cooperative {
            self.owned.clear();
            io.checks.owners.release_all(io.id);
        }
        if let Some(instance) = self.settings.instance.as_ref().filter(|_| self.member_id.is_empty()) {
            let now = io.now();
            io.checks.takes_over(now, io.id, &self.settings.group, instance);
        }
        self.state = State::Joining;
        self.assigned_count = None;
        let subscription = ConsumerProtocolSubscription {
            topics: self.settings.topics.clone(),
            owned_partitions: self
                .owned
                .iter()
                .map(|place| OwnedPartitions {
                    topic: place.topic.clone(),
                    partitions: vec![place.partition],
                })
                .collect(),
            generation_id: self.generation,
            ..Default::default()
        };
        let name = if self.settings.cooperative {
            "cooperative-sticky"
        } else {
            "range"
        };
        let protocol = JoinGroupRequestProtocol {
            name: name.into(),
            metadata: encode_versioned(&subscription, SUBSCRIPTION_VERSION).unwrap_or_default(),
            ..Default::default()
        };
        let request = JoinGroupRequest {
            group_id: self.settings.group.clone(),
            session_timeout_ms: self.settings.session_ms,
            rebalance_timeout_ms: self.settings.rebalance_ms,
            member_id: self.member_id.clone(),
            group_instance_id: self.settings.instance.clone(),
            protocol_type: "consumer".into(),
            protocols: vec![protocol],
            ..Default::default()
        };
        let timeout_ms = i64::from(self.settings.rebalance_ms) + 5_000;
        self.call(io, JOIN_VERSION, GroupRequest::Join(request), timeout_ms);
    }

    fn call(&mut self, io: &mut Io<'_>, version: i16, request: GroupRequest, timeout_ms: i64) {
        self.call = Some(io.send(Request::Group { version, request }, timeout_ms));
    }

    fn joined(&mut self, io: &mut Io<'_>, sent_at: i64, response: JoinGroupResponse) {
        if self.member_id.is_empty() {
            // Whoever comes in has a new session, also in the place of an older process.
            self.proven_at = self.proven_at.max(sent_at);
        }
        self.member_id = response.member_id;
        self.generation = response.generation_id;
        self.state = State::Syncing;
        let now = io.now();
        io.checks.joined(
            (sent_at, now),
            io.id,
            &self.settings.group,
            self.settings.instance.as_ref(),
        );
        self.leader = response.leader;
        let assignments = if self.leader == self.member_id && !response.skip_assignment {
            self.assign(io, &response.members)
        } else {
            vec![]
        };
        let request = SyncGroupRequest {
            group_id: self.settings.group.clone(),
            generation_id: self.generation,
            member_id: self.member_id.clone(),
            group_instance_id: self.settings.instance.clone(),
            protocol_type: response.protocol_type,
            protocol_name: response.protocol_name,
            assignments,
            ..Default::default()
        };
        let timeout_ms = i64::from(self.settings.rebalance_ms) + 5_000;
        self.call(io, SYNC_VERSION, GroupRequest::Sync(request), timeout_ms);
    }

    /// The leader's work.
    fn assign(&self, io: &mut Io<'_>, members: &[JoinGroupResponseMember]) -> Vec<SyncGroupRequestAssignment> {
        let subscribers: Vec<Subscriber> = members.iter().filter_map(read_subscriber).collect();
        let assignments = assignor::assign(&subscribers, io.topics, self.settings.cooperative);
        for subscriber in &subscribers {
            let assigned = assignments.get(&subscriber.member_id);
            let note = LeaderNote {
                partition_count: partition_count(io),
                releases: assigned.is_some_and(|assigned| !subscriber.owned.is_subset(assigned)),
            };
            let who = subscriber.instance.as_ref().unwrap_or(&subscriber.member_id);
            io.checks.leader_notes.insert((self.generation, who.clone()), note);
        }
        let assignments = assignments.into_iter().map(|(member_id, places)| {
            let assigned_partitions = places.into_iter().map(|place| AssignedPartitions {
                topic: place.topic,
                partitions: vec![place.partition],
            });
            let assignment = ConsumerProtocolAssignment {
                assigned_partitions: assigned_partitions.collect(),
                ..Default::default()
            };
            SyncGroupRequestAssignment {
                member_id,
                assignment: encode_versioned(&assignment, SUBSCRIPTION_VERSION).unwrap_or_default(),
                ..Default::default()
            }
        });
        assignments.collect()
    }

    fn synced(&mut self, io: &mut Io<'_>, sent_at: i64, response: &SyncGroupResponse) {
        let assignment: ConsumerProtocolAssignment = decode_newest(&response.assignment).unwrap_or_default();
        let assigned: BTreeSet<TopicPartition> = assignment
            .assigned_partitions
            .into_iter()
            .flat_map(|topic| {
                let name = topic.topic;
                topic.partitions.into_iter().map(move |partition| TopicPartition {
                    topic: name.clone(),
                    partition,
                })
            })
            .collect();
        self.state = State::Stable;
        let group = self.settings.group.clone();
        let who = self.settings.instance.clone().unwrap_or_else(|| self.member_id.clone());
        let note = io.checks.leader_notes.get(&(self.generation, who.clone())).copied();
        // Where there is none, the broker assigned, and the group has gone back to the classic protocol since.
        let note = note.filter(|_| !self.leader.is_empty()).unwrap_or_default();
        self.assigned_count = (self.leader == self.member_id).then_some(note.partition_count);
        io.note(|| format!("owns in generation {}: {assigned:?}", self.generation));
        let revoked: Vec<TopicPartition> = self.owned.difference(&assigned).cloned().collect();
        for place in &revoked {
            io.checks.owners.release(io.id, &group, place);
        }
        let added: Vec<TopicPartition> = assigned.difference(&self.owned).cloned().collect();
        self.owned = assigned;
        self.proven_at = self.proven_at.max(io.checks.owners.begun_at(self.generation));
        self.hold(io, sent_at);
        for place in &self.owned {
            let held = io.checks.owners.given(&group, self.generation, &who, place);
            io.checks.demand(held);
        }
        if !added.is_empty() {
            self.offsets.fetch(io, self.identity(), &added);
        }
        if self.settings.cooperative && (note.releases || !revoked.is_empty()) {
            self.join(io);
        } else {
            let due = io.soon(HEARTBEAT_INTERVAL_MS);
            self.wake_at(io, due);
        }
    }

    /// A request that was sent at `sent_at` shows that the broker counted this member in then.
    fn hold(&mut self, io: &mut Io<'_>, sent_at: i64) {
        let until = self.proven_at + i64::from(self.settings.session_ms.min(self.settings.rebalance_ms));
        let now = io.now();
        let instance = self.settings.instance.as_ref();
        if io.checks.fencing.may_be_replaced(io.id, &self.settings.group, instance) {
            let held = io.checks.fencing.check(io.id, &self.settings.group, instance, sent_at);
            return io.checks.demand(held);
        }
        for place in &self.owned {
            let held = io
                .checks
                .owners
                .hold(now, io.id, (&self.settings.group, place), (self.proven_at, until));
            io.checks.demand(held);
        }
    }

    fn identity(&self) -> Identity {
        Identity {
            group: self.settings.group.clone(),
            member_id: self.member_id.clone(),
            instance: self.settings.instance.clone(),
            epoch: self.generation,
            asks_as_member: false,
        }
    }

    fn wake_at(&mut self, io: &mut Io<'_>, due: i64) {
        self.due = due;
        io.wake_at(due);
    }

    /// What a member does from time to time.
    fn work(&mut self, io: &mut Io<'_>) {
        if self.settings.leaves_at.is_some_and(|leaves_at| io.now() >= leaves_at) {
            return self.leave(io);
        }
        if self.assigned_count.is_some_and(|count| count != partition_count(io)) {
            return self.join(io);
        }
        if !self.owned.is_empty() && io.random.below(3) == 0 {
            self.offsets.commit(io, self.identity(), self.owned.iter());
        }
        if !self.owned.is_empty() && io.random.below(6) == 0 {
            let places: Vec<TopicPartition> = self.owned.iter().cloned().collect();
            self.offsets.fetch(io, self.identity(), &places);
        }
        if self.call.is_none() {
            let request = HeartbeatRequest {
                group_id: self.settings.group.clone(),
                generation_id: self.generation,
                member_id: self.member_id.clone(),
                group_instance_id: self.settings.instance.clone(),
                ..Default::default()
            };
            self.call(
                io,
                HEARTBEAT_VERSION,
                GroupRequest::Heartbeat(request),
                REQUEST_TIMEOUT_MS,
            );
        }
    }

    fn leave(&mut self, io: &mut Io<'_>) {
        let member = MemberIdentity {
            member_id: self.member_id.clone(),
            group_instance_id: self.settings.instance.clone(),
            ..Default::default()
        };
        let request = LeaveGroupRequest {
            group_id: self.settings.group.clone(),
            members: vec![member],
            ..Default::default()
        };
        self.end(io);
        let request = GroupRequest::Leave(request);
        io.send(
            Request::Group {
                version: LEAVE_VERSION,
                request,
            },
            REQUEST_TIMEOUT_MS,
        );
    }

    /// Ends for good.
    fn end(&mut self, io: &mut Io<'_>) {
        self.stop(io);
        self.state = State::Gone;
    }

    fn stop(&mut self, io: &mut Io<'_>) {
        self.lose_all(io);
        self.state = State::Down;
        self.call = None;
        self.offsets.clear();
        self.assigned_count = None;
        io.checks.members.remove(&io.id);
        if let Some(instance) = &self.settings.instance {
            io.checks.fencing.ended(io.id, &self.settings.group, instance);
        }
    }

    /// Another process has our instance id; or an old message of ours made it seem so.
    fn fenced(&mut self, io: &mut Io<'_>) {
        let instance = self.settings.instance.clone().unwrap_or_default();
        if io.checks.fencing.runs_elsewhere(io.id, &self.settings.group, &instance) {
            self.end(io);
        } else {
            self.stop(io);
            let due = io.soon(2_000);
            self.wake_at(io, due);
        }
    }

    fn failed(&mut self, io: &mut Io<'_>, error: ErrorCode) {
        match error {
            ErrorCode::UnknownMemberId => {
                self.member_id = ByteString::new();
                self.lose_all(io);
                self.join(io);
            }
            ErrorCode::IllegalGeneration => {
                self.lose_all(io);
                self.join(io);
            }
            ErrorCode::RebalanceInProgress => self.join(io),
            ErrorCode::FencedInstanceId => self.fenced(io),
            ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator | ErrorCode::CoordinatorLoadInProgress => {
                self.retry(io);
            }
            error => io
                .checks
                .fail(format!("client {} was answered {}", io.id, error.name())),
        }
    }

    /// Nothing is known of the last request.
    fn retry(&mut self, io: &mut Io<'_>) {
        if self.state == State::Syncing {
            self.state = State::Joining;
        }
        let due = io.soon(500);
        self.wake_at(io, due);
    }
}

impl Client for ClassicMember {
    fn wake(&mut self, io: &mut Io<'_>) {
        if io.now() < self.due {
            return;
        }
        match self.state {
            State::Gone => return,
            State::Down => self.start(io),
            State::Joining if self.call.is_none() => self.join(io),
            State::Joining | State::Syncing => {}
            State::Stable => self.work(io),
        }
        let due = io.now() + HEARTBEAT_INTERVAL_MS as i64;
        self.wake_at(io, due);
    }

    fn answer(&mut self, io: &mut Io<'_>, call: CallId, reply: Reply) {
        let Reply::Group(reply) = reply else {
            return io
                .checks
                .fail(format!("client {} got the wrong answer {reply:?}", io.id));
        };
        let Some(ours) = self.call.filter(|ours| ours.id == call) else {
            return self.offsets.answer(io, call, &reply);
        };
        self.call = None;
        let failed = |code: i16| ErrorCode::from_code(code).filter(|error| *error != ErrorCode::None);
        match reply {
            GroupReply::Join(response) => match failed(response.error_code) {
                None => self.joined(io, ours.sent_at, response),
                Some(ErrorCode::MemberIdRequired) => {
                    self.member_id = response.member_id;
                    self.join(io);
                }
                Some(error) => self.failed(io, error),
            },
            GroupReply::Sync(response) => match failed(response.error_code) {
                None => self.synced(io, ours.sent_at, &response),
                Some(error) => self.failed(io, error),
            },
            GroupReply::Heartbeat(response) => match failed(response.error_code) {
                None => {
                    self.proven_at = self.proven_at.max(ours.sent_at);
                    self.hold(io, ours.sent_at);
                }
                Some(error) => self.failed(io, error),
            },
            reply => io
                .checks
                .fail(format!("client {} got the wrong answer {reply:?}", io.id)),
        }
    }

    fn unanswered(&mut self, io: &mut Io<'_>, call: CallId) {
        self.offsets.unanswered(call);
        if self.call.is_some_and(|ours| ours.id == call) {
            self.call = None;
            self.retry(io);
        }
    }

    fn crash(&mut self, io: &mut Io<'_>) {
        if self.state != State::Gone && self.state != State::Down {
            self.stop(io);
            let due = io.soon(15_000);
            self.wake_at(io, due);
        }
    }
}

fn read_subscriber(member: &JoinGroupResponseMember) -> Option<Subscriber> {
    let subscription: ConsumerProtocolSubscription = decode_newest(&member.metadata).ok()?;
    let owned = subscription.owned_partitions.into_iter().flat_map(|topic| {
        let name = topic.topic;
        topic.partitions.into_iter().map(move |partition| TopicPartition {
            topic: name.clone(),
            partition,
        })
    });
    Some(Subscriber {
        member_id: member.member_id.clone(),
        instance: member.group_instance_id.clone(),
        topics: subscription.topics,
        owned: owned.collect(),
        generation: subscription.generation_id,
    })
}

/// Of all topics: it changes whenever one is made or grows.
fn partition_count(io: &Io<'_>) -> i32 {
    io.topics.iter().map(|(_, topic)| topic.partitions).sum()
}
