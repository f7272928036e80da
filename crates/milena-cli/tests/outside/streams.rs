//! A Kafka Streams word count with exactly-once, while it and the broker are killed.

use std::collections::BTreeMap;

use crate::{
    process::Process,
    program::Program,
    programs::{kafka_tool, kcat},
};

const LINES: usize = 120;
/// A short session timeout, so that members of a killed application expire soon.
const SETTINGS: [&str; 2] = ["-X", "group.min.session.timeout.ms=1000"];

#[test]
fn streams_counts_each_word_exactly_once() {
    let dir = tempfile::tempdir().unwrap();
    let (data, state) = (dir.path().join("data"), dir.path().join("state"));
    let broker = Process::start(&data, &SETTINGS);
    let address = broker.address.clone();
    for topic in ["lines", "counts"] {
        kafka_tool(
            &address,
            "topics",
            &["--create", "--topic", topic, "--partitions", "2"],
            "",
        );
    }
    let state = state.to_str().unwrap();
    let count = || Program::java("streams", "WordCount.java", &[&address, state]);

    let mut killed = count();
    killed.wait_for("state RUNNING");
    write(&address, 0..LINES / 2);
    assert_is_exact(&read(&address, words(0..LINES / 2).len()));
    write(&address, LINES / 2..LINES);
    read(&address, words(0..LINES / 2).len() + 10);
    killed.kill();
    broker.kill();

    let broker = Process::start_at(&address, &data, &SETTINGS);
    let mut last = count();
    let mut expected = words(0..LINES);
    let counts = read(&address, expected.len());
    assert_is_exact(&counts);
    let mut found: Vec<String> = counts.into_iter().map(|(word, _)| word).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    last.terminate();
    last.end();
    // Nothing followed the last expected count.
    let all = [
        "-C",
        "-t",
        "counts",
        "-o",
        "beginning",
        "-e",
        "-q",
        "-X",
        "isolation.level=read_committed",
    ];
    assert_eq!(kcat(&address, &all, "").lines().count(), found.len());
    assert!(broker.terminate().success());
}

fn line(number: usize) -> String {
    format!("all {} {} word-{number}", number % 2, number % 7)
}

fn words(lines: std::ops::Range<usize>) -> Vec<String> {
    let text: Vec<String> = lines.map(line).collect();
    text.join(" ").split(' ').map(str::to_owned).collect()
}

fn write(address: &str, lines: std::ops::Range<usize>) {
    let text: String = lines.map(|number| format!("{}\n", line(number))).collect();
    kcat(address, &["-P", "-t", "lines"], &text);
}

/// Waits for this many committed counts. Returns them in the order of each word.
fn read(address: &str, count: usize) -> Vec<(String, usize)> {
    let count = count.to_string();
    let arguments = [
        "--topic",
        "counts",
        "--from-beginning",
        "--isolation-level",
        "read_committed",
        "--max-messages",
        &count,
        "--timeout-ms",
        "120000",
        "--formatter-property",
        "print.key=true",
    ];
    let read = kafka_tool(address, "console-consumer", &arguments, "");
    let pairs = read.lines().map(|line| line.split_once('\t').unwrap());
    pairs
        .map(|(word, count)| (word.to_owned(), count.parse().unwrap()))
        .collect()
}

/// Checks that every word was counted from 1 without gaps or repetitions.
fn assert_is_exact(counts: &[(String, usize)]) {
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    for (word, count) in counts {
        let before = last.insert(word, *count).unwrap_or(0);
        assert_eq!(*count, before + 1, "{word}: {counts:?}");
    }
}
