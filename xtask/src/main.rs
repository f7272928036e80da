//! The chores of this repository: `cargo xtask --help` lists them.

use clap::Parser;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The chores of this repository")]
enum Chore {}

fn main() -> anyhow::Result<()> {
    match Chore::parse() {}
}
