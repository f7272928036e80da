//! A member, and a coordinator played by hand.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use bytestring::ByteString;
use milena_machines::{
    TopicPartition,
    assign::{
        Assignor, ClusterLayout, GroupAssignment, MemberAssignment, MemberSubscription, RebalanceProtocol, TopicLayout,
        encode_assignment,
    },
    member::{
        CallFailure, CallId, GroupProtocol, Member, MemberCall, MemberConfig, MemberEvent, MemberMetadata,
        MemberRequest, MemberResponse, Subscription,
    },
};
use milena_wire::{
    Uuid,
    errors::ErrorCode,
    messages::{
        ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, HeartbeatRequest, HeartbeatResponse,
        JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest, SyncGroupResponse,
        consumer_group_heartbeat_response::{Assignment, TopicPartitions},
    },
};

pub(super) const MAX_POLL_MS: i64 = 300_000;
pub(super) const SESSION_MS: i64 = 45_000;
pub(super) const HEARTBEAT_MS: i64 = 3_000;
/// Longer than any backoff.
pub(super) const BACKOFF_MS: i64 = 1_000;

/// Gives all partitions of a topic to the first subscriber.
#[derive(Debug)]
pub(super) struct Greedy {
    pub(super) name: &'static str,
    pub(super) protocols: Vec<RebalanceProtocol>,
    pub(super) user_data: Option<Bytes>,
}

impl Assignor for Greedy {
    fn name(&self) -> &str {
        self.name
    }

    fn protocols(&self) -> &[RebalanceProtocol] {
        &self.protocols
    }

    fn user_data(&self, _topics: &[ByteString]) -> Option<Bytes> {
        self.user_data.clone()
    }

    fn assign(&mut self, cluster: &ClusterLayout, members: &[MemberSubscription]) -> GroupAssignment {
        let mut all: GroupAssignment = members
            .iter()
            .map(|member| (member.member_id.clone(), MemberAssignment::default()))
            .collect();
        for (topic, layout) in cluster {
            let wanting = members.iter().find(|member| member.topics.contains(topic));
            if let Some(assignment) = wanting.and_then(|member| all.get_mut(&member.member_id)) {
                let partitions =
                    (0..layout.len() as i32).map(|partition| TopicPartition::new(topic.clone(), partition));
                assignment.partitions.extend(partitions);
            }
        }
        all
    }

    /// Lets a test see that it was called.
    fn on_assignment(&mut self, assignment: &MemberAssignment, generation: i32) {
        let text = format!("{} in {generation}", assignment.partitions.len());
        self.user_data = Some(Bytes::from(text));
    }
}

pub(super) fn eager() -> Box<dyn Assignor> {
    Box::new(Greedy {
        name: "greedy",
        protocols: vec![RebalanceProtocol::Eager],
        user_data: None,
    })
}

pub(super) fn cooperative() -> Box<dyn Assignor> {
    Box::new(Greedy {
        name: "greedy",
        protocols: vec![RebalanceProtocol::Eager, RebalanceProtocol::Cooperative],
        user_data: None,
    })
}

pub(super) fn config(protocol: GroupProtocol) -> MemberConfig {
    MemberConfig {
        group_id: "group".into(),
        instance_id: None,
        rack: None,
        rebalance_timeout_ms: MAX_POLL_MS as i32,
        request_timeout_ms: 30_000,
        retry_backoff_ms: 100,
        retry_backoff_max_ms: BACKOFF_MS,
        protocol,
    }
}

pub(super) fn classic(assignors: Vec<Box<dyn Assignor>>) -> GroupProtocol {
    GroupProtocol::Classic {
        session_timeout_ms: SESSION_MS as i32,
        heartbeat_interval_ms: HEARTBEAT_MS as i32,
        assignors,
    }
}

pub(super) struct Rig {
    pub(super) member: Member,
    pub(super) now: i64,
    sent: VecDeque<MemberCall>,
    metadata: MemberMetadata,
}

impl Rig {
    pub(super) fn new(config: MemberConfig) -> Self {
        Self {
            member: Member::new(config, 7).unwrap(),
            now: 1_000_000,
            sent: VecDeque::new(),
            metadata: MemberMetadata::default(),
        }
    }

    pub(super) fn eager() -> Self {
        Self::new(config(classic(vec![eager()])))
    }

    pub(super) fn cooperative() -> Self {
        Self::new(config(classic(vec![cooperative()])))
    }

    pub(super) fn of_instance(assignor: Box<dyn Assignor>) -> Self {
        Self::new(MemberConfig {
            instance_id: Some("instance".into()),
            ..config(classic(vec![assignor]))
        })
    }

    pub(super) fn consumer() -> Self {
        Self::new(config(GroupProtocol::Consumer { remote_assignor: None }))
    }

    pub(super) fn subscribe(&mut self, topics: &[&str]) {
        self.member.subscribe(self.now, Subscription::Topics(names(topics)));
    }

    pub(super) fn poll(&mut self) {
        self.member.handle_poll(self.now);
    }

    /// Takes all requests, and checks that the machine does not ask for a wake-up for something that it could do now.
    fn drive(&mut self) {
        while let Some(call) = self.member.poll_request(self.now) {
            self.sent.push_back(call);
        }
        assert!(self.member.poll_timeout().is_none_or(|timeout| timeout > self.now));
    }

    pub(super) fn call(&mut self) -> Option<MemberCall> {
        self.drive();
        self.sent.pop_front()
    }

    #[track_caller]
    pub(super) fn expect_call(&mut self) -> MemberCall {
        self.call().expect("nothing is sent")
    }

    #[track_caller]
    pub(super) fn expect_no_call(&mut self) {
        if let Some(call) = self.call() {
            panic!("{:?} is sent", call.request);
        }
    }

    #[track_caller]
    pub(super) fn expect_join(&mut self) -> (CallId, JoinGroupRequest) {
        match self.expect_call() {
            MemberCall {
                id,
                request: MemberRequest::Join(request),
                ..
            } => (id, request),
            call => panic!("{:?} is sent", call.request),
        }
    }

    #[track_caller]
    pub(super) fn expect_sync(&mut self) -> (CallId, SyncGroupRequest) {
        match self.expect_call() {
            MemberCall {
                id,
                request: MemberRequest::Sync(request),
                ..
            } => (id, request),
            call => panic!("{:?} is sent", call.request),
        }
    }

    #[track_caller]
    pub(super) fn expect_heartbeat(&mut self) -> (CallId, HeartbeatRequest) {
        match self.expect_call() {
            MemberCall {
                id,
                request: MemberRequest::Heartbeat(request),
                ..
            } => (id, request),
            call => panic!("{:?} is sent", call.request),
        }
    }

    #[track_caller]
    pub(super) fn expect_leave(&mut self) -> (CallId, LeaveGroupRequest) {
        match self.expect_call() {
            MemberCall {
                id,
                request: MemberRequest::Leave(request),
                ..
            } => (id, request),
            call => panic!("{:?} is sent", call.request),
        }
    }

    #[track_caller]
    pub(super) fn expect_modern(&mut self) -> (CallId, ConsumerGroupHeartbeatRequest) {
        match self.expect_call() {
            MemberCall {
                id,
                request: MemberRequest::ConsumerHeartbeat(request),
                ..
            } => (id, request),
            call => panic!("{:?} is sent", call.request),
        }
    }

    pub(super) fn respond(&mut self, call: CallId, response: MemberResponse) {
        self.member.handle_response(self.now, call, Ok(response));
    }

    pub(super) fn fail(&mut self, call: CallId, failure: CallFailure) {
        self.member.handle_response(self.now, call, Err(failure));
    }

    pub(super) fn refuse_join(&mut self, call: CallId, error: ErrorCode) {
        let response = JoinGroupResponse {
            error_code: error.code(),
            ..Default::default()
        };
        self.respond(call, MemberResponse::Join(response));
    }

    pub(super) fn refuse_sync(&mut self, call: CallId, error: ErrorCode) {
        let response = SyncGroupResponse {
            error_code: error.code(),
            ..Default::default()
        };
        self.respond(call, MemberResponse::Sync(response));
    }

    pub(super) fn respond_heartbeat(&mut self, call: CallId, error: ErrorCode) {
        let response = HeartbeatResponse {
            error_code: error.code(),
            ..Default::default()
        };
        self.respond(call, MemberResponse::Heartbeat(response));
    }

    pub(super) fn respond_join(&mut self, call: CallId, generation: i32, leader: &str) {
        let response = JoinGroupResponse {
            generation_id: generation,
            protocol_type: Some("consumer".into()),
            protocol_name: Some("greedy".into()),
            leader: ByteString::from(leader),
            member_id: "me".into(),
            ..Default::default()
        };
        self.respond(call, MemberResponse::Join(response));
    }

    pub(super) fn respond_sync(&mut self, call: CallId, partitions: &[(&str, i32)]) {
        let assignment = MemberAssignment {
            partitions: places(partitions),
            user_data: None,
        };
        let response = SyncGroupResponse {
            protocol_type: Some("consumer".into()),
            protocol_name: Some("greedy".into()),
            assignment: encode_assignment(&assignment).unwrap(),
            ..Default::default()
        };
        self.respond(call, MemberResponse::Sync(response));
    }

    /// Goes through a rebalance as a follower. There are no events before it.
    #[track_caller]
    pub(super) fn rebalance(&mut self, generation: i32, partitions: &[(&str, i32)]) -> JoinGroupRequest {
        let (call, request) = self.expect_join();
        self.respond_join(call, generation, "other");
        let (call, _) = self.expect_sync();
        self.respond_sync(call, partitions);
        request
    }

    /// A member in generation 1 with `partitions`.
    #[track_caller]
    pub(super) fn settle(&mut self, topics: &[&str], partitions: &[(&str, i32)]) {
        self.subscribe(topics);
        self.poll();
        self.rebalance(1, partitions);
        assert_eq!(self.tell(), Some(assigned(partitions, partitions)));
        assert_eq!(self.tell(), None);
    }

    /// Hands the next event to the application.
    pub(super) fn tell(&mut self) -> Option<MemberEvent> {
        let event = self.member.poll_event()?;
        assert_eq!(self.member.poll_event(), None, "there are two events at a time");
        self.member.handle_event_done(self.now);
        Some(event)
    }

    /// Moves time on in one step.
    pub(super) fn pass(&mut self, by_ms: i64) {
        self.now += by_ms;
        self.member.handle_timeout(self.now);
    }

    /// Replies to the next heartbeat with `error`.
    #[track_caller]
    pub(super) fn heartbeat(&mut self, error: ErrorCode) {
        self.pass(HEARTBEAT_MS);
        let (call, _) = self.expect_heartbeat();
        self.respond_heartbeat(call, error);
    }

    pub(super) fn set_topic(&mut self, name: &str, partitions: usize) {
        self.set_layout(name, TopicLayout::without_racks(partitions));
    }

    pub(super) fn set_layout(&mut self, name: &str, layout: TopicLayout) {
        self.metadata.insert(name.into(), Some(topic_id(name)), layout);
        let metadata = Arc::new(self.metadata.clone());
        self.member.handle_metadata(self.now, metadata);
    }

    /// Creates a topic again, with another id.
    pub(super) fn recreate_topic(&mut self, name: &str, id: Uuid) {
        self.metadata
            .insert(name.into(), Some(id), TopicLayout::without_racks(9));
        let metadata = Arc::new(self.metadata.clone());
        self.member.handle_metadata(self.now, metadata);
    }

    pub(super) fn respond_consumer(&mut self, call: CallId, epoch: i32, target: Option<&[(&str, i32)]>) {
        let target = target.map(|target| {
            let topics = target.iter().map(|(topic, partition)| (topic_id(topic), *partition));
            topics.collect::<Vec<_>>()
        });
        self.respond_consumer_by_id(call, epoch, target);
    }

    pub(super) fn respond_consumer_by_id(&mut self, call: CallId, epoch: i32, target: Option<Vec<(Uuid, i32)>>) {
        let assignment = target.map(|target| Assignment {
            topic_partitions: target
                .into_iter()
                .map(|(topic_id, partition)| TopicPartitions {
                    topic_id,
                    partitions: vec![partition],
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        });
        let response = ConsumerGroupHeartbeatResponse {
            member_epoch: epoch,
            heartbeat_interval_ms: 5_000,
            assignment,
            ..Default::default()
        };
        self.respond(call, MemberResponse::ConsumerHeartbeat(response));
    }

    pub(super) fn refuse_modern(&mut self, call: CallId, error: ErrorCode) {
        let response = ConsumerGroupHeartbeatResponse {
            error_code: error.code(),
            error_message: Some("because".into()),
            ..Default::default()
        };
        self.respond(call, MemberResponse::ConsumerHeartbeat(response));
    }

    /// A member of the consumer protocol in epoch 1 with `partitions`, all acknowledged.
    #[track_caller]
    pub(super) fn settle_modern(&mut self, topics: &[&str], partitions: &[(&str, i32)]) {
        for topic in topics {
            self.set_topic(topic, 9);
        }
        self.subscribe(topics);
        self.poll();
        let (call, _) = self.expect_modern();
        self.respond_consumer(call, 1, Some(partitions));
        assert_eq!(self.tell(), Some(assigned(partitions, partitions)));
        let (call, _) = self.expect_modern();
        self.respond_consumer(call, 1, None);
        self.expect_no_call();
    }
}

pub(super) fn names(topics: &[&str]) -> BTreeSet<ByteString> {
    topics.iter().map(|topic| ByteString::from(*topic)).collect()
}

pub(super) fn places(partitions: &[(&str, i32)]) -> Vec<TopicPartition> {
    let mut places: Vec<TopicPartition> = partitions
        .iter()
        .map(|(topic, partition)| TopicPartition::new(*topic, *partition))
        .collect();
    places.sort();
    places
}

pub(super) fn revoked(partitions: &[(&str, i32)]) -> MemberEvent {
    MemberEvent::Revoked(places(partitions))
}

pub(super) fn lost(partitions: &[(&str, i32)]) -> MemberEvent {
    MemberEvent::Lost(places(partitions))
}

pub(super) fn assigned(added: &[(&str, i32)], all: &[(&str, i32)]) -> MemberEvent {
    MemberEvent::Assigned {
        added: places(added),
        all: places(all),
    }
}

pub(super) fn topic_id(name: &str) -> Uuid {
    let mut bytes = [0; 16];
    for (place, byte) in bytes.iter_mut().zip(name.bytes()) {
        *place = byte;
    }
    Uuid::from_bytes(bytes)
}
