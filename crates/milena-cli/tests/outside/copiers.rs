//! Kafka's transactional copier, current and old, while it is fenced and while it and the broker are killed.

use std::ops::Range;

use crate::{
    process::Process,
    program::Program,
    programs::{kafka_tool, kcat, read_as},
};

const RECORDS: usize = 3_000;
/// Enough records to interrupt it halfway.
const TRANSACTIONS: usize = 10;
/// The number of times a copier may be restarted to finish.
const COPIERS_MAX: usize = 5;

/// Clients with transactions version 2, in which producing adds a partition. They share the input partitions in a
/// group.
#[test]
fn new_clients_copy_each_record_exactly_once() {
    copies_each_record_exactly_once("kafka", 3, &["--input-partition", "-1", "--group-mode"]);
}

/// Clients with transactions version 1: they add partitions before they produce and keep their epoch.
#[test]
fn old_clients_copy_each_record_exactly_once() {
    copies_each_record_exactly_once("old", 1, &["--input-partition", "0"]);
}

fn copies_each_record_exactly_once(jars: &str, partitions: usize, how: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    let address = broker.address.clone();
    for topic in ["input", "output"] {
        let partitions = partitions.to_string();
        kafka_tool(
            &address,
            "topics",
            &["--create", "--topic", topic, "--partitions", &partitions],
            "",
        );
    }
    let copy = || copier(jars, &address, how);

    write(&address, 0..RECORDS / 2);
    let mut fenced = copy();
    wait_for_transactions(&mut fenced);
    fenced.signal("STOP");
    let mut fencing = copy();
    wait_for_transactions(&mut fencing);
    fenced.signal("CONT");
    let (code, said) = fenced.end();
    // It learns that it was fenced when it resumes. If the other one left nothing to copy, it exits normally.
    let had_nothing = said.trim_end().ends_with("\"consumed\":0,\"remaining\":0}");
    assert!(
        code != Some(0) || had_nothing,
        "two copiers with one transactional id went on: {said}"
    );
    fencing.succeed();

    write(&address, RECORDS / 2..RECORDS);
    let mut killed = copy();
    wait_for_transactions(&mut killed);
    broker.kill();
    let broker = Process::start_at(&address, dir.path(), &[]);
    killed.forget_what_it_said();
    wait_for_transactions(&mut killed);
    killed.kill();

    // While the group waits for the killed member, another copies only its own share and exits.
    let copied = (0..COPIERS_MAX).any(|_| {
        let said = copy().succeed();
        assert!(said.contains("\"remaining\":0}"), "{said}");
        let counts = (0..partitions).map(|partition| read(&address, "output", partition, "read_committed").len());
        counts.sum::<usize>() >= RECORDS
    });
    assert!(copied, "not all was copied");
    check(&address, partitions);
    assert!(broker.terminate().success());
}

/// A key has the same partition in both topics, so that order can be compared.
fn write(address: &str, numbers: Range<usize>) {
    let records: String = numbers.map(|i| format!("{}:{i}\n", i % 20)).collect();
    kcat(
        address,
        &["-P", "-t", "input", "-K:", "-X", "topic.partitioner=murmur2_random"],
        &records,
    );
}

/// Waits until a copier has begun this many transactions.
fn wait_for_transactions(copier: &mut Program) {
    // It begins none before it has partitions, and never exits by itself.
    let unknown = format!("\"remaining\":{}", i64::MAX);
    let mut begun = 0;
    while begun < TRANSACTIONS {
        if !copier.wait_for("\"stage\":\"ProcessLoop\"").contains(&unknown) {
            begun += 1;
        }
    }
}

fn copier(jars: &str, address: &str, how: &[&str]) -> Program {
    let mut arguments = vec![
        "--broker-list",
        address,
        "--input-topic",
        "input",
        "--output-topic",
        "output",
        "--consumer-group",
        "copiers",
        "--transactional-id",
        "copier",
        "--transaction-size",
        "5",
        // The next copier reads its position before it fences the last one, and waits up to a minute for that one's
        // open transaction.
        "--transaction-timeout",
        "10000",
        "--enable-random-aborts",
        "--use-group-metadata",
    ];
    arguments.extend(how);
    Program::java(jars, "message-copier", &arguments)
}

/// Each input record is committed once in the output, in order.
fn check(address: &str, partitions: usize) {
    let (mut copied, mut aborted) = (0, 0);
    for partition in 0..partitions {
        let read = |topic: &str, level: &str| read(address, topic, partition, level);
        let input = read("input", "read_committed");
        assert_eq!(read("output", "read_committed"), input, "partition {partition}");
        copied += input.len();
        aborted += read("output", "read_uncommitted").len() - input.len();
    }
    assert_eq!(copied, RECORDS);
    assert!(aborted > 0, "no transaction was aborted");
}

fn read(address: &str, topic: &str, partition: usize, level: &str) -> Vec<String> {
    read_as(address, topic, partition, level, "%k %s\\n")
}
