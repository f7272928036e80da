//! A thousand topics of ten partitions: the time to create them, and the cost of each partition.

use std::time::Instant;

use anyhow::Result;

use super::Scenario;
use crate::{
    Scale,
    figures::{Bar, Figure, figure},
    peers::{Peer, Running},
    raw::Connection,
};

const ONE_BY_ONE: &str = "1000 topics x 10, one by one, s";
const TOGETHER: &str = "1000 topics x 10, in one request, s";
const MEMORY: &str = "an idle partition, resident KB";
const RESTART: &str = "start with 20000 partitions, ms";

pub const SCENARIO: Scenario = Scenario {
    name: "topics",
    with_kafka: false,
    run,
    bars: &[
        (ONE_BY_ONE, Bar::AtMost(2.0)),
        (TOGETHER, Bar::AtMost(2.0)),
        (MEMORY, Bar::AtMost(4.0)),
        (RESTART, Bar::Shown),
    ],
};

const TOPICS: usize = 1_000;
const PARTITIONS: i32 = 10;

fn run(peer: Peer, _scale: &Scale) -> Result<Vec<Figure>> {
    let mut broker = Running::start(peer)?;
    let mut connection = Connection::open(&broker.address)?;
    connection.create_topic("first", 1, &[])?;
    let names = |prefix: &str| (0..TOPICS).map(|i| format!("{prefix}-{i}")).collect::<Vec<_>>();

    let before = broker.resident_megabytes()?;
    let began = Instant::now();
    for name in names("alone") {
        connection.create_topics(&[name], PARTITIONS, &[])?;
    }
    let one_by_one = began.elapsed().as_secs_f64();
    let memory = (broker.resident_megabytes()? - before) * 1e3 / f64::from(TOPICS as i32 * PARTITIONS);

    let began = Instant::now();
    connection.create_topics(&names("together"), PARTITIONS, &[])?;
    let together = began.elapsed().as_secs_f64();
    broker.stop()?;
    let restart = broker.start_again()?;
    Ok(vec![
        figure(ONE_BY_ONE, one_by_one),
        figure(TOGETHER, together),
        figure(MEMORY, memory),
        figure(RESTART, restart),
    ])
}
