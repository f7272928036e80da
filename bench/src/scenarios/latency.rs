//! From sending a record to having it at a consumer that waits for it, at a calm pace.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{Scenario, percentile};
use crate::{
    Scale,
    figures::{Bar, Figure, figure},
    peers::{Peer, Running},
    raw::{self, Connection},
};

const P50: &str = "produce to consume at 1000/s, p50 ms";
const P99: &str = "produce to consume at 1000/s, p99 ms";
const ECHO_P99: &str = "an echo at 1000/s without a broker, p99 ms";

pub const SCENARIO: Scenario = Scenario {
    name: "latency",
    with_kafka: true,
    run,
    bars: &[(P50, Bar::AtMost(0.3)), (P99, Bar::AtMost(1.0)), (ECHO_P99, Bar::Shown)],
};

const WARM_UP: usize = 2_000;
const COUNT: usize = 8_000;
const PACE: Duration = Duration::from_millis(1);

fn run(peer: Peer, _scale: &Scale) -> Result<Vec<Figure>> {
    let broker = Running::start(peer)?;
    let mut producer = Connection::open(&broker.address)?;
    producer.create_topic("calm", 1, &[])?;
    // When the record of each offset was sent, in nanoseconds. Offset 0 is there already.
    let sent: Vec<AtomicU64> = (0..=COUNT).map(|_| AtomicU64::new(0)).collect();
    let clock = Instant::now();
    let times = thread::scope(|scope| {
        let consumer = scope.spawn(|| consume(&broker.address, &sent, clock));
        let mut acks = producer.another()?;
        scope.spawn(move || (0..COUNT).try_for_each(|_| acks.receive_ack()));
        let frame = raw::produce_frame("calm", 0, raw::batch(b"", 1_000, 1))?;
        for (i, time) in sent.iter().enumerate().skip(1) {
            let due = PACE * i as u32;
            thread::sleep(due.saturating_sub(clock.elapsed()));
            time.store(clock.elapsed().as_nanos() as u64, Ordering::Release);
            producer.send(&frame)?;
        }
        consumer.join().expect("the consumer does not panic")
    })?;
    Ok(vec![
        figure(P50, percentile(&times, 0.5)),
        figure(P99, percentile(&times, 0.99)),
        figure(ECHO_P99, percentile(&echo()?, 0.99)),
    ])
}

/// The latency of the machine itself at this pace: bytes to another thread and back.
fn echo() -> Result<Vec<f64>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut here = TcpStream::connect(listener.local_addr()?)?;
    let (mut there, _) = listener.accept()?;
    let mut back = there.try_clone()?;
    thread::spawn(move || std::io::copy(&mut there, &mut back));
    let mut times = vec![];
    let mut bytes = [0; 1_000];
    for _ in 0..WARM_UP {
        thread::sleep(PACE);
        let sent = Instant::now();
        here.write_all(&bytes)?;
        here.read_exact(&mut bytes)?;
        times.push(sent.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn consume(address: &str, sent: &[AtomicU64], clock: Instant) -> Result<Vec<f64>> {
    let mut connection = Connection::open(address)?;
    let mut times = vec![];
    let mut offset = 1;
    while offset < sent.len() {
        connection.send(&raw::fetch_frame("calm", offset as i64, 500)?)?;
        let length = connection.receive()?;
        let now = clock.elapsed().as_nanos() as u64;
        let next = raw::next_offset(&connection.buffer[..length]).map_or(offset, |next| next as usize);
        for sent in &sent[offset..next] {
            times.push((now - sent.load(Ordering::Acquire)) as f64 / 1e6);
        }
        offset = next;
    }
    let mut times = times.split_off(WARM_UP);
    times.sort_by(f64::total_cmp);
    Ok(times)
}
