//! Kafka's command line tools for groups and transactions, used on our broker.

use crate::{kafka_tools::Bench, program::Program, programs::kcat};

const RECORDS: usize = 20;
/// Kafka's default for both internal topics.
const INTERNAL_PARTITIONS: i32 = 50;

impl Bench {
    /// A topic of two partitions with this many records each.
    fn write_letters(&self) {
        self.run("topics --create --topic letters --partitions 2");
        for partition in ["0", "1"] {
            let lines: String = (0..RECORDS / 2).map(|i| format!("letter {i}\n")).collect();
            kcat(&self.broker.address, &["-P", "-t", "letters", "-p", partition], &lines);
        }
    }

    /// The words of the line that begins with these words.
    fn row(&self, line: &str, beginning: &[&str]) -> Vec<String> {
        let said = self.run(line);
        let mut rows = said
            .lines()
            .map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        rows.find(|row| row.len() >= beginning.len() && row.iter().zip(beginning).all(|(word, wanted)| word == wanted))
            .unwrap_or_else(|| panic!("{line}: {said}"))
    }

    /// The first records of an internal topic about this group or transaction, as printed by Kafka's formatter class.
    fn internal_records(&self, topic: &str, key: &str, formatter: &str, count: usize) -> String {
        let partition = java_hash(key).abs() % INTERNAL_PARTITIONS;
        self.run(&format!(
            "console-consumer --topic {topic} --partition {partition} --offset earliest --max-messages {count} \
             --timeout-ms 60000 --formatter org.apache.kafka.tools.consumer.{formatter}"
        ))
    }
}

/// `String.hashCode`, by which Kafka chooses the partition of a coordinator.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16()
        .fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

fn has_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

#[test]
fn classic_groups_can_be_managed() {
    let bench = Bench::start();
    bench.write_letters();
    let shown = manage_group(&bench, "classic");
    assert_eq!(shown.assignor, "range");
    assert_eq!(shown.epochs, ["-", "letters:0,1", "-", "-"]);
    // The record of the empty group, then the first generation.
    let written = bench.internal_records("__consumer_offsets", "classic", "GroupMetadataMessageFormatter", 2);
    has_all(
        &written,
        &[
            r#""key":{"type":2,"data":{"group":"classic"}}"#,
            r#""protocolType":"consumer","generation":1,"protocol":"range""#,
        ],
    );
    bench.end();
}

#[test]
fn consumer_groups_can_be_managed() {
    let bench = Bench::start();
    bench.write_letters();
    let shown = manage_group(&bench, "consumer");
    assert_eq!(shown.assignor, "uniform");
    let [current, has, target, shall_have] = &shown.epochs;
    assert_eq!((current, has.as_str()), (target, "letters:0,1"));
    assert_eq!(shall_have, has);
    assert!(current.parse::<u32>().unwrap() > 0);
    bench.end();
}

struct Shown {
    assignor: String,
    /// The current epoch and assignment, the target epoch and assignment.
    epochs: [String; 4],
}

/// The life of a group of this protocol, from its first member to its deletion.
fn manage_group(bench: &Bench, protocol: &str) -> Shown {
    let address = bench.broker.address.as_str();
    let mut member = Program::java(
        "kafka",
        "verifiable-consumer",
        &[
            "--bootstrap-server",
            address,
            "--topic",
            "letters",
            "--group-id",
            protocol,
            "--group-protocol",
            protocol,
            "--reset-policy",
            "earliest",
        ],
    );
    let mut read = 0;
    while read < RECORDS {
        let line = member.wait_for("\"name\":\"records_consumed\"");
        let count = line.split("\"count\":").nth(1).and_then(|rest| rest.split(',').next());
        read += count.unwrap().parse::<usize>().unwrap();
        let committed = member.wait_for("\"name\":\"offsets_committed\"");
        assert!(committed.contains("\"success\":true"), "{committed}");
    }
    assert_eq!(read, RECORDS);

    let offsets = format!("consumer-groups --describe --group {protocol} --offsets");
    for partition in ["0", "1"] {
        let row = bench.row(&offsets, &[protocol, "letters", partition]);
        assert_eq!(row[3..6], ["10", "10", "0"], "{row:?}");
    }
    let row = bench.row(
        &format!("consumer-groups --describe --group {protocol} --members --verbose"),
        &[protocol],
    );
    assert_eq!(row[4], "2", "{row:?}");
    let epochs = [5, 6, 7, 8].map(|column| row[column].clone());
    let state = bench.row(
        &format!("consumer-groups --describe --group {protocol} --state"),
        &[protocol],
    );
    assert_eq!(state[1..], [address, "(1)", &state[3], "Stable", "1"]);
    member.terminate();
    member.wait_for("\"name\":\"shutdown_complete\"");

    let kind = if protocol == "classic" { "Classic" } else { "Consumer" };
    assert_eq!(
        bench.row("consumer-groups --list --state --type", &[protocol])[1..],
        [kind, "Empty"]
    );
    reset_and_delete(bench, protocol);
    let assignor = state[3].clone();
    Shown { assignor, epochs }
}

fn reset_and_delete(bench: &Bench, group: &str) {
    let reset = format!("consumer-groups --group {group} --reset-offsets --topic letters:1 --to-offset 3 --execute");
    assert_eq!(bench.row(&reset, &[group, "letters", "1"])[3], "3");
    let offsets = format!("consumer-groups --describe --group {group} --offsets");
    assert_eq!(bench.row(&offsets, &[group, "letters", "1"])[3..6], ["3", "10", "7"]);

    let deleted = format!("consumer-groups --group {group} --delete-offsets --topic letters:0");
    assert_eq!(bench.row(&deleted, &["letters", "0"])[2], "Successful");
    let left = bench.run(&offsets);
    assert_eq!(left.matches("letters").count(), 1, "{left}");

    bench.run(&format!("consumer-groups --delete --group {group}"));
    assert_eq!(bench.run("consumer-groups --list").trim(), "");
}

#[test]
fn consumer_perf_reads_in_both_protocols() {
    let bench = Bench::start();
    bench.write_letters();
    for protocol in ["classic", "consumer"] {
        let perf = bench.run(&format!(
            "consumer-perf --topic letters --num-records {RECORDS} --timeout 60000 --group {protocol} \
             --command-property group.protocol={protocol} --command-property auto.offset.reset=earliest"
        ));
        let row: Vec<&str> = perf.lines().last().unwrap().split(", ").collect();
        assert_eq!(row[4], RECORDS.to_string(), "{perf}");
    }
    bench.end();
}

#[test]
fn offsets_are_stored_as_kafka_stores_them() {
    let bench = Bench::start();
    bench.write_letters();
    bench.run("consumer-groups --group readers --reset-offsets --topic letters --to-offset 4 --execute");
    let written = bench.internal_records("__consumer_offsets", "readers", "OffsetsMessageFormatter", 2);
    for partition in 0..2 {
        let key = format!(
            r#"{{"key":{{"type":1,"data":{{"group":"readers","topic":"letters","partition":{partition}}}}},"value":{{"version":4,"data":{{"offset":4,"leaderEpoch":-1,"metadata":"","commitTimestamp":"#
        );
        assert!(written.contains(&key), "{written}");
    }
    assert_eq!(written.matches(r#","topicId":""#).count(), 2, "{written}");
    bench.end();
}

#[test]
fn transactions_can_be_found_and_aborted() {
    let bench = Bench::start();
    bench.write_letters();
    let address = bench.broker.address.as_str();
    let mut writer = Program::java("kafka", "OpenTransaction.java", &[address, "letters", "writer"]);
    writer.wait_for("open at 10");

    assert_eq!(bench.row("transactions list", &["writer", "1"])[3], "Ongoing");
    let row = bench.row("transactions describe --transactional-id writer", &["1", "writer"]);
    assert_eq!(
        (row[4].as_str(), row.last().unwrap().as_str()),
        ("Ongoing", "letters-0")
    );
    let producer = (row[2].clone(), row[3].clone());
    let row = bench.row(
        "transactions describe-producers --topic letters --partition 0",
        &[&producer.0],
    );
    assert_eq!((&row[1], row[5].as_str()), (&producer.1, "10"));
    let hanging = bench.run("transactions find-hanging --broker-id 1 --max-transaction-timeout 0");
    assert_eq!(hanging.lines().count(), 1, "{hanging}");
    assert_eq!(bench.committed_letters(), RECORDS / 2);

    bench.run("transactions abort --topic letters --partition 0 --start-offset 10");
    kcat(address, &["-P", "-t", "letters", "-p", "0"], "one more\n");
    // The aborted record is missing, and later records are present.
    assert_eq!(bench.committed_letters(), RECORDS / 2 + 1);
    writer.say("go on");
    assert!(writer.succeed().ends_with("committed\n"));
    assert_eq!(bench.committed_letters(), RECORDS / 2 + 1);

    assert_eq!(bench.row("transactions list", &["writer", "1"])[3], "CompleteCommit");
    let written = bench.internal_records("__transaction_state", "writer", "TransactionLogMessageFormatter", 2);
    has_all(
        &written,
        &[
            r#"{"key":{"type":0,"data":{"transactionalId":"writer"}},"value":{"version":1,"#,
            r#""transactionStatus":0,"transactionPartitions":null"#,
            r#""transactionStatus":1,"transactionPartitions":[{"topic":"letters","partitionIds":[0]}]"#,
        ],
    );
    bench.end();
}

impl Bench {
    /// The number of records of partition 0 with `read_committed`.
    fn committed_letters(&self) -> usize {
        let level = "isolation.level=read_committed";
        let arguments = [
            "-C",
            "-t",
            "letters",
            "-p",
            "0",
            "-o",
            "beginning",
            "-e",
            "-q",
            "-X",
            level,
        ];
        kcat(&self.broker.address, &arguments, "").lines().count()
    }
}
