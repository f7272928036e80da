//! Kafka's own command line tools by short names.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;

use anyhow::{Context, Result, bail};

use super::libraries::{Jars, LogLevel, java};

const TOOLS: &[(&str, &str)] = &[
    ("acls", "org.apache.kafka.tools.AclCommand"),
    ("broker-api-versions", "org.apache.kafka.tools.BrokerApiVersionsCommand"),
    ("client-metrics", "org.apache.kafka.tools.ClientMetricsCommand"),
    ("cluster", "org.apache.kafka.tools.ClusterTool"),
    ("configs", "kafka.admin.ConfigCommand"),
    ("console-consumer", "org.apache.kafka.tools.consumer.ConsoleConsumer"),
    ("console-producer", "org.apache.kafka.tools.ConsoleProducer"),
    (
        "consumer-groups",
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    ),
    ("consumer-perf", "org.apache.kafka.tools.ConsumerPerformance"),
    ("delegation-tokens", "org.apache.kafka.tools.DelegationTokenCommand"),
    ("delete-records", "org.apache.kafka.tools.DeleteRecordsCommand"),
    ("dump-log", "org.apache.kafka.tools.DumpLogSegments"),
    ("e2e-latency", "org.apache.kafka.tools.EndToEndLatency"),
    ("features", "org.apache.kafka.tools.FeatureCommand"),
    ("get-offsets", "org.apache.kafka.tools.GetOffsetShell"),
    ("groups", "org.apache.kafka.tools.GroupsCommand"),
    ("log-dirs", "org.apache.kafka.tools.LogDirsCommand"),
    ("message-copier", "org.apache.kafka.tools.TransactionalMessageCopier"),
    ("metadata-quorum", "org.apache.kafka.tools.MetadataQuorumCommand"),
    ("producer-perf", "org.apache.kafka.tools.ProducerPerformance"),
    (
        "reassign-partitions",
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    ),
    ("topics", "org.apache.kafka.tools.TopicCommand"),
    ("transactions", "org.apache.kafka.tools.TransactionsCommand"),
    ("verifiable-consumer", "org.apache.kafka.tools.VerifiableConsumer"),
    ("verifiable-producer", "org.apache.kafka.tools.VerifiableProducer"),
];

/// Becomes the tool, so that its exit code, its signals and its terminal are the caller's.
pub(super) fn run(jars: Jars, name: &str, args: &[OsString]) -> Result<()> {
    let class = class_name(name)?;
    let error = java(jars, LogLevel::Warn)?.arg("-Xmx512m").arg(class).args(args).exec();
    Err(error).with_context(|| format!("cannot run java for {class}"))
}

fn class_name(name: &str) -> Result<&str> {
    if let Some((_, class)) = TOOLS.iter().find(|(short, _)| *short == name) {
        return Ok(class);
    }
    if name.contains('.') {
        return Ok(name);
    }
    let names: Vec<&str> = TOOLS.iter().map(|(short, _)| *short).collect();
    bail!(
        "no tool `{name}`; there are {}, and any class by its full name",
        names.join(", ")
    );
}
