//! From the acknowledgement of a record to the poll that returns it, at a calm pace.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use milena_wire::records::{BatchBuilder, BatchOptions};

use super::{
    PARTITIONS, Plan, Race, in_turn,
    standings::{Bar, Standings},
};
use crate::{
    peers::Running,
    raw::{self, Connection},
    readers::{self, Job, Reader, unix_nanos},
    scenarios::percentile,
};

pub const RACE: Race = Race {
    name: "consume-latency",
    run,
};

const FIGURES: &[&str] = &["acked p50 ms", "acked p99 ms", "sent p50 ms", "sent p99 ms"];
const BARS: &[(usize, Bar)] = &[(0, Bar::BelowAllPeers), (1, Bar::BelowAllPeers)];

/// Until then consumers find their partitions, and Java compiles.
const WARM_UP: usize = 3_000;
const COUNT: usize = 9_000;
const PACE: Duration = Duration::from_millis(1);

fn run(plan: &Plan) -> Result<String> {
    let mut text = String::new();
    for peer in &plan.brokers {
        let broker = Running::start(*peer)?;
        let title = format!("from produced to polled at 1000/s, through {peer:?}");
        eprintln!("{title}");
        // A broker in Java compiles first.
        measure(plan, &broker, Reader::Raw, "warm-up")?;
        let mut standings = Standings::new(FIGURES);
        for round in 0..plan.rounds {
            for reader in in_turn(&plan.readers, round) {
                match measure(plan, &broker, reader, &round.to_string()) {
                    Ok(figures) => standings.add(reader, figures),
                    Err(error) => eprintln!("{error:#}"),
                }
            }
        }
        text += &standings.show(&title, BARS);
    }
    Ok(text)
}

fn measure(plan: &Plan, broker: &Running, reader: Reader, round: &str) -> Result<Vec<f64>> {
    let mut producer = Connection::open(&broker.address)?;
    let topic = format!("calm-{reader:?}-{round}");
    producer.create_topic(&topic, PARTITIONS, &[])?;
    let job = Job {
        address: broker.address.clone(),
        topic,
        partitions: PARTITIONS,
        // Each partition has the record that it was created with.
        records: COUNT as u64 + PARTITIONS as u64,
        poll_records: 0,
        timed: 1,
    };
    let started = readers::start(reader, &job, &plan.programs)?;
    let (sent, acked) = produce(producer, &job.topic)?;
    let times = started.wait()?.times;
    let known = times
        .iter()
        .filter(|(number, _)| (WARM_UP..COUNT).contains(&(*number as usize)));
    let since = |moments: &[AtomicU64]| {
        let since = known.clone().map(|(number, nanos)| {
            let moment = moments[*number as usize].load(Ordering::Relaxed);
            // A poll can return before the producer hears of the acknowledgement.
            nanos.wrapping_sub(moment) as i64 as f64 / 1e6
        });
        let mut since: Vec<f64> = since.collect();
        since.sort_by(f64::total_cmp);
        since
    };
    let (acked, sent) = (since(&acked), since(&sent));
    Ok(vec![
        percentile(&acked, 0.5),
        percentile(&acked, 0.99),
        percentile(&sent, 0.5),
        percentile(&sent, 0.99),
    ])
}

/// Sends a record each millisecond; returns the times of sending and acknowledgement.
fn produce(mut producer: Connection, topic: &str) -> Result<(Vec<AtomicU64>, Vec<AtomicU64>)> {
    let moments = || -> Vec<AtomicU64> { (0..COUNT).map(|_| AtomicU64::new(0)).collect() };
    let (sent, acked) = (moments(), moments());
    thread::scope(|scope| -> Result<()> {
        let mut acks = producer.another()?;
        let acked = &acked;
        let listener = scope.spawn(move || -> Result<()> {
            for moment in acked {
                acks.receive_ack()?;
                moment.store(unix_nanos(), Ordering::Relaxed);
            }
            Ok(())
        });
        let began = Instant::now();
        for (number, moment) in sent.iter().enumerate() {
            let frame = frame(topic, number)?;
            thread::sleep((PACE * number as u32).saturating_sub(began.elapsed()));
            moment.store(unix_nanos(), Ordering::Relaxed);
            producer.send(&frame)?;
        }
        listener.join().expect("the listener does not panic")
    })?;
    Ok((sent, acked))
}

/// A record of 100 bytes that begins with its number.
fn frame(topic: &str, number: usize) -> Result<bytes::Bytes> {
    let mut value = [b'.'; 100];
    value[..8].copy_from_slice(&(number as u64).to_be_bytes());
    let mut builder = BatchBuilder::new(BatchOptions::default());
    raw::append(&mut builder, b"", &value);
    raw::produce_frame(topic, number as i32 % PARTITIONS, builder.finish())
}
