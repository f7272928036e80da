//! Our broker before clients that Milena's authors did not write: librdkafka through kcat, and Kafka's own tools.
//!
//! `cargo test -p milena-cli --features outside --test outside`, with kcat, Java 17 and Maven installed.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

#[path = "../../../milena-broker/tests/it/client.rs"]
#[allow(dead_code, reason = "shared with the tests of the broker")]
mod client;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod process;

use std::{
    io::Write,
    process::{Command, Stdio},
};

use process::Process;

/// Runs a program with this input; gives what it prints, and fails if it does.
fn run(program: &str, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run {program}: {error}; on Debian: apt-get install {program}"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {problem}{text}");
    text
}

fn kcat(broker: &Process, arguments: &[&str], input: &str) -> String {
    let mut all = vec!["-b", broker.address.as_str(), "-m", "30"];
    all.extend(arguments);
    run("kcat", &all, input)
}

/// One of Kafka's own tools, with the options that all of them have.
fn kafka_tool(broker: &Process, name: &str, arguments: &[&str]) -> String {
    let mut all = vec!["run", "--quiet", "--package", "xtask", "--", "kafka", "tool", name];
    all.extend(["--bootstrap-server", broker.address.as_str()]);
    all.extend(arguments);
    run(env!("CARGO"), &all, "")
}

#[test]
fn kcat_writes_and_reads_with_every_codec() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    let mut expected = String::new();
    for (offset, codec) in ["none", "gzip", "snappy", "lz4", "zstd"].into_iter().enumerate() {
        let value = format!("a letter that went by {codec}, {codec}, {codec}");
        kcat(
            &broker,
            &["-P", "-t", "letters", "-K:", "-z", codec],
            &format!("key:{value}\n"),
        );
        expected.push_str(&format!("{offset} key {value}\n"));
    }
    let read = kcat(
        &broker,
        &["-C", "-t", "letters", "-o", "beginning", "-e", "-q", "-f", "%o %k %s\n"],
        "",
    );
    assert_eq!(read, expected);
    let listed = kcat(&broker, &["-L"], "");
    assert!(listed.contains("topic \"letters\" with 1 partitions"), "{listed}");
    let offset = kcat(&broker, &["-Q", "-t", "letters:0:0"], "");
    assert_eq!(offset, "letters [0] offset 0\n");
    // Idempotent, with acknowledgements from all, many small batches.
    let many: String = (0..5_000).map(|i| format!("{i}\n")).collect();
    kcat(
        &broker,
        &["-P", "-t", "many", "-X", "enable.idempotence=true", "-X", "acks=all"],
        &many,
    );
    let read = kcat(&broker, &["-C", "-t", "many", "-o", "beginning", "-e", "-q"], "");
    assert_eq!(read, many);
    assert!(broker.terminate().success());
}

#[test]
fn kafkas_own_tools_work() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    let create = [
        "--create",
        "--topic",
        "letters",
        "--partitions",
        "2",
        "--replication-factor",
        "3",
    ];
    kafka_tool(&broker, "topics", &create);
    let described = kafka_tool(&broker, "topics", &["--describe", "--topic", "letters"]);
    assert!(described.contains("PartitionCount: 2"), "{described}");
    let perf = [
        "--topic",
        "letters",
        "--num-records",
        "20000",
        "--record-size",
        "500",
        "--throughput",
        "-1",
    ];
    let perf = kafka_tool(&broker, "producer-perf", &perf);
    assert!(perf.contains("20000 records sent"), "{perf}");
    let offsets = kafka_tool(&broker, "get-offsets", &["--topic", "letters"]);
    let total: i64 = offsets
        .lines()
        .map(|line| line.rsplit(':').next().unwrap().parse::<i64>().unwrap())
        .sum();
    assert_eq!(total, 20_000, "{offsets}");
    let first = offsets.lines().next().unwrap().rsplit(':').next().unwrap().to_owned();
    let read = [
        "--topic",
        "letters",
        "--partition",
        "0",
        "--from-beginning",
        "--max-messages",
        &first,
    ];
    let read = kafka_tool(&broker, "console-consumer", &read);
    assert_eq!(read.lines().count().to_string(), first);
    let configs = kafka_tool(&broker, "configs", &["--describe", "--topic", "letters", "--all"]);
    assert!(configs.contains("retention.ms=604800000"), "{configs}");
    kafka_tool(&broker, "topics", &["--delete", "--topic", "letters"]);
    assert_eq!(kafka_tool(&broker, "topics", &["--list"]).trim(), "");
    assert!(broker.terminate().success());
}
