//! Prometheus' own linter, on the metrics of an application and its clients.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::process::Process;

/// Returns whether a complaint is about a name that is given: Kafka's own names, and `dlq.message_count`.
fn is_expected(complaint: &str) -> bool {
    let is_given = complaint.starts_with("kafka_") || complaint.starts_with("dlq_message_count ");
    is_given
        && (complaint.ends_with("\"_count\" suffix") || complaint.ends_with("should not contain abbreviated units"))
}

/// Replies to each line with its id.
const FILE: &str = r#"
group = "billing"
[breakers.payments]
[[handlers]]
topic = "orders"
command = ["sh", "-c", 'while read -r line; do id=${line#*:}; echo "{\"id\":${id%%,*}}"; done']
breakers = ["payments"]
"#;

/// The metrics of an application that has handled two records.
fn metrics() -> String {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(&dir.path().join("data"), &[]);
    broker.client().create_topic("orders", 1, &[]);
    let file = dir.path().join("app.toml");
    fs::write(&file, FILE).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_milena"))
        .args(["run", "-b", &broker.address, "--metrics", "127.0.0.1:0"])
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let address = line.strip_prefix("METRICS=http://").unwrap();
    let address = address.strip_suffix("/metrics").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "RUNNING");
    let producing = Command::new(env!("CARGO_BIN_EXE_milena"))
        .args(["produce", "-b", &broker.address, "orders"])
        .stdin(Stdio::piped())
        .spawn();
    let mut producing = producing.unwrap();
    producing.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    assert!(producing.wait().unwrap().success());
    let began = Instant::now();
    let text = loop {
        assert!(began.elapsed() < Duration::from_secs(60), "the records are not handled");
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        // The dead letters are counted a second after the start.
        if body.contains("\nconsumer_success_total{handler=\"orders\"} 2\n") && body.contains("\ndlq_message_count{") {
            break body.to_owned();
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    text
}

#[test]
fn promtool_accepts_the_metrics_of_an_application() {
    let text = metrics();
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool, of the package prometheus");
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    let unexpected: Vec<&str> = said.lines().filter(|line| !is_expected(line)).collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}\nin\n{text}");
}
