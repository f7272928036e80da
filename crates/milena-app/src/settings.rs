//! Settings of the whole application.

use std::time::Duration;

use milena_client::config::ConfigMap;
use milena_machines::app::WhenStalled;

use crate::{error::StartError, policy::Watermarks, route::Delivery};

/// Client settings, under Kafka's names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// Applied to all clients.
    pub(crate) common: ConfigMap,
    pub(crate) consumer: ConfigMap,
    pub(crate) producer: ConfigMap,
    pub(crate) group: String,
    /// Name of this instance of the application.
    pub(crate) instance: String,
    /// Whether the instance was named explicitly.
    pub(crate) has_instance: bool,
}

impl Settings {
    /// Returns the settings of a group's consumer. The runtime commits by itself. A new group starts at the earliest
    /// offset, so that no record is lost, and rebalances cooperatively.
    pub(crate) fn consumer(&self, delivery: Delivery, group: &str) -> Result<ConfigMap, StartError> {
        let mut map = ConfigMap::new();
        map.set("auto.offset.reset", "earliest");
        let protocol = self
            .consumer
            .get("group.protocol")
            .or_else(|| self.common.get("group.protocol"));
        if !protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case("consumer")) {
            map.set("partition.assignment.strategy", "cooperative-sticky");
        }
        map.merge(self.common.clone());
        map.merge(self.consumer.clone());
        for key in OURS {
            if map.get(key).is_some() {
                return Err(StartError::OurSetting { key });
            }
        }
        map.set("group.id", group).set("enable.auto.commit", false);
        if delivery == Delivery::ExactlyOnce {
            map.set("isolation.level", "read_committed");
        }
        Ok(map)
    }

    pub(crate) fn producer(&self, delivery: Delivery) -> Result<ConfigMap, StartError> {
        let mut map = self.common.clone();
        map.merge(self.producer.clone());
        if map.get("transactional.id").is_some() {
            return Err(StartError::OurSetting {
                key: "transactional.id",
            });
        }
        if delivery == Delivery::ExactlyOnce {
            if !self.has_instance {
                return Err(StartError::NoInstance);
            }
            map.set("transactional.id", format!("{}-{}", self.group, self.instance));
        }
        Ok(map)
    }
}

/// Keys that the runtime sets by itself, or that the types of handlers imply.
const OURS: [&str; 4] = [
    "group.id",
    "enable.auto.commit",
    "key.deserializer",
    "value.deserializer",
];

/// Bounds of the whole application.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) in_flight: Watermarks,
    pub(crate) buffer: Watermarks,
    pub(crate) partition_percent: u8,
    pub(crate) commit_interval: Duration,
    pub(crate) commit_every: Option<u64>,
    pub(crate) window: Duration,
    pub(crate) drain: Duration,
    pub(crate) final_commit: Duration,
    pub(crate) close_timeout: Duration,
    pub(crate) shutdown: Duration,
    pub(crate) stalled_after: Duration,
    pub(crate) when_stalled: WhenStalled,
    pub(crate) crash_limit: Option<u32>,
    pub(crate) consumers: usize,
    pub(crate) workers: usize,
    pub(crate) seed: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight: Watermarks::RECORDS,
            buffer: Watermarks::BYTES,
            partition_percent: 25,
            commit_interval: Duration::from_secs(1),
            commit_every: None,
            window: Duration::from_millis(100),
            drain: Duration::from_secs(30),
            final_commit: Duration::from_secs(10),
            close_timeout: Duration::from_secs(10),
            shutdown: Duration::from_secs(60),
            stalled_after: Duration::from_secs(60),
            when_stalled: WhenStalled::Report,
            crash_limit: Some(3),
            consumers: 1,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            seed: std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0_u8),
        }
    }
}
