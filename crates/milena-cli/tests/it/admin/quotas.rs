//! `milena quota`.

use serde_json::json;

use super::{cells, fails, json, prints};
use crate::process::Process;

#[test]
fn quotas_are_set_listed_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    let alter = |arguments: &[&str]| prints(&broker, &[&["quota", "alter"], arguments].concat());
    let alice = ["--user", "alice", "--set", "producer_byte_rate=1048576"];
    assert_eq!(
        alter(&[&alice[..], &["--dry-run"]].concat()),
        "would change the quotas of user alice\n"
    );
    assert_eq!(json_of_all(&broker), json!([]));
    assert_eq!(alter(&alice), "changed the quotas of user alice\n");
    alter(&[
        "-u",
        "alice",
        "-c",
        "loader",
        "-s",
        "consumer_byte_rate=5000",
        "-s",
        "request_percentage=12.5",
    ]);
    alter(&["--client-defaults", "--add-config", "controller_mutation_rate=10"]);
    alter(&["--ip", "127.0.0.7", "--set", "connection_creation_rate=5"]);
    let listed = prints(&broker, &["quotas", "ls"]);
    let mut rows = cells(&listed);
    assert_eq!(rows.remove(0), ["USER", "CLIENT-ID", "IP", "QUOTA", "VALUE"]);
    rows.sort_unstable();
    assert_eq!(
        rows,
        [
            ["-", "(default)", "-", "controller_mutation_rate", "10"],
            ["-", "-", "127.0.0.7", "connection_creation_rate", "5"],
            ["alice", "-", "-", "producer_byte_rate", "1048576"],
            ["alice", "loader", "-", "consumer_byte_rate", "5000"],
            ["alice", "loader", "-", "request_percentage", "12.5"],
        ]
    );
    assert!(listed.lines().all(|line| line.len() <= 80), "{listed}");
    let defaults = json(&broker, &["quota", "list", "--client-defaults"]);
    assert_eq!(
        defaults,
        json!([{"entity": {"client-id": null}, "quotas": {"controller_mutation_rate": 10.0}}])
    );
    alter(&["--user", "alice", "--delete", "producer_byte_rate"]);
    let of_alice = prints(&broker, &["quota", "list", "--user", "alice"]);
    assert_eq!(of_alice.lines().count(), 3, "{of_alice}");
}

fn json_of_all(broker: &Process) -> serde_json::Value {
    let output = crate::command::milena(&["quota", "list", "-q", "-o", "json", "-b", &broker.address]);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_wrong_quota_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    for (line, reason) in [
        ("quota alter --set producer_byte_rate=1", "no entity given"),
        ("quota alter --user alice", "no change given"),
        (
            "quota alter --user alice --set producer_byte_rate=0",
            "a number above 0",
        ),
        ("quota alter --user alice --set speed=1", "INVALID_REQUEST (42)"),
        (
            "quota alter --user alice --ip 127.0.0.1 --set connection_creation_rate=1",
            "remove --ip or the others",
        ),
    ] {
        let message = fails(&broker, &line.split_whitespace().collect::<Vec<_>>());
        assert!(message.contains(reason), "{line}: {message}");
    }
}
