//! `milena topic`, `group`, `cluster`, `config`, `txn`, `acl`, `user` and `quota`.

mod acls;
mod clusters;
mod configs;
mod groups;
mod quotas;
mod reset;
mod topics;
mod transactions;
mod users;

use serde_json::Value;

use crate::{command, process::Process};

/// The stdout of a command that must succeed without notices.
fn prints(broker: &Process, arguments: &[&str]) -> String {
    let output = command::milena(&[arguments, &["-b", &broker.address]].concat());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

/// The JSON output of a command.
fn json(broker: &Process, arguments: &[&str]) -> Value {
    serde_json::from_str(&prints(broker, &[arguments, &["-o", "json"]].concat())).unwrap()
}

/// The stderr of a command that must fail.
fn fails(broker: &Process, arguments: &[&str]) -> String {
    command::fails(&[arguments, &["-b", &broker.address]].concat())
}

/// The cells of a table, row by row.
fn cells(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}
