//! Options of `up`, and the broker configuration that follows from them.

use std::path::Path;

use super::secured;

const CONTROLLER_PORT_DISTANCE: u16 = 200;

#[derive(clap::Args)]
pub(super) struct Settings {
    /// Number of brokers; each is a controller too.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=9))]
    brokers: u16,
    /// Port of the first broker; the next brokers take the next ports, controllers those from 200 above on.
    #[arg(long, default_value_t = 19092, value_parser = clap::value_parser!(u16).range(1..=65_000))]
    port: u16,
    /// Listen with SASL and TLS too: SASL_PLAINTEXT 100 above each port, SSL 300, SASL_SSL 400, mutual TLS 500.
    ///
    /// Mechanisms: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, and OAUTHBEARER with unsigned tokens. The users are admin, alice
    /// and bob, with the passwords admin-secret, alice-secret and bob-secret. Certificates are in `tls` of the directory:
    /// ca.pem, and USER.pem for each user; Java's stores have the password changeit.
    #[arg(long)]
    secured: bool,
    /// Check ACLs; the plain listener and the user admin may do everything.
    #[arg(long)]
    acls: bool,
    /// One more line of the broker configuration; may be repeated, and wins over the line it repeats.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    sets: Vec<String>,
}

fn key_and_value(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((key, _)) if !key.is_empty() => Ok(text.to_owned()),
        _ => Err("expected KEY=VALUE, such as log.segment.bytes=1048576".to_owned()),
    }
}

impl Settings {
    pub(super) fn broker_numbers(&self) -> impl Iterator<Item = u16> {
        1..=self.brokers
    }

    pub(super) fn is_secured(&self) -> bool {
        self.secured
    }

    /// The arguments that make the credentials of the users when storage is formatted.
    pub(super) fn format_args(&self) -> Vec<String> {
        match self.secured {
            true => secured::format_args(),
            false => Vec::new(),
        }
    }

    /// The text of `server.properties` for one broker. `tls` is the directory of the certificates.
    pub(super) fn properties(&self, number: u16, data: &Path, tls: &Path) -> String {
        let mut lines = self.listener_lines(number);
        lines.extend(self.replication_lines());
        lines.extend([
            format!("node.id={number}"),
            format!("log.dirs={}", data.display()),
            // Every broker is in its own rack, so that fetching from the nearest replica can be tested.
            format!("broker.rack=rack-{number}"),
            "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector".to_owned(),
            // Tests join groups all the time and need not wait for more members.
            "group.initial.rebalance.delay.ms=0".to_owned(),
        ]);
        if self.secured {
            lines.extend(secured::lines(tls));
        }
        if self.acls {
            lines.extend(secured::authorizer_lines());
        }
        lines.extend(self.sets.iter().cloned());
        lines.join("\n") + "\n"
    }

    fn listener_lines(&self, number: u16) -> Vec<String> {
        let port = self.port + number - 1;
        let mut clients = vec![format!("PLAINTEXT://127.0.0.1:{port}")];
        if self.secured {
            clients.extend(secured::listeners(port));
        }
        let clients = clients.join(",");
        let voters: Vec<String> = self
            .broker_numbers()
            .map(|voter| format!("{voter}@127.0.0.1:{}", self.controller_port(voter)))
            .collect();
        vec![
            "process.roles=broker,controller".to_owned(),
            format!(
                "listeners={clients},CONTROLLER://127.0.0.1:{}",
                self.controller_port(number)
            ),
            format!("advertised.listeners={clients}"),
            "controller.listener.names=CONTROLLER".to_owned(),
            "inter.broker.listener.name=PLAINTEXT".to_owned(),
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,\
             SSL:SSL,SASL_SSL:SASL_SSL,MTLS:SSL"
                .to_owned(),
            format!("controller.quorum.voters={}", voters.join(",")),
        ]
    }

    fn controller_port(&self, number: u16) -> u16 {
        self.port + CONTROLLER_PORT_DISTANCE + number - 1
    }

    fn replication_lines(&self) -> Vec<String> {
        let factor = self.brokers.min(3);
        let mut lines: Vec<String> = [
            "default.replication.factor",
            "offsets.topic.replication.factor",
            "transaction.state.log.replication.factor",
            "share.coordinator.state.topic.replication.factor",
        ]
        .iter()
        .map(|key| format!("{key}={factor}"))
        .collect();
        // The internal topics stay writable when a test kills brokers.
        lines.push("transaction.state.log.min.isr=1".to_owned());
        lines.push("share.coordinator.state.topic.min.isr=1".to_owned());
        lines
    }
}
