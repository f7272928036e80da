//! `cargo xtask torture`: exactly once while processes and brokers are killed.
//!
//! It is a test of `milena-cli`, so that the other chores need not build clients and brokers.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Move records exactly once while processes and brokers are killed; `--help` lists the options
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Options of the torture
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let status = Command::new(env!("CARGO"))
        .args(["test", "--quiet", "--package", "milena-cli", "--features", "outside"])
        .args(["--test", "torture", "--"])
        .args(&args.options)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the torture failed");
    Ok(())
}
