//! ACLs: the same requests on Apache Kafka and on our broker, and Kafka's tool on both.

use std::{fs, path::Path};

use crate::{
    acl_table::{self, Bed},
    client::Client,
    process::Process,
    programs::{Kafka, kafka_tool},
};

const PORT: u16 = 29_592;
/// The distance of the listener with SASL from the plain one.
const SASL_PLAINTEXT: u16 = 100;

/// Logs in to the broker of a plain port.
fn alice(port: u16) -> impl Fn() -> Client {
    move || Client::log_in(&format!("127.0.0.1:{}", port + SASL_PLAINTEXT), "alice", "alice-secret")
}

#[test]
fn apache_kafka_responds_as_the_table_says() {
    let kafka = Kafka::start_with(PORT, &["--secured", "--acls"]);
    let mut bed = Bed::new(Client::connect(&kafka.address()), alice(PORT));
    acl_table::check_all(&mut bed);
}

#[test]
fn our_broker_responds_as_the_table_says() {
    let dir = tempfile::tempdir().unwrap();
    let port = PORT + 2;
    let listeners = format!(
        "listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{}",
        port + SASL_PLAINTEXT
    );
    let users = "listener.name.sasl_plaintext.plain.sasl.jaas.config=\
                 org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"alice-secret\";";
    let broker = start(dir.path(), &[&listeners, "sasl.enabled.mechanisms=PLAIN", users]);
    let mut bed = Bed::new(broker.client(), alice(port));
    acl_table::check_all(&mut bed);
    assert!(broker.terminate().success());
}

/// A broker with ACLs, whose administrator is the client of the plain listener, and these settings.
fn start(dir: &Path, settings: &[&str]) -> Process {
    let class = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    let own = [class, "super.users=User:ANONYMOUS"];
    let file = dir.join("broker.properties");
    fs::write(&file, [&own, settings].concat().join("\n")).unwrap();
    Process::start(&dir.join("data"), &["--config", file.to_str().unwrap()])
}

/// Kafka's tool prints the same about both brokers.
#[test]
fn kafkas_tool_manages_acls() {
    let dir = tempfile::tempdir().unwrap();
    let ours = start(dir.path(), &[]);
    let kafka = Kafka::start_with(PORT + 1, &["--acls"]);
    let lines = [
        "--add --allow-principal User:alice --operation Read --operation Describe --topic orders",
        "--add --allow-principal User:alice --deny-principal User:bob --operation Write --topic bills --resource-pattern-type prefixed",
        "--add --allow-principal User:alice --allow-host 10.0.0.1 --operation All --cluster",
        "--add --allow-principal User:carol --producer --topic orders --transactional-id transfer --idempotent",
        "--add --allow-principal User:carol --consumer --topic orders --group readers",
        "--list",
        "--list --topic orders",
        "--list --topic bills-2026 --resource-pattern-type match",
        "--list --principal User:carol",
        "--remove --force --allow-principal User:carol --consumer --topic orders --group readers",
        "--list",
        "--remove --force --topic bills --resource-pattern-type prefixed",
        "--remove --force --allow-principal User:alice --operation Read --topic orders",
        "--list",
    ];
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let run = |address: &str| sorted(&kafka_tool(address, "acls", &words, ""));
        assert_eq!(run(&ours.address), run(&kafka.address()), "{line}");
    }
    assert!(ours.terminate().success());
}

/// The lines of an output; the tool prints them in the order of a hash map.
fn sorted(output: &str) -> Vec<String> {
    let mut lines: Vec<String> = output.lines().map(|line| line.trim().to_owned()).collect();
    lines.retain(|line| !line.is_empty());
    lines.sort();
    lines
}
