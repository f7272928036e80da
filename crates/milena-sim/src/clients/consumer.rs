//! A member of the consumer protocol (KIP-848), as Kafka's Java client is one.

use std::collections::BTreeSet;

use bytestring::ByteString;
use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
        consumer_group_heartbeat_request::TopicPartitions, consumer_group_heartbeat_response::Assignment,
    },
};

use super::{
    Call, CallId, Client, Io, Reply, Request,
    offsets::{Identity, Offsets},
};
use crate::checks::{Subscription, TopicPartition};

const VERSION: i16 = 1;
const REQUEST_TIMEOUT_MS: i64 = 3_000;

const JOIN: i32 = 0;
const LEAVE: i32 = -1;
const LEAVE_FOR_NOW: i32 = -2;

/// What a process is started with.
#[derive(Debug, Clone)]
pub(crate) struct ConsumerSettings {
    pub(crate) group: ByteString,
    pub(crate) instance: Option<ByteString>,
    pub(crate) topics: Vec<ByteString>,
    pub(crate) pattern: Option<ByteString>,
    pub(crate) assignor: Option<ByteString>,
    pub(crate) rebalance_ms: i32,
    /// As the broker is configured.
    pub(crate) session_ms: i32,
    /// How long letting go of partitions takes, at most.
    pub(crate) revoke_ms_max: u64,
    /// Leaves for good at this time.
    pub(crate) leaves_at: Option<i64>,
}

#[derive(Debug)]
pub(crate) struct ConsumerMember {
    settings: ConsumerSettings,
    running: bool,
    gone: bool,
    member_id: ByteString,
    epoch: i32,
    owned: BTreeSet<TopicPartition>,
    /// The assignment that we are moving to, and when we have let go of what is not in it.
    target: Option<(BTreeSet<TopicPartition>, i64)>,
    call: Option<Call>,
    /// When it was sent there was nothing to let go of, and the broker is told so.
    call_is_clean: bool,
    /// The broker may not know what we last said of ourselves.
    must_tell_all: bool,
    /// What we own has changed since the broker was told.
    must_tell_owned: bool,
    offsets: Offsets,
    heartbeat_ms: i64,
    /// When the last heartbeat was sent that was answered.
    proven_at: i64,
    /// The same, of those whose answer left nothing to let go of.
    clean_at: i64,
    due: i64,
}

impl ConsumerMember {
    pub(crate) fn new(settings: ConsumerSettings) -> Self {
        Self {
            settings,
            running: false,
            gone: false,
            member_id: ByteString::new(),
            epoch: JOIN,
            owned: BTreeSet::new(),
            target: None,
            call: None,
            call_is_clean: false,
            must_tell_all: true,
            must_tell_owned: false,
            offsets: Offsets::default(),
            heartbeat_ms: 1_000,
            proven_at: i64::MIN,
            clean_at: i64::MIN,
            due: i64::MIN,
        }
    }

    fn start(&mut self, io: &mut Io<'_>) {
        self.running = true;
        self.member_id = io.random.uuid().into();
        let ConsumerSettings {
            group, topics, pattern, ..
        } = self.settings.clone();
        if let Some(instance) = &self.settings.instance {
            io.checks.fencing.started(io.id, &group, instance);
        }
        io.checks.members.insert(io.id, Subscription { group, topics, pattern });
        self.lose_all(io);
    }

    /// The next heartbeat joins.
    fn lose_all(&mut self, io: &mut Io<'_>) {
        self.epoch = JOIN;
        self.owned.clear();
        self.target = None;
        self.must_tell_all = true;
        io.checks.owners.release_all(io.id);
    }

    fn heartbeat(&mut self, io: &mut Io<'_>) {
        let all = self.must_tell_all || self.epoch == JOIN;
        let settings = &self.settings;
        let request = ConsumerGroupHeartbeatRequest {
            group_id: settings.group.clone(),
            member_id: self.member_id.clone(),
            member_epoch: self.epoch,
            instance_id: settings.instance.clone(),
            rebalance_timeout_ms: if all { settings.rebalance_ms } else { -1 },
            subscribed_topic_names: all.then(|| settings.topics.clone()),
            subscribed_topic_regex: settings.pattern.clone().filter(|_| all),
            server_assignor: settings.assignor.clone().filter(|_| all),
            topic_partitions: (all || self.must_tell_owned).then(|| self.owned_by_id(io)),
            ..Default::default()
        };
        (self.must_tell_all, self.must_tell_owned) = (false, false);
        self.call_is_clean = !self.must_revoke();
        self.send(io, request);
    }

    fn send(&mut self, io: &mut Io<'_>, request: ConsumerGroupHeartbeatRequest) {
        let request = GroupRequest::ConsumerHeartbeat(request);
        self.call = Some(io.send(
            Request::Group {
                version: VERSION,
                request,
            },
            REQUEST_TIMEOUT_MS,
        ));
    }

    fn owned_by_id(&self, io: &Io<'_>) -> Vec<TopicPartitions> {
        let mut topics: Vec<TopicPartitions> = vec![];
        for place in &self.owned {
            let Some(topic) = io.topics.by_name(&place.topic) else {
                continue;
            };
            match topics.last_mut().filter(|last| last.topic_id == topic.id) {
                Some(last) => last.partitions.push(place.partition),
                None => topics.push(TopicPartitions {
                    topic_id: topic.id,
                    partitions: vec![place.partition],
                    ..Default::default()
                }),
            }
        }
        topics
    }

    fn answered(&mut self, io: &mut Io<'_>, call: &Call, response: ConsumerGroupHeartbeatResponse) {
        let joins = self.epoch == JOIN;
        self.epoch = response.member_epoch;
        self.heartbeat_ms = i64::from(response.heartbeat_interval_ms);
        if joins {
            let now = io.now();
            io.checks.joined(
                (call.sent_at, now),
                io.id,
                &self.settings.group,
                self.settings.instance.as_ref(),
            );
        }
        if let Some(assignment) = response.assignment {
            let target = read_assignment(io, assignment);
            let revokes = self.owned.difference(&target).next().is_some();
            let done_at = if revokes {
                io.soon(self.settings.revoke_ms_max)
            } else {
                io.now()
            };
            io.note(|| format!("in epoch {} moves to {target:?} by {done_at}", self.epoch));
            self.target = Some((target, done_at));
            io.wake_at(done_at);
        }
        self.proven_at = self.proven_at.max(call.sent_at);
        if self.call_is_clean && !self.must_revoke() {
            self.clean_at = self.clean_at.max(call.sent_at);
        }
        self.hold(io);
        let instance = self.settings.instance.as_ref();
        let held = io
            .checks
            .fencing
            .check(io.id, &self.settings.group, instance, call.sent_at);
        io.checks.demand(held);
    }

    fn must_revoke(&self) -> bool {
        self.target
            .as_ref()
            .is_some_and(|(target, _)| !self.owned.is_subset(target))
    }

    /// What is owned may be believed in until the broker could have given us up.
    fn hold(&mut self, io: &mut Io<'_>) {
        let by_session = self.proven_at.saturating_add(i64::from(self.settings.session_ms));
        let by_rebalance = self.clean_at.saturating_add(i64::from(self.settings.rebalance_ms));
        let now = io.now();
        let instance = self.settings.instance.as_ref();
        if io.checks.fencing.may_be_replaced(io.id, &self.settings.group, instance) {
            return;
        }
        for place in &self.owned {
            let (proven_at, until) = (self.proven_at.min(self.clean_at), by_session.min(by_rebalance));
            let held = io
                .checks
                .owners
                .hold(now, io.id, (&self.settings.group, place), (proven_at, until));
            io.checks.demand(held);
        }
    }

    /// Lets go of what is not in the assignment, takes what is new, and tells the broker.
    fn move_to_target(&mut self, io: &mut Io<'_>) {
        let now = io.now();
        let Some((target, _)) = self.target.take_if(|(_, done_at)| now >= *done_at) else {
            return;
        };
        for place in self.owned.difference(&target) {
            io.checks.owners.release(io.id, &self.settings.group, place);
        }
        let added: Vec<TopicPartition> = target.difference(&self.owned).cloned().collect();
        self.must_tell_owned |= target != self.owned;
        self.owned = target;
        self.hold(io);
        if !added.is_empty() {
            self.offsets.fetch(io, self.identity(), &added);
        }
    }

    fn identity(&self) -> Identity {
        Identity {
            group: self.settings.group.clone(),
            member_id: self.member_id.clone(),
            instance: self.settings.instance.clone(),
            epoch: self.epoch,
            asks_as_member: true,
        }
    }

    fn work_with_offsets(&mut self, io: &mut Io<'_>) {
        if self.owned.is_empty() || self.epoch <= 0 {
            return;
        }
        if io.random.below(3) == 0 {
            self.offsets.commit(io, self.identity(), self.owned.iter());
        }
        if io.random.below(6) == 0 {
            let places: Vec<TopicPartition> = self.owned.iter().cloned().collect();
            self.offsets.fetch(io, self.identity(), &places);
        }
    }

    fn leave(&mut self, io: &mut Io<'_>, epoch: i32) {
        let request = ConsumerGroupHeartbeatRequest {
            group_id: self.settings.group.clone(),
            member_id: self.member_id.clone(),
            member_epoch: epoch,
            instance_id: self.settings.instance.clone(),
            rebalance_timeout_ms: -1,
            ..Default::default()
        };
        self.stop(io);
        self.send(io, request);
        self.call = None;
    }

    fn stop(&mut self, io: &mut Io<'_>) {
        self.lose_all(io);
        self.running = false;
        self.call = None;
        self.offsets.clear();
        io.checks.members.remove(&io.id);
        if let Some(instance) = &self.settings.instance {
            io.checks.fencing.ended(io.id, &self.settings.group, instance);
        }
    }

    fn failed(&mut self, io: &mut Io<'_>, error: ErrorCode) {
        match error {
            // The group is not found when only members of the classic protocol are left in it: then it is theirs.
            ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch | ErrorCode::GroupIdNotFound => {
                self.lose_all(io);
                self.heartbeat(io);
            }
            // An old process of ours still counts; its session ends some time.
            ErrorCode::UnreleasedInstanceId => {
                self.must_tell_all = true;
                self.wake_at(io, io.now() + 1_000);
            }
            ErrorCode::FencedInstanceId => {
                let instance = self.settings.instance.clone().unwrap_or_default();
                self.gone = io.checks.fencing.runs_elsewhere(io.id, &self.settings.group, &instance);
                self.stop(io);
                let due = io.soon(2_000);
                self.wake_at(io, due);
            }
            ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator | ErrorCode::CoordinatorLoadInProgress => {
                self.must_tell_all = true;
            }
            error => io
                .checks
                .fail(format!("client {} was answered {}", io.id, error.name())),
        }
    }

    fn wake_at(&mut self, io: &mut Io<'_>, due: i64) {
        self.due = due;
        io.wake_at(due);
    }
}

impl Client for ConsumerMember {
    fn wake(&mut self, io: &mut Io<'_>) {
        if self.gone {
            return;
        }
        self.move_to_target(io);
        if self.must_tell_owned && self.call.is_none() && self.running {
            self.heartbeat(io);
        }
        if io.now() < self.due {
            return;
        }
        if !self.running {
            self.start(io);
        }
        if self.settings.leaves_at.is_some_and(|leaves_at| io.now() >= leaves_at) {
            self.gone = true;
            return self.leave(io, LEAVE);
        }
        self.work_with_offsets(io);
        if self.call.is_none() {
            self.heartbeat(io);
        }
        let due = io.now() + self.heartbeat_ms;
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
        let GroupReply::ConsumerHeartbeat(response) = reply else {
            return io
                .checks
                .fail(format!("client {} got the wrong answer {reply:?}", io.id));
        };
        match ErrorCode::from_code(response.error_code) {
            Some(ErrorCode::None) => self.answered(io, &ours, response),
            error => self.failed(io, error.unwrap_or(ErrorCode::UnknownServerError)),
        }
    }

    fn unanswered(&mut self, io: &mut Io<'_>, call: CallId) {
        self.offsets.unanswered(call);
        if self.call.is_some_and(|ours| ours.id == call) {
            self.call = None;
            self.must_tell_all = true;
            let due = io.soon(300);
            self.wake_at(io, due);
        }
    }

    fn crash(&mut self, io: &mut Io<'_>) {
        if self.gone || !self.running {
            return;
        }
        // A static member that is stopped in order says that it will be back.
        if self.settings.instance.is_some() && io.random.below(2) == 0 {
            self.leave(io, LEAVE_FOR_NOW);
        } else {
            self.stop(io);
        }
        let due = io.soon(15_000);
        self.wake_at(io, due);
    }
}

fn read_assignment(io: &mut Io<'_>, assignment: Assignment) -> BTreeSet<TopicPartition> {
    let mut places = BTreeSet::new();
    for topic in assignment.topic_partitions {
        let Some((name, _)) = io.topics.by_id(topic.topic_id) else {
            io.checks.fail(format!(
                "client {} was assigned topic {}, which is not there",
                io.id, topic.topic_id
            ));
            continue;
        };
        places.extend(topic.partitions.into_iter().map(|partition| TopicPartition {
            topic: name.clone(),
            partition,
        }));
    }
    places
}
