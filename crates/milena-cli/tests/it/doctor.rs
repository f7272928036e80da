//! `milena doctor`, and reports of damage to consumers and operators.

use std::{fs, path::Path};

use serde_json::Value;

use crate::{client::batch, command::milena, process::Process};

/// A directory whose topic has a batch of three records and one of one record, after a clean stop.
fn fill(dir: &Path) {
    let broker = Process::start(dir, &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    client.produce("letters", 0, batch(&["a", "b", "c"]));
    client.produce("letters", 0, batch(&["d"]));
    assert!(broker.terminate().success());
}

fn flip(path: &Path, place: usize) {
    let mut content = fs::read(path).unwrap();
    content[place] ^= 1;
    fs::write(path, content).unwrap();
}

#[test]
fn the_doctor_tells_damage_from_health_and_refuses_a_directory_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    fill(dir.path());
    let healthy = milena(&["doctor", "--data-dir", path]);
    let text = String::from_utf8_lossy(&healthy.stdout);
    assert!(healthy.status.success(), "{healthy:?}");
    assert!(text.contains("4 records") && text.contains("no damage found"), "{text}");

    flip(&dir.path().join("letters-0/00000000000000000000.log"), 65);
    let before = fs::read(dir.path().join("letters-0/00000000000000000000.log")).unwrap();
    let damaged = milena(&["doctor", "--data-dir", path, "-o", "json"]);
    assert_eq!(damaged.status.code(), Some(1), "{damaged:?}");
    let report: Value = serde_json::from_slice(&damaged.stdout).unwrap();
    let finding = &report["findings"][0];
    assert_eq!(finding["severity"], "damage", "{report}");
    assert_eq!(
        (&finding["from_offset"], &finding["to_offset"]),
        (&Value::from(0), &Value::from(3))
    );
    assert_eq!(
        fs::read(dir.path().join("letters-0/00000000000000000000.log")).unwrap(),
        before
    );

    let broker = Process::start(dir.path(), &[]);
    let refused = milena(&["doctor", "--data-dir", path]);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("used by a running broker"),
        "{refused:?}"
    );
    broker.kill();
}

#[test]
fn a_consumer_is_told_where_to_go_on_behind_a_damaged_batch() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let log = dir.path().join("letters-0/00000000000000000000.log");
    flip(&log, 65);
    let batches = milena(&["protocol", "batches", log.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&batches.stdout);
    assert!(
        text.starts_with("DAMAGED baseOffset: 0 lastOffset: 2 position: 0"),
        "{text}"
    );
    let broker = Process::start(dir.path(), &[]);
    let consume = ["consume", "-b", &broker.address, "-t", "letters", "--exit-at-end"];
    let failed = milena(&[&consume[..], &["--from", "earliest"]].concat());
    let advice = String::from_utf8_lossy(&failed.stderr);
    assert!(advice.contains("try: milena consume letters -p 0 -o 3"), "{advice}");
    let behind = milena(&[
        "consume",
        "-b",
        &broker.address,
        "letters",
        "-p",
        "0",
        "-o",
        "3",
        "--exit-at-end",
    ]);
    assert_eq!(String::from_utf8_lossy(&behind.stdout), "d\n", "{behind:?}");
    broker.kill();
}
