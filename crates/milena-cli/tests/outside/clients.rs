//! Clients in other languages. The scripts in `clients/` check the responses of the broker.

use crate::{
    groups::SETTINGS,
    process::Process,
    programs::{run, xtask},
};

fn is_content(client: &str) {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &SETTINGS);
    let said = run(xtask().args(["client", client, &broker.address]), "");
    assert!(said.ends_with("all as expected\n"), "{said}");
    assert!(broker.terminate().success());
}

#[test]
fn confluent_kafka_is_content() {
    is_content("confluent");
}

#[test]
fn kafkajs_is_content() {
    is_content("kafkajs");
}
