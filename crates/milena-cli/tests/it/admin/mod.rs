//! `milena topic`, `group`, `cluster`, `config` and `txn`.

mod clusters;
mod configs;
mod groups;
mod reset;
mod topics;
mod transactions;

use serde_json::Value;

use crate::{process::Process, run};

/// What a command prints that must do its work without a complaint.
fn prints(broker: &Process, arguments: &[&str]) -> String {
    let output = run::milena(&[arguments, &["-b", &broker.address]].concat());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

/// What a command tells programs.
fn json(broker: &Process, arguments: &[&str]) -> Value {
    serde_json::from_str(&prints(broker, &[arguments, &["-o", "json"]].concat())).unwrap()
}

/// What a command complains about that must fail.
fn fails(broker: &Process, arguments: &[&str]) -> String {
    run::fails(&[arguments, &["-b", &broker.address]].concat())
}

/// The cells of a table, line by line.
fn cells(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}
