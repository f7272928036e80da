//! Plays runs of the simulator: `cargo xtask simulate` starts this.

use std::process::ExitCode;

use clap::Parser;
use milena_sim::{Mutation, Scenario, report, run_many};

#[derive(Parser)]
#[command(
    name = "cargo xtask simulate",
    about = "Play the coordinators against a lying world, from seeds"
)]
struct Args {
    /// Number of runs of each scenario; a single one prints its history
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The seed of the first run
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// Only this scenario
    #[arg(long, value_parser = scenario)]
    scenario: Option<Scenario>,
    /// Put a known bug back in
    #[arg(long, value_parser = mutation)]
    mutation: Option<Mutation>,
}

fn scenario(name: &str) -> Result<Scenario, String> {
    let known = || Scenario::ALL.map(Scenario::name).join(", ");
    Scenario::from_name(name).ok_or_else(|| format!("unknown scenario; known are {}", known()))
}

fn mutation(name: &str) -> Result<Mutation, String> {
    let names = || Mutation::ALL.iter().map(|mutation| mutation.name());
    let known = || names().collect::<Vec<_>>().join(", ");
    Mutation::from_name(name).ok_or_else(|| format!("unknown mutation; known are {}", known()))
}

fn main() -> ExitCode {
    let args = Args::parse();
    let scenarios = args
        .scenario
        .map_or_else(|| Scenario::ALL.to_vec(), |scenario| vec![scenario]);
    for scenario in scenarios {
        if args.seeds == 1 {
            println!("{}", report(scenario, args.start, args.mutation, usize::MAX));
            continue;
        }
        match run_many(scenario, args.start, args.seeds, args.mutation) {
            Ok(events) => println!(
                "{}: {} runs, {events} events, no violation",
                scenario.name(),
                args.seeds
            ),
            Err(report) => {
                eprintln!("{report}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
