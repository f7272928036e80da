//! Milena's broker and Apache Kafka side by side: started in turn in one run, under the same load, on the same disk.
//!
//! ```sh
//! cargo build --release && cd bench && cargo run --release -- --rounds 3
//! cargo run --release -- --only produce,restart
//! ```
//!
//! Most load comes from a raw client: batches that were built before, one blocking socket, five requests in flight.
//! It needs almost no CPU, so that the figures show the broker's limits and costs. Figures of one run compare with
//! each other, not with those of another machine or another day.

mod apps;
mod child;
mod cluster;
mod figures;
mod member;
mod peers;
mod programs;
mod races;
mod raw;
mod readers;
mod scenarios;
mod writers;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};

use figures::Table;
use peers::Peer;
use programs::Programs;
use races::{Fill, Plan, RACES, Race, Racer};
use readers::{Reader, Watch};
use scenarios::{SCENARIOS, Scenario};
use writers::Writer;

#[derive(Parser)]
#[command(about = "Milena's broker and Apache Kafka side by side")]
struct Arguments {
    /// How often each scenario is run with each broker; the medians are shown
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Scenarios to run, by name; all without this
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Leave Apache Kafka out
    #[arg(long)]
    alone: bool,
    /// Consumers that are compared; all without this
    #[arg(long, value_delimiter = ',', value_enum)]
    readers: Vec<Reader>,
    /// Producers that are compared; all without this
    #[arg(long, value_delimiter = ',', value_enum)]
    writers: Vec<Writer>,
    #[command(flatten)]
    scale: Scale,
    #[command(subcommand)]
    child: Option<Child>,
}

/// Subcommands for the child processes of this program.
#[derive(Subcommand)]
#[command(hide = true)]
enum Child {
    Read {
        reader: Reader,
        #[command(flatten)]
        job: readers::Job,
    },
    Write {
        writer: Writer,
        #[command(flatten)]
        job: writers::Job,
    },
    Fill(Fill),
    FillKeys(apps::FillKeys),
    Handle {
        runner: apps::Runner,
        #[command(flatten)]
        job: apps::Job,
    },
    Watch(Watch),
    Talk {
        part: apps::requests::Part,
        address: String,
    },
}

/// Amount of load.
#[derive(clap::Args, Clone, Copy)]
struct Scale {
    /// Megabytes through each broker in a scenario
    #[arg(long, default_value_t = 1_000)]
    megabytes: usize,
    /// Megabytes that are there before a restart
    #[arg(long, default_value_t = 10_000)]
    restart_megabytes: usize,
}

impl Scale {
    fn bytes(&self) -> usize {
        self.megabytes * 1_000_000
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match &arguments.child {
        Some(Child::Read { reader, job }) => return readers::read(*reader, job),
        Some(Child::Write { writer, job }) => return writers::write(*writer, job),
        Some(Child::Fill(fill)) => return races::fill(fill),
        Some(Child::FillKeys(fill)) => return apps::fill(fill),
        Some(Child::Handle { runner, job }) => return apps::handle(*runner, job),
        Some(Child::Watch(watch)) => return readers::watch(watch),
        Some(Child::Talk { part, address }) => return apps::requests::talk(*part, address),
        None => {}
    }
    check_names(&arguments.only)?;
    let wanted = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);
    let scenarios: Vec<&Scenario> = SCENARIOS.iter().filter(|scenario| wanted(scenario.name)).collect();
    let races: Vec<&Race> = RACES.iter().filter(|race| wanted(race.name)).collect();
    if !scenarios.is_empty() {
        run_scenarios(&arguments, &scenarios);
    }
    if !races.is_empty() {
        run_races(arguments, &races)?;
    }
    Ok(())
}

fn run_scenarios(arguments: &Arguments, chosen: &[&Scenario]) {
    let mut table = Table::default();
    for round in 1..=arguments.rounds {
        for scenario in chosen {
            for peer in [Peer::Milena, Peer::Kafka] {
                if peer == Peer::Kafka && (arguments.alone || !scenario.with_kafka) {
                    continue;
                }
                eprintln!("round {round}: {} with {peer:?}", scenario.name);
                match (scenario.run)(peer, &arguments.scale) {
                    Ok(figures) => table.add(peer, figures),
                    // The other measurements are not lost.
                    Err(error) => eprintln!("{error:#}"),
                }
            }
        }
    }
    let bars = chosen.iter().flat_map(|scenario| scenario.bars);
    print!("{}", table.show(bars));
}

fn run_races(arguments: Arguments, chosen: &[&Race]) -> Result<()> {
    let (readers, writers) = (or_all(arguments.readers), or_all(arguments.writers));
    let mut brokers = vec![Peer::Milena, Peer::Kafka];
    brokers.truncate(if arguments.alone { 1 } else { 2 });
    let plan = Plan {
        scale: arguments.scale,
        rounds: arguments.rounds,
        brokers,
        programs: Programs::build(
            readers.contains(&Reader::Franz) || writers.contains(&Writer::Franz),
            readers.contains(&Reader::Java) || writers.contains(&Writer::Java),
        )?,
        readers,
        writers,
    };
    for race in chosen {
        eprintln!("{}", race.name);
        match (race.run)(&plan) {
            Ok(text) => print!("{text}"),
            Err(error) => eprintln!("{error:#}"),
        }
    }
    Ok(())
}

fn or_all<R: Racer>(chosen: Vec<R>) -> Vec<R> {
    match chosen.is_empty() {
        true => R::ALL.to_vec(),
        false => chosen,
    }
}

fn check_names(names: &[String]) -> Result<()> {
    let scenarios = SCENARIOS.iter().map(|scenario| scenario.name);
    let known: Vec<&str> = scenarios.chain(RACES.iter().map(|race| race.name)).collect();
    for name in names {
        ensure!(
            known.contains(&name.as_str()),
            "no scenario {name}; there are {}",
            known.join(", ")
        );
    }
    Ok(())
}
