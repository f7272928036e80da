//! Milena's broker and Apache Kafka side by side: started in turn in one run, under the same load, on the same disk.
//!
//! ```sh
//! cargo build --release && cd bench && cargo run --release -- --rounds 3
//! cargo run --release -- --only produce,restart
//! ```
//!
//! Most load comes from a raw client: batches that were built before, one blocking socket, five requests in flight. It
//! costs almost no CPU of its own, so it shows what a broker can do and what that costs. Figures of one run compare with
//! each other, not with those of another machine or another day.

mod figures;
mod member;
mod peers;
mod raw;
mod scenarios;

use anyhow::{Result, ensure};
use clap::Parser;

use figures::Table;
use peers::Peer;
use scenarios::{SCENARIOS, Scenario};

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
    #[command(flatten)]
    scale: Scale,
}

/// How much load there is.
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
    let chosen = chosen(&arguments.only)?;
    let mut table = Table::default();
    for round in 1..=arguments.rounds {
        for scenario in &chosen {
            for peer in [Peer::Milena, Peer::Kafka] {
                if peer == Peer::Kafka && (arguments.alone || !scenario.with_kafka) {
                    continue;
                }
                eprintln!("round {round}: {} with {peer:?}", scenario.name);
                match (scenario.run)(peer, &arguments.scale) {
                    Ok(figures) => table.add(peer, figures),
                    // What the others have measured is not lost for that.
                    Err(error) => eprintln!("{error:#}"),
                }
            }
        }
    }
    let bars = chosen.iter().flat_map(|scenario| scenario.bars);
    print!("{}", table.show(bars));
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<&'static Scenario>> {
    for name in names {
        let known: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        ensure!(
            known.contains(&name.as_str()),
            "no scenario {name}; there are {}",
            known.join(", ")
        );
    }
    let wanted = |scenario: &&Scenario| names.is_empty() || names.iter().any(|name| name == scenario.name);
    Ok(SCENARIOS.iter().filter(wanted).collect())
}
