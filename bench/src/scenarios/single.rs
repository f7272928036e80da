//! One small request at a time.

use std::time::Instant;

use anyhow::Result;

use super::{Scenario, percentile};
use crate::{
    Scale,
    figures::{Bar, Figure, figure},
    peers::{Peer, Running},
    raw::{self, Connection},
};

const RATE: &str = "one in flight, sends/s";
const P50: &str = "one in flight, p50 ms";

pub const SCENARIO: Scenario = Scenario {
    name: "single",
    with_kafka: true,
    run,
    bars: &[(RATE, Bar::TimesKafkaAtLeast(2.0)), (P50, Bar::AtMost(0.1))],
};

const WARM_UP: usize = 2_000;
const COUNT: usize = 10_000;

fn run(peer: Peer, _scale: &Scale) -> Result<Vec<Figure>> {
    let broker = Running::start(peer)?;
    let mut connection = Connection::open(&broker.address)?;
    connection.create_topic("single", 1, &[])?;
    let frame = raw::produce_frame("single", 0, raw::batch(b"", 100, 1))?;
    let mut times = Vec::with_capacity(COUNT);
    let mut began = Instant::now();
    for i in 0..WARM_UP + COUNT {
        if i == WARM_UP {
            began = Instant::now();
        }
        let sent = Instant::now();
        connection.send(&frame)?;
        connection.receive_ack()?;
        if i >= WARM_UP {
            times.push(sent.elapsed().as_secs_f64() * 1e3);
        }
    }
    let rate = COUNT as f64 / began.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    Ok(vec![figure(RATE, rate), figure(P50, percentile(&times, 0.5))])
}
