//! A configuration in code.

use std::fmt;

use super::{AssignorName, AutoOffsetReset, ConfigErrors, ConfigMap, ConsumerConfig, IsolationLevel, Profile};

/// Collects settings in code; [`build`](Self::build) checks them like all others.
#[derive(Debug, Clone, Default)]
#[must_use = "a configuration does nothing until it is built"]
pub struct ConsumerConfigBuilder {
    map: ConfigMap,
}

impl ConsumerConfigBuilder {
    /// `bootstrap.servers`: `host:port`, several separated by commas.
    pub fn new(bootstrap_servers: impl Into<String>) -> Self {
        Self::default().set("bootstrap.servers", bootstrap_servers.into())
    }

    /// Sets any key by Kafka's name.
    pub fn set(mut self, key: impl Into<String>, value: impl fmt::Display) -> Self {
        self.map.set(key, value);
        self
    }

    /// Adds settings that are stronger than those there are, such as those of a file.
    pub fn merge(mut self, stronger: ConfigMap) -> Self {
        self.map.merge(stronger);
        self
    }

    /// Positions are committed once a second, whether or not the records have been handled:
    /// `enable.auto.commit=true`, `auto.commit.interval.ms=1000`.
    ///
    /// A poll commits the records of the polls before it. A program that hands records to other tasks loses those that
    /// were not handled yet when it crashes, and a program that handles them before it polls again repeats up to a second
    /// of them. To repeat none at all, commit right after `poll` and before handling, as `App::at_most_once` does.
    pub fn at_most_once(self) -> Self {
        self.enable_auto_commit(true).set("auto.commit.interval.ms", 1000)
    }

    /// The program commits what it has handled: `enable.auto.commit=false`.
    pub fn at_least_once(self) -> Self {
        self.enable_auto_commit(false)
    }

    /// Offsets are committed in the producer's transactions, and records of aborted ones are not handed out:
    /// `enable.auto.commit=false`, `isolation.level=read_committed`. The settings alone are not exactly once: outcomes and
    /// offsets must be written in one transaction, as [`ExactlyOnce`](crate::exactly_once::ExactlyOnce) does.
    pub fn exactly_once(self) -> Self {
        self.enable_auto_commit(false)
            .isolation_level(IsolationLevel::ReadCommitted)
    }

    /// `group.id`
    pub fn group_id(self, group_id: impl fmt::Display) -> Self {
        self.set("group.id", group_id)
    }

    /// `group.instance.id`
    pub fn group_instance_id(self, instance_id: impl fmt::Display) -> Self {
        self.set("group.instance.id", instance_id)
    }

    /// `group.protocol=consumer`: the broker assigns the partitions.
    pub fn consumer_protocol(self) -> Self {
        self.set("group.protocol", "consumer")
    }

    /// `client.id`
    pub fn client_id(self, client_id: impl fmt::Display) -> Self {
        self.set("client.id", client_id)
    }

    /// `client.rack`
    pub fn client_rack(self, rack: impl fmt::Display) -> Self {
        self.set("client.rack", rack)
    }

    /// `auto.offset.reset`
    pub fn auto_offset_reset(self, policy: AutoOffsetReset) -> Self {
        self.set("auto.offset.reset", policy)
    }

    /// `enable.auto.commit`
    pub fn enable_auto_commit(self, enable: bool) -> Self {
        self.set("enable.auto.commit", enable)
    }

    /// `isolation.level`
    pub fn isolation_level(self, level: IsolationLevel) -> Self {
        self.set("isolation.level", level)
    }

    /// `max.poll.records`
    pub fn max_poll_records(self, records: usize) -> Self {
        self.set("max.poll.records", records)
    }

    /// `partition.assignment.strategy`, the best first.
    pub fn assignors(self, assignors: &[AssignorName]) -> Self {
        let names: Vec<String> = assignors.iter().map(ToString::to_string).collect();
        self.set("partition.assignment.strategy", names.join(","))
    }

    /// `milena.profile`
    pub fn profile(self, profile: Profile) -> Self {
        self.set("milena.profile", profile)
    }

    /// The settings as they are, unchecked.
    pub fn into_map(self) -> ConfigMap {
        self.map
    }

    pub fn build(self) -> Result<ConsumerConfig, ConfigErrors> {
        ConsumerConfig::resolve(&self.map)
    }
}

impl TryFrom<ConsumerConfigBuilder> for ConsumerConfig {
    type Error = ConfigErrors;

    fn try_from(builder: ConsumerConfigBuilder) -> Result<Self, ConfigErrors> {
        builder.build()
    }
}
