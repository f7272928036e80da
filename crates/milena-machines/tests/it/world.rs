//! A group coordinator with a clock, a log and a mailbox.
//!
//! After each event a second coordinator is loaded from the log, and must reply like the first.

use std::{collections::BTreeMap, sync::Arc};

use bytes::{BufMut, Bytes, BytesMut};
use milena_machines::{
    GroupCoordinator, StoredRecord, Ticket, TopicImage, TopicsImage,
    group::{GroupConfig, GroupContext, GroupEffects, GroupRecord, GroupReply, GroupRequest, VisibleTopics},
    transaction::ProducerEpoch,
};
use milena_wire::{
    Uuid,
    errors::ErrorCode,
    messages::{
        HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, SyncGroupRequest,
        SyncGroupResponse,
        describe_groups_response::DescribedGroup,
        join_group_request::JoinGroupRequestProtocol,
        leave_group_request::MemberIdentity,
        list_groups_response::ListedGroup,
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics},
        offset_fetch_response::{OffsetFetchResponseGroup, OffsetFetchResponsePartitions},
        sync_group_request::SyncGroupRequestAssignment,
    },
};

pub(crate) const SESSION_MS: i32 = 10_000;
pub(crate) const REBALANCE_MS: i32 = 60_000;

pub(crate) struct World {
    pub(crate) machine: GroupCoordinator,
    pub(crate) now_ms: i64,
    config: GroupConfig,
    topics: Arc<TopicsImage>,
    log: Vec<Entry>,
    replies: BTreeMap<Ticket, GroupReply>,
    tickets: u64,
}

enum Entry {
    Record(Option<ProducerEpoch>, StoredRecord),
    Marker(ProducerEpoch, bool),
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(GroupConfig::default())
    }

    pub(crate) fn with(config: GroupConfig) -> Self {
        let mut topics = TopicsImage::default();
        for (name, id) in [("orders", 1), ("payments", 2)] {
            topics.insert(name.into(), topic(id));
        }
        let topics = Arc::new(topics);
        let mut machine = GroupCoordinator::new(config.clone(), topics.clone(), 7);
        let now_ms = 1_000_000;
        let effects = machine.start(now_ms);
        assert_eq!(effects, GroupEffects::default());
        Self {
            machine,
            now_ms,
            config,
            topics,
            log: vec![],
            replies: BTreeMap::new(),
            tickets: 0,
        }
    }

    /// Sends a request, and lets no time pass: timeouts that are due happen in [`Self::settle`].
    pub(crate) fn send(&mut self, version: i16, request: GroupRequest) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let context = GroupContext {
            now_ms: self.now_ms,
            ticket,
            version,
            client_id: "client".into(),
            client_host: "/127.0.0.1".into(),
            visible_topics: VisibleTopics::default(),
        };
        let effects = self.machine.handle_request(&context, request);
        self.take(effects);
        ticket
    }

    pub(crate) fn ask(&mut self, version: i16, request: GroupRequest) -> GroupReply {
        let ticket = self.send(version, request);
        self.reply(ticket)
    }

    /// Handles the timeouts that are due.
    pub(crate) fn settle(&mut self) {
        let effects = self.machine.handle_timeout(self.now_ms);
        self.take(effects);
    }

    /// Lets time pass, from one deadline to the next.
    pub(crate) fn pass(&mut self, duration_ms: i32) {
        let end_ms = self.now_ms + i64::from(duration_ms);
        while let Some(deadline_ms) = self.machine.poll_timeout().filter(|deadline_ms| *deadline_ms <= end_ms) {
            self.now_ms = self.now_ms.max(deadline_ms);
            self.settle();
        }
        self.now_ms = end_ms;
    }

    pub(crate) fn take(&mut self, effects: GroupEffects) {
        for record in effects.records {
            let stored = record.encode().expect("records can be encoded");
            self.log.push(Entry::Record(effects.producer, stored));
        }
        for (ticket, reply) in effects.replies {
            let twice = self.replies.insert(ticket, reply);
            assert_eq!(twice, None, "{ticket:?} got two replies");
        }
        self.check_log();
    }

    pub(crate) fn end_transaction(&mut self, producer: ProducerEpoch, committed: bool) {
        self.machine.replay_marker(producer, committed);
        self.log.push(Entry::Marker(producer, committed));
        self.check_log();
    }

    /// Changes the topics.
    pub(crate) fn set_topics(&mut self, topics: TopicsImage) {
        self.topics = Arc::new(topics);
        let effects = self.machine.set_topics(self.now_ms, self.topics.clone());
        self.take(effects);
    }

    pub(crate) fn topics(&self) -> TopicsImage {
        (*self.topics).clone()
    }

    /// The coordinator dies, and another one is loaded from the log. Waiting requests get no reply.
    pub(crate) fn restart(&mut self) {
        self.restart_with(self.config.clone());
    }

    pub(crate) fn restart_with(&mut self, config: GroupConfig) {
        self.config = config;
        self.machine = self.rebuilt();
        let effects = self.machine.start(self.now_ms);
        self.take(effects);
    }

    /// The records of the log from this position on, as they are read from there.
    pub(crate) fn records_from(&self, place: usize) -> Vec<GroupRecord> {
        let records = self.log.iter().skip(place).filter_map(|entry| match entry {
            Entry::Record(_, stored) => Some(stored),
            Entry::Marker(..) => None,
        });
        records
            .filter_map(|stored| GroupRecord::decode(&stored.key, stored.value.as_ref()).expect("decodes"))
            .collect()
    }

    pub(crate) fn log_len(&self) -> usize {
        self.log.len()
    }

    /// Whether the last record belongs to this transaction.
    pub(crate) fn last_producer(&self) -> Option<ProducerEpoch> {
        match self.log.last()? {
            Entry::Record(producer, _) => *producer,
            Entry::Marker(..) => None,
        }
    }

    fn rebuilt(&self) -> GroupCoordinator {
        let mut machine = GroupCoordinator::new(self.config.clone(), self.topics.clone(), 99);
        for entry in &self.log {
            match entry {
                Entry::Record(producer, stored) => machine
                    .replay_stored(*producer, &stored.key, stored.value.as_ref())
                    .expect("records can be replayed"),
                Entry::Marker(producer, committed) => machine.replay_marker(*producer, *committed),
            }
        }
        machine
    }

    /// Durable state is in the log. Between generations groups are ahead of it, and only their offsets are not.
    fn check_log(&mut self) {
        let mut rebuilt = self.rebuilt();
        let (now_ms, ours) = (self.now_ms, list(&mut self.machine, self.now_ms));
        let theirs = list(&mut rebuilt, now_ms);
        let ids = |groups: &[ListedGroup]| groups.iter().map(|group| group.group_id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&ours), ids(&theirs));
        for (one, other) in ours.iter().zip(&theirs) {
            let group_id = one.group_id.as_ref();
            for require_stable in [false, true] {
                assert_eq!(
                    fetch_all(&mut self.machine, now_ms, group_id, require_stable),
                    fetch_all(&mut rebuilt, now_ms, group_id, require_stable)
                );
            }
            if ["Empty", "Stable"].contains(&one.group_state.as_ref()) {
                assert_eq!(one, other);
                assert_eq!(
                    describe(&mut self.machine, now_ms, group_id),
                    describe(&mut rebuilt, now_ms, group_id)
                );
            }
        }
    }

    pub(crate) fn is_waiting(&self, ticket: Ticket) -> bool {
        !self.replies.contains_key(&ticket)
    }

    pub(crate) fn reply(&mut self, ticket: Ticket) -> GroupReply {
        self.replies
            .remove(&ticket)
            .unwrap_or_else(|| panic!("{ticket:?} has no reply"))
    }

    pub(crate) fn joined(&mut self, ticket: Ticket) -> JoinGroupResponse {
        match self.reply(ticket) {
            GroupReply::Join(response) => response,
            other => panic!("not a reply to JoinGroup: {other:?}"),
        }
    }

    pub(crate) fn synced(&mut self, ticket: Ticket) -> SyncGroupResponse {
        match self.reply(ticket) {
            GroupReply::Sync(response) => response,
            other => panic!("not a reply to SyncGroup: {other:?}"),
        }
    }

    pub(crate) fn join(&mut self, request: JoinGroupRequest) -> Ticket {
        self.send(9, GroupRequest::Join(request))
    }

    pub(crate) fn join_error(&mut self, version: i16, request: JoinGroupRequest) -> ErrorCode {
        let ticket = self.send(version, GroupRequest::Join(request));
        code(self.joined(ticket).error_code)
    }

    /// Gets a member id, as clients do since version 4.
    pub(crate) fn member_id(&mut self, group_id: &str) -> String {
        let ticket = self.join(join(group_id, ""));
        let response = self.joined(ticket);
        assert_eq!(code(response.error_code), ErrorCode::MemberIdRequired);
        response.member_id.to_string()
    }

    pub(crate) fn sync(&mut self, request: SyncGroupRequest) -> Ticket {
        self.send(5, GroupRequest::Sync(request))
    }

    pub(crate) fn sync_error(&mut self, request: SyncGroupRequest) -> ErrorCode {
        let ticket = self.sync(request);
        code(self.synced(ticket).error_code)
    }

    pub(crate) fn heartbeat(&mut self, group_id: &str, member_id: &str, generation_id: i32) -> ErrorCode {
        self.heartbeat_as(group_id, member_id, None, generation_id)
    }

    pub(crate) fn heartbeat_as(
        &mut self,
        group_id: &str,
        member_id: &str,
        instance_id: Option<&str>,
        generation_id: i32,
    ) -> ErrorCode {
        let request = HeartbeatRequest {
            group_id: group_id.into(),
            generation_id,
            member_id: member_id.into(),
            group_instance_id: instance_id.map(Into::into),
            ..Default::default()
        };
        match self.ask(4, GroupRequest::Heartbeat(request)) {
            GroupReply::Heartbeat(response) => code(response.error_code),
            other => panic!("not a reply to Heartbeat: {other:?}"),
        }
    }

    /// Members leave, each named by member id and instance id.
    pub(crate) fn leave(
        &mut self,
        version: i16,
        group_id: &str,
        members: &[(&str, Option<&str>)],
    ) -> LeaveGroupResponse {
        let named = members.iter().map(|(member_id, instance_id)| MemberIdentity {
            member_id: (*member_id).into(),
            group_instance_id: instance_id.map(Into::into),
            ..Default::default()
        });
        let request = LeaveGroupRequest {
            group_id: group_id.into(),
            member_id: members
                .first()
                .map(|(member_id, _)| (*member_id).into())
                .unwrap_or_default(),
            members: if version < 3 { vec![] } else { named.collect() },
            ..Default::default()
        };
        match self.ask(version, GroupRequest::Leave(request)) {
            GroupReply::Leave(response) => response,
            other => panic!("not a reply to LeaveGroup: {other:?}"),
        }
    }

    pub(crate) fn describe(&mut self, group_id: &str) -> DescribedGroup {
        describe(&mut self.machine, self.now_ms, group_id)
    }

    pub(crate) fn state(&mut self, group_id: &str) -> String {
        self.describe(group_id).group_state.to_string()
    }

    pub(crate) fn list(&mut self) -> Vec<ListedGroup> {
        list(&mut self.machine, self.now_ms)
    }

    pub(crate) fn fetch(&mut self, group_id: &str, topic: &str, partition: i32) -> OffsetFetchResponsePartitions {
        self.fetch_as(group_id, topic, partition, false)
    }

    pub(crate) fn fetch_as(
        &mut self,
        group_id: &str,
        topic: &str,
        partition: i32,
        require_stable: bool,
    ) -> OffsetFetchResponsePartitions {
        let topics = vec![OffsetFetchRequestTopics {
            name: topic.into(),
            partition_indexes: vec![partition],
            ..Default::default()
        }];
        let group = OffsetFetchRequestGroup {
            group_id: group_id.into(),
            topics: Some(topics),
            ..Default::default()
        };
        match self.ask(8, GroupRequest::OffsetFetch { group, require_stable }) {
            GroupReply::OffsetFetch(mut response) => response.topics.remove(0).partitions.remove(0),
            other => panic!("not a reply to OffsetFetch: {other:?}"),
        }
    }

    /// A stable group of the first generation with this number of members, the leader first.
    pub(crate) fn stable(&mut self, group_id: &str, size: usize) -> Vec<String> {
        let members = self.completing(group_id, size);
        self.sync_all(group_id, &members, 1);
        assert_eq!(self.state(group_id), "Stable");
        members
    }

    /// As [`Self::stable`], but the leader has yet to assign.
    pub(crate) fn completing(&mut self, group_id: &str, size: usize) -> Vec<String> {
        let members: Vec<_> = (0..size).map(|_| self.member_id(group_id)).collect();
        let tickets: Vec<_> = members.iter().map(|member| self.join(join(group_id, member))).collect();
        self.settle();
        for ticket in tickets {
            assert_eq!(self.joined(ticket).leader, members[0]);
        }
        assert_eq!(self.state(group_id), "CompletingRebalance");
        members
    }

    /// All members send SyncGroup, the leader first: each gets `for <member id>`.
    pub(crate) fn sync_all(&mut self, group_id: &str, members: &[String], generation_id: i32) {
        let mut request = sync(group_id, &members[0], generation_id);
        request.assignments = members.iter().map(|member| assignment(member)).collect();
        let mut tickets = vec![self.sync(request)];
        for member in &members[1..] {
            tickets.push(self.sync(sync(group_id, member, generation_id)));
        }
        for (ticket, member) in tickets.into_iter().zip(members) {
            let response = self.synced(ticket);
            assert_eq!(code(response.error_code), ErrorCode::None);
            assert_eq!(response.assignment, assigned_to(member));
        }
    }

    /// Sends heartbeats for the members until then.
    pub(crate) fn beat_for(&mut self, group_id: &str, members: &[&str], generation_id: i32, duration_ms: i32) {
        let step_ms = SESSION_MS / 2;
        for _ in 0..duration_ms / step_ms {
            self.pass(step_ms);
            for member in members {
                let error = self.heartbeat(group_id, member, generation_id);
                assert!(
                    [ErrorCode::None, ErrorCode::RebalanceInProgress].contains(&error),
                    "{error}"
                );
            }
        }
    }
}

pub(crate) fn topic(id: u8) -> TopicImage {
    TopicImage {
        id: Uuid::from_bytes([id; 16]),
        partitions: 3,
    }
}

pub(crate) fn code(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).expect("a known code")
}

pub(crate) fn assigned_to(member_id: &str) -> Bytes {
    format!("for {member_id}").into()
}

pub(crate) fn assignment(member_id: &str) -> SyncGroupRequestAssignment {
    SyncGroupRequestAssignment {
        member_id: member_id.into(),
        assignment: assigned_to(member_id),
        ..Default::default()
    }
}

pub(crate) fn protocol(name: &str, metadata: Bytes) -> JoinGroupRequestProtocol {
    JoinGroupRequestProtocol {
        name: name.into(),
        metadata,
        ..Default::default()
    }
}

/// The metadata of a consumer: version, topics, user data.
pub(crate) fn subscription(topics: &[&str]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(1);
    bytes.put_i32(topics.len() as i32);
    for topic in topics {
        bytes.put_i16(topic.len() as i16);
        bytes.put_slice(topic.as_bytes());
    }
    bytes.put_i32(-1);
    bytes.put_i32(0);
    bytes.freeze()
}

/// A consumer of `orders` joins.
pub(crate) fn join(group_id: &str, member_id: &str) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: group_id.into(),
        session_timeout_ms: SESSION_MS,
        rebalance_timeout_ms: REBALANCE_MS,
        member_id: member_id.into(),
        protocol_type: "consumer".into(),
        protocols: vec![protocol("range", subscription(&["orders"]))],
        ..Default::default()
    }
}

pub(crate) fn static_join(group_id: &str, member_id: &str, instance_id: &str) -> JoinGroupRequest {
    JoinGroupRequest {
        group_instance_id: Some(instance_id.into()),
        ..join(group_id, member_id)
    }
}

pub(crate) fn sync(group_id: &str, member_id: &str, generation_id: i32) -> SyncGroupRequest {
    SyncGroupRequest {
        group_id: group_id.into(),
        generation_id,
        member_id: member_id.into(),
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        ..Default::default()
    }
}

fn list(machine: &mut GroupCoordinator, now_ms: i64) -> Vec<ListedGroup> {
    let request = GroupRequest::List {
        states: vec![],
        types: vec![],
    };
    match look(machine, now_ms, request) {
        GroupReply::List(groups) => groups,
        other => panic!("not a reply to ListGroups: {other:?}"),
    }
}

fn describe(machine: &mut GroupCoordinator, now_ms: i64, group_id: &str) -> DescribedGroup {
    let group_id = group_id.into();
    match look(machine, now_ms, GroupRequest::Describe { group_id }) {
        GroupReply::Describe(group) => group,
        other => panic!("not a reply to DescribeGroups: {other:?}"),
    }
}

fn fetch_all(
    machine: &mut GroupCoordinator,
    now_ms: i64,
    group_id: &str,
    require_stable: bool,
) -> OffsetFetchResponseGroup {
    let group = OffsetFetchRequestGroup {
        group_id: group_id.into(),
        topics: None,
        ..Default::default()
    };
    match look(machine, now_ms, GroupRequest::OffsetFetch { group, require_stable }) {
        GroupReply::OffsetFetch(response) => response,
        other => panic!("not a reply to OffsetFetch: {other:?}"),
    }
}

/// A request that changes nothing.
fn look(machine: &mut GroupCoordinator, now_ms: i64, request: GroupRequest) -> GroupReply {
    let context = GroupContext {
        now_ms,
        ticket: Ticket(0),
        version: 5,
        client_id: "observer".into(),
        client_host: "/127.0.0.1".into(),
        visible_topics: VisibleTopics::default(),
    };
    let mut effects = machine.handle_request(&context, request);
    assert!(effects.records.is_empty());
    effects.replies.pop().expect("a reply").1
}
