//! Partitions in record formats 0 and 1: a real Kafka and our broker serve them, librdkafka and our consumer read them,
//! and all agree with the output of Kafka's own classes.

use std::{fs, io::Read, path::Path, process::Command};

use flate2::read::GzDecoder;

use crate::{
    client::batch,
    process::Process,
    programs::{FORMAT, Kafka, kafka_tool, read_all},
};

const TOPIC: &str = "old";
/// The first segment of a partition.
const SEGMENT: &str = "00000000000000000000";

/// The bytes of a partition and the expected records.
struct Case {
    name: String,
    bytes: Vec<u8>,
    lines: Vec<String>,
}

#[test]
fn old_formats_are_read_from_kafka_and_from_our_broker() {
    let cases = cases();
    assert!(cases.len() > 20, "only {} cases", cases.len());
    let count = cases.len().to_string();

    let kafka = Kafka::start(19420);
    let create = ["--create", "--topic", TOPIC, "--partitions", &count];
    kafka_tool(&kafka.address(), "topics", &create, "");
    kafka.stop();
    // The broker then scans the files, as after a crash.
    fs::remove_file(kafka.data_dir().join(".kafka_cleanshutdown")).unwrap();
    replace_all(&kafka.data_dir(), &cases);
    kafka.start_again();
    check(&kafka.address(), &cases);

    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &["--durability", "os"]);
    let partitions = i32::try_from(cases.len()).unwrap();
    let mut client = broker.client();
    client.create_topic(TOPIC, partitions, &[]);
    for partition in 0..partitions {
        // A partition has no files before its first record.
        client.produce(TOPIC, partition, batch(&["new"]));
    }
    broker.kill();
    replace_all(dir.path(), &cases);
    // A directory of an old Kafka does not have this file; with it, the broker would notice the exchanged files.
    fs::remove_file(dir.path().join("milena.log-ends")).unwrap();
    let broker = Process::start(dir.path(), &["--durability", "os"]);
    check(&broker.address, &cases);
}

fn check(address: &str, cases: &[Case]) {
    for (partition, case) in cases.iter().enumerate() {
        assert_eq!(consume(address, partition), case.lines, "{} by our consumer", case.name);
        // kcat prints 0 where a record has no timestamp.
        let lines = case.lines.iter().map(|line| line.replacen(" -1 key", " 0 key", 1));
        let lines: Vec<String> = lines.collect();
        assert_eq!(
            read_all(address, TOPIC, partition),
            lines,
            "{} by librdkafka",
            case.name
        );
    }
}

fn consume(address: &str, partition: usize) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_milena"))
        .args(["consume", "-b", address, "-t", TOPIC, "--exit-at-end"])
        .args(["--partition", &partition.to_string(), "-f", FORMAT])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn replace_all(data_dir: &Path, cases: &[Case]) {
    for (partition, case) in cases.iter().enumerate() {
        let folder = data_dir.join(format!("{TOPIC}-{partition}"));
        for file in fs::read_dir(&folder).unwrap() {
            let path = file.unwrap().path();
            if path.file_stem().unwrap() == SEGMENT {
                fs::remove_file(path).unwrap();
            }
        }
        fs::write(folder.join(SEGMENT).with_extension("log"), &case.bytes).unwrap();
    }
}

/// The bytes of formats 0 and 1 as Kafka's classes wrote them, from offset 0.
fn cases() -> Vec<Case> {
    let golden = include_bytes!("../../../milena-wire/tests/golden/batches.txt.gz");
    let mut text = String::new();
    GzDecoder::new(&golden[..]).read_to_string(&mut text).unwrap();
    let cases = text
        .split("case ")
        .map(|case| case.lines().map(|line| line.split(' ').collect()));
    cases.filter_map(case).collect()
}

fn case<'a>(mut lines: impl Iterator<Item = Vec<&'a str>>) -> Option<Case> {
    let [name, bytes] = lines.next()?[..] else { return None };
    let is_old = name.starts_with("v0-") || name.starts_with("v1-");
    (is_old && !name.ends_with("base-offset")).then(|| Case {
        name: name.to_owned(),
        bytes: in_first_epoch(unhex(bytes)),
        lines: lines
            .filter(|words| words[0] == "record")
            .map(|words| printed(&words))
            .collect(),
    })
}

/// The one batch of format 2 behind the old ones claims an epoch that its partition has not seen. A consumer would take
/// that for a truncated log.
fn in_first_epoch(mut bytes: Vec<u8>) -> Vec<u8> {
    const CLAIMED: [u8; 5] = [0, 0, 0, 7, 2];
    if let Some(place) = bytes.windows(CLAIMED.len()).position(|window| window == CLAIMED) {
        bytes[place + 3] = 0;
    }
    bytes
}

/// A record of the golden file in the form that both programs print.
fn printed(words: &[&str]) -> String {
    let (key, value) = (text(words[4]), text(words[5]));
    let length = |text: &Option<String>| {
        text.as_ref()
            .map_or_else(|| "-1".to_owned(), |text| text.len().to_string())
    };
    let (key_length, value_length) = (length(&key), length(&value));
    let (key, value) = (key.unwrap_or_default(), value.unwrap_or_default());
    assert_eq!(words[6], ".", "the old formats have no headers");
    let (offset, timestamp) = (words[1], words[2]);
    format!("{offset} {timestamp} key {key_length} {key} value {value_length} {value} headers ")
}

fn text(word: &str) -> Option<String> {
    let bytes = match word {
        "-" => return None,
        "0x" => vec![],
        hex => unhex(hex),
    };
    Some(String::from_utf8(bytes).unwrap())
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).unwrap() as u8;
    let pairs = text.as_bytes().chunks_exact(2);
    pairs.map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
