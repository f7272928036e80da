//! `cargo xtask simulate`: plays runs of `milena-sim`.
//!
//! It is a program of its own, so that the other chores need not build the machines.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Play the coordinators against a lying world, from seeds; `--help` lists the options
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Options of the simulator
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let status = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--release", "--package", "milena-sim", "--"])
        .args(&args.options)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the simulation failed");
    Ok(())
}
