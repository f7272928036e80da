//! Fills a topic, as fast as each producer can, and shows the costs.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use tempfile::NamedTempFile;

use super::{
    PARTITIONS, Plan, Race, in_turn,
    load::values_file,
    standings::{Bar, Racer, Standings},
    warm_memory,
};
use crate::{
    child::Measured,
    figures::number,
    peers::{Peer, Running},
    raw::Connection,
    writers::{self, Job, Writer},
};

pub const PLAIN: Race = Race {
    name: "producers",
    run: |plan| run(plan, &[SMALL_RECORDS, LARGE_RECORDS]),
};
pub const DEFAULTS: Race = Race {
    name: "producers-defaults",
    run: |plan| run(plan, &[SMALL_RECORDS, LARGE_RECORDS].map(Kind::with_defaults)),
};
pub const KEYED: Race = Race {
    name: "producers-keyed",
    run: |plan| run(plan, &[SMALL_RECORDS, LARGE_RECORDS].map(Kind::with_keys)),
};
pub const DEFAULTS_KEYED: Race = Race {
    name: "producers-defaults-keyed",
    run: |plan| {
        run(
            plan,
            &[SMALL_RECORDS, LARGE_RECORDS]
                .map(Kind::with_defaults)
                .map(Kind::with_keys),
        )
    },
};
pub const DEFAULTS_WIDE: Race = Race {
    name: "producers-defaults-wide",
    run: |plan| {
        run(
            plan,
            &[SMALL_RECORDS, LARGE_RECORDS].map(Kind::with_defaults).map(Kind::wide),
        )
    },
};
pub const LZ4: Race = Race {
    name: "producers-lz4",
    run: |plan| run(plan, &[compressed("lz4")]),
};
pub const ZSTD: Race = Race {
    name: "producers-zstd",
    run: |plan| run(plan, &[compressed("zstd")]),
};

/// The records that are written, and the settings.
#[derive(Clone, Copy)]
struct Kind {
    value_size: usize,
    codec: &'static str,
    keys: u64,
    partitions: i32,
    is_tuned: bool,
    bars: &'static [(usize, Bar)],
    /// Required speed of our producer and broker, relative to the best peer and Apache Kafka.
    pair_factor: Option<f64>,
}

const SMALL_RECORDS: Kind = Kind {
    value_size: 100,
    codec: "none",
    keys: 0,
    partitions: PARTITIONS,
    is_tuned: true,
    bars: &[
        (RATE, Bar::TimesFastestAtLeast(1.5)),
        (CPU, Bar::TimesFastestAtMost(0.35)),
    ],
    pair_factor: None,
};
const LARGE_RECORDS: Kind = Kind {
    value_size: 1_000,
    bars: &[
        (RATE, Bar::TimesFastestAtLeast(1.0)),
        (CPU, Bar::TimesFastestAtMost(0.5)),
    ],
    pair_factor: Some(3.0),
    ..SMALL_RECORDS
};

const fn compressed(codec: &'static str) -> Kind {
    Kind {
        codec,
        bars: AHEAD,
        ..SMALL_RECORDS
    }
}

const AHEAD: &[(usize, Bar)] = &[(RATE, Bar::AboveAllPeers), (CPU, Bar::BelowAllPeers)];

const FIGURES: &[&str] = &[
    "M records/s",
    "MB/s",
    "CPU ns/record",
    "CPU s/GB",
    "max RSS MB",
    "broker s/GB",
];
const RATE: usize = 0;
const CPU: usize = 2;

impl Kind {
    fn with_defaults(self) -> Self {
        Self {
            is_tuned: false,
            bars: match self.value_size {
                100 => &[
                    (RATE, Bar::TimesFastestAtLeast(1.5)),
                    (CPU, Bar::TimesFastestAtMost(0.4)),
                ],
                _ => &[
                    (RATE, Bar::TimesFastestAtLeast(1.3)),
                    (CPU, Bar::TimesFastestAtMost(0.6)),
                ],
            },
            ..self
        }
    }

    fn with_keys(self) -> Self {
        Self {
            keys: 1_000,
            bars: AHEAD,
            ..self
        }
    }

    fn wide(self) -> Self {
        Self {
            partitions: 60,
            bars: AHEAD,
            ..self
        }
    }

    fn title(&self, peer: Peer) -> String {
        let keys = if self.keys > 0 { "with keys" } else { "without keys" };
        let settings = if self.is_tuned {
            writers::TUNED
        } else {
            "each with its defaults"
        };
        format!(
            "{} B, {}, {keys}, {} partitions, acks=all, idempotent, written to {peer:?}\n{settings}",
            self.value_size, self.codec, self.partitions
        )
    }
}

/// Results of one kind of records with one broker.
struct Heat {
    peer: Peer,
    kind: usize,
    standings: Standings<Writer>,
}

fn run(plan: &Plan, kinds: &[Kind]) -> Result<String> {
    let values = values_file(writers::VALUES_BYTES)?;
    let mut heats = vec![];
    for peer in plan.brokers.iter().copied() {
        let broker = start(peer)?;
        for (number, kind) in kinds.iter().enumerate() {
            eprintln!("{}", kind.title(peer));
            heats.push(Heat {
                peer,
                kind: number,
                standings: race(plan, &broker, kind, &values)?,
            });
        }
    }
    let mut text = String::new();
    for heat in &heats {
        let kind = &kinds[heat.kind];
        text += &heat.standings.show(&kind.title(heat.peer), kind.bars);
        if heat.peer == Peer::Milena {
            show_pair(&mut text, kind, heat, &heats);
        }
    }
    Ok(text)
}

/// A broker that deletes the files of deleted topics soon, to save disk space.
pub(super) fn start(peer: Peer) -> Result<Running> {
    match peer {
        Peer::Milena => Running::start(peer),
        Peer::Kafka => Running::start_with(peer, &["log.segment.delete.delay.ms=1000"]),
    }
}

fn race(plan: &Plan, broker: &Running, kind: &Kind, values: &NamedTempFile) -> Result<Standings<Writer>> {
    let mut job = Job {
        address: broker.address.clone(),
        topic: String::new(),
        records: (plan.scale.bytes() / kind.value_size) as u64,
        values: values.path().to_owned(),
        value_size: kind.value_size,
        codec: kind.codec.to_owned(),
        keys: kind.keys,
        tuned: kind.is_tuned.into(),
        timed: 0,
    };
    // A broker in Java compiles first.
    measure(plan, broker, kind, &mut job, Writer::Ours)?;
    let mut standings = Standings::new(FIGURES);
    for round in 0..plan.rounds {
        for writer in in_turn(&plan.writers, round) {
            match measure(plan, broker, kind, &mut job, writer) {
                Ok(figures) => standings.add(writer, figures),
                // The other measurements are not lost.
                Err(error) => eprintln!("{error:#}"),
            }
        }
    }
    Ok(standings)
}

fn measure(plan: &Plan, broker: &Running, kind: &Kind, job: &mut Job, writer: Writer) -> Result<Vec<f64>> {
    warm_memory()?;
    let before = broker.cpu_seconds()?;
    let measured = write(plan, broker, kind.partitions, job, writer)?;
    let broker_cpu = broker.cpu_seconds()? - before;
    Ok(vec![
        measured.records / measured.seconds / 1e6,
        measured.bytes / measured.seconds / 1e6,
        measured.cpu_seconds / measured.records * 1e9,
        measured.cpu_seconds / (measured.bytes / 1e9),
        measured.resident_bytes / 1e6,
        broker_cpu / (measured.bytes / 1e9),
    ])
}

/// Runs one writer on a new topic, and checks that each record is there exactly once.
pub(super) fn write(plan: &Plan, broker: &Running, partitions: i32, job: &mut Job, writer: Writer) -> Result<Measured> {
    let mut connection = Connection::open(&broker.address)?;
    job.topic = format!("written-by-{}", writer.name());
    connection.create_topic(&job.topic, partitions, &[])?;
    let before = connection.end_offsets(&job.topic, partitions)?;
    let measured = writers::start(writer, job, &plan.programs)?.wait();
    let after = connection.end_offsets(&job.topic, partitions);
    connection.delete_topic(&job.topic)?;
    let (measured, written) = (measured?, after? - before);
    ensure!(
        written == job.records as i64,
        "{} wrote {written} records instead of {}",
        writer.name(),
        job.records
    );
    Ok(measured)
}

/// Our producer and our broker beside the best combination without either.
fn show_pair(text: &mut String, kind: &Kind, heat: &Heat, heats: &[Heat]) {
    let theirs = heats
        .iter()
        .find(|other| other.peer == Peer::Kafka && other.kind == heat.kind);
    let Some((factor, theirs)) = kind.pair_factor.zip(theirs) else {
        return;
    };
    let Some(peer) = theirs.standings.fastest() else { return };
    let ours = heat.standings.median(Writer::Ours, RATE);
    let theirs = theirs.standings.median(peer, RATE);
    let ratio = ours / theirs;
    let verdict = match ratio >= factor {
        _ if ratio.is_nan() => "",
        true => "met",
        false => "MISSED",
    };
    let (ours, theirs, ratio) = (number(ours), number(theirs), number(ratio));
    let (name, beside) = (FIGURES[RATE], format!("{} with Apache Kafka", peer.name()));
    let _ = writeln!(
        text,
        "  {name:<16} ours {ours:>8}  {beside} {theirs}  ratio {ratio}  ≥ {factor}× the best pair  {verdict}"
    );
}
