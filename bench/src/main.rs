//! Milena's broker and Apache Kafka side by side: started in turn in one run, under the same load, on the same disk.
//!
//! ```sh
//! cargo build --release && cd bench && cargo run --release -- --rounds 3
//! ```
//!
//! The load comes from a raw client: batches that were built before, one blocking socket, five requests in flight. It
//! costs almost no CPU of its own, so it shows what a broker can do and what that costs. Figures of one run compare with
//! each other, not with those of another machine or another day.

mod peers;
mod raw;

use anyhow::Result;
use clap::Parser;

use peers::{Peer, Running};

#[derive(Parser)]
#[command(about = "Milena's broker and Apache Kafka side by side")]
struct Arguments {
    /// How often each broker is started and loaded; the medians are shown
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Megabytes through each broker in a round
    #[arg(long, default_value_t = 1_000)]
    megabytes: usize,
}

/// What one load did to one broker.
#[derive(Debug, Clone, Copy)]
struct Figure {
    megabytes_per_second: f64,
    cpu_seconds_per_gigabyte: f64,
}

#[derive(Debug, Default)]
struct Figures {
    start_ms: Vec<f64>,
    idle_megabytes: Vec<f64>,
    loaded_megabytes: Vec<f64>,
    produce_1k: Vec<Figure>,
    produce_100: Vec<Figure>,
    consume_1k: Vec<Figure>,
    one_in_flight_per_second: Vec<f64>,
    one_in_flight_p50_us: Vec<f64>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut ours = Figures::default();
    let mut kafkas = Figures::default();
    for round in 0..arguments.rounds {
        eprintln!("round {}", round + 1);
        measure(Peer::Milena, &arguments, &mut ours)?;
        measure(Peer::Kafka, &arguments, &mut kafkas)?;
    }
    print(&ours, &kafkas);
    Ok(())
}

fn measure(peer: Peer, arguments: &Arguments, figures: &mut Figures) -> Result<()> {
    let broker = Running::start(peer)?;
    figures.start_ms.push(broker.start_ms);
    figures.idle_megabytes.push(broker.resident_megabytes()?);
    let bytes = arguments.megabytes * 1_000_000;
    figures.produce_1k.push(loaded(&broker, || raw::produce(&broker.address, "large", 1_000, bytes))?);
    figures.consume_1k.push(loaded(&broker, || raw::consume(&broker.address, "large", bytes))?);
    figures.produce_100.push(loaded(&broker, || raw::produce(&broker.address, "small", 100, bytes / 4))?);
    figures.loaded_megabytes.push(broker.resident_megabytes()?);
    let latencies = raw::one_in_flight(&broker.address, "single", 5_000)?;
    figures.one_in_flight_per_second.push(latencies.per_second);
    figures.one_in_flight_p50_us.push(latencies.p50_us);
    Ok(())
}

/// Runs a load and adds up what it cost the broker.
fn loaded(broker: &Running, load: impl FnOnce() -> Result<raw::Load>) -> Result<Figure> {
    let before = broker.cpu_seconds()?;
    let load = load()?;
    let cpu = broker.cpu_seconds()? - before;
    Ok(Figure {
        megabytes_per_second: load.bytes as f64 / 1e6 / load.seconds,
        cpu_seconds_per_gigabyte: cpu / (load.bytes as f64 / 1e9),
    })
}

fn print(ours: &Figures, kafkas: &Figures) {
    println!("{:<38} {:>12} {:>12} {:>8}", "", "Milena", "Kafka", "ratio");
    let row = |name: &str, ours: &[f64], kafkas: &[f64]| {
        let (ours, kafkas) = (median(ours), median(kafkas));
        println!("{name:<38} {ours:>12.2} {kafkas:>12.2} {:>8.2}", ours / kafkas);
    };
    let load = |name: &str, ours: &[Figure], kafkas: &[Figure]| {
        let pick = |figures: &[Figure], field: fn(&Figure) -> f64| figures.iter().map(field).collect::<Vec<_>>();
        let rate = |figure: &Figure| figure.megabytes_per_second;
        let cpu = |figure: &Figure| figure.cpu_seconds_per_gigabyte;
        row(&format!("{name}, MB/s"), &pick(ours, rate), &pick(kafkas, rate));
        row(&format!("{name}, broker CPU s/GB"), &pick(ours, cpu), &pick(kafkas, cpu));
    };
    row("start to first answer, ms", &ours.start_ms, &kafkas.start_ms);
    row("idle, resident MB", &ours.idle_megabytes, &kafkas.idle_megabytes);
    row("after the load, resident MB", &ours.loaded_megabytes, &kafkas.loaded_megabytes);
    load("produce 1000 B, acks=all", &ours.produce_1k, &kafkas.produce_1k);
    load("produce 100 B, acks=all", &ours.produce_100, &kafkas.produce_100);
    load("consume 1000 B", &ours.consume_1k, &kafkas.consume_1k);
    row("one in flight, sends/s", &ours.one_in_flight_per_second, &kafkas.one_in_flight_per_second);
    row("one in flight, p50 µs", &ours.one_in_flight_p50_us, &kafkas.one_in_flight_p50_us);
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
