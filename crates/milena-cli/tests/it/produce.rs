//! `milena produce` and `milena perf produce`.

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

use crate::{command::milena, process::Process};

fn produce(broker: &Process, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
    command.args(["produce", "-b", &broker.address, "-t", "letters"]);
    command.args(arguments);
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// All records as JSON, without offsets and timestamps.
fn records(broker: &Process) -> Vec<Value> {
    let arguments = [
        "consume",
        "-b",
        &broker.address,
        "-t",
        "letters",
        "--exit-at-end",
        "-f",
        "json",
    ];
    let output = milena(&arguments);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records
        .map(|record| json!([record["key"], record["value"], record["headers"]]))
        .collect()
}

#[test]
fn lines_become_records() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    broker.client().create_topic("letters", 1, &[]);
    let output = produce(
        &broker,
        &["-k", "vienna", "-H", "from=prague"],
        "Dear Milena,\n\nyours, F\n",
    );
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "milena: 3 records written to letters\n"
    );
    let file = dir.path().join("lines.txt");
    std::fs::write(&file, "without an end").unwrap();
    let one = produce(&broker, &[file.to_str().unwrap()], "");
    assert_eq!(
        String::from_utf8_lossy(&one.stderr),
        "milena: 1 record written to letters\n"
    );
    let headers = json!([{"key": "from", "value": "prague"}]);
    let mut expected: Vec<Value> = ["Dear Milena,", "", "yours, F"]
        .map(|value| json!(["vienna", value, headers]))
        .to_vec();
    expected.push(json!([null, "without an end", []]));
    assert_eq!(records(&broker), expected);
}

#[test]
fn keys_stand_before_a_separator() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    broker.client().create_topic("letters", 1, &[]);
    let output = produce(&broker, &["-K:", "-Z", "-q"], "vienna:Dear: Milena\nno key\ngone:\n");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(
        produce(&broker, &["-K", "\\t->"], "prague\t->Dear Franz\n")
            .status
            .success()
    );
    let expected = [
        json!(["vienna", "Dear: Milena", []]),
        json!([null, "no key", []]),
        json!(["gone", null, []]),
        json!(["prague", "Dear Franz", []]),
    ];
    assert_eq!(records(&broker), expected);
}

#[test]
fn the_topic_may_be_the_first_argument() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(&dir.path().join("data"), &[]);
    broker.client().create_topic("letters", 1, &[]);
    let file = dir.path().join("lines.txt");
    std::fs::write(&file, "a\nb\n").unwrap();
    let sent = milena(&["produce", "-b", &broker.address, "letters", file.to_str().unwrap()]);
    assert!(sent.status.success(), "{sent:?}");
    assert_eq!(records(&broker).len(), 2);
    let nameless = milena(&["produce", "-b", &broker.address]);
    assert!(
        String::from_utf8_lossy(&nameless.stderr).contains("no topic given"),
        "{nameless:?}"
    );
    let twice = milena(&["produce", "-b", &broker.address, "-t", "letters", "letters", "file"]);
    assert!(!twice.status.success(), "{twice:?}");
}

#[test]
fn what_consume_prints_as_json_can_be_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    broker.client().create_topic("letters", 1, &[]);
    let lines = [
        json!({"key": {"base64": "//4="}, "value": "v", "headers": [{"key": "h", "value": null}], "timestamp": 7}),
        json!({"key": "gone", "value": null, "topic": "other", "offset": 3, "partition": 0, "timestamp_type": "CreateTime"}),
    ];
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let output = produce(&broker, &["--json"], &input);
    assert!(output.status.success(), "{output:?}");
    let expected = [
        json!([{"base64": "//4="}, "v", [{"key": "h", "value": null}]]),
        json!(["gone", null, []]),
    ];
    assert_eq!(records(&broker), expected);
}

#[test]
fn a_line_that_cannot_be_read_is_named_and_what_came_before_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    broker.client().create_topic("letters", 1, &[]);
    let output = produce(&broker, &["--json"], "{\"value\": \"a\"}\n{\"valeu\": \"b\"}\n");
    assert!(!output.status.success());
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("line 2 ") && message.contains("valeu"), "{message}");
    assert_eq!(records(&broker), [json!([null, "a", []])]);
}

#[test]
fn what_is_measured_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    broker.client().create_topic("letters", 1, &[]);
    let shared = ["-b", &broker.address, "-t", "letters"];
    let run = |command: &[&str]| -> Value {
        let output = milena(&[command, &shared].concat());
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let figures = run(&["perf", "produce", "-n", "5000", "-s", "10"]);
    assert_eq!((&figures["records"], &figures["bytes"]), (&5000.into(), &50_000.into()));
    let figures = run(&["perf", "latency", "-n", "20"]);
    assert!(figures["read"]["p50"].as_f64().unwrap() >= figures["acknowledged"]["p50"].as_f64().unwrap());
    assert_eq!(records(&broker).len(), 5020);
}
