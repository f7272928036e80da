//! `milena perf consume`.

use serde_json::Value;

use crate::{
    client::batch,
    command::{fails, milena},
    process::Process,
};

fn broker_with_letters(dir: &std::path::Path) -> Process {
    let broker = Process::start(dir, &[]);
    let mut client = broker.client();
    client.create_topic("letters", 2, &[]);
    client.produce("letters", 0, batch(&["a", "bb", "ccc"]));
    client.produce("letters", 1, batch(&["dddd"]));
    broker
}

#[test]
fn the_figures_are_one_line_of_json() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    for group in [&[][..], &["--group", "readers"]] {
        let command = ["perf", "consume", "-b", &broker.address, "-t", "letters", "-n", "4"];
        let output = milena(&[&command[..], group].concat());
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let figures: Value = serde_json::from_str(&text).unwrap();
        // Each has the key "key".
        assert_eq!((&figures["records"], &figures["bytes"]), (&4.into(), &22.into()));
        assert!(figures["wire_bytes"].as_u64().unwrap() > 22, "{text}");
        assert!(figures["max_rss_bytes"].as_u64().unwrap() > 100_000, "{text}");
        assert!(figures["cpu_seconds"].as_f64().unwrap() > 0.0, "{text}");
        let seconds = ["seconds", "seconds_total"].map(|name| figures[name].as_f64().unwrap());
        assert!(seconds[0] >= 0.0 && seconds[0] <= seconds[1], "{text}");
    }
}

#[test]
fn no_more_records_than_asked_for_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    let output = milena(&["perf", "consume", "-b", &broker.address, "-t", "letters", "-n", "1"]);
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(figures["records"], 1);
}

#[test]
fn a_topic_that_is_too_short_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    let command = ["perf", "consume", "-b", &broker.address, "-t", "letters"];
    let message = fails(&[&command[..], &["-n", "5", "--timeout", "3"]].concat());
    let expected = "milena: end of topic after 4 of 5 records; waiting 3 s for more (--timeout), Ctrl-C to stop\n\
                    milena: no record for 3 s after 4 of 5 records\n";
    assert_eq!(message, expected);
}

#[test]
fn without_a_number_it_reads_to_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_letters(dir.path());
    let output = milena(&["perf", "consume", "-b", &broker.address, "letters"]);
    assert!(output.status.success(), "{output:?}");
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(figures["records"], 4);
}
