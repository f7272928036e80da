//! TLS: data, certificates of clients, reload, wrong clients.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use milena_security::tls::rustls::{ClientConfig, HandshakeKind};
use milena_wire::{errors::ErrorCode, messages::*};

use crate::{
    client::{batch, fetch_request, values},
    listeners::{metrics, start_with_metrics},
    running::Running,
    tls_client::{TestCa, connect_tls, tls_client},
};

fn start_ssl(dir: &Path, ca: &TestCa, settings: &[(&str, &str)]) -> Running {
    let keystore = ca.write("server.pem", "broker");
    let (keystore, truststore) = (keystore.display().to_string(), ca.ca_file().display().to_string());
    let mut all = vec![
        ("listeners", "SSL://127.0.0.1:0"),
        ("ssl.keystore.location", &keystore),
        ("ssl.truststore.location", &truststore),
    ];
    all.extend(settings);
    start_with_metrics(dir, &all)
}

/// The certificate that a broker shows.
fn certificate(address: SocketAddr, config: &Arc<ClientConfig>) -> Vec<u8> {
    let mut socket = connect_tls(address, config);
    socket.conn.complete_io(&mut socket.sock).unwrap();
    socket.conn.peer_certificates().unwrap()[0].to_vec()
}

#[test]
fn records_of_all_sizes_travel_under_tls() {
    let (dir, ca) = (tempfile::tempdir().unwrap(), TestCa::new());
    let broker = start_ssl(dir.path(), &ca, &[]);
    let config = ca.client_config(None);
    let mut client = tls_client(broker.listener("SSL"), &config);
    client.create_topic("letters", 1, &[("max.message.bytes", "20000000")]);
    let mut sent = vec![];
    for size in [1, 700, 16_384, 100_000, 1_500_000, 6_000_000] {
        let value = "x".repeat(size);
        assert_eq!(client.produce("letters", 0, batch(&[&value])).error_code, 0);
        sent.push(value);
    }
    let mut received = vec![];
    while received.len() < sent.len() {
        let offset = i64::try_from(received.len()).unwrap();
        let records: Bytes = client.fetch("letters", 0, offset).records.unwrap();
        received.extend(values(&records).into_iter().map(|(_, value)| value));
    }
    assert!(received == sent);
    let mut in_one = fetch_request("letters", 0, 0);
    in_one.max_bytes = 50 << 20;
    client.call(&in_one, 12);
    broker.shutdown();
}

#[test]
fn sessions_are_resumed() {
    let (dir, ca) = (tempfile::tempdir().unwrap(), TestCa::new());
    let broker = start_ssl(dir.path(), &ca, &[]);
    let config = ca.client_config(None);
    let mut kinds = vec![];
    for _ in 0..2 {
        let mut socket = connect_tls(broker.listener("SSL"), &config);
        // A request and its response: the tickets come with it.
        let frame = milena_wire::frame::encode_request(&MetadataRequest::default(), 12, 1, None).unwrap();
        socket.write_all(&frame.into_bytes()).unwrap();
        let mut length = [0; 4];
        socket.read_exact(&mut length).unwrap();
        kinds.push(socket.conn.handshake_kind());
    }
    assert_eq!(kinds, [Some(HandshakeKind::Full), Some(HandshakeKind::Resumed)]);
    let text = metrics(&broker);
    for kind in ["full", "resumed"] {
        let line = format!("milena_broker_tls_handshakes_total{{listener=\"SSL\",kind=\"{kind}\"}} 1");
        assert!(text.contains(&line), "{text}");
    }
    assert!(
        text.contains("milena_broker_certificate_expiry_days{listener=\"SSL\"}"),
        "{text}"
    );
    broker.shutdown();
}

#[test]
fn a_client_needs_a_certificate_where_the_broker_requires_one() {
    let (dir, ca) = (tempfile::tempdir().unwrap(), TestCa::new());
    let rules = ("ssl.principal.mapping.rules", "RULE:^CN=a(.*)$/$1/U");
    let authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    let settings = [
        ("ssl.client.auth", "required"),
        rules,
        ("authorizer.class.name", authorizer),
        ("super.users", "User:LICE"),
    ];
    let broker = start_ssl(dir.path(), &ca, &settings);
    let address = broker.listener("SSL");
    let is_served = |config: &Arc<ClientConfig>| {
        let mut client = tls_client(address, config);
        client.try_call(&MetadataRequest::default(), 12).is_some()
    };
    assert!(!is_served(&ca.client_config(None)));
    let (alice, bob) = (ca.write("alice.pem", "alice"), ca.write("bob.pem", "bob"));
    assert!(is_served(&ca.client_config(Some(&alice))));
    // Only the principal that the rule makes of alice may do this.
    tls_client(address, &ca.client_config(Some(&alice))).create_topic("letters", 1, &[]);
    // No rule gives a name for this one.
    assert!(!is_served(&ca.client_config(Some(&bob))));
    let text = metrics(&broker);
    let line = "milena_broker_connection_failures_total{listener=\"SSL\",reason=\"certificate\"} 2";
    assert!(text.contains(line), "{text}");
    broker.shutdown();
}

#[test]
fn a_listener_without_a_certificate_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let error = crate::running::try_start(dir.path(), &[("listeners", "SSL://127.0.0.1:0")])
        .err()
        .unwrap();
    assert!(error.to_string().contains("ssl.keystore.location"), "{error}");
}

fn set_keystore(address: SocketAddr, config: &Arc<ClientConfig>, path: &str) -> (i16, String) {
    use incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
    let request = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: 4,
            resource_name: "1".into(),
            configs: vec![AlterableConfig {
                name: "listener.name.ssl.ssl.keystore.location".into(),
                config_operation: 0,
                value: Some(path.into()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let response = tls_client(address, config).call(&request, 1).responses.remove(0);
    (
        response.error_code,
        response.error_message.unwrap_or_default().to_string(),
    )
}

#[test]
fn a_certificate_changes_without_a_restart() {
    let (dir, ca) = (tempfile::tempdir().unwrap(), TestCa::new());
    let broker = start_ssl(dir.path(), &ca, &[]);
    let (address, config) = (broker.listener("SSL"), ca.client_config(None));
    let first = certificate(address, &config);

    // The same path is set again.
    let path = ca.write("server.pem", "broker").display().to_string();
    assert_eq!(set_keystore(address, &config, &path), (0, String::new()));
    let second = certificate(address, &config);
    assert_ne!(first, second);

    // Files that cannot be used are refused, and the listener keeps its certificate.
    let broken = ca.path().join("broken.pem").display().to_string();
    fs::write(&broken, "-----BEGIN CERTIFICATE-----\nnothing\n").unwrap();
    let (code, message) = set_keystore(address, &config, &broken);
    assert_eq!(code, ErrorCode::InvalidRequest.code(), "{message}");
    assert!(message.contains("listener SSL"), "{message}");
    assert_eq!(certificate(address, &config), second);

    // Another path, which survives a restart.
    let other = ca.write("other.pem", "broker").display().to_string();
    assert_eq!(set_keystore(address, &config, &other), (0, String::new()));
    let third = certificate(address, &config);
    assert_ne!(third, second);
    broker.shutdown();
    let broker = start_ssl(dir.path(), &ca, &[]);
    assert_eq!(certificate(broker.listener("SSL"), &config), third);

    // Files that change are noticed.
    ca.write("other.pem", "broker");
    while certificate(broker.listener("SSL"), &config) == third {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(metrics(&broker).contains("milena_broker_certificate_reloads_total{listener=\"SSL\"} 1"));
    broker.shutdown();
}

#[test]
fn clients_without_tls_are_counted_and_do_not_harm() {
    let (dir, ca) = (tempfile::tempdir().unwrap(), TestCa::new());
    let broker = start_ssl(dir.path(), &ca, &[("milena.authentication.timeout.ms", "300")]);
    let address = broker.listener("SSL");
    let request = milena_wire::frame::encode_request(&MetadataRequest::default(), 12, 1, None).unwrap();
    let request = request.into_bytes();
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &request,
        &[0x16, 3, 1, 0, 5, 9, 9, 9, 9, 9],
        &[],
    ] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(bytes).unwrap();
        // Ends, with an alert or without.
        let _ = stream.read_to_end(&mut vec![]);
    }
    let text = metrics(&broker);
    for reason in ["http", "plaintext_on_tls", "tls_handshake", "timeout"] {
        let line = format!("milena_broker_connection_failures_total{{listener=\"SSL\",reason=\"{reason}\"}} 1");
        assert!(text.contains(&line), "{reason}: {text}");
    }
    tls_client(address, &ca.client_config(None)).call(&MetadataRequest::default(), 12);
    broker.shutdown();
}

#[test]
fn the_oldest_connection_without_a_handshake_gives_way() {
    let (dir, ca) = (tempfile::tempdir().unwrap(), TestCa::new());
    let broker = start_ssl(dir.path(), &ca, &[("milena.max.unauthenticated.connections", "2")]);
    let address = broker.listener("SSL");
    let mut idle = vec![];
    for count in 1..=2 {
        idle.push(TcpStream::connect(address).unwrap());
        // The next one must not be younger.
        let line = format!("milena_broker_unauthenticated_connections {count}");
        while !metrics(&broker).contains(&line) {}
    }
    // It needs a place for a moment.
    tls_client(address, &ca.client_config(None)).call(&MetadataRequest::default(), 12);
    let mut first = idle.remove(0);
    first.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(first.read(&mut [0; 1]).unwrap(), 0);
    broker.shutdown();
}
