//! SASL: log-ins, their failures, and their renewal.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use bytes::Bytes;
use milena_wire::{errors::ErrorCode, messages::*};

use crate::{
    client::{Client, batch},
    listeners::{metrics, start_with_metrics},
    running::Running,
    tls_client::{TestCa, tls_client},
};

const USERS: &str =
    "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"wonder\" user_bob=\"b\";";

fn start_sasl(dir: &Path, settings: &[(&str, &str)]) -> Running {
    let mut all = vec![
        ("listeners", "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"),
        ("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256"),
        ("listener.name.sasl_plaintext.plain.sasl.jaas.config", USERS),
    ];
    all.extend(settings);
    start_with_metrics(dir, &all)
}

fn client(broker: &Running) -> Client {
    Client::connect(&broker.listener("SASL_PLAINTEXT").to_string())
}

pub fn handshake(client: &mut Client, mechanism: &str) -> SaslHandshakeResponse {
    let mechanism = mechanism.into();
    client.call(&SaslHandshakeRequest { mechanism }, 1)
}

fn authenticate(client: &mut Client, bytes: impl Into<Bytes>) -> SaslAuthenticateResponse {
    let request = SaslAuthenticateRequest {
        auth_bytes: bytes.into(),
        ..Default::default()
    };
    client.call(&request, 2)
}

pub fn log_in(client: &mut Client, user: &str, password: &str) -> SaslAuthenticateResponse {
    assert_eq!(handshake(client, "PLAIN").error_code, 0);
    authenticate(client, format!("\0{user}\0{password}"))
}

#[test]
fn a_client_that_logs_in_is_served_with_and_without_tls() {
    let (dir, ca) = (tempfile::tempdir().unwrap(), TestCa::new());
    let keystore = ca.write("server.pem", "broker").display().to_string();
    let broker = start_with_metrics(
        dir.path(),
        &[
            ("listeners", "SASL_SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"),
            ("listener.name.sasl_ssl.sasl.enabled.mechanisms", "PLAIN"),
            ("sasl.enabled.mechanisms", "SCRAM-SHA-512,PLAIN"),
            ("listener.name.sasl_ssl.plain.sasl.jaas.config", USERS),
            ("listener.name.sasl_plaintext.plain.sasl.jaas.config", USERS),
            ("listener.name.sasl_ssl.ssl.keystore.location", &keystore),
            // Without effect here, as in Kafka.
            ("ssl.client.auth", "required"),
        ],
    );
    let config = ca.client_config(None);
    let mut with_tls = tls_client(broker.listener("SASL_SSL"), &config);
    let mut without = client(&broker);
    assert_eq!(handshake(&mut without, "PLAIN").mechanisms, ["SCRAM-SHA-512", "PLAIN"]);
    assert_eq!(authenticate(&mut without, "\0bob\0b").error_code, 0);
    let software = ApiVersionsRequest {
        client_software_name: "tests".into(),
        client_software_version: "1".into(),
        ..Default::default()
    };
    assert_eq!(with_tls.call(&software, 4).error_code, 0);
    let response = log_in(&mut with_tls, "alice", "wonder");
    assert_eq!(
        (response.error_code, response.session_lifetime_ms),
        (0, 0),
        "{response:?}"
    );
    assert_eq!(response.auth_bytes, "");
    with_tls.create_topic("letters", 1, &[]);
    with_tls.produce("letters", 0, batch(&["a"]));
    assert!(without.fetch("letters", 0, 0).records.is_some());

    // There is no session to renew.
    let again = handshake(&mut with_tls, "PLAIN");
    assert_eq!(again.error_code, ErrorCode::IllegalSaslState.code());
    let text = metrics(&broker);
    let line = "kafka_server_socket_server_metrics_successful_authentication_total{listener=\"SASL_SSL\"} 1";
    assert!(text.contains(line), "{text}");
    broker.shutdown();
}

#[test]
fn a_failed_log_in_has_a_reason_after_a_delay_and_ends_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start_sasl(dir.path(), &[]);
    for (user, password) in [("alice", "wrong"), ("mallory", "wonder")] {
        let mut client = client(&broker);
        let began = Instant::now();
        let response = log_in(&mut client, user, password);
        assert_eq!(response.error_code, ErrorCode::SaslAuthenticationFailed.code());
        let message = response.error_message.unwrap();
        assert_eq!(message, "Authentication failed: Invalid username or password");
        assert!(began.elapsed() >= Duration::from_millis(100));
        assert_eq!(client.receive_frame(), None);
    }
    let mut client = client(&broker);
    let response = handshake(&mut client, "OAUTHBEARER");
    assert_eq!(response.error_code, ErrorCode::UnsupportedSaslMechanism.code());
    assert_eq!(response.mechanisms, ["PLAIN", "SCRAM-SHA-256"]);
    assert_eq!(client.receive_frame(), None);
    let text = metrics(&broker);
    let line = "milena_broker_connection_failures_total{listener=\"SASL_PLAINTEXT\",reason=\"login\"} 3";
    assert!(text.contains(line), "{text}");
    let line = "kafka_server_socket_server_metrics_failed_authentication_total{listener=\"SASL_PLAINTEXT\"} 3";
    assert!(text.contains(line), "{text}");
    assert!(!text.contains("wonder"));
    broker.shutdown();
}

#[test]
fn nothing_is_served_before_the_log_in() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start_sasl(dir.path(), &[]);
    let mut first = client(&broker);
    assert!(first.try_call(&MetadataRequest::default(), 12).is_none());

    // In the middle of a log-in the API's own error response says why.
    let mut middle = client(&broker);
    handshake(&mut middle, "PLAIN");
    let response = middle.call(&FindCoordinatorRequest::default(), 3);
    assert_eq!(response.error_code, ErrorCode::IllegalSaslState.code());
    assert_eq!(middle.receive_frame(), None);

    // A frame above sasl.server.max.receive.size.
    let mut large = client(&broker);
    large.send_bytes(&600_000_u32.to_be_bytes());
    assert_eq!(large.receive_frame(), None);
    let text = metrics(&broker);
    let line = "milena_broker_connection_failures_total{listener=\"SASL_PLAINTEXT\",reason=\"no_login\"} 1";
    assert!(text.contains(line), "{text}");
    broker.shutdown();
}

#[test]
fn sessions_are_renewed_or_end() {
    let dir = tempfile::tempdir().unwrap();
    let reauth = ("listener.name.sasl_plaintext.plain.connections.max.reauth.ms", "1500");
    let broker = start_sasl(dir.path(), &[reauth]);
    let mut renewed = client(&broker);
    let mut expires = client(&broker);
    let began = Instant::now();
    for client in [&mut renewed, &mut expires] {
        let response = log_in(client, "alice", "wonder");
        assert_eq!(
            (response.error_code, response.session_lifetime_ms),
            (0, 1500),
            "{response:?}"
        );
    }
    // A request that is pending when the renewal begins gets its response first.
    renewed.create_topic("letters", 1, &[]);
    let mut fetch = crate::client::fetch_request("letters", 0, 0);
    (fetch.min_bytes, fetch.max_wait_ms) = (1, 300);
    renewed.send(&fetch, 12);
    renewed.send(
        &SaslHandshakeRequest {
            mechanism: "PLAIN".into(),
        },
        1,
    );
    renewed.receive::<FetchRequest>(12);
    assert_eq!(renewed.receive::<SaslHandshakeRequest>(1).error_code, 0);
    let response = authenticate(&mut renewed, "\0alice\0wonder");
    assert_eq!(
        (response.error_code, response.session_lifetime_ms),
        (0, 1500),
        "{response:?}"
    );
    // The second one is too early: an ordinary request, without a session to begin.
    assert_eq!(
        handshake(&mut renewed, "PLAIN").error_code,
        ErrorCode::IllegalSaslState.code()
    );
    std::thread::sleep(Duration::from_millis(1600).saturating_sub(began.elapsed()));
    assert!(expires.try_call(&MetadataRequest::default(), 12).is_none());
    renewed.call(&MetadataRequest::default(), 12);

    // Another user cannot take over.
    std::thread::sleep(Duration::from_millis(1000));
    let response = log_in(&mut renewed, "bob", "b");
    assert_eq!(response.error_code, ErrorCode::SaslAuthenticationFailed.code());
    assert!(response.error_message.unwrap().contains("Cannot change principals"));
    let text = metrics(&broker);
    for name in [
        "successful_reauthentication",
        "failed_reauthentication",
        "expired_connections_killed",
    ] {
        let line = format!("kafka_server_socket_server_metrics_{name}_total{{listener=\"SASL_PLAINTEXT\"}} 1");
        assert!(text.contains(&line), "{text}");
    }
    broker.shutdown();
}

#[test]
fn secrets_come_from_files_and_are_not_stored_by_requests() {
    use incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
    let dir = tempfile::tempdir().unwrap();
    let secrets = tempfile::tempdir().unwrap();
    let file = secrets.path().join("users.properties");
    std::fs::write(&file, "alice=wonder\nnew=land\n").unwrap();
    let users = |key: &str| {
        format!(
            "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"${{file:{}:{key}}}\";",
            file.display()
        )
    };
    let key = "listener.name.sasl_plaintext.plain.sasl.jaas.config";
    let broker = start_sasl(dir.path(), &[(key, &users("alice"))]);
    assert_eq!(log_in(&mut client(&broker), "alice", "wonder").error_code, 0);
    let mut admin = Client::connect(&broker.listener("PLAINTEXT").to_string());
    let mut set = |name: &str, value: &str| {
        let request = IncrementalAlterConfigsRequest {
            resources: vec![AlterConfigsResource {
                resource_type: 4,
                resource_name: "1".into(),
                configs: vec![AlterableConfig {
                    name: name.into(),
                    value: Some(value.into()),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        admin
            .call(&request, 1)
            .responses
            .remove(0)
            .error_message
            .unwrap_or_default()
    };
    assert!(set(key, USERS).contains("is not stored in clear"));
    assert!(set("ssl.keystore.location", "/x").contains("for single listeners only"));
    assert_eq!(set(key, &users("new")), "");
    assert_eq!(log_in(&mut client(&broker), "alice", "land").error_code, 0);
    assert_ne!(log_in(&mut client(&broker), "alice", "wonder").error_code, 0);
    broker.shutdown();
}
