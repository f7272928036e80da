//! Reads freshly written records, one request after the other.

use std::time::Instant;

use anyhow::{Context, Result};

use super::{Scenario, loaded, produce};
use crate::{
    Scale,
    figures::{Bar, Figure, figure},
    peers::{Peer, Running},
    raw::{self, Connection},
};

const RATE: &str = "consume 1000 B, MB/s";
const CPU: &str = "consume 1000 B, broker CPU s/GB";

pub const SCENARIO: Scenario = Scenario {
    name: "consume",
    with_kafka: true,
    run,
    bars: &[(RATE, Bar::TimesKafkaAtLeast(1.0)), (CPU, Bar::TimesKafkaAtMost(0.9))],
};

fn run(peer: Peer, scale: &Scale) -> Result<Vec<Figure>> {
    let broker = Running::start(peer)?;
    produce::fill(&broker, "read", 1_000, scale.bytes())?;
    let connection = Connection::open(&broker.address)?;
    let cost = loaded(&broker, || read(connection, "read", scale.bytes()))?;
    Ok(vec![
        figure(RATE, cost.megabytes_per_second),
        figure(CPU, cost.cpu_seconds_per_gigabyte),
    ])
}

pub(super) fn read(mut connection: Connection, topic: &str, bytes: usize) -> Result<(usize, f64)> {
    let (mut read, mut offset) = (0, 0);
    let began = Instant::now();
    while read < bytes {
        connection.send(&raw::fetch_frame(topic, offset, 500)?)?;
        let length = connection.receive()?;
        read += length;
        let next = raw::next_offset(&connection.buffer[..length]);
        offset = next.with_context(|| format!("nothing at offset {offset}"))?;
    }
    Ok((read, began.elapsed().as_secs_f64()))
}
