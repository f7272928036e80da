//! From the start of the process to the first acknowledged record, on a fresh directory; and the costs of an idle
//! broker.

use anyhow::Result;

use super::Scenario;
use crate::{
    Scale,
    figures::{Bar, Figure, figure},
    peers::{Peer, Running},
    raw::Connection,
};

const FIRST_ACK: &str = "start to first acknowledged record, ms";
const IDLE: &str = "idle, resident MB";

pub const SCENARIO: Scenario = Scenario {
    name: "start",
    with_kafka: true,
    run,
    bars: &[
        (FIRST_ACK, Bar::AtMost(20.0)),
        (FIRST_ACK, Bar::TimesKafkaAtMost(0.01)),
        (IDLE, Bar::AtMost(12.0)),
    ],
};

fn run(peer: Peer, _scale: &Scale) -> Result<Vec<Figure>> {
    let broker = Running::start(peer)?;
    let idle = broker.resident_megabytes()?;
    Connection::open(&broker.address)?.create_topic("first", 1, &[])?;
    Ok(vec![figure(FIRST_ACK, broker.since_start_ms()), figure(IDLE, idle)])
}
