//! `milena topic`.

use serde_json::json;

use super::{cells, fails, json, prints};
use crate::{client::batch, command, process::Process};

#[test]
fn a_topic_is_created_listed_described_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    let create = [
        "topic",
        "create",
        "letters",
        "-t",
        "words",
        "-p",
        "2",
        "-c",
        "retention.ms=1000",
    ];
    let tried = prints(&broker, &[&create[..], &["--dry-run"]].concat());
    assert_eq!(
        tried,
        "would create letters with 2 partitions\nwould create words with 2 partitions\n"
    );
    assert_eq!(
        prints(&broker, &["topic", "list"]),
        "TOPIC  PARTITION-COUNT  REPLICATION-FACTOR\n"
    );
    let created = prints(&broker, &create);
    assert_eq!(
        created,
        "created letters with 2 partitions\ncreated words with 2 partitions\n"
    );
    let listed = prints(&broker, &["topics", "ls"]);
    assert_eq!(cells(&listed)[1..], [["letters", "2", "1"], ["words", "2", "1"]]);

    broker.client().produce("letters", 1, batch(&["a", "b"]));
    let described = prints(&broker, &["topic", "describe", "letters"]);
    let lines = cells(&described);
    assert_eq!((lines[0][0], lines[0][1]), ("Topic:", "letters"), "{described}");
    assert_eq!(lines[1], ["Configs:", "retention.ms=1000"]);
    let columns = [
        "PARTITION",
        "LEADER",
        "REPLICAS",
        "ISR",
        "OFFLINE",
        "START-OFFSET",
        "END-OFFSET",
    ];
    assert_eq!(lines[2], columns);
    assert_eq!(lines[3], ["0", "1", "1", "1", "-", "0", "0"]);
    assert_eq!(lines[4], ["1", "1", "1", "1", "-", "0", "2"]);
    let described = json(&broker, &["topic", "describe", "letters"]);
    assert_eq!(described[0]["configs"], json!({"retention.ms": "1000"}));
    let expected = json!({"partition": 1, "leader": 1, "replicas": [1], "isr": [1], "offline": [],
        "start_offset": 0, "end_offset": 2});
    assert_eq!(described[0]["partitions"][1], expected);

    assert_eq!(prints(&broker, &["topic", "delete", "words"]), "deleted words\n");
    assert_eq!(json(&broker, &["topic", "list"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_topic_grows_changes_and_is_trimmed() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    assert_eq!(
        prints(&broker, &["topic", "add-partitions", "letters", "--num", "2"]),
        "letters has 3 partitions\n"
    );
    assert_eq!(
        prints(&broker, &["topic", "add-partitions", "letters", "--total", "4"]),
        "letters has 4 partitions\n"
    );
    let altered = [
        "topic",
        "alter-config",
        "letters",
        "--set",
        "retention.ms=7",
        "--append",
        "cleanup.policy=compact",
    ];
    assert_eq!(prints(&broker, &altered), "changed topic letters\n");
    let configs = |broker: &Process| json(broker, &["topic", "describe", "letters"])[0]["configs"].clone();
    assert_eq!(
        configs(&broker),
        json!({"retention.ms": "7", "cleanup.policy": "delete,compact"})
    );
    let back = [
        "topic",
        "alter-config",
        "letters",
        "-d",
        "retention.ms",
        "--subtract",
        "cleanup.policy=compact",
    ];
    prints(&broker, &back);
    assert_eq!(configs(&broker), json!({"cleanup.policy": "delete"}));

    client.produce("letters", 0, batch(&["a", "b", "c"]));
    client.produce("letters", 1, batch(&["x"]));
    let trim = ["topic", "trim", "letters", "--before", "offset:2"];
    let tried = prints(&broker, &[&trim[..], &["--dry-run"]].concat());
    assert_eq!(cells(&tried)[1..3], [["letters", "0", "2"], ["letters", "1", "1"]]);
    assert_eq!(client.fetch("letters", 0, 0).error_code, 0);
    let trimmed = prints(&broker, &[&trim[..], &["--partition", "0"]].concat());
    assert_eq!(
        cells(&trimmed),
        [["TOPIC", "PARTITION", "START-OFFSET"], ["letters", "0", "2"]]
    );
    let all = json(&broker, &["topic", "trim", "letters", "--before", "latest"]);
    assert_eq!(all[0], json!({"topic": "letters", "partition": 0, "start_offset": 3}));
    let time = [
        "topic",
        "trim",
        "letters",
        "--before",
        "time:2020-01-01",
        "--partition",
        "1",
        "--dry-run",
    ];
    assert_eq!(json(&broker, &time)[0]["start_offset"], 1);
    let missing = fails(
        &broker,
        &["topic", "trim", "letters", "--before", "latest", "--partition", "9"],
    );
    assert_eq!(
        missing,
        "milena: letters has no partition 9; it has 4, numbered from 0\n"
    );
}

#[test]
fn what_fails_is_named_and_the_rest_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    broker.client().create_topic("letters", 1, &[]);
    let output = command::milena(&[
        "topic",
        "delete",
        "letters",
        "words",
        "-o",
        "json",
        "-b",
        &broker.address,
    ]);
    assert!(!output.status.success());
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told[0]["name"], &told[0]["error"]), (&json!("letters"), &json!(null)));
    assert_eq!(told[1]["name"], "words");
    let complaint = String::from_utf8(output.stderr).unwrap();
    let begins = "milena: topic words: UNKNOWN_TOPIC_OR_PARTITION (3)";
    assert!(
        complaint.starts_with(begins) && complaint.contains("list the topics"),
        "{complaint}"
    );
    let nothing = fails(&broker, &["topic", "describe"]);
    assert_eq!(nothing, "milena: no topic given; `milena topic list` lists them\n");
    let unchanged = fails(&broker, &["topic", "alter-config", "letters"]);
    assert!(
        unchanged.starts_with("milena: no change given; use --set KEY=VALUE"),
        "{unchanged}"
    );
    let wrong = fails(&broker, &["topic", "list", "-X", "group.id=readers"]);
    assert!(
        wrong.contains("group.id (-X) is a key of the consumer, not of the admin client"),
        "{wrong}"
    );
}

#[test]
fn a_topic_that_cannot_be_trimmed_says_why_once() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 3, &[("cleanup.policy", "compact")]);
    let told = fails(&broker, &["topic", "trim", "letters", "--before", "latest"]);
    assert_eq!(
        told,
        "milena: letters is compacted; only a topic with cleanup.policy=delete can be trimmed\n"
    );
}

#[test]
fn a_replication_factor_that_is_not_what_was_asked_for_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    assert_eq!(
        prints(&broker, &["topic", "create", "letters", "-p", "1", "-r", "3"]),
        "created letters with 1 partition; replication factor 1, the cluster has one broker\n"
    );
    let one = prints(&broker, &["topic", "create", "words", "-p", "2", "-r", "1"]);
    assert_eq!(one, "created words with 2 partitions\n");
}

#[test]
fn yaml_says_the_same_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    broker.client().create_topic("letters", 1, &[]);
    let yaml = prints(&broker, &["topic", "list", "-o", "yaml"]);
    let lines: Vec<&str> = yaml.lines().collect();
    assert_eq!(
        (lines[0], lines[2], lines[3]),
        ("- internal: false", "  replication_factor: 1", "  topic: letters")
    );
}
