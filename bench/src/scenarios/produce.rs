//! Large batches, five requests in flight, acks=all, with the durability of Kafka's defaults.

use std::time::Instant;

use anyhow::Result;

use super::{Cost, Scenario, loaded};
use crate::{
    Scale,
    figures::{Bar, Figure, figure},
    peers::{Peer, Running},
    raw::{self, Connection},
};

const LARGE: &str = "produce 1000 B, MB/s";
const LARGE_CPU: &str = "produce 1000 B, broker CPU s/GB";
const SMALL: &str = "produce 100 B, MB/s";
const SMALL_CPU: &str = "produce 100 B, broker CPU s/GB";
const RESIDENT: &str = "after the load, resident MB";

pub const SCENARIO: Scenario = Scenario {
    name: "produce",
    with_kafka: true,
    run,
    bars: &[
        (LARGE, Bar::TimesKafkaAtLeast(4.0)),
        (LARGE_CPU, Bar::TimesKafkaAtMost(0.2)),
        (SMALL, Bar::TimesKafkaAtLeast(3.0)),
        (SMALL_CPU, Bar::Shown),
        (RESIDENT, Bar::AtMost(100.0)),
    ],
};

const IN_FLIGHT: usize = 5;
/// Size of a batch of a busy producer.
const BATCH_BYTES: usize = 900_000;

fn run(peer: Peer, scale: &Scale) -> Result<Vec<Figure>> {
    let broker = Running::start(peer)?;
    let large = fill(&broker, "large", 1_000, scale.bytes())?;
    let resident = broker.resident_megabytes()?;
    let small = fill(&broker, "small", 100, scale.bytes() / 4)?;
    Ok(vec![
        figure(LARGE, large.megabytes_per_second),
        figure(LARGE_CPU, large.cpu_seconds_per_gigabyte),
        figure(SMALL, small.megabytes_per_second),
        figure(SMALL_CPU, small.cpu_seconds_per_gigabyte),
        figure(RESIDENT, resident),
    ])
}

/// Creates a topic and fills it with so many bytes.
pub(super) fn fill(broker: &Running, topic: &str, value_size: usize, bytes: usize) -> Result<Cost> {
    fill_by(Connection::open(&broker.address)?, broker, topic, value_size, bytes)
}

/// The same by a connection that may have TLS.
pub(super) fn fill_by(
    mut connection: Connection,
    broker: &Running,
    topic: &str,
    value_size: usize,
    bytes: usize,
) -> Result<Cost> {
    connection.create_topic(topic, 1, &[])?;
    let frame = raw::produce_frame(topic, 0, raw::batch(b"", value_size, BATCH_BYTES / (value_size + 10)))?;
    let requests = bytes.div_ceil(frame.len());
    loaded(broker, || {
        let began = Instant::now();
        for i in 0..requests + IN_FLIGHT {
            if i < requests {
                connection.send(&frame)?;
            }
            if i >= IN_FLIGHT {
                connection.receive_ack()?;
            }
        }
        Ok((requests * frame.len(), began.elapsed().as_secs_f64()))
    })
}
