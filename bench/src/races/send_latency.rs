//! One record at a time: from the call to its acknowledgement, with nothing else under way.

use anyhow::Result;

use super::{
    PARTITIONS, Plan, Race, in_turn,
    load::values_file,
    producers::{start, write},
    standings::{Bar, Standings},
};
use crate::{
    peers::Running,
    scenarios::percentile,
    writers::{self, Job, Writer},
};

pub const RACE: Race = Race {
    name: "send-latency",
    run,
};

const FIGURES: &[&str] = &["p50 µs", "p99 µs", "p99.9 µs", "CPU µs/record"];
const BARS: &[(usize, Bar)] = &[(0, Bar::BelowAllPeers), (1, Bar::BelowAllPeers)];

/// Until then producers find their partitions, and Java compiles.
const WARM_UP: u64 = 3_000;
const COUNT: u64 = 13_000;

fn run(plan: &Plan) -> Result<String> {
    let values = values_file(writers::VALUES_BYTES)?;
    let mut text = String::new();
    for peer in plan.brokers.iter().copied() {
        let broker = start(peer)?;
        let title = format!(
            "one record of 100 B at a time, {PARTITIONS} partitions, acks=all, idempotent, written to {peer:?}\n\
             ours with its defaults, peers with linger 0"
        );
        eprintln!("{title}");
        let mut job = Job {
            address: broker.address.clone(),
            topic: String::new(),
            records: COUNT,
            values: values.path().to_owned(),
            value_size: 100,
            codec: "none".to_owned(),
            keys: 0,
            tuned: 0,
            timed: 1,
        };
        // A broker in Java compiles first.
        measure(plan, &broker, &mut job, Writer::Ours)?;
        let mut standings = Standings::new(FIGURES);
        for round in 0..plan.rounds {
            for writer in in_turn(&plan.writers, round) {
                match measure(plan, &broker, &mut job, writer) {
                    Ok(figures) => standings.add(writer, figures),
                    Err(error) => eprintln!("{error:#}"),
                }
            }
        }
        text += &standings.show(&title, BARS);
    }
    Ok(text)
}

fn measure(plan: &Plan, broker: &Running, job: &mut Job, writer: Writer) -> Result<Vec<f64>> {
    let measured = write(plan, broker, PARTITIONS, job, writer)?;
    let late = measured.times.iter().filter(|(number, _)| *number >= WARM_UP);
    let mut micros: Vec<f64> = late.map(|(_, nanos)| *nanos as f64 / 1e3).collect();
    micros.sort_by(f64::total_cmp);
    Ok(vec![
        percentile(&micros, 0.5),
        percentile(&micros, 0.99),
        percentile(&micros, 0.999),
        measured.cpu_seconds / measured.records * 1e6,
    ])
}
