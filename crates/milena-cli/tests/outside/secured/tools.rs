//! Kafka's tools on a secured broker.

use std::process::Command;

use super::{
    broker::{ADMIN, ALICE, SecuredBroker},
    login::{Listener, Login, Mechanism},
};
use crate::programs::{run, run_any};

/// Kafka's tools for one user.
struct Tools<'a> {
    broker: &'a SecuredBroker,
    login: Login,
}

impl<'a> Tools<'a> {
    fn new(broker: &'a SecuredBroker, user: &str, mechanism: Mechanism) -> Self {
        let login = Login::new(Listener::SaslSsl, Some(mechanism), user);
        Self { broker, login }
    }

    /// A line such as `topics --list`; words must not contain spaces.
    fn command(&self, line: &str) -> Command {
        let mut words = line.split_whitespace();
        let mut command = self.broker.java(words.next().unwrap());
        let address = self.broker.address(self.login.listener);
        command.args(["--bootstrap-server", &address, "--command-config"]);
        command.arg(self.login.write_properties(self.broker)).args(words);
        command
    }

    fn run(&self, line: &str) -> String {
        run(&mut self.command(line), "")
    }

    fn run_with(&self, line: &str, input: &str) -> String {
        run(&mut self.command(line), input)
    }

    /// The output of a tool, whether it succeeds or not: some report errors and exit with 0.
    fn run_any(&self, line: &str) -> String {
        run_any(&mut self.command(line)).1
    }
}

#[test]
fn kafka_acls_manages_acls() {
    let broker = SecuredBroker::start(&[]);
    let admin = Tools::new(&broker, ADMIN, Mechanism::Scram512);
    let alice = Tools::new(&broker, ALICE, Mechanism::Scram256);
    let versions = alice.run("broker-api-versions");
    assert!(versions.contains("SaslAuthenticate(36)"), "{versions}");
    admin.run("topics --create --topic secrets --partitions 1");
    // A topic that alice may not see does not exist for her.
    let listed = alice.run("topics --list");
    assert!(!listed.contains("secrets"), "{listed}");
    let refused = alice.run_any("topics --describe --topic secrets");
    assert!(refused.contains("Topic 'secrets' does not exist"), "{refused}");

    let added = admin.run("acls --add --allow-principal User:alice --producer --topic secrets");
    assert!(
        added.contains("Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=secrets"),
        "{added}"
    );
    let sent = alice.run_with("console-producer --topic secrets", "Dear Milena,\n");
    assert!(!sent.contains("ERROR"), "{sent}");
    let refused = alice.run_any("console-consumer --topic secrets --from-beginning --max-messages 1 --group letters-x");
    assert!(
        refused.contains("Not authorized to access topics: [secrets]"),
        "{refused}"
    );
    admin.run("acls --add --allow-principal User:alice --consumer --topic secrets --group letters-x");
    let read = alice.run("console-consumer --topic secrets --from-beginning --max-messages 1 --group letters-x");
    assert!(read.contains("Dear Milena,"), "{read}");

    // Both tools see the same ACLs.
    let listed = admin.run("acls --list --topic secrets");
    for operation in ["WRITE", "DESCRIBE", "CREATE", "READ"] {
        let line = format!("(principal=User:alice, host=*, operation={operation}, permissionType=ALLOW)");
        assert!(listed.contains(&line), "{listed}");
    }
    let ours = broker.milena("acl list --topic secrets", &[]);
    assert_eq!(ours.lines().count(), 5, "{ours}");
    admin.run("acls --remove --force --topic secrets");
    assert!(
        alice
            .run_any("topics --describe --topic secrets")
            .contains("does not exist")
    );
    let refused = alice.run_any("acls --list");
    assert!(refused.contains("ClusterAuthorizationException"), "{refused}");
    assert!(broker.broker.terminate().success());
}

#[test]
fn kafka_configs_manages_users_and_quotas() {
    let broker = SecuredBroker::start(&[]);
    let admin = Tools::new(&broker, ADMIN, Mechanism::Plain);
    let of_carol = "configs --entity-type users --entity-name carol";
    let altered = admin.run(&format!(
        "{of_carol} --alter --add-config SCRAM-SHA-512=[iterations=8192,password=carol-secret]"
    ));
    assert_eq!(altered, "Completed updating config for user carol.\n");
    let described = admin.run(&format!("{of_carol} --describe"));
    assert!(
        described.contains("SCRAM credential configs for user-principal 'carol' are SCRAM-SHA-512=iterations=8192"),
        "{described}"
    );
    let carol = Tools::new(&broker, "carol", Mechanism::Scram512);
    carol.run("broker-api-versions");
    admin.run(&format!("{of_carol} --alter --delete-config SCRAM-SHA-512"));
    let refused = carol.run_any("broker-api-versions");
    assert!(refused.contains("SaslAuthenticationException"), "{refused}");

    let altered = admin.run(&format!(
        "{of_carol} --alter --add-config producer_byte_rate=1048576,consumer_byte_rate=2097152"
    ));
    assert_eq!(altered, "Completed updating config for user carol.\n");
    admin.run("configs --entity-type clients --entity-default --alter --add-config request_percentage=200");
    admin.run("configs --entity-type ips --entity-name 127.0.0.7 --alter --add-config connection_creation_rate=10");
    let described = admin.run(&format!("{of_carol} --describe"));
    assert!(
        described.contains(
            "Quota configs for user-principal 'carol' are consumer_byte_rate=2097152.0, producer_byte_rate=1048576.0"
        ),
        "{described}"
    );
    let ours = broker.milena("quota list", &[]);
    assert_eq!(ours.lines().count(), 5, "{ours}");
    assert!(broker.broker.terminate().success());
}
