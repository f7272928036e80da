//! ACLs: the same requests on Apache Kafka and on our broker, and Kafka's tool on both.

use std::path::Path;

use milena_wire::messages::*;

use crate::{
    acl_table::{self, Bed, Identity},
    client::Client,
    process::Process,
    programs::{Kafka, kafka_tool},
};

const PORT: u16 = 29_592;
/// The distance of the listener with SASL from the plain one.
const SASL_PLAINTEXT: u16 = 100;
/// Our broker tells the administrator from the client by host.
const ADMIN_HOST: &str = "127.0.0.2";
const CLIENT_HOST: &str = "127.0.0.1";

#[test]
fn apache_kafka_responds_as_the_table_says() {
    let kafka = Kafka::start_with(PORT, &["--secured", "--acls"]);
    let connect = || {
        let mut client = Client::connect(&format!("127.0.0.1:{}", PORT + SASL_PLAINTEXT));
        client.log_in("alice", "alice-secret");
        client
    };
    let identity = Identity {
        principal: "User:alice",
        host: "*",
    };
    let mut bed = Bed::new(Client::connect(&kafka.address()), connect, identity);
    acl_table::check_all(&mut bed);
}

#[test]
fn our_broker_responds_as_the_table_says() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &["allow.everyone.if.no.acl.found=true"]);
    let mut admin = Client::connect_from(ADMIN_HOST, &broker.address);
    let everything = [(2, "*"), (3, "*"), (4, "kafka-cluster"), (5, "*")];
    let creations = everything.map(|(resource_type, name)| create_acls_request::AclCreation {
        resource_type,
        resource_name: name.into(),
        resource_pattern_type: 3,
        principal: "User:ANONYMOUS".into(),
        host: ADMIN_HOST.into(),
        operation: 2,
        permission_type: 3,
        ..Default::default()
    });
    let request = CreateAclsRequest {
        creations: creations.to_vec(),
        ..Default::default()
    };
    let created = admin.call(&request, 3);
    assert!(
        created.results.iter().all(|result| result.error_code == 0),
        "{created:?}"
    );
    let address = broker.address.clone();
    let identity = Identity {
        principal: "User:ANONYMOUS",
        host: CLIENT_HOST,
    };
    let mut bed = Bed::new(admin, move || Client::connect(&address), identity);
    acl_table::check_all(&mut bed);
    assert!(broker.terminate().success());
}

/// A broker with ACLs, and these settings.
fn start(dir: &Path, settings: &[&str]) -> Process {
    let class = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    let settings = std::iter::once(class).chain(settings.iter().copied());
    let arguments: Vec<&str> = settings.flat_map(|setting| ["-X", setting]).collect();
    Process::start(dir, &arguments)
}

/// Kafka's tool prints the same about both brokers.
#[test]
fn kafkas_tool_manages_acls() {
    let dir = tempfile::tempdir().unwrap();
    let ours = start(dir.path(), &["super.users=User:ANONYMOUS"]);
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
