//! Settings of a requester.

use std::{fmt, time::Duration};

use milena_client::config::ConfigMap;

use crate::clock::Clock;

/// Topic for replies that requesters share.
pub(super) const SHARED_TOPIC: &str = "replies";
/// Partitions of a shared reply topic that a requester creates.
const PARTITIONS: i32 = 16;
const TIMEOUT: Duration = Duration::from_secs(5);
const PENDING_MAX: u32 = 50_000;
/// Retention of reply topics that a requester creates. Replies are read within their timeout.
const RETENTION: Duration = Duration::from_secs(3_600);

/// Reaction to a request when too many are pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenPendingFull {
    /// The request waits for another to end, up to its own timeout.
    Wait,
    /// The request fails with [`RequestError::Full`](super::RequestError::Full).
    Fail,
}

/// Settings of a [`Requester`](super::Requester).
#[derive(Clone)]
#[must_use = "a configuration has no effect until a requester is started with it"]
pub struct RequesterConfig {
    pub(super) common: ConfigMap,
    pub(super) consumer: ConfigMap,
    pub(super) producer: ConfigMap,
    pub(super) instance: Option<String>,
    pub(super) topic: String,
    pub(super) owns_topic: bool,
    pub(super) partition: Option<i32>,
    pub(super) create: bool,
    pub(super) partitions: i32,
    pub(super) retention: Duration,
    pub(super) timeout: Duration,
    pub(super) pending_max: u32,
    pub(super) when_full: WhenPendingFull,
    pub(super) with_spring_headers: bool,
    pub(super) clock: Clock,
}

impl RequesterConfig {
    /// Settings for a cluster, given as `host:port`; several addresses are separated by commas.
    pub fn new(bootstrap_servers: impl Into<String>) -> Self {
        let mut common = ConfigMap::new();
        common.set("bootstrap.servers", bootstrap_servers.into());
        Self::with_settings(common)
    }

    /// Settings for all clients of the requester, under Kafka's names.
    pub fn with_settings(common: ConfigMap) -> Self {
        Self {
            common,
            consumer: ConfigMap::new(),
            producer: ConfigMap::new(),
            instance: None,
            topic: SHARED_TOPIC.to_owned(),
            owns_topic: false,
            partition: None,
            create: true,
            partitions: PARTITIONS,
            retention: RETENTION,
            timeout: TIMEOUT,
            pending_max: PENDING_MAX,
            when_full: WhenPendingFull::Wait,
            with_spring_headers: true,
            clock: Clock::real(),
        }
    }

    /// Name of this instance. Its hash chooses the reply partition; without a name, the choice is random.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = Some(instance.into());
        self
    }

    /// Reply topic that requesters share, `replies` by default. Each requester reads one partition of it; requesters
    /// with the same partition ignore each other's replies. A requester that dies leaves nothing behind.
    pub fn reply_topic(mut self, topic: impl Into<String>) -> Self {
        (self.topic, self.owns_topic) = (topic.into(), false);
        self
    }

    /// Reads this partition of the reply topic. Instances of a fixed number, each with a partition of its own, read
    /// only their own replies.
    pub fn reply_partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// Uses a reply topic of its own, `replies.<instance>`, with one partition. ACLs can keep its replies from others.
    /// [`close`](super::Requester::close) deletes it; after a crash it stays until the instance of this name is back.
    pub fn own_topic(mut self, instance: impl Into<String>) -> Self {
        let instance = instance.into();
        self.topic = format!("{SHARED_TOPIC}.{instance}");
        (self.instance, self.owns_topic, self.partition, self.partitions) = (Some(instance), true, None, 1);
        self
    }

    /// Does not create a missing reply topic; it is an error then.
    pub fn existing_topic_only(mut self) -> Self {
        self.create = false;
        self
    }

    /// Partitions of a shared reply topic that is created: 16 by default.
    pub fn partitions(mut self, count: i32) -> Self {
        self.partitions = count;
        self
    }

    /// Retention of a reply topic that is created: 1 h by default.
    pub fn retention(mut self, time: Duration) -> Self {
        self.retention = time;
        self
    }

    /// Timeout of requests that set no other: 5 s by default.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = time;
        self
    }

    /// Bound of pending requests: 50,000 by default.
    pub fn pending_max(mut self, requests: u32) -> Self {
        self.pending_max = requests;
        self
    }

    /// Reaction when that many requests are pending; by default a request waits.
    pub fn when_full(mut self, when_full: WhenPendingFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Leaves out the headers that Spring's services need: `kafka_correlationId`, `kafka_replyTopic` and
    /// `kafka_replyPartition`.
    pub fn without_spring_headers(mut self) -> Self {
        self.with_spring_headers = false;
        self
    }

    /// Sets a consumer setting, under Kafka's name. Replies are read with `isolation.level=read_committed`, unless this
    /// says otherwise.
    pub fn consumer(mut self, key: impl Into<String>, value: impl fmt::Display) -> Self {
        self.consumer.set(key, value);
        self
    }

    /// Sets a producer setting, under Kafka's name. The requester's own default is `linger.ms=0`.
    pub fn producer(mut self, key: impl Into<String>, value: impl fmt::Display) -> Self {
        self.producer.set(key, value);
        self
    }

    /// Replaces the clock, for tests.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    pub(super) fn producer_settings(&self) -> ConfigMap {
        let mut map = ConfigMap::new();
        // A request does not wait for others.
        map.set("linger.ms", 0);
        map.merge(self.common.clone()).merge(self.producer.clone());
        map
    }

    pub(super) fn consumer_settings(&self) -> ConfigMap {
        let mut map = ConfigMap::new();
        // A reply of an aborted transaction is none. If replies were deleted unread, the oldest that are left count.
        map.set("isolation.level", "read_committed")
            .set("auto.offset.reset", "earliest");
        map.merge(self.common.clone()).merge(self.consumer.clone());
        map
    }
}

impl fmt::Debug for RequesterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequesterConfig")
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .field("instance", &self.instance)
            .field("pending_max", &self.pending_max)
            .finish_non_exhaustive()
    }
}
