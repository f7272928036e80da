//! Commands of `milena` that end by themselves.

use std::process::{Command, Output};

pub fn milena(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
    // Nothing of the environment in which the tests run.
    command.env_remove("MILENA_BOOTSTRAP").env_remove("RUST_LOG");
    command.args(arguments).output().unwrap()
}

/// Runs what must fail, and gives what it tells the user.
pub fn fails(arguments: &[&str]) -> String {
    let output = milena(arguments);
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}
