//! Compaction of a log in which nine of ten records are outdated.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use milena_wire::{
    messages::{IncrementalAlterConfigsRequest, incremental_alter_configs_request::*},
    records::{BatchBuilder, BatchOptions},
};

use super::{Scenario, loaded};
use crate::{
    Scale,
    figures::{Bar, Figure, figure},
    peers::{Peer, Running, wait_until},
    raw::{self, Connection},
};

const RATE: &str = "compaction, MB/s";
const CPU: &str = "compaction, broker CPU s/GB";

pub const SCENARIO: Scenario = Scenario {
    name: "compaction",
    with_kafka: true,
    run,
    bars: &[(RATE, Bar::TimesKafkaAtLeast(1.5)), (CPU, Bar::Shown)],
};

const TOPIC: &str = "table";
const VALUE_SIZE: usize = 1_000;
/// Size of a batch of Java's producer.
const RECORDS_IN_BATCH: usize = 16;

fn run(peer: Peer, scale: &Scale) -> Result<Vec<Figure>> {
    // The cleaner looks often, so that hardly any time is spent on waiting for it.
    let broker = Running::start_with(peer, &["log.cleaner.backoff.ms=50"])?;
    let mut connection = Connection::open(&broker.address)?;
    let configs = [
        ("cleanup.policy", "compact"),
        ("segment.bytes", "104857600"),
        ("min.cleanable.dirty.ratio", "0.01"),
        // Until all is there.
        ("min.compaction.lag.ms", "100000000"),
    ];
    connection.create_topic(TOPIC, 1, &configs)?;
    let bytes = fill(&mut connection, scale.bytes())?;
    // All data must be on the disk first, or a part of the writing would be measured.
    ensure!(std::process::Command::new("sync").status()?.success(), "sync failed");
    thread::sleep(Duration::from_secs(2));
    let cost = loaded(&broker, || {
        let began = Instant::now();
        allow_compaction(&mut connection)?;
        let checkpoint = broker.data_dir().join("cleaner-offset-checkpoint");
        wait_until("the log is compacted", || Ok(compacted_to(&checkpoint) > 1))?;
        Ok((bytes, began.elapsed().as_secs_f64()))
    })?;
    Ok(vec![
        figure(RATE, cost.megabytes_per_second),
        figure(CPU, cost.cpu_seconds_per_gigabyte),
    ])
}

/// Writes records with as many keys as there are tenths of records, in an order that looks random.
fn fill(connection: &mut Connection, bytes: usize) -> Result<usize> {
    let records = bytes / VALUE_SIZE;
    let keys = (records / 10).max(1) as u64;
    let value: Vec<u8> = (0..VALUE_SIZE).map(|i| (i * 31 % 251) as u8).collect();
    let (mut state, mut written) = (1u64, 0);
    for _ in 0..records / RECORDS_IN_BATCH {
        let mut builder = BatchBuilder::new(BatchOptions::default());
        for _ in 0..RECORDS_IN_BATCH {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            raw::append(&mut builder, &((state >> 33) % keys).to_be_bytes(), &value);
        }
        let batch = builder.finish();
        written += batch.len();
        connection.send(&raw::produce_frame(TOPIC, 0, batch)?)?;
        connection.receive_ack()?;
    }
    Ok(written)
}

fn allow_compaction(connection: &mut Connection) -> Result<()> {
    let request = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: 2,
            resource_name: TOPIC.into(),
            configs: vec![AlterableConfig {
                name: "min.compaction.lag.ms".into(),
                value: Some("0".into()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let response = connection.call(&request, 1)?;
    ensure!(response.responses[0].error_code == 0, "the topic cannot be changed");
    Ok(())
}

/// The offset up to which the topic is compacted: both brokers write it down when they are done.
fn compacted_to(checkpoint: &Path) -> i64 {
    let text = fs::read_to_string(checkpoint).unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(TOPIC)?.strip_prefix(" 0 "));
    line.and_then(|offset| offset.parse().ok()).unwrap_or(0)
}
