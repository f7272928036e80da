//! Two thousand consumers that wait for records that do not come, with Kafka's defaults: a fetch waits for 500 ms,
//! then is repeated.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::Scenario;
use crate::{
    Scale,
    figures::{Bar, Figure, figure},
    peers::{Peer, Running},
    raw::{self, Connection},
};

const CPU: &str = "2000 idle consumers, % of a core";
const CPU_PATIENT: &str = "2000 that ask every 30 s, % of a core";
const MEMORY: &str = "an idle consumer, resident KB";

pub const SCENARIO: Scenario = Scenario {
    name: "idle-consumers",
    with_kafka: true,
    run,
    bars: &[
        (CPU, Bar::AtMost(1.0)),
        (CPU, Bar::Shown),
        (CPU_PATIENT, Bar::AtMost(1.0)),
        (MEMORY, Bar::AtMost(20.0)),
    ],
};

const CONSUMERS: usize = 2_000;
const THREADS: usize = 4;
const TIME: Duration = Duration::from_secs(6);

fn run(peer: Peer, _scale: &Scale) -> Result<Vec<Figure>> {
    let broker = Running::start(peer)?;
    Connection::open(&broker.address)?.create_topic("idle", 10, &[])?;
    let before = broker.resident_megabytes()?;
    let mut consumers = connect(&broker.address)?;
    let eager = percent_of_a_core(&broker, &mut consumers, 500)?;
    let memory = (broker.resident_megabytes()? - before) * 1e3 / CONSUMERS as f64;
    drop(consumers);
    let patient = percent_of_a_core(&broker, &mut connect(&broker.address)?, 30_000)?;
    Ok(vec![
        figure(CPU, eager),
        figure(CPU_PATIENT, patient),
        figure(MEMORY, memory),
    ])
}

fn connect(address: &str) -> Result<Vec<Connection>> {
    (0..CONSUMERS).map(|_| Connection::open_for(address, 1 << 10)).collect()
}

/// Lets all of them wait for a while, each repeating its fetch; then reads the cost for the broker.
fn percent_of_a_core(broker: &Running, consumers: &mut [Connection], max_wait_ms: i32) -> Result<f64> {
    let frame = raw::fetch_frame("idle", 1, max_wait_ms)?;
    for consumer in consumers.iter_mut() {
        consumer.send(&frame)?;
    }
    if max_wait_ms > TIME.as_millis() as i32 {
        let (cpu, began) = (broker.cpu_seconds()?, Instant::now());
        thread::sleep(TIME);
        return Ok((broker.cpu_seconds()? - cpu) / began.elapsed().as_secs_f64() * 100.0);
    }
    let began = Instant::now();
    let cpu = broker.cpu_seconds()?;
    thread::scope(|scope| {
        let threads: Vec<_> = consumers
            .chunks_mut(CONSUMERS / THREADS)
            .map(|mine| scope.spawn(|| ask_again(mine, &frame, began)))
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("consumers do not panic"))
    })?;
    Ok((broker.cpu_seconds()? - cpu) / began.elapsed().as_secs_f64() * 100.0)
}

fn ask_again(consumers: &mut [Connection], frame: &[u8], began: Instant) -> Result<()> {
    while began.elapsed() < TIME {
        for consumer in consumers.iter_mut() {
            consumer.receive()?;
            consumer.send(frame)?;
        }
    }
    Ok(())
}
