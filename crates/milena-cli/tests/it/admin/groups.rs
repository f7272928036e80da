//! `milena group`.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use super::{cells, fails, json, prints};
use crate::{client::batch, command::milena, process::Process};

pub(super) fn broker_with_letters(dir: &std::path::Path) -> Process {
    let broker = Process::start(dir, &[]);
    let mut client = broker.client();
    client.create_topic("letters", 2, &[]);
    client.produce("letters", 0, batch(&["a", "b", "c"]));
    client.produce("letters", 1, batch(&["x"]));
    broker
}

/// Lets a group read everything and leave.
pub(super) fn read_all(broker: &Process, group: &str) {
    let output = milena(&[
        "consume",
        "-b",
        &broker.address,
        "-t",
        "letters",
        "-g",
        group,
        "-n",
        "4",
    ]);
    assert!(output.status.success(), "{output:?}");
}

/// A group member that keeps running.
struct Member(Child);

impl Member {
    fn start(broker: &Process, group: &str) -> Self {
        Self::start_with(broker, group, &[])
    }

    fn start_with(broker: &Process, group: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_milena"))
            .args([
                "consume",
                "-b",
                &broker.address,
                "-t",
                "letters",
                "-g",
                group,
                "-X",
                "client.id=reader",
            ])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It is a member once it prints a record.
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap().by_ref())
            .read_line(&mut line)
            .unwrap();
        assert_ne!(line, "");
        Self(child)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Current offsets by partition.
pub(super) fn offsets(broker: &Process, group: &str) -> Vec<Value> {
    let described = json(broker, &["group", "describe", group]);
    let partitions = described[0]["partitions"].as_array().unwrap();
    partitions
        .iter()
        .map(|partition| partition["current_offset"].clone())
        .collect()
}

#[test]
fn a_group_is_listed_described_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    read_all(&broker, "readers");
    let listed = prints(&broker, &["group", "list"]);
    assert_eq!(
        cells(&listed),
        [
            ["GROUP", "TYPE", "PROTOCOL", "STATE"],
            ["readers", "Classic", "consumer", "Empty"]
        ]
    );
    assert_eq!(json(&broker, &["groups", "ls", "--state", "Stable"]), json!([]));
    assert_eq!(
        json(&broker, &["group", "list", "--type", "classic"])[0]["group"],
        "readers"
    );

    let described = prints(&broker, &["group", "describe", "readers"]);
    let lines = cells(&described);
    assert_eq!(lines[0][..4], ["Group:", "readers", "State:", "Empty"], "{described}");
    assert_eq!(lines[0][8..], ["Lag:", "0"], "{described}");
    let columns = "TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG";
    assert_eq!(lines[2], columns.split(' ').collect::<Vec<_>>());
    assert_eq!(lines[3], ["letters", "0", "3", "3", "0"]);
    assert_eq!(lines[4], ["letters", "1", "1", "1", "0"]);
    assert!(described.lines().all(|line| line.len() <= 80), "{described}");

    assert_eq!(prints(&broker, &["group", "delete", "readers"]), "deleted readers\n");
    let gone = fails(&broker, &["group", "describe", "readers"]);
    assert!(
        gone.starts_with("milena: group readers: GROUP_ID_NOT_FOUND (69)"),
        "{gone}"
    );
    let nothing = fails(&broker, &["group", "reset", "readers", "--to", "latest"]);
    assert!(nothing.contains("name a topic with -t"), "{nothing}");
}

#[test]
fn a_group_with_members_shows_them_and_stays_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    let _member = Member::start(&broker, "readers");
    let members = json(&broker, &["group", "members", "readers"]);
    assert_eq!(members[0]["client_id"], "reader");
    assert_eq!(members[0]["assignment"], json!({"letters": [0, 1]}));
    let members = prints(&broker, &["group", "members", "-g", "readers"]);
    let lines = cells(&members);
    let columns = "GROUP CONSUMER-ID GROUP-INSTANCE-ID HOST CLIENT-ID #PARTITIONS ASSIGNMENT";
    assert_eq!(lines[0], columns.split(' ').collect::<Vec<_>>());
    assert_eq!(
        (lines[1][0], &lines[1][4..]),
        ("readers", &["reader", "2", "letters(0,1)"][..])
    );
    let described = json(&broker, &["group", "describe", "readers"]);
    assert_eq!(
        (&described[0]["members"], &described[0]["partitions"][0]["client_id"]),
        (&json!(1), &json!("reader"))
    );
    // With and without --execute, and also before the first commit.
    for arguments in [
        &["--to", "earliest", "-t", "letters"][..],
        &["--to", "earliest", "--execute"],
    ] {
        let refused = fails(&broker, &[&["group", "reset", "readers"], arguments].concat());
        assert!(
            refused.starts_with("milena: group readers is Stable with 1 member (reader at ")
                && refused.contains("stop them first"),
            "{refused}"
        );
    }
    let columns = "TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID";
    let described = prints(&broker, &["group", "describe", "readers"]);
    assert_eq!(cells(&described)[2], columns.split(' ').collect::<Vec<_>>());
    let refused = fails(&broker, &["group", "delete", "readers"]);
    assert!(
        refused.starts_with("milena: group readers: NON_EMPTY_GROUP (68)"),
        "{refused}"
    );
}

#[test]
fn a_lag_that_is_not_known_yet_is_a_dash() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    // A member that commits nothing has no known lag.
    let _member = Member::start_with(&broker, "readers", &["-X", "enable.auto.commit=false"]);
    let described = prints(&broker, &["group", "describe", "readers"]);
    assert_eq!(cells(&described)[0][8..], ["Lag:", "-"], "{described}");
    let described = json(&broker, &["group", "describe", "readers"]);
    assert_eq!(
        (&described[0]["lag"], &described[0]["lag_unknown"]),
        (&json!(null), &json!(2))
    );
}

#[test]
fn a_static_member_that_has_left_is_marked() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    let output = milena(&[
        "consume",
        "-b",
        &broker.address,
        "letters",
        "-g",
        "readers",
        "-n",
        "4",
        "-X",
        "group.protocol=consumer",
        "-X",
        "group.instance.id=desk",
    ]);
    assert!(output.status.success(), "{output:?}");
    let described = json(&broker, &["group", "describe", "readers"]);
    assert_eq!(described[0]["partitions"][0]["absent"], true, "{described}");
    let members = prints(&broker, &["group", "members", "readers"]);
    assert_eq!(cells(&members)[1][2..4], ["desk", "absent"], "{members}");
}

#[test]
fn all_groups_can_be_named_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    read_all(&broker, "a");
    read_all(&broker, "b");
    let described = json(&broker, &["group", "describe", "--all-groups"]);
    assert_eq!(
        (&described[0]["group"], &described[1]["group"]),
        (&json!("a"), &json!("b"))
    );
    let deleted = prints(&broker, &["group", "delete", "--all-groups"]);
    assert_eq!(deleted, "deleted a\ndeleted b\n");
    assert_eq!(
        fails(&broker, &["group", "describe"]),
        "milena: no group given; name one or use --all-groups; `milena group list` lists them\n"
    );
}

#[test]
fn committed_offsets_are_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    read_all(&broker, "readers");
    let delete = ["group", "delete-offsets", "readers", "-t"];
    assert_eq!(
        prints(&broker, &[&delete[..], &["letters:0"]].concat()),
        "deleted the offset of letters-0\n"
    );
    assert_eq!(offsets(&broker, "readers"), [1]);
    let nothing = fails(&broker, &[&delete[..], &["letters:0"]].concat());
    assert!(nothing.contains("has no committed offset there"), "{nothing}");
}
