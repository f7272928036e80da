//! Runs of `milena` commands that exit by themselves.

use std::process::{Command, Output};

pub fn milena(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
    // Ignores the environment of the test run.
    for name in ["MILENA_BOOTSTRAP", "MILENA_DATABASE_URL", "RUST_LOG"] {
        command.env_remove(name);
    }
    command.args(arguments).output().unwrap()
}

/// Runs a command that must fail, and returns its stderr.
pub fn fails(arguments: &[&str]) -> String {
    let output = milena(arguments);
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}
