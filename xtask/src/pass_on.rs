//! Commands that are separate programs, so that the others need not build their dependencies.

use std::process::Command;

use anyhow::{Context, Result, ensure};

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Options of the program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

/// Plays runs of `milena-sim`.
pub(crate) fn simulate(args: &Args) -> Result<()> {
    let simulator = ["run", "--quiet", "--release", "--package", "milena-sim", "--"];
    cargo(&simulator, args, "the simulation failed")
}

/// Runs a test of `milena-cli`.
pub(crate) fn torture(args: &Args) -> Result<()> {
    test("torture", args, "the torture failed")
}

/// Runs a test of `milena-cli`.
pub(crate) fn sagas(args: &Args) -> Result<()> {
    test("sagas", args, "sagas did not end, or their effects do not balance")
}

/// Runs a test of `milena-cli`.
pub(crate) fn outbox(args: &Args) -> Result<()> {
    test("outbox", args, "table and topic do not agree")
}

fn test(name: &str, args: &Args, failure: &'static str) -> Result<()> {
    let package = ["test", "--quiet", "--package", "milena-cli", "--features", "outside"];
    let test = ["--test", name, "--"];
    cargo(&[&package[..], &test].concat(), args, failure)
}

/// Runs a test of `milena-cli`, optimized, and compares the throughput of the client that behaves.
pub(crate) fn hostile(args: &Args) -> Result<()> {
    let package = [
        "test",
        "--quiet",
        "--release",
        "--package",
        "milena-cli",
        "--features",
        "outside",
    ];
    let test = ["--test", "hostile", "--", "--compare", "--frames", "10000000"];
    cargo(
        &[&package[..], &test].concat(),
        args,
        "the broker did not withstand the attack",
    )
}

fn cargo(program: &[&str], args: &Args, failure: &'static str) -> Result<()> {
    let mut command = Command::new(env!("CARGO"));
    let status = command.args(program).args(&args.options).status();
    ensure!(status.context("cannot run cargo")?.success(), failure);
    Ok(())
}
