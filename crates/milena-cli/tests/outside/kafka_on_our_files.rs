//! A real Kafka continues with the files of our partitions and finds everything in them.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use milena_wire::messages::{DeleteRecordsRequest, delete_records_request};

use crate::{
    process::Process,
    programs::{Kafka, kafka_tool, kcat, read_all},
};

const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];
/// The smallest segment that Kafka allows.
const SEGMENT_BYTES: &str = "1048576";
/// Offsets of partition 0 below this one are deleted.
const DELETED: i64 = 700;
/// The file with the topic id, without which Kafka takes a folder for a stray.
const TOPIC_ID: &str = "partition.metadata";
const KEYS: usize = 500;

#[derive(Clone, Copy, PartialEq)]
enum Ending {
    Stopped,
    Killed,
}

/// A single test, because starting Kafka takes long.
#[test]
fn kafka_reads_all_that_a_stopped_and_a_killed_broker_left() {
    let kafka = Kafka::start(19410);
    for topic in [
        "--topic letters --partitions 5",
        "--topic compacted --partitions 1 --config cleanup.policy=compact",
    ] {
        let words: Vec<&str> = ["--create"].into_iter().chain(topic.split(' ')).collect();
        kafka_tool(&kafka.address(), "topics", &words, "");
    }
    for ending in [Ending::Stopped, Ending::Killed] {
        kafka.stop();
        kafka_reads_our_files(&kafka, ending);
    }
}

fn kafka_reads_our_files(kafka: &Kafka, ending: Ending) {
    let temp = tempfile::tempdir().unwrap();
    let (ours, copy) = (temp.path().join("ours"), temp.path().join("copy"));
    let written = write(&ours, ending);
    copy_dir(&ours, &copy);

    // Our own broker on the same files, without further compaction, so that both see the same.
    let broker = Process::start(&ours, &["-X", "log.cleaner.enable=false"]);
    let expected = read(&broker.address);
    written.check(&expected);
    let our_producers = producers(&broker.address);
    assert!(broker.terminate().success());

    hand_over(&copy, &kafka.data_dir(), ending);
    let output_before = kafka.output().len();
    kafka.start_again();
    for (ours, theirs) in expected.iter().zip(read(&kafka.address())) {
        assert_same(ours, &theirs);
    }
    assert_eq!(producers(&kafka.address()), our_producers);
    // It continues at our log end offset.
    kcat(&kafka.address(), &["-P", "-t", "letters", "-p", "0"], "one more\n");
    let last = read_all(&kafka.address(), "letters", 0).pop().unwrap();
    assert!(last.starts_with(&format!("{} ", written.letters[0].len())), "{last}");
    assert!(last.contains("one more"), "{last}");
    for line in kafka.output()[output_before..].lines() {
        assert!(!is_complaint(line, ending), "{line}");
    }
}

/// Whether Kafka's log has a complaint about our partitions.
fn is_complaint(line: &str, ending: Ending) -> bool {
    let severe = line.contains(" WARN ") || line.contains(" ERROR ");
    let about_us = line.contains("letters-") || line.contains("compacted-");
    // We write the indexes of the active segment when it is rolled or the broker stops.
    let no_index = ending == Ending::Killed && line.contains("Could not find offset index file");
    // Kafka's own checkpoint, which we do not write.
    let no_high_watermark = line.contains("Non-monotonic update of high watermark");
    severe && about_us && !no_index && !no_high_watermark
}

/// The records that were sent.
struct Written {
    /// The values of each partition, from offset 0.
    letters: Vec<Vec<String>>,
    /// The last value of each key; `None` for a tombstone.
    compacted: BTreeMap<String, Option<String>>,
}

/// Lets our broker write several segments with each codec and compact a topic, then stops it.
fn write(dir: &Path, ending: Ending) -> Written {
    let broker = Process::start(dir, &["--durability", "os", "-X", "log.cleaner.backoff.ms=50"]);
    let mut client = broker.client();
    client.create_topic("letters", CODECS.len() as i32, &[("segment.bytes", SEGMENT_BYTES)]);
    let mut random = Random(1);
    let letters: Vec<Vec<String>> = CODECS
        .iter()
        .enumerate()
        .map(|(partition, codec)| write_letters(&broker.address, partition, codec, &mut random))
        .collect();
    delete_records(&broker);
    let compacted = write_compacted(&broker, &mut random);
    wait_for_compaction(dir);
    match ending {
        Ending::Stopped => assert!(broker.terminate().success()),
        Ending::Killed => broker.kill(),
    }
    for partition in 0..CODECS.len() {
        let segments = segments(&dir.join(format!("letters-{partition}")));
        assert!(segments.len() > 1, "partition {partition}: {segments:?}");
    }
    Written { letters, compacted }
}

fn write_letters(address: &str, partition: usize, codec: &str, random: &mut Random) -> Vec<String> {
    let values: Vec<String> = (0..2_500)
        .map(|i| format!("{partition}-{i} {}", random.hex(1_000)))
        .collect();
    let partition = partition.to_string();
    // Two producers in turn, and only the first is idempotent.
    let (first, second) = values.split_at(1_500);
    for (values, idempotence) in [(first, "true"), (second, "false")] {
        let idempotence = format!("enable.idempotence={idempotence}");
        let to = ["-P", "-t", "letters", "-p", &partition, "-z", codec];
        let how = ["-X", &idempotence, "-H", "kind=letter", "-H", "kind=again"];
        kcat(address, &[to.as_slice(), &how].concat(), &(values.join("\n") + "\n"));
    }
    values
}

fn delete_records(broker: &Process) {
    let partition = delete_records_request::DeleteRecordsPartition {
        partition_index: 0,
        offset: DELETED,
        ..Default::default()
    };
    let topic = delete_records_request::DeleteRecordsTopic {
        name: "letters".into(),
        partitions: vec![partition],
        ..Default::default()
    };
    let request = DeleteRecordsRequest {
        topics: vec![topic],
        timeout_ms: 30_000,
        ..Default::default()
    };
    let answer = broker.client().call(&request, 2);
    assert_eq!(answer.topics[0].partitions[0].error_code, 0);
}

/// Repeated keys, some of them ended by a tombstone. Returns the records that must remain.
fn write_compacted(broker: &Process, random: &mut Random) -> BTreeMap<String, Option<String>> {
    let settings = [
        ("cleanup.policy", "compact"),
        ("segment.bytes", SEGMENT_BYTES),
        ("min.cleanable.dirty.ratio", "0.01"),
    ];
    broker.client().create_topic("compacted", 1, &settings);
    let mut latest = BTreeMap::new();
    for codec in CODECS {
        let mut lines = String::new();
        for i in 0..2 * KEYS {
            let key = format!("key-{}", i * 7 % KEYS);
            // kcat sends null for an empty value.
            let value = if i % 11 == 0 { String::new() } else { random.hex(1_000) };
            lines.push_str(&format!("{key}:{value}\n"));
            latest.insert(key, Some(value).filter(|value| !value.is_empty()));
        }
        kcat(
            &broker.address,
            &["-P", "-t", "compacted", "-K:", "-Z", "-z", codec],
            &lines,
        );
    }
    latest
}

/// Waits until all but the active segment are compacted, so that nothing changes afterwards.
fn wait_for_compaction(dir: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let logs = segments(&dir.join("compacted-0"));
        let last: i64 = logs.last().unwrap().parse().unwrap();
        let checkpoint = fs::read_to_string(dir.join("cleaner-offset-checkpoint")).unwrap_or_default();
        if last > 0 && checkpoint.lines().any(|line| line == format!("compacted 0 {last}")) {
            return;
        }
        assert!(Instant::now() < deadline, "{logs:?} are not compacted: {checkpoint}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The names of the segments in a folder, in order.
fn segments(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    let mut names: Vec<String> = files
        .filter_map(|name| name.to_str()?.strip_suffix(".log").map(str::to_owned))
        .collect();
    names.sort();
    names
}

impl Written {
    /// Our own reader finds everything that was sent, at the right offsets.
    fn check(&self, read: &[Vec<String>]) {
        for (partition, (sent, read)) in self.letters.iter().zip(read).enumerate() {
            let first = if partition == 0 { DELETED as usize } else { 0 };
            assert_eq!(read.len(), sent.len() - first, "partition {partition}");
            for ((offset, value), line) in sent.iter().enumerate().skip(first).zip(read) {
                let ending = format!(" {value} headers kind=letter,kind=again");
                assert!(
                    line.starts_with(&format!("{offset} ")) && line.ends_with(&ending),
                    "{line}"
                );
            }
        }
        let mut found = BTreeMap::new();
        for line in &read[CODECS.len()] {
            let words: Vec<&str> = line.split(' ').collect();
            let (key, length, value) = (words[4], words[6], words[7]);
            found.insert(key.to_owned(), (length != "-1").then(|| value.to_owned()));
        }
        assert!(read[CODECS.len()].len() < 6 * KEYS, "little was compacted");
        // The tombstone may be there or may have been removed.
        found.retain(|_, value| value.is_some());
        let mut expected = self.compacted.clone();
        expected.retain(|_, value| value.is_some());
        assert!(found == expected, "the compacted topic lost the latest value of a key");
    }
}

/// All partitions, one after the other.
fn read(address: &str) -> Vec<Vec<String>> {
    let letters = (0..CODECS.len()).map(|partition| read_all(address, "letters", partition));
    letters.chain([read_all(address, "compacted", 0)]).collect()
}

/// The producer state of a partition, as the broker describes it.
fn producers(address: &str) -> String {
    let describe = ["describe-producers", "--topic", "letters", "--partition", "1"];
    let described = kafka_tool(address, "transactions", &describe, "");
    assert_eq!(described.lines().count(), 2, "{described}");
    described
}

/// Replaces Kafka's partitions and checkpoints with ours; Kafka has other ids for the topics.
fn hand_over(ours: &Path, theirs: &Path, ending: Ending) {
    let clean = theirs.join(".kafka_cleanshutdown");
    assert!(clean.exists(), "Kafka did not stop as it should");
    if ending == Ending::Killed {
        fs::remove_file(clean).unwrap();
    }
    fs::remove_file(theirs.join("replication-offset-checkpoint")).unwrap();
    for name in [
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "cleaner-offset-checkpoint",
    ] {
        fs::copy(ours.join(name), theirs.join(name)).unwrap();
    }
    let letters = (0..CODECS.len()).map(|partition| format!("letters-{partition}"));
    for folder in letters.chain(["compacted-0".to_owned()]) {
        let (ours, theirs) = (ours.join(&folder), theirs.join(&folder));
        let id = fs::read_to_string(theirs.join(TOPIC_ID)).unwrap();
        fs::remove_dir_all(&theirs).unwrap();
        copy_dir(&ours, &theirs);
        let our_id = fs::read_to_string(theirs.join(TOPIC_ID)).unwrap();
        // Identical to the file of Kafka except for the id.
        assert_eq!(without_id(&our_id), without_id(&id));
        fs::write(theirs.join(TOPIC_ID), id).unwrap();
    }
}

fn without_id(text: &str) -> String {
    let (before, id) = text.split_once("topic_id: ").unwrap();
    format!("{before}topic_id: {} characters", id.len())
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Reports only the first difference; a full diff would be megabytes.
fn assert_same(ours: &[String], theirs: &[String]) {
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert_eq!(theirs, ours);
    }
    assert_eq!(theirs.len(), ours.len());
}

/// Text that compresses to half its size, so that every codec fills segments.
struct Random(u64);

impl Random {
    fn hex(&mut self, length: usize) -> String {
        let mut text = String::new();
        while text.len() < length {
            // Marsaglia's xorshift.
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            text.push_str(&format!("{:016x}", self.0));
        }
        text
    }
}
