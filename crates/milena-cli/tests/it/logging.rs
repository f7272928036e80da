//! `-v`, `-q`, `RUST_LOG` and `--log-format`.

use std::{path::Path, process::Command};

use crate::process::Process;

/// The log lines of a broker that starts and stops.
fn lines(dir: &Path, filter: Option<&str>, arguments: &[&str]) -> Vec<String> {
    let log = dir.join("log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
    command
        .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(dir.join("data"))
        .args(arguments)
        .env_remove("RUST_LOG")
        .stderr(std::fs::File::create(&log).unwrap());
    if let Some(filter) = filter {
        command.env("RUST_LOG", filter);
    }
    let broker = Process::spawn(&mut command);
    assert!(broker.terminate().success());
    let text = std::fs::read_to_string(log).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn quiet_leaves_out_notices() {
    let dir = tempfile::tempdir().unwrap();
    let notices = |lines: Vec<String>| lines.iter().filter(|line| line.starts_with("milena: ")).count();
    assert_eq!(notices(lines(dir.path(), None, &[])), 3);
    assert_eq!(notices(lines(dir.path(), None, &["-q"])), 0);
}

/// The log lines of a client that lists topics.
fn client_log(broker: &Process, filter: Option<&str>, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
    command
        .args(["consume", "letters", "-e", "-b", &broker.address])
        .args(arguments);
    command.env_remove("RUST_LOG");
    if let Some(filter) = filter {
        command.env("RUST_LOG", filter);
    }
    let output = command.output().unwrap();
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_client_logs_as_much_as_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    broker.client().create_topic("letters", 1, &[]);
    assert_eq!(client_log(&broker, None, &[]), "");
    assert!(client_log(&broker, None, &["-vv"]).contains(" DEBUG "));
    assert!(client_log(&broker, Some("debug"), &[]).contains(" DEBUG "));
    assert!(client_log(&broker, Some("milena_client=debug"), &[]).contains(" DEBUG "));
    assert_eq!(client_log(&broker, Some("milena_broker=debug"), &[]), "");
    // The flag wins over the environment variable.
    assert_eq!(client_log(&broker, Some("debug"), &["-q"]), "");
    let json = client_log(&broker, None, &["-vv", "--log-format", "json"]);
    for line in json.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
    }
    assert_ne!(json, "");
    let wrong = client_log(&broker, Some("a=b=c"), &[]);
    assert!(wrong.contains("RUST_LOG=a=b=c is not a valid filter"), "{wrong}");
}

/// A denial is logged without any option, under the name that Kafka's administrators know.
#[test]
fn the_broker_logs_whom_it_has_denied_what() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
    command
        .args([
            "broker",
            "--listen",
            "127.0.0.1:0",
            "--log-format",
            "json",
            "-X",
            "milena.authorizer=acl",
            "--data-dir",
        ])
        .arg(dir.path().join("data"))
        .env_remove("RUST_LOG")
        .stderr(std::fs::File::create(&log).unwrap());
    let broker = Process::spawn(&mut command);
    assert_eq!(broker.client().fetch("letters", 0, 0).error_code, 29);
    assert!(broker.terminate().success());
    let text = std::fs::read_to_string(log).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let denials: Vec<_> = lines.filter(|line| line["event"] == "authorization_denied").collect();
    let [denial] = &denials[..] else {
        panic!("{text}");
    };
    for (field, expected) in [
        ("target", "kafka::authorizer::logger"),
        ("level", "INFO"),
        ("principal", "User:ANONYMOUS"),
        ("operation", "READ"),
        ("resource_type", "TOPIC"),
        ("resource", "letters"),
        ("host", "127.0.0.1"),
        ("listener", "PLAINTEXT"),
        ("api", "Fetch"),
    ] {
        assert_eq!(denial[field], expected, "{denial}");
    }
}
