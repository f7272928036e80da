//! Each client logs in everywhere, is refused with a wrong password, and logs in again on its connections.

use std::{fs, process::Command};

use serde_json::Value;

use super::{
    broker::{ADMIN, ALICE, SecuredBroker},
    login::{Listener, Login, Mechanism},
};
use crate::programs::{run, run_any, xtask};

/// A client of another project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    Java,
    Script(&'static str),
}

impl Client {
    /// The command that uses all log-ins in this mode.
    fn command(self, broker: &SecuredBroker, mode: &str, logins: &[Login], seconds: &str) -> Command {
        match self {
            Self::Java => {
                let mut command = broker.java("Secured.java");
                command.args([mode, seconds]);
                command.args(logins.iter().map(|login| login.write_properties(broker)));
                command
            }
            Self::Script(name) => {
                let file = broker.dir.path().join(format!("{mode}.json"));
                let logins: Vec<Value> = logins.iter().map(|login| login.json(broker)).collect();
                fs::write(&file, Value::from(logins).to_string()).unwrap();
                let mut command = xtask();
                command.args(["client", name, "--secured", mode]).arg(file).arg(seconds);
                command
            }
        }
    }

    /// Writes and reads records with each log-in, then tries wrong ones.
    fn logs_in_everywhere(self) {
        let broker = SecuredBroker::start(&[]);
        let logins = Login::all();
        let said = run(&mut self.command(&broker, "talk", &logins, "0"), "");
        for login in &logins {
            assert!(said.contains(&format!("talked {}\n", login.name())), "{self:?}: {said}");
        }
        let logins = Login::all_wrong();
        let said = run(&mut self.command(&broker, "refused", &logins, "0"), "");
        for login in &logins {
            let prefix = format!("refused {}: ", login.name());
            let line = said.lines().find_map(|line| line.strip_prefix(&prefix));
            let line = line.unwrap_or_else(|| panic!("{self:?}: no {prefix} in {said}"));
            self.check_refusal(login, line);
        }
        assert!(broker.broker.terminate().success());
    }

    /// The text of the broker reaches the user, as far as the client passes it on.
    fn check_refusal(self, login: &Login, line: &str) {
        let expected = match (login.mechanism, self) {
            (Some(Mechanism::Plain), _) => "Authentication failed: Invalid username or password",
            (Some(Mechanism::Scram256 | Mechanism::Scram512), _) => {
                "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-"
            }
            // Neither shows the response of the broker.
            (Some(Mechanism::OAuthBearer), Self::Script("kafkajs" | "franz")) => "",
            (Some(Mechanism::OAuthBearer), _) => "{\"status\":\"invalid_token\"}",
            (None, Self::Java) => "SslAuthenticationException",
            (None, _) => "certificate",
        };
        assert!(line.contains(expected), "{self:?}: {}: {line}", login.name());
    }

    /// Writes and reads for several sessions, with a password and with tokens.
    fn stays_logged_in(self) {
        let broker = SecuredBroker::start(&["connections.max.reauth.ms=3000"]);
        let logins = [Mechanism::Plain, Mechanism::Scram512, Mechanism::OAuthBearer]
            .map(|mechanism| Login::new(Listener::SaslSsl, Some(mechanism), ALICE));
        let said = run(&mut self.command(&broker, "stay", &logins, "8"), "");
        for login in &logins {
            assert!(said.contains(&format!("stayed {}: ", login.name())), "{self:?}: {said}");
        }
        // A producer and a consumer of each, both over more than two sessions.
        let again = broker.metric("kafka_server_socket_server_metrics_successful_reauthentication_total");
        assert!(again >= 12.0, "{self:?}: {again} re-authentications");
        assert_eq!(
            broker.metric("kafka_server_socket_server_metrics_failed_reauthentication_total"),
            0.0
        );
        assert_eq!(
            broker.metric("kafka_server_socket_server_metrics_expired_connections_killed_total"),
            0.0
        );
        assert!(broker.broker.terminate().success());
    }
}

#[test]
fn java_logs_in_everywhere() {
    Client::Java.logs_in_everywhere();
}

#[test]
fn confluent_kafka_logs_in_everywhere() {
    Client::Script("confluent").logs_in_everywhere();
}

#[test]
fn kafkajs_logs_in_everywhere() {
    Client::Script("kafkajs").logs_in_everywhere();
}

#[test]
fn franz_go_logs_in_everywhere() {
    Client::Script("franz").logs_in_everywhere();
}

#[test]
fn java_stays_logged_in() {
    Client::Java.stays_logged_in();
}

#[test]
fn confluent_kafka_stays_logged_in() {
    Client::Script("confluent").stays_logged_in();
}

#[test]
fn kafkajs_stays_logged_in() {
    Client::Script("kafkajs").stays_logged_in();
}

#[test]
fn franz_go_stays_logged_in() {
    Client::Script("franz").stays_logged_in();
}

/// Our own commands read the same files as Java's.
#[test]
fn milena_logs_in_everywhere() {
    let broker = SecuredBroker::start(&[]);
    let milena = |login: &Login, words: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
        command
            .args(words.split_whitespace())
            .arg("-F")
            .arg(login.write_properties(&broker));
        command.env_remove("RUST_LOG").env_remove("MILENA_BOOTSTRAP");
        command
    };
    for login in Login::all() {
        let name = login.name();
        let topic = format!("letters-milena-{name}");
        run(
            &mut milena(&login, &format!("produce {topic}")),
            "Dear Milena,\nDear Franz,\n",
        );
        let read = run(&mut milena(&login, &format!("consume {topic} -g {topic} -n 2")), "");
        assert_eq!(read, "Dear Milena,\nDear Franz,\n", "{name}");
    }
    for login in Login::all_wrong() {
        let (succeeded, said) = run_any(&mut milena(&login, "topic list"));
        assert!(!succeeded, "{}: {said}", login.name());
        let expected = match login.mechanism {
            Some(Mechanism::Plain) => "Invalid username or password",
            Some(Mechanism::OAuthBearer) => "invalid_token",
            Some(_) => "invalid credentials",
            None => "certificate",
        };
        assert!(said.contains(expected), "{}: {said}", login.name());
    }
    // The super user may do everything, wherever it logs in.
    for listener in [Listener::SaslSsl, Listener::Mtls] {
        let mechanism = (listener == Listener::SaslSsl).then_some(Mechanism::Scram256);
        let login = Login::new(listener, mechanism, ADMIN);
        let listed = run(&mut milena(&login, "acl list"), "");
        assert_eq!(listed.lines().count(), 11, "{listed}");
    }
    assert!(broker.broker.terminate().success());
}
