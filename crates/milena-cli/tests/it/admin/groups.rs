//! `milena group`.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use super::{cells, fails, json, prints};
use crate::{client::batch, process::Process, run::milena};

fn broker_with_letters(dir: &std::path::Path) -> Process {
    let broker = Process::start(dir, &[]);
    let mut client = broker.client();
    client.create_topic("letters", 2, &[]);
    client.produce("letters", 0, batch(&["a", "b", "c"]));
    client.produce("letters", 1, batch(&["x"]));
    broker
}

/// Lets a group read everything and go.
fn read_all(broker: &Process, group: &str) {
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

/// A member that goes on reading.
struct Member(Child);

impl Member {
    fn start(broker: &Process, group: &str) -> Self {
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
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // With its first record it is a member.
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
fn offsets(broker: &Process, group: &str) -> Vec<Value> {
    let described = json(broker, &["group", "describe", group]);
    let partitions = described[0]["partitions"].as_array().unwrap();
    partitions
        .iter()
        .map(|partition| partition["current_offset"].clone())
        .collect()
}

#[test]
fn a_group_is_listed_described_moved_and_deleted() {
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
    let columns = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID";
    assert_eq!(lines[1], columns.split(' ').collect::<Vec<_>>());
    assert_eq!(lines[2], ["readers", "letters", "0", "3", "3", "0", "-", "-", "-"]);
    assert_eq!(lines[3], ["readers", "letters", "1", "1", "1", "0", "-", "-", "-"]);

    let seek = |arguments: &[&str]| prints(&broker, &[&["group", "seek", "readers"], arguments].concat());
    let tried = seek(&["--to", "shift:-1", "--dry-run"]);
    assert_eq!(
        cells(&tried)[1..],
        [
            ["readers", "letters", "0", "3", "2"],
            ["readers", "letters", "1", "1", "0"]
        ]
    );
    assert_eq!(offsets(&broker, "readers"), [3, 1]);
    seek(&["--to", "earliest", "-t", "letters:0"]);
    assert_eq!(offsets(&broker, "readers"), [0, 1]);
    seek(&["--to", "offset:2", "-t", "letters"]);
    assert_eq!(offsets(&broker, "readers"), [2, 1]);
    seek(&["--to", "time:1970-01-01"]);
    assert_eq!(offsets(&broker, "readers"), [0, 0]);
    let new = prints(
        &broker,
        &["group", "seek", "-g", "others", "--to", "latest", "-t", "letters"],
    );
    assert_eq!(cells(&new)[1], ["others", "letters", "0", "-", "3"]);

    assert_eq!(prints(&broker, &["group", "delete", "readers"]), "deleted readers\n");
    let gone = fails(&broker, &["group", "describe", "readers"]);
    assert!(
        gone.starts_with("milena: group readers: GROUP_ID_NOT_FOUND (69)"),
        "{gone}"
    );
    let nothing = fails(&broker, &["group", "seek", "readers", "--to", "latest"]);
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
    let refused = fails(
        &broker,
        &["group", "seek", "readers", "--to", "earliest", "-t", "letters"],
    );
    assert!(
        refused.contains("has 1 members, who would commit over it; stop them first"),
        "{refused}"
    );
    let refused = fails(&broker, &["group", "delete", "readers"]);
    assert!(
        refused.starts_with("milena: group readers: NON_EMPTY_GROUP (68)"),
        "{refused}"
    );
}
