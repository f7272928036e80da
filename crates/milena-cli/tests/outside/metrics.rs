//! The metrics of a broker, read by Prometheus' own tool.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
};

use crate::{process::Process, programs::kcat};

#[test]
fn promtool_finds_no_fault_with_the_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = free.local_addr().unwrap().to_string();
    drop(free);
    let broker = Process::start(dir.path(), &["--metrics", &metrics]);
    kcat(&broker.address, &["-P", "-t", "letters"], "a\nb\n");
    kcat(
        &broker.address,
        &["-G", "readers", "-e", "-q", "-o", "beginning", "letters"],
        "",
    );

    let mut stream = TcpStream::connect(&metrics).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(
        body.contains("kafka_network_requestmetrics_requests_total{request=\"Produce\"}"),
        "{body}"
    );
    assert!(
        body.contains("kafka_consumergroup_members{consumergroup=\"readers\"}"),
        "{body}"
    );

    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let checked = promtool.wait_with_output().unwrap();
    let faults = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{faults}");
    assert!(broker.terminate().success());
}
