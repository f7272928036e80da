//! Reads a topic from its beginning, as fast as each consumer can, and shows the costs.

use anyhow::Result;

use super::{
    PARTITIONS, Plan, Race, in_turn,
    load::Load,
    standings::{Bar, Standings},
};
use crate::{
    child::Measured,
    peers::Running,
    readers::{self, Job, Reader},
};

pub const PLAIN: Race = Race {
    name: "consumers",
    run: |plan| run(plan, &[LARGE_BATCHES, SMALL_BATCHES, LARGE_RECORDS]),
};
pub const LZ4: Race = Race {
    name: "consumers-lz4",
    run: |plan| run(plan, &[compressed("lz4")]),
};
pub const ZSTD: Race = Race {
    name: "consumers-zstd",
    run: |plan| run(plan, &[compressed("zstd")]),
};

/// librdkafka's default: a batch has the records of 5 ms, up to a megabyte or 10 000 records.
const LIBRDKAFKAS: usize = 1_000_000;
/// The default of Java's producer.
const JAVAS: usize = 16_384;

pub(super) const LARGE_BATCHES: Load = Load {
    value_size: 100,
    codec: "none",
    batch_bytes: LIBRDKAFKAS,
};
const SMALL_BATCHES: Load = Load {
    batch_bytes: JAVAS,
    ..LARGE_BATCHES
};
const LARGE_RECORDS: Load = Load {
    value_size: 1_000,
    ..LARGE_BATCHES
};

const fn compressed(codec: &'static str) -> Load {
    Load { codec, ..LARGE_BATCHES }
}

const FIGURES: &[&str] = &[
    "M records/s",
    "MB/s",
    "CPU ns/record",
    "CPU s/GB",
    "max RSS MB",
    "wire/log",
];
const RATE: usize = 0;
const CPU: usize = 2;
const RESIDENT: usize = 4;
const WIRE: usize = 5;

const SMALL_RECORD_BARS: &[(usize, Bar)] = &[
    (RATE, Bar::TimesFastestAtLeast(2.5)),
    (CPU, Bar::TimesFastestAtMost(0.25)),
    (CPU, Bar::TimesRawAtMost(1.7)),
    (RESIDENT, Bar::AtMost(64.0)),
    (WIRE, Bar::AtMost(1.02)),
];
const LARGE_RECORD_BARS: &[(usize, Bar)] = &[
    (RATE, Bar::TimesFastestAtLeast(1.2)),
    (CPU, Bar::TimesFastestAtMost(0.7)),
    (RESIDENT, Bar::AtMost(64.0)),
    (WIRE, Bar::AtMost(1.02)),
];
const COMPRESSED_BARS: &[(usize, Bar)] = &[
    (RATE, Bar::AboveAllPeers),
    (CPU, Bar::BelowAllPeers),
    (RESIDENT, Bar::AtMost(64.0)),
    (WIRE, Bar::AtMost(1.02)),
];

fn run(plan: &Plan, loads: &[Load]) -> Result<String> {
    let mut text = String::new();
    for peer in &plan.brokers {
        let broker = Running::start(*peer)?;
        for load in loads {
            let topic = format!("{}-{}-{}", load.value_size, load.codec, load.batch_bytes);
            let records = (plan.scale.bytes() / load.value_size) as u64;
            load.put(&broker.address, &topic, PARTITIONS, records)?;
            let stored = broker.stored_bytes(&topic)?;
            let title = format!(
                "{} B, {}, batch.size {} ({:.0} MB of log), read from {peer:?}",
                load.value_size,
                load.codec,
                load.batch_bytes,
                stored / 1e6
            );
            eprintln!("{title}");
            let job = Job {
                address: broker.address.clone(),
                topic,
                partitions: PARTITIONS,
                records,
                poll_records: 0,
                timed: 0,
            };
            // A broker in Java compiles first.
            measure(plan, &broker, &job, Reader::Raw)?;
            let standings = race(plan, &broker, &job, stored);
            text += &standings.show(&title, bars(load));
        }
    }
    Ok(text)
}

fn bars(load: &Load) -> &'static [(usize, Bar)] {
    match load {
        Load {
            codec: "none",
            value_size: ..=100,
            ..
        } => SMALL_RECORD_BARS,
        Load { codec: "none", .. } => LARGE_RECORD_BARS,
        _ => COMPRESSED_BARS,
    }
}

fn race(plan: &Plan, broker: &Running, job: &Job, stored: f64) -> Standings<Reader> {
    let mut standings = Standings::new(FIGURES);
    for round in 0..plan.rounds {
        for reader in in_turn(&plan.readers, round) {
            match measure(plan, broker, job, reader) {
                Ok((measured, wire)) => standings.add(reader, figures(&measured, wire / stored)),
                // The other measurements are not lost.
                Err(error) => eprintln!("{error:#}"),
            }
        }
    }
    standings
}

/// Runs one reader; returns also the bytes that the broker sent meanwhile.
fn measure(plan: &Plan, broker: &Running, job: &Job, reader: Reader) -> Result<(Measured, f64)> {
    let before = broker.bytes_written()?;
    let measured = readers::start(reader, job, &plan.programs)?.wait()?;
    Ok((measured, broker.bytes_written()? - before))
}

fn figures(measured: &Measured, wire: f64) -> Vec<f64> {
    vec![
        measured.records / measured.seconds / 1e6,
        measured.bytes / measured.seconds / 1e6,
        measured.cpu_seconds / measured.records * 1e9,
        measured.cpu_seconds / (measured.bytes / 1e9),
        measured.resident_bytes / 1e6,
        wire,
    ]
}
