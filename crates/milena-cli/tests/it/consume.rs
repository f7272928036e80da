//! `milena consume`.

use std::{
    io::{BufRead, BufReader, Read as _},
    ops::RangeInclusive,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use bytes::Bytes;
use milena_wire::records::{BatchBuilder, BatchOptions, Header, NewRecord};
use serde_json::{Value, json};

use crate::{
    client::batch,
    command::{fails, milena},
    process::Process,
};

/// Two partitions: a, b, c in the first, x in the second.
fn broker_with_letters(dir: &Path) -> Process {
    let broker = Process::start(dir, &[]);
    let mut client = broker.client();
    client.create_topic("letters", 2, &[]);
    client.produce("letters", 0, batch(&["a", "b", "c"]));
    client.produce("letters", 1, batch(&["x"]));
    broker
}

/// A broker on `dir` with one record that has all parts of a record.
fn broker_with_one(dir: &Path, key: &[u8], value: Option<&[u8]>) -> Process {
    let broker = Process::start(dir, &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    let no_text = Header {
        key: b"raw",
        value: Some(&[0xff, 0xfe]),
    };
    let nothing = Header {
        key: b"none",
        value: None,
    };
    let record = NewRecord {
        timestamp: 1_700_000_000_123,
        key: Some(key),
        value,
        headers: &[Header::new("from", b"Prague"), no_text, nothing],
    };
    client.produce("letters", 0, one(&record));
    broker
}

fn one(record: &NewRecord<'_>) -> Bytes {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.append(record).unwrap();
    builder.finish()
}

fn consume<'a>(broker: &'a Process, arguments: &[&'a str]) -> Vec<&'a str> {
    let command = ["consume", "-b", &broker.address, "-t", "letters"];
    [&command[..], arguments].concat()
}

fn output(broker: &Process, arguments: &[&str]) -> String {
    let output = milena(&consume(broker, arguments));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The lines, sorted, because partitions arrive in any order.
fn lines(broker: &Process, arguments: &[&str]) -> Vec<String> {
    let mut lines: Vec<String> = output(broker, arguments).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn values_are_printed_line_by_line_to_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    assert_eq!(lines(&broker, &["--exit-at-end"]), ["a", "b", "c", "x"]);
    assert_eq!(output(&broker, &["--partition", "0", "-n", "2"]), "a\nb\n");
    assert_eq!(output(&broker, &["--partition", "1", "--exit-at-end"]), "x\n");
}

#[test]
fn an_empty_topic_is_at_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    broker.client().create_topic("letters", 3, &[]);
    assert_eq!(output(&broker, &["--exit-at-end"]), "");
    assert_eq!(output(&broker, &["--exit-at-end", "-g", "readers"]), "");
}

#[test]
fn reading_begins_where_one_says() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    let mut client = broker.client();
    let later = NewRecord {
        timestamp: 1_700_000_100_000,
        key: None,
        value: Some(b"late"),
        headers: &[],
    };
    assert_eq!(client.produce("letters", 0, one(&later)).error_code, 0);
    let from = |from| lines(&broker, &["--exit-at-end", "--from", from]);
    assert_eq!(from("earliest"), ["a", "b", "c", "late", "x"]);
    assert_eq!(from("latest"), [""; 0]);
    assert_eq!(from("offset:1"), ["b", "c", "late"]);
    assert_eq!(from("time:1700000000001"), ["late"]);
    assert_eq!(from("time:2023-11-14T22:15:00Z"), ["late"]);
    assert_eq!(from("time:2023-11-14T22:15:00.001Z"), [""; 0]);
}

#[test]
fn places_are_those_of_kcat_and_rpk() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    for (place, expected) in [
        ("start", &["a", "b", "c", "x"][..]),
        ("beginning", &["a", "b", "c", "x"]),
        ("end", &[]),
        ("1", &["b", "c"]),
        ("+1", &["b", "c"]),
        ("-1", &["c", "x"]),
        ("-2", &["b", "c", "x"]),
        ("@0", &["a", "b", "c", "x"]),
        ("@-1h", &[]),
    ] {
        assert_eq!(lines(&broker, &["-e", "-o", place]), expected, "{place}");
    }
    assert_eq!(output(&broker, &["-e", "-p", "1"]), "x\n");
}

#[test]
fn json_is_json_under_both_letters() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    let json = output(&broker, &["-e", "-p", "1", "-f", "json"]);
    assert!(json.starts_with("{\"topic\":\"letters\""), "{json}");
    assert_eq!(output(&broker, &["-e", "-p", "1", "-o", "json"]), json);
    assert_eq!(output(&broker, &["-e", "-p", "1", "-o", "start", "-o", "json"]), json);
    let listed = milena(&["topic", "list", "-b", &broker.address, "-f", "json"]);
    assert!(listed.stdout.starts_with(b"["), "{listed:?}");
}

#[test]
fn several_topics_and_patterns_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    let mut client = broker.client();
    client.create_topic("words", 1, &[]);
    client.produce("words", 0, batch(&["w"]));
    let read = |arguments: &[&str]| {
        let output = milena(&[&["consume", "-b", &broker.address, "-e"], arguments].concat());
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let all = ["a", "b", "c", "w", "x"];
    assert_eq!(read(&["words"]), ["w"]);
    assert_eq!(read(&["letters", "words"]), all);
    assert_eq!(read(&["letters", "-t", "words"]), all);
    assert_eq!(read(&["^wo.*"]), ["w"]);
    assert_eq!(read(&["^wo.*", "letters"]), all);
    assert_eq!(read(&["^.*", "-g", "readers"]), all);
    assert_eq!(read(&["^wo.*", "letters", "-g", "others"]), all);
    assert!(fails(&["consume", "-b", &broker.address]).contains("no topic given"));
}

#[test]
fn it_ends_when_its_reader_is_gone_without_another_record() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    let (child, mut lines) = start(&broker, &[]);
    assert_ne!(next_line(&mut lines), "");
    drop(lines);
    wait_quietly(child);
}

#[test]
fn json_has_all_of_a_record() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_one(dir.path(), b"\"k\"", Some(&[0, 0xff]));
    let line = output(&broker, &["-n", "1", "-f", "json"]);
    assert_eq!(line.lines().count(), 1);
    let expected = json!({
        "topic": "letters",
        "partition": 0,
        "offset": 0,
        "timestamp": 1_700_000_000_123_i64,
        "timestamp_type": "CreateTime",
        "key": "\"k\"",
        "value": {"base64": "AP8="},
        "headers": [
            {"key": "from", "value": "Prague"},
            {"key": "raw", "value": {"base64": "//4="}},
            {"key": "none", "value": null},
        ],
    });
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), expected);
}

#[test]
fn deserializers_say_what_values_are() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_one(dir.path(), b"\0\0\0\x2a", Some(&7_i64.to_be_bytes()));
    let long = "value.deserializer=org.apache.kafka.common.serialization.LongDeserializer";
    let typed = ["-n", "1", "-X", long, "-X", "key.deserializer=i32"];
    assert_eq!(output(&broker, &[&typed[..], &["-f", "%k=%s\\n"]].concat()), "42=7\n");
    let line = output(&broker, &[&typed[..], &["-f", "json"]].concat());
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&line["key"], &line["value"]), (&json!(42), &json!(7)));
    let wrong = milena(&consume(&broker, &["-n", "1", "-X", "value.deserializer=uuid"]));
    assert!(!wrong.status.success());
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(
        said.contains("the value of letters-0 at offset 0 cannot be read"),
        "{said}"
    );
}

#[test]
fn a_format_names_the_fields_of_a_record() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_one(dir.path(), b"key", None);
    let printed = output(&broker, &["-n", "1", "-f", "%t %p %o\\t%k/%K %s/%S %T 100%%\\n"]);
    assert_eq!(printed, "letters 0 0\tkey/3 /-1 1700000000123 100%\n");
    let times = output(&broker, &["-n", "1", "-f", "%T{s} %T{iso} %T{%d.%m.%Y %H:%M:%S.%L}"]);
    assert_eq!(times, "1700000000 2023-11-14T22:13:20.123Z 14.11.2023 22:13:20.123");
    let output = milena(&consume(&broker, &["-n", "1", "-f", "%h;"]));
    // Bytes are printed unchanged.
    assert_eq!(output.stdout, b"from=Prague,raw=\xff\xfe,none=NULL;");
}

#[test]
fn a_group_goes_on_behind_what_was_printed() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    let group = |rest: &[&'static str]| output(&broker, &[&["-g", "readers", "--partition", "0"], rest].concat());
    // One poll returns all three records, and two of them are not printed.
    assert_eq!(group(&["-n", "1"]), "a\n");
    assert_eq!(group(&["-n", "1", "--from", "earliest"]), "b\n");
    assert_eq!(group(&["--exit-at-end"]), "c\n");
    assert_eq!(group(&["--exit-at-end"]), "");
    // A new group has no offsets yet, and begins where `-o` says.
    let new = ["-g", "others", "--exit-at-end", "--from", "offset:1"];
    assert_eq!(lines(&broker, &new), ["b", "c"]);
    assert_eq!(lines(&broker, &new), [""; 0]);
}

/// A running command and its output lines.
fn start(broker: &Process, arguments: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
    command
        .args(consume(broker, arguments))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

fn next_line(lines: &mut impl BufRead) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    line
}

fn wait_quietly(mut child: Child) {
    let status = child.wait().unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(status.success() && stderr.is_empty(), "{status}: {stderr}");
}

#[test]
fn ctrl_c_commits_and_ends_well() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    client.produce("letters", 0, batch(&["a"]));
    let (child, mut lines) = start(&broker, &["-g", "readers"]);
    assert_eq!(next_line(&mut lines), "a\n");
    // Later records arrive at once.
    client.produce("letters", 0, batch(&["b"]));
    assert_eq!(next_line(&mut lines), "b\n");
    let pid = child.id().to_string();
    let signalled = Command::new("kill").args(["-s", "INT", &pid]).status().unwrap();
    assert!(signalled.success());
    wait_quietly(child);
    client.produce("letters", 0, batch(&["c"]));
    assert_eq!(output(&broker, &["-g", "readers", "--exit-at-end"]), "c\n");
}

/// The offsets that a consumer printed, which must have no gaps.
fn offsets(lines: impl Iterator<Item = String>) -> RangeInclusive<i64> {
    let offsets: Vec<i64> = lines.map(|line| line.parse().unwrap()).collect();
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    assert!(offsets.iter().copied().eq(first..=last), "not in order: {offsets:?}");
    first..=last
}

#[test]
fn what_a_killed_reader_has_not_printed_is_for_the_next() {
    const COUNT: i64 = 200_000;
    const KILLED: usize = 4;
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &["-X", "group.min.session.timeout.ms=1"]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    for _ in 0..COUNT / 1_000 {
        client.produce("letters", 0, batch(&["letter"; 1_000]));
    }
    // Small polls with a commit after nearly each, so that the consumer dies with a commit in flight.
    let reader = [
        ["-g", "readers"],
        ["-f", "%o\\n"],
        ["-X", "session.timeout.ms=300"],
        ["-X", "heartbeat.interval.ms=100"],
        ["-X", "max.poll.records=10"],
        ["-X", "auto.commit.interval.ms=1"],
    ]
    .concat();
    let mut printed = -1;
    for _ in 0..KILLED {
        let (mut child, mut lines) = start(&broker, &reader);
        let first: Vec<String> = lines.by_ref().lines().take(2_000).map(Result::unwrap).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        let rest: Vec<String> = lines.lines().map(Result::unwrap).collect();
        let seen = offsets(first.into_iter().chain(rest));
        assert!(
            *seen.start() <= printed + 1,
            "{} is lost, {seen:?} came next",
            printed + 1
        );
        printed = printed.max(*seen.end());
    }
    assert!(printed < COUNT - 1, "there must be something left to read");
    let last = output(&broker, &[&reader[..], &["--exit-at-end"]].concat());
    let seen = offsets(last.lines().map(str::to_owned));
    assert!(
        *seen.start() <= printed + 1,
        "{} is lost, {seen:?} came next",
        printed + 1
    );
    assert_eq!(*seen.end(), COUNT - 1);
}

#[test]
fn a_reader_who_has_seen_enough_ends_it_quietly() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    client.produce("letters", 0, batch(&["a"]));
    let (child, mut lines) = start(&broker, &["-g", "readers"]);
    assert_eq!(next_line(&mut lines), "a\n");
    drop(lines);
    client.produce("letters", 0, batch(&["b"]));
    wait_quietly(child);
    // The record was not printed, so the group reads it again.
    assert_eq!(output(&broker, &["-g", "readers", "--exit-at-end"]), "b\n");
}

#[test]
fn what_is_wrong_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    let file = dir.path().join("consumer.properties");
    std::fs::write(&file, "max.poll.records=none\n").unwrap();
    let file = file.to_str().unwrap();
    for (arguments, expected) in [
        (
            &["-t", "lettrs"][..],
            "topic \"lettrs\" does not exist; existing topics are letters",
        ),
        (
            &["--partition", "7"],
            "letters has no partition 7; it has 2, numbered from 0",
        ),
        (
            &["--from", "offset:3"],
            "letters-1 has no offset 3: its offsets start at 0 and end before 1",
        ),
        (
            &["-g", "g", "--from", "offset:3"],
            "letters-1 has no offset 3: its offsets start at 0 and end before 1",
        ),
        (
            &["--from", "yesterday"],
            "expected start, end, an offset, +N (after the start)",
        ),
        (&["-o", "start", "-o", "end"], "-o sets two start positions"),
        (&["-o", "json", "-f", "%s"], "-o json conflicts with -f"),
        (
            &["-t", "^lettrs"],
            "no topic matches ^lettrs; existing topics are letters",
        ),
        (&["-f", "%s %z"], "unknown field %z; fields are %t topic"),
        (
            &["-X", "max.poll.recods=1"],
            "max.poll.recods (-X) is not a key of the consumer; did you mean max.poll.records?",
        ),
        (&["-X", "max.poll.records"], "-X max.poll.records is not KEY=VALUE"),
        (&["--config", file], "consumer.properties:1"),
    ] {
        let command = ["consume", "-b", &broker.address];
        let topic = if arguments.contains(&"-t") {
            &[][..]
        } else {
            &["-t", "letters"]
        };
        let message = fails(&[&command[..], topic, arguments].concat());
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn settings_come_from_a_file_too_and_arguments_win() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    let file = dir.path().join("consumer.toml");
    let settings = format!(
        "bootstrap.servers = \"{}\"\nauto.offset.reset = \"latest\"\n",
        broker.address
    );
    std::fs::write(&file, settings).unwrap();
    let command = [
        "consume",
        "--config",
        file.to_str().unwrap(),
        "-t",
        "letters",
        "--exit-at-end",
    ];
    let from_file = milena(&command);
    assert!(
        from_file.status.success() && from_file.stdout.is_empty(),
        "{from_file:?}"
    );
    let stronger = milena(&[&command[..], &["-X", "auto.offset.reset=earliest"]].concat());
    assert_eq!(stronger.stdout.len(), "a\nb\nc\nx\n".len(), "{stronger:?}");
}
