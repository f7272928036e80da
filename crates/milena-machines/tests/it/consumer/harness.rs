//! A coordinator with its log, and members that behave.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytestring::ByteString;
use milena_machines::{
    GroupCoordinator, StoredRecord, Ticket, TopicImage, TopicsImage,
    group::{GroupConfig, GroupContext, GroupEffects, GroupRecord, GroupReply, GroupRequest, VisibleTopics},
};
use milena_wire::{
    Uuid,
    errors::ErrorCode,
    messages::{
        ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
        consumer_group_describe_response::DescribedGroup, consumer_group_heartbeat_request::TopicPartitions,
    },
};

pub(crate) const GROUP: &str = "group";
pub(crate) const REBALANCE_TIMEOUT_MS: i32 = 60_000;

pub(crate) type Owned = BTreeMap<Uuid, BTreeSet<i32>>;

pub(crate) struct World {
    pub(crate) coordinator: GroupCoordinator,
    pub(crate) config: GroupConfig,
    pub(crate) topics: TopicsImage,
    pub(crate) log: Vec<StoredRecord>,
    pub(crate) now_ms: i64,
    pub(crate) version: i16,
    next_ticket: u64,
}

impl World {
    pub(crate) fn new(config: GroupConfig) -> Self {
        let topics = TopicsImage::default();
        Self {
            coordinator: GroupCoordinator::new(config.clone(), Arc::new(topics.clone()), 1),
            config,
            topics,
            log: vec![],
            now_ms: 1_000,
            version: 1,
            next_ticket: 0,
        }
    }

    /// A world with these topics.
    pub(crate) fn with_topics(topics: &[(&str, i32)]) -> Self {
        let mut world = Self::new(GroupConfig::default());
        for (name, partitions) in topics {
            world.create_topic(name, *partitions);
        }
        world
    }

    /// Creates a topic, or adds partitions.
    pub(crate) fn create_topic(&mut self, name: &str, partitions: i32) {
        let id = topic_id(name);
        self.topics.insert(name.into(), TopicImage { id, partitions });
        self.publish_topics();
    }

    pub(crate) fn delete_topic(&mut self, name: &str) {
        self.topics.remove(name);
        self.publish_topics();
    }

    pub(crate) fn publish_topics(&mut self) {
        let effects = self.coordinator.set_topics(self.now_ms, Arc::new(self.topics.clone()));
        self.append(effects);
    }

    pub(crate) fn context(&mut self) -> GroupContext {
        self.next_ticket += 1;
        GroupContext {
            now_ms: self.now_ms,
            ticket: Ticket(self.next_ticket),
            version: self.version,
            client_id: "client".into(),
            client_host: "/127.0.0.1".into(),
            visible_topics: VisibleTopics::default(),
        }
    }

    /// Sends a request, and returns all replies, whatever their tickets.
    pub(crate) fn ask(&mut self, request: GroupRequest) -> Vec<GroupReply> {
        let context = self.context();
        let effects = self.coordinator.handle_request(&context, request);
        self.append(effects)
    }

    fn append(&mut self, effects: GroupEffects) -> Vec<GroupReply> {
        let records = effects.records.iter().map(|record| record.encode().unwrap());
        self.log.extend(records);
        effects.replies.into_iter().map(|(_, reply)| reply).collect()
    }

    /// Lets time pass, with all timeouts.
    pub(crate) fn pass(&mut self, ms: i64) {
        let end_ms = self.now_ms + ms;
        while let Some(deadline_ms) = self.coordinator.poll_timeout().filter(|deadline| *deadline <= end_ms) {
            self.now_ms = self.now_ms.max(deadline_ms);
            let effects = self.coordinator.handle_timeout(self.now_ms);
            self.append(effects);
        }
        self.now_ms = end_ms;
    }

    pub(crate) fn heartbeat(&mut self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse {
        match self.ask(GroupRequest::ConsumerHeartbeat(request)).pop() {
            Some(GroupReply::ConsumerHeartbeat(response)) => response,
            reply => panic!("no reply to a heartbeat: {reply:?}"),
        }
    }

    pub(crate) fn refused(&mut self, request: ConsumerGroupHeartbeatRequest) -> ErrorCode {
        let records = self.log.len();
        let response = self.heartbeat(request);
        let code = ErrorCode::from_code(response.error_code).unwrap();
        assert_ne!(code, ErrorCode::None, "{response:?}");
        assert!(response.error_message.is_some(), "{response:?}");
        assert_eq!(self.log.len(), records, "a refusal leaves no records");
        code
    }

    pub(crate) fn granted(&mut self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse {
        let response = self.heartbeat(request);
        assert_eq!(response.error_code, 0, "{response:?}");
        response
    }

    pub(crate) fn describe(&mut self, group_id: &str) -> DescribedGroup {
        let group_id = group_id.into();
        match self.ask(GroupRequest::ConsumerDescribe { group_id }).pop() {
            Some(GroupReply::ConsumerDescribe(group)) => group,
            reply => panic!("no description: {reply:?}"),
        }
    }

    pub(crate) fn state(&mut self) -> String {
        self.describe(GROUP).group_state.to_string()
    }

    /// All stored assignments of a member, with their positions in the log.
    pub(crate) fn currents(&self, of: &str) -> Vec<(usize, ConsumerGroupCurrentMemberAssignmentValue)> {
        let records = self.log.iter().enumerate();
        let currents = records.filter_map(|(place, record)| {
            match GroupRecord::decode(&record.key, record.value.as_ref()).unwrap()? {
                GroupRecord::CurrentAssignment { member_id, value, .. } if member_id == of => Some((place, value?)),
                _ => None,
            }
        });
        currents.collect()
    }

    /// Drops the coordinator and loads one from the log, compacted or not; it must have the same state.
    pub(crate) fn restart(&mut self) {
        let before = self.describe(GROUP);
        self.coordinator = self.replayed(&self.compacted());
        assert_eq!(self.describe(GROUP), before, "the compacted log tells the same");
        self.coordinator = self.replayed(&self.log);
        assert_eq!(self.describe(GROUP), before, "the log tells the same");
        let effects = self.coordinator.start(self.now_ms);
        self.append(effects);
    }

    fn replayed(&self, log: &[StoredRecord]) -> GroupCoordinator {
        // A seed of its own for each start: member ids must not repeat.
        let seed = 1 + u64::try_from(self.log.len()).unwrap();
        let mut fresh = GroupCoordinator::new(self.config.clone(), Arc::new(self.topics.clone()), seed);
        for record in log {
            fresh.replay_stored(None, &record.key, record.value.as_ref()).unwrap();
        }
        fresh
    }

    /// The last record of each key, without tombstones.
    fn compacted(&self) -> Vec<StoredRecord> {
        let last: BTreeMap<&[u8], usize> = self
            .log
            .iter()
            .enumerate()
            .map(|(place, record)| (&*record.key, place))
            .collect();
        let mut places: Vec<usize> = last.into_values().collect();
        places.sort_unstable();
        let kept = places.into_iter().map(|place| self.log[place].clone());
        kept.filter(|record| record.value.is_some()).collect()
    }

    /// Joins a well-behaved member.
    pub(crate) fn join(&mut self, member_id: &'static str, topics: &[&str]) -> Client {
        let mut client = Client::new(member_id);
        client.topics = names(topics);
        client.beat(self);
        client
    }

    /// Lets all members send heartbeats until nothing changes.
    pub(crate) fn settle(&mut self, clients: &mut [&mut Client]) {
        for _ in 0..10 + 4 * clients.len() {
            for client in clients.iter_mut() {
                client.beat(self);
            }
        }
        assert_eq!(self.state(), "Stable", "{:#?}", self.describe(GROUP));
        let records = self.log.len();
        for client in clients.iter_mut() {
            client.beat(self);
        }
        assert_eq!(self.log.len(), records, "when all is settled, nothing is written");
    }
}

pub(crate) fn names(topics: &[&str]) -> Vec<ByteString> {
    topics.iter().map(|topic| ByteString::from(*topic)).collect()
}

pub(crate) fn topic_id(name: &str) -> Uuid {
    let mut bytes = [0; 16];
    for (place, byte) in bytes.iter_mut().zip(name.bytes()) {
        *place = byte;
    }
    Uuid::from_bytes(bytes)
}

pub(crate) fn owned(topics: &[(&str, &[i32])]) -> Owned {
    let topics = topics.iter();
    topics
        .map(|(name, partitions)| (topic_id(name), partitions.iter().copied().collect()))
        .collect()
}

pub(crate) fn topic_partitions(owned: &Owned) -> Vec<TopicPartitions> {
    let topics = owned.iter().map(|(topic_id, partitions)| TopicPartitions {
        topic_id: *topic_id,
        partitions: partitions.iter().copied().collect(),
        ..Default::default()
    });
    topics.collect()
}

/// A first heartbeat.
pub(crate) fn joining(member_id: &str, topics: &[&str]) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: GROUP.into(),
        member_id: member_id.into(),
        rebalance_timeout_ms: REBALANCE_TIMEOUT_MS,
        subscribed_topic_names: Some(names(topics)),
        topic_partitions: Some(vec![]),
        ..Default::default()
    }
}

/// A heartbeat without changes.
pub(crate) fn beating(member_id: &str, epoch: i32) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: GROUP.into(),
        member_id: member_id.into(),
        member_epoch: epoch,
        ..Default::default()
    }
}

pub(crate) fn assignment(response: &ConsumerGroupHeartbeatResponse) -> Option<Owned> {
    let assignment = response.assignment.as_ref()?;
    let topics = assignment.topic_partitions.iter();
    Some(
        topics
            .map(|topic| (topic.topic_id, topic.partitions.iter().copied().collect()))
            .collect(),
    )
}

/// A member like Kafka's client: it takes its assignment at once, and reports its partitions when they change.
pub(crate) struct Client {
    pub(crate) member_id: ByteString,
    pub(crate) instance_id: Option<ByteString>,
    pub(crate) topics: Vec<ByteString>,
    pub(crate) regex: Option<ByteString>,
    pub(crate) assignor: Option<ByteString>,
    pub(crate) epoch: i32,
    pub(crate) owned: Owned,
    /// Whether the coordinator does not know its partitions yet.
    unsaid: bool,
}

impl Client {
    pub(crate) fn new(member_id: &'static str) -> Self {
        Self {
            member_id: member_id.into(),
            instance_id: None,
            topics: vec![],
            regex: None,
            assignor: None,
            epoch: 0,
            owned: Owned::new(),
            unsaid: false,
        }
    }

    pub(crate) fn request(&self) -> ConsumerGroupHeartbeatRequest {
        let is_join = self.epoch == 0;
        let says_owned = is_join || self.unsaid;
        ConsumerGroupHeartbeatRequest {
            group_id: GROUP.into(),
            member_id: self.member_id.clone(),
            member_epoch: self.epoch,
            instance_id: self.instance_id.clone(),
            rebalance_timeout_ms: if is_join { REBALANCE_TIMEOUT_MS } else { -1 },
            subscribed_topic_names: is_join.then(|| self.topics.clone()),
            subscribed_topic_regex: self.regex.clone().filter(|_| is_join),
            server_assignor: self.assignor.clone().filter(|_| is_join),
            topic_partitions: says_owned.then(|| topic_partitions(&self.owned)),
            ..Default::default()
        }
    }

    pub(crate) fn beat(&mut self, world: &mut World) {
        let request = self.request();
        let response = world.granted(request);
        self.take_in(&response);
    }

    pub(crate) fn take_in(&mut self, response: &ConsumerGroupHeartbeatResponse) {
        self.unsaid = false;
        self.epoch = response.member_epoch;
        if let Some(owned) = assignment(response) {
            self.unsaid = owned != self.owned;
            self.owned = owned;
        }
    }

    pub(crate) fn leave(&mut self, world: &mut World) {
        let mut request = beating(&self.member_id, -1);
        request.instance_id = self.instance_id.clone();
        world.granted(request);
        self.epoch = 0;
        self.owned.clear();
    }

    pub(crate) fn count(&self) -> usize {
        self.owned.values().map(BTreeSet::len).sum()
    }
}
