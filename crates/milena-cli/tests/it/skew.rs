//! `milena topic skew`.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use milena_wire::records::{BatchBuilder, BatchOptions, Header, NewRecord};
use serde_json::{Value, json};

use crate::{
    command::{fails, milena},
    process::Process,
};

/// Records of one partition, each with its key and its age in hours. Values have 10 bytes.
fn records(keys: &[(Option<&str>, u64)]) -> Bytes {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for (key, hours) in keys {
        let at = now - Duration::from_secs(3600 * hours);
        let record = NewRecord {
            timestamp: i64::try_from(at.as_millis()).unwrap(),
            key: key.map(str::as_bytes),
            value: Some(b"0123456789"),
            headers: &[],
        };
        builder.append(&record).unwrap();
    }
    builder.finish()
}

/// Three partitions with six, none and two records.
fn broker_with_orders(dir: &Path) -> Process {
    let broker = Process::start(dir, &[]);
    let mut client = broker.client();
    client.create_topic("orders", 3, &[]);
    client.produce(
        "orders",
        0,
        records(&[(Some("a"), 50), (Some("a"), 40), (Some("b"), 30)]),
    );
    client.produce("orders", 0, records(&[(None, 20), (Some("a"), 3), (Some("a"), 1)]));
    client.produce("orders", 2, records(&[(Some("c"), 45), (Some("c"), 2)]));
    broker
}

fn skew(broker: &Process, arguments: &[&str]) -> String {
    let command = ["topic", "skew", "-b", &broker.address, "-t", "orders"];
    let output = milena(&[&command[..], arguments].concat());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

/// The number of counted records per partition.
fn counts(broker: &Process, arguments: &[&str]) -> Vec<u64> {
    let text = skew(broker, &[arguments, &["-o", "json"]].concat());
    let report: Value = serde_json::from_str(&text).unwrap();
    let partitions = report["partitions"].as_array().unwrap().iter();
    partitions
        .map(|partition| partition["records"].as_u64().unwrap())
        .collect()
}

#[test]
fn people_see_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_orders(dir.path());
    let expected = "\
TOPIC   PARTITION  RECORDS  RECORDS%  BYTES  BYTES%  WITHOUT-KEY  TOP-KEYS
orders  0          6        75.0      65     74.7    1            a 66.7%, b 16.7%
orders  1          0        0.0       0      0.0     0            -
orders  2          2        25.0      22     25.3    0            c 100.0%

8 records, 87 bytes.
Fullest partition: 2.25 times the mean records, 2.24 times the mean bytes.
";
    assert_eq!(skew(&broker, &[]), expected);
    let one = skew(&broker, &["--top", "1"]);
    assert!(one.contains("a 66.7%\n"), "{one}");
}

#[test]
fn programs_get_json_or_yaml() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_orders(dir.path());
    let json: Value = serde_json::from_str(&skew(&broker, &["-o", "json"])).unwrap();
    assert_eq!((&json["topic"], &json["complete"]), (&json!("orders"), &json!(true)));
    assert_eq!((&json["records"], &json["record_ratio"]), (&json!(8), &json!(2.25)));
    assert_eq!(
        json["partitions"][2],
        json!({
            "partition": 2,
            "records": 2,
            "bytes": 22,
            "record_share": 0.25,
            "byte_share": 22.0 / 87.0,
            "without_key": 0,
            "top_keys": [{"key": "c", "at_least": 2, "at_most": 2}],
        })
    );
    let yaml = skew(&broker, &["-o", "yaml"]);
    let lines: Vec<&str> = yaml.lines().map(|line| line.trim_start_matches([' ', '-'])).collect();
    for line in ["topic: orders", "at_least: 2", "key: c"] {
        assert!(lines.contains(&line), "{line} in {yaml}");
    }
}

#[test]
fn only_the_newest_are_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_orders(dir.path());
    assert_eq!(counts(&broker, &[]), [6, 0, 2]);
    assert_eq!(counts(&broker, &["--since", "25h"]), [3, 0, 1]);
    assert_eq!(counts(&broker, &["--since", "150m"]), [1, 0, 1]);
    assert_eq!(counts(&broker, &["--since", "5s"]), [0, 0, 0]);
    assert_eq!(counts(&broker, &["--last", "1"]), [1, 0, 0]);
    assert_eq!(counts(&broker, &["--last", "2"]), [1, 0, 1]);
    assert_eq!(counts(&broker, &["--last", "5"]), [4, 0, 1]);
    assert_eq!(counts(&broker, &["--last", "8"]), [6, 0, 2]);
    assert_eq!(counts(&broker, &["--last", "100"]), [6, 0, 2]);
}

#[test]
fn keys_that_are_no_text_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("orders", 1, &[]);
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for key in [&b"\x1b[31m"[..], b"\xff\x00"] {
        let record = NewRecord {
            timestamp: 0,
            key: Some(key),
            value: None,
            headers: &[Header::new("h", b"12")],
        };
        builder.append(&record).unwrap();
    }
    client.produce("orders", 0, builder.finish());
    let table = skew(&broker, &[]);
    assert!(table.contains("\\u{1b}[31m 50.0%"), "{table}");
    assert!(!table.contains('\x1b') && !table.contains('\0'), "{table:?}");
    let json: Value = serde_json::from_str(&skew(&broker, &["-o", "json"])).unwrap();
    assert_eq!(json["bytes"], 5 + 2 + 2 * 3);
    let keys: Vec<&Value> = json["partitions"][0]["top_keys"].as_array().unwrap().iter().collect();
    assert!(
        keys.iter().any(|key| key["key"] == json!({"base64": "/wA="})),
        "{keys:?}"
    );
}

#[test]
fn an_empty_topic_has_nothing_to_compare() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    broker.client().create_topic("orders", 2, &[]);
    let text = skew(&broker, &[]);
    assert!(text.ends_with("\n0 records, 0 bytes: nothing to compare.\n"), "{text}");
}

#[test]
fn what_is_wrong_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_orders(dir.path());
    let command = ["topic", "skew", "-b", &broker.address, "-t"];
    let error = fails(&[&command[..], &["ordes"]].concat());
    assert_eq!(
        error,
        "milena: topic \"ordes\" does not exist; existing topics are orders\n"
    );
    let error = fails(&[&command[..], &["orders", "--since", "soon"]].concat());
    assert!(error.contains("a number followed by ms, s, m, h or d"), "{error}");
    let error = fails(&[&command[..], &["orders", "--since", "1h", "--last", "5"]].concat());
    assert!(error.contains("cannot be used with"), "{error}");
}
