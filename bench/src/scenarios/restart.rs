//! Time until a broker with data on its disk serves again, after a clean stop and after a crash.

use anyhow::Result;

use super::{Scenario, produce};
use crate::{
    Scale,
    figures::{Bar, Figure, figure},
    peers::{Peer, Running},
};

const CLEAN: &str = "restart with all data, clean, ms";
const CRASH: &str = "restart after kill -9, s per GB";

pub const SCENARIO: Scenario = Scenario {
    name: "restart",
    with_kafka: false,
    run,
    bars: &[(CLEAN, Bar::AtMost(100.0)), (CRASH, Bar::AtMost(0.5))],
};

const CRASH_BYTES: usize = 2_000_000_000;

fn run(peer: Peer, scale: &Scale) -> Result<Vec<Figure>> {
    let mut broker = Running::start(peer)?;
    produce::fill(&broker, "old", 1_000, scale.restart_megabytes * 1_000_000)?;
    broker.stop()?;
    let clean_ms = broker.start_again()?;
    // The next checkpoint of synced offsets is a minute away, so all of this is read again.
    produce::fill(&broker, "new", 1_000, CRASH_BYTES)?;
    broker.kill()?;
    let crash_ms = broker.start_again()?;
    Ok(vec![
        figure(CLEAN, clean_ms),
        figure(CRASH, crash_ms / 1e3 / (CRASH_BYTES as f64 / 1e9)),
    ])
}
