//! Starting and stopping `milena broker`.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    process::Stdio,
};

use milena_wire::messages::{
    IncrementalAlterConfigsRequest,
    incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
};

use crate::{
    client::{Client, batch},
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
    assert!(message.contains("is used by another broker"), "{message}");
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
    // Why a connection ended is for those who look.
    TcpStream::connect(address).unwrap().write_all(&[0xff; 16]).unwrap();
    let mut lines = BufReader::new(broker.stderr.take().unwrap()).lines();
    let told = lines.any(|line| line.unwrap().contains("connection closed"));
    broker.kill().unwrap();
    broker.wait().unwrap();
    assert!(told);
}
