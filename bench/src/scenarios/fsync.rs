//! Sixteen producers with one small request in flight each, where an acknowledgement promises to survive a power cut.

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

const RATE: &str = "16 producers with fsync, sends/s";
const SYNCS: &str = "16 producers with fsync, syncs per send";

pub const SCENARIO: Scenario = Scenario {
    name: "fsync",
    with_kafka: true,
    run,
    bars: &[(RATE, Bar::TimesKafkaAtLeast(5.0)), (SYNCS, Bar::AtMost(0.125))],
};

const PRODUCERS: usize = 16;
const TIME: Duration = Duration::from_secs(5);

fn run(peer: Peer, _scale: &Scale) -> Result<Vec<Figure>> {
    let setting = match peer {
        Peer::Milena => "milena.durability=fsync",
        Peer::Kafka => "log.flush.interval.messages=1",
    };
    let broker = Running::start_with(peer, &[setting])?;
    Connection::open(&broker.address)?.create_topic("safe", 1, &[])?;
    let (sends, seconds) = produce(&broker.address)?;
    let mut figures = vec![figure(RATE, sends as f64 / seconds)];
    if peer == Peer::Milena {
        let broker = Running::start_counting_syncs(&[setting])?;
        Connection::open(&broker.address)?.create_topic("safe", 1, &[])?;
        let (sends, _) = produce(&broker.address)?;
        figures.push(figure(SYNCS, broker.stop_and_count_syncs()? as f64 / sends as f64));
    }
    Ok(figures)
}

fn produce(address: &str) -> Result<(usize, f64)> {
    let frame = raw::produce_frame("safe", 0, raw::batch(b"", 1_000, 1))?;
    let began = Instant::now();
    let sends = thread::scope(|scope| {
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|_| scope.spawn(|| produce_alone(address, &frame, began)))
            .collect();
        producers
            .into_iter()
            .map(|producer| producer.join().expect("producers do not panic"))
            .sum::<Result<usize>>()
    })?;
    Ok((sends, began.elapsed().as_secs_f64()))
}

fn produce_alone(address: &str, frame: &[u8], began: Instant) -> Result<usize> {
    let mut connection = Connection::open_for(address, 1 << 10)?;
    let mut sends = 0;
    while began.elapsed() < TIME {
        connection.send(frame)?;
        connection.receive_ack()?;
        sends += 1;
    }
    Ok(sends)
}
