//! The scenarios: one file for each load.

mod apps;
mod compaction;
mod consume;
mod copy;
mod franz;
mod fsync;
mod groups;
mod idle_consumers;
mod latency;
mod librdkafka;
mod produce;
mod restart;
mod secured;
mod single;
mod start;
mod topics;
mod transactions;

use anyhow::Result;

use crate::{
    Scale,
    figures::{Bar, Figure},
    peers::{Peer, Running},
};

pub struct Scenario {
    pub name: &'static str,
    pub with_kafka: bool,
    pub run: fn(Peer, &Scale) -> Result<Vec<Figure>>,
    /// The limits of the figures, in the order of display.
    pub bars: &'static [(&'static str, Bar)],
}

pub const SCENARIOS: &[Scenario] = &[
    start::SCENARIO,
    produce::SCENARIO,
    consume::SCENARIO,
    single::SCENARIO,
    latency::SCENARIO,
    librdkafka::SCENARIO,
    franz::SCENARIO,
    fsync::SCENARIO,
    topics::SCENARIO,
    restart::SCENARIO,
    idle_consumers::SCENARIO,
    compaction::SCENARIO,
    groups::SCENARIO,
    transactions::SCENARIO,
    copy::SCENARIO,
    secured::tls::SCENARIO,
    secured::acls::SCENARIO,
    secured::logins::SCENARIO,
    apps::work::SCENARIO,
    apps::copy::SCENARIO,
    apps::failures::SCENARIO,
    apps::breaker::SCENARIO,
    apps::join::SCENARIO,
    apps::requests::SCENARIO,
];

/// Costs of one load for one broker.
struct Cost {
    megabytes_per_second: f64,
    cpu_seconds_per_gigabyte: f64,
}

/// Runs a load that returns its bytes and seconds, and adds up the costs for the broker.
fn loaded(broker: &Running, load: impl FnOnce() -> Result<(usize, f64)>) -> Result<Cost> {
    let before = broker.cpu_seconds()?;
    let (bytes, seconds) = load()?;
    let cpu = broker.cpu_seconds()? - before;
    Ok(Cost {
        megabytes_per_second: bytes as f64 / 1e6 / seconds,
        cpu_seconds_per_gigabyte: cpu / (bytes as f64 / 1e9),
    })
}

/// The percentile of sorted values.
pub fn percentile(sorted: &[f64], part: f64) -> f64 {
    let place = (sorted.len() as f64 * part) as usize;
    sorted.get(place).copied().unwrap_or(f64::NAN)
}
