//! The consumer's configuration in code.

use std::fmt;

use milena_config::{ConfigErrors, ConfigMap};

use super::{
    super::client_config::client_config_builder, AssignorName, AutoOffsetReset, ConsumerConfig, IsolationLevel, Profile,
};

client_config_builder!(ConsumerConfigBuilder, ConsumerConfig);

impl ConsumerConfigBuilder {
    /// Commits positions every second, whether or not the records were handled: `enable.auto.commit=true`,
    /// `auto.commit.interval.ms=1000`.
    ///
    /// A poll commits the records of earlier polls. An application that handles records in other tasks loses those that
    /// were in progress when it crashes. One that handles them before it polls again repeats up to a second of them. To
    /// repeat none, commit right after `poll` and before handling, as `App::at_most_once` does.
    pub fn at_most_once(self) -> Self {
        self.enable_auto_commit(true).set("auto.commit.interval.ms", 1000)
    }

    /// Leaves commits to the application, after it has handled the records: `enable.auto.commit=false`.
    pub fn at_least_once(self) -> Self {
        self.enable_auto_commit(false)
    }

    /// Leaves commits to the producer's transactions and skips records of aborted ones: `enable.auto.commit=false`,
    /// `isolation.level=read_committed`.
    ///
    /// The settings alone are not exactly-once: results and offsets must be written in one transaction, as
    /// [`ExactlyOnce`](crate::exactly_once::ExactlyOnce) does.
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

    /// `partition.assignment.strategy`, preferred first.
    pub fn assignors(self, assignors: &[AssignorName]) -> Self {
        let names: Vec<String> = assignors.iter().map(ToString::to_string).collect();
        self.set("partition.assignment.strategy", names.join(","))
    }

    /// `milena.profile`
    pub fn profile(self, profile: Profile) -> Self {
        self.set("milena.profile", profile)
    }
}
