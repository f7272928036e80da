//! Starting and stopping `milena broker`.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
};

use milena_wire::messages::{
    IncrementalAlterConfigsRequest,
    incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
};

use crate::{
    client::{Client, batch},
    command::milena,
    process::{Process, command},
};

#[test]
fn a_terminated_broker_ends_well_and_its_records_are_there_again() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    client.produce("letters", 0, batch(&["a"]));
    assert!(broker.terminate().success());
    assert!(dir.path().join(".kafka_cleanshutdown").exists());

    let broker = Process::start(dir.path(), &["-X", "num.partitions=5"]);
    let mut client = broker.client();
    assert_eq!(client.fetch("letters", 0, 0).high_watermark, 1);
    broker.kill();
    assert!(!dir.path().join(".kafka_cleanshutdown").exists());
}

#[test]
fn a_second_broker_says_who_holds_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    let second = command(dir.path(), &[]).output().unwrap();
    assert!(!second.status.success());
    let message = String::from_utf8(second.stderr).unwrap();
    assert!(
        message.contains("is used by another broker; is Milena already up?"),
        "{message}"
    );
    broker.kill();
}

#[test]
fn up_needs_nothing_and_keeps_its_records_in_the_users_folder() {
    let home = tempfile::tempdir().unwrap();
    let broker = Process::up(home.path());
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    client.produce("letters", 0, batch(&["a"]));
    assert!(broker.terminate().success());
    assert!(home.path().join("milena/letters-0").is_dir());
}

#[test]
fn a_wrong_setting_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let refused = command(dir.path(), &["-X", "num.partition=3"]).output().unwrap();
    assert!(!refused.status.success());
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(
        message.contains("num.partition") && message.contains("num.partitions"),
        "{message}"
    );
}

/// The error of a `milena up` that cannot start.
fn up_fails(arguments: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
    command.arg("up").args(arguments).env("XDG_DATA_HOME", dir.path());
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!message.contains("try:"), "no hint before it listens: {message}");
    message
}

#[test]
fn up_says_what_to_do_where_it_cannot_listen() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let message = up_fails(&["--listen", &address]);
    assert!(message.contains("is Milena already up?"), "{message}");
    assert_eq!(message.matches("in use").count(), 1, "{message}");
    let message = up_fails(&["--listen", "0.0.0.0:43094"]);
    assert!(message.contains("with --advertise HOST:PORT"), "{message}");
    let message = up_fails(&["--listen", "43094"]);
    assert!(
        message.contains("--listen") && message.contains("did you mean 127.0.0.1:43094?"),
        "{message}"
    );
    let message = up_fails(&["--listen", "127.0.0.1:0", "-X", "num.partition=3"]);
    assert!(message.contains("num.partitions"), "{message}");
}

#[test]
fn up_takes_a_directory_settings_and_an_address_for_clients() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
    command
        .args([
            "up",
            "--listen",
            "127.0.0.1:0",
            "--advertise",
            "localhost:43210",
            "--data-dir",
        ])
        .arg(dir.path().join("data"))
        .stderr(File::create(&log).unwrap());
    let broker = Process::spawn(&mut command);
    assert_eq!(broker.address, "localhost:43210");
    assert!(broker.terminate().success());
    assert!(dir.path().join("data").is_dir());
    let log = std::fs::read_to_string(log).unwrap();
    assert!(
        log.contains("try: echo hello | milena produce -b localhost:43210 letters"),
        "{log}"
    );

    let config = dir.path().join("broker.properties");
    std::fs::write(&config, "num.partitions=5\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
    command
        .args([
            "up",
            "-q",
            "--listen",
            "127.0.0.1:0",
            "-X",
            "log.retention.ms=7000",
            "--config",
        ])
        .arg(&config)
        .arg("--data-dir")
        .arg(dir.path().join("data"));
    let broker = Process::spawn(&mut command);
    let described = milena(&["config", "describe", "broker", "1", "-b", &broker.address]);
    let described = String::from_utf8(described.stdout).unwrap();
    for setting in [["num.partitions", "5"], ["log.retention.ms", "7000"]] {
        let is_set = |line: &str| line.split_whitespace().skip(2).take(2).eq(setting);
        assert!(described.lines().any(is_set), "{described}");
    }
}

#[test]
fn log_levels_change_while_the_broker_runs() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = command(dir.path(), &[])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(broker.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("BOOTSTRAP=").unwrap();
    let request = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: 8,
            resource_name: "1".into(),
            configs: vec![AlterableConfig {
                name: "milena_broker.net".into(),
                value: Some("DEBUG".into()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let response = Client::connect(address).call(&request, 1);
    assert_eq!(response.responses[0].error_code, 0, "{response:?}");
    // Reasons of closed connections are logged at DEBUG only.
    TcpStream::connect(address).unwrap().write_all(&[0xff; 16]).unwrap();
    let mut lines = BufReader::new(broker.stderr.take().unwrap()).lines();
    let told = lines.any(|line| line.unwrap().contains("connection closed"));
    broker.kill().unwrap();
    broker.wait().unwrap();
    assert!(told);
}

#[test]
fn other_machines_are_served_without_a_log_in_only_if_a_flag_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let broker = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
        command
            .args([
                "broker",
                "--listen",
                "0.0.0.0:0",
                "-X",
                "advertised.listeners=PLAINTEXT://127.0.0.1:9092",
                "--data-dir",
            ])
            .arg(dir.path())
            .args(arguments);
        command
    };
    let refused = broker(&[]).output().unwrap();
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success(), "{message}");
    assert!(
        message.contains("0.0.0.0") && message.contains("milena.allow.unauthenticated=true"),
        "{message}"
    );
    let log = dir.path().join("stderr");
    let allowed = Process::spawn(broker(&["--allow-unauthenticated"]).stderr(File::create(&log).unwrap()));
    let warned = std::fs::read_to_string(&log).unwrap();
    assert!(
        warned.contains("WARN") && warned.contains("anyone who can connect"),
        "{warned}"
    );
    assert!(allowed.terminate().success());
}
