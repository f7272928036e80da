//! `milena group reset`.

use std::{fs, path::Path};

use super::{cells, fails, groups, prints};
use crate::{command, process::Process};

/// A broker with a group that has read everything: three records of the first partition, one of the second.
fn broker_with_readers(dir: &Path) -> Process {
    let broker = groups::broker_with_letters(dir);
    groups::read_all(&broker, "readers");
    broker
}

/// Runs a reset that must work, and returns its output and its notices.
fn reset(broker: &Process, arguments: &[&str]) -> (String, String) {
    let command = ["group", "reset", "-b", &broker.address];
    let output = command::milena(&[&command[..], arguments].concat());
    assert!(output.status.success(), "{output:?}");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

fn executed(broker: &Process, arguments: &[&str]) -> String {
    reset(broker, &[arguments, &["--execute"]].concat()).0
}

#[test]
fn without_execute_nothing_is_moved() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_readers(dir.path());
    let expected = [
        ["readers", "letters", "0", "3", "2"],
        ["readers", "letters", "1", "1", "0"],
    ];
    for dry in [&[][..], &["--dry-run"]] {
        let (planned, notice) = reset(&broker, &[&["readers", "--to", "shift:-1"], dry].concat());
        assert_eq!(cells(&planned)[1..], expected);
        assert!(notice.contains("dry run") && notice.contains("--execute"), "{notice}");
        assert_eq!(groups::offsets(&broker, "readers"), [3, 1]);
    }
    let moved = executed(&broker, &["readers", "--to", "shift:-1"]);
    assert_eq!(cells(&moved)[1..], expected);
    assert_eq!(groups::offsets(&broker, "readers"), [2, 0]);
}

#[test]
fn a_group_moves_to_every_kind_of_place() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_readers(dir.path());
    for (arguments, expected) in [
        (&["--to", "earliest", "-t", "letters:0"][..], [0, 1]),
        (&["--to", "latest"], [3, 1]),
        (&["--to", "offset:1", "-t", "letters"], [1, 1]),
        (&["--to", "current"], [1, 1]),
        (&["--to", "time:1970-01-01"], [0, 0]),
        (&["--to-latest", "--all-topics"], [3, 1]),
        (&["--to-earliest"], [0, 0]),
        (&["--shift-by", "1"], [1, 1]),
        (&["--shift-by", "-1"], [0, 0]),
        // The records have an old timestamp.
        (&["--to", "ago:1h"], [3, 1]),
        (&["--by-duration", "P36500D"], [0, 0]),
        (&["--to-datetime", "2026-01-01T00:00:00.000"], [3, 1]),
        (&["--to-offset", "0"], [0, 0]),
        (&["--to-current"], [0, 0]),
    ] {
        executed(&broker, &[&["readers"], arguments].concat());
        assert_eq!(groups::offsets(&broker, "readers"), expected, "{arguments:?}");
    }
    let new = executed(&broker, &["-g", "others", "--to", "latest", "-t", "letters"]);
    assert_eq!(cells(&new)[1], ["others", "letters", "0", "-", "3"]);
    executed(&broker, &["--all-groups", "--to", "earliest"]);
    assert_eq!(groups::offsets(&broker, "others"), [0, 0]);
}

#[test]
fn an_offset_outside_the_partition_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_readers(dir.path());
    let (planned, notice) = reset(&broker, &["readers", "--to", "offset:99999", "-t", "letters:0"]);
    assert_eq!(cells(&planned)[1], ["readers", "letters", "0", "3", "3"]);
    assert!(
        notice.contains("letters-0: offset 99999 is after the end; using 3"),
        "{notice}"
    );
    let (_, notice) = reset(&broker, &["readers", "--to", "shift:-7", "-t", "letters:0"]);
    assert!(
        notice.contains("letters-0: offset -4 is before the start; using 0"),
        "{notice}"
    );
}

#[test]
fn offsets_go_to_a_file_and_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_readers(&dir.path().join("data"));
    let (exported, _) = reset(&broker, &["readers", "--to", "current", "--export"]);
    assert_eq!(exported, "letters,0,3\nletters,1,1\n");
    let file = dir.path().join("offsets.csv");
    fs::write(&file, "letters,0,2\n\"letters\",1,0\n").unwrap();
    let file_name = file.to_str().unwrap();
    executed(&broker, &["readers", "--from-file", file_name]);
    assert_eq!(groups::offsets(&broker, "readers"), [2, 0]);
    fs::write(&file, "readers,letters,0,1\nothers,letters,1,1\n").unwrap();
    executed(&broker, &["--from-file", file_name]);
    assert_eq!(groups::offsets(&broker, "readers"), [1, 0]);
    assert_eq!(groups::offsets(&broker, "others"), [1]);
    fs::write(&file, "letters,0\n").unwrap();
    let wrong = fails(&broker, &["group", "reset", "readers", "--from-file", file_name]);
    assert!(
        wrong.contains("offsets.csv: line 1 is not TOPIC,PARTITION,OFFSET"),
        "{wrong}"
    );
}

#[test]
fn a_command_line_with_no_target_or_two_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_readers(dir.path());
    fails(&broker, &["group", "reset", "readers"]);
    let two = fails(
        &broker,
        &["group", "reset", "readers", "--to", "latest", "--to-earliest"],
    );
    assert!(two.contains("cannot be used with"), "{two}");
    let nameless = fails(&broker, &["group", "reset", "--to", "latest"]);
    assert!(nameless.contains("no group given"), "{nameless}");
    let old = command::fails(&["group", "seek", "readers", "--to", "latest"]);
    assert!(old.contains("milena group reset"), "{old}");
    assert_eq!(prints(&broker, &["group", "list"]).lines().count(), 2);
}
