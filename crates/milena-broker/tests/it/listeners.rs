//! Several listeners: addresses, settings of their own, exposure, limits.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use milena_broker::{Options, StartError};
use milena_wire::messages::*;

use crate::{
    broker,
    client::Client,
    running::{Running, start, try_start, try_start_with},
};

const TWO: &[(&str, &str)] = &[
    ("listeners", "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0"),
    ("advertised.listeners", "OUTSIDE://kafka.example.org:19092"),
    ("listener.security.protocol.map", "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"),
];

fn client(broker: &Running, listener: &str) -> Client {
    Client::connect(&broker.listener(listener).to_string())
}

#[test]
fn clients_get_the_advertised_address_of_their_listener() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), TWO);
    let inside = broker.listener("INSIDE");
    for (listener, host, port) in [
        ("INSIDE", "127.0.0.1", inside.port()),
        ("OUTSIDE", "kafka.example.org", 19092),
    ] {
        let mut client = client(&broker, listener);
        let port = i32::from(port);
        let metadata = client.call(&MetadataRequest::default(), 12).brokers.remove(0);
        assert_eq!((&*metadata.host, metadata.port), (host, port));
        let cluster = client.call(&DescribeClusterRequest::default(), 0).brokers.remove(0);
        assert_eq!((&*cluster.host, cluster.port), (host, port));
        let request = FindCoordinatorRequest {
            coordinator_keys: vec!["group".into()],
            ..Default::default()
        };
        let coordinator = client.call(&request, 4).coordinators.remove(0);
        assert_eq!((&*coordinator.host, coordinator.port), (host, port));
    }
    broker.shutdown();
}

#[test]
fn a_listener_that_other_machines_can_reach_needs_authentication_or_a_setting() {
    let dir = tempfile::tempdir().unwrap();
    let exposed = [
        ("listeners", "PLAINTEXT://0.0.0.0:0"),
        ("advertised.listeners", "PLAINTEXT://localhost:9092"),
    ];
    let error = try_start(dir.path(), &exposed).err().unwrap();
    assert!(matches!(error, StartError::Unauthenticated { .. }), "{error}");
    let text = error.to_string();
    for part in ["PLAINTEXT", "0.0.0.0", "milena.allow.unauthenticated=true", "SASL_SSL"] {
        assert!(text.contains(part), "{text}");
    }
    let allowed = [exposed[0], exposed[1], ("milena.allow.unauthenticated", "true")];
    start(dir.path(), &allowed).shutdown();
    let with_login = [
        ("listeners", "SASL_PLAINTEXT://0.0.0.0:0"),
        ("advertised.listeners", "SASL_PLAINTEXT://localhost:9092"),
        ("sasl.enabled.mechanisms", "SCRAM-SHA-256"),
    ];
    start(dir.path(), &with_login).shutdown();
}

#[test]
fn settings_of_listeners_are_checked() {
    let plain = "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"secret\";";
    for (settings, problem) in [
        (
            &[("listener.name.other.ssl.client.auth", "required")][..],
            "listener.name.other.ssl.client.auth: the broker has no such listener; its listeners are plaintext",
        ),
        (
            &[("listener.name.plaintext.max.connections", "x")],
            "listener.name.plaintext.max.connections (code) cannot be \"x\"",
        ),
        (
            &[("listeners", "SASL_SSL://127.0.0.1:0")],
            "GSSAPI (Kerberos) is not supported",
        ),
        (
            &[
                ("listeners", "SASL_SSL://127.0.0.1:0"),
                ("sasl.enabled.mechanisms", "PLAIN"),
            ],
            "PLAIN is enabled but has no users; set listener.name.sasl_ssl.plain.sasl.jaas.config",
        ),
        (
            &[
                ("listeners", "SASL_SSL://127.0.0.1:0"),
                ("sasl.enabled.mechanisms", "PLAIN"),
                ("sasl.jaas.config", plain),
            ],
            "PLAIN is enabled but has no users",
        ),
        (
            &[
                ("listeners", "SASL_SSL://127.0.0.1:0"),
                ("sasl.enabled.mechanisms", "SCRAM-SHA-256"),
                ("listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config", plain),
            ],
            "SCRAM-SHA-256 needs ScramLoginModule",
        ),
        (
            &[
                ("listeners", "A://127.0.0.1:9092,B://localhost:9092"),
                ("listener.security.protocol.map", "A:PLAINTEXT,B:PLAINTEXT"),
            ],
            "another listener has the same port",
        ),
        (&[("log.dirs", "${env:MILENA_TEST_NOT_SET}")], "MILENA_TEST_NOT_SET"),
    ] {
        let error = broker(settings).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn no_listener_shows_its_secrets() {
    let plain = "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"hunter2\";";
    let config = broker(&[
        ("listeners", "SASL_PLAINTEXT://127.0.0.1:0"),
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.sasl_plaintext.plain.sasl.jaas.config", plain),
        ("ssl.key.password", "hunter2"),
    ])
    .unwrap();
    let shown = format!("{config:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_listener_has_as_many_connections_as_it_may() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = TWO.to_vec();
    settings.push(("listener.name.inside.max.connections", "1"));
    let broker = start(dir.path(), &settings);
    let mut first = client(&broker, "INSIDE");
    first.call(&MetadataRequest::default(), 12);
    let mut second = client(&broker, "INSIDE");
    second.send(&MetadataRequest::default(), 12);
    client(&broker, "OUTSIDE").call(&MetadataRequest::default(), 12);
    drop(first);
    second.receive::<MetadataRequest>(12);
    broker.shutdown();
}

#[test]
fn new_connections_come_at_the_rate_of_their_listener() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = TWO.to_vec();
    settings.push(("listener.name.inside.max.connection.creation.rate", "10"));
    let broker = start(dir.path(), &settings);
    let start = Instant::now();
    for _ in 0..15 {
        client(&broker, "INSIDE").call(&MetadataRequest::default(), 12);
    }
    assert!(start.elapsed() >= Duration::from_millis(400), "{:?}", start.elapsed());
    broker.shutdown();
}

/// The metrics of a broker, as text.
pub fn metrics(broker: &Running) -> String {
    let mut stream = TcpStream::connect(broker.metrics_address().unwrap()).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Starts a broker with a metrics endpoint.
pub fn start_with_metrics(dir: &std::path::Path, settings: &[(&str, &str)]) -> Running {
    let options = Options {
        metrics: Some("127.0.0.1:0".to_owned()),
        ..Options::default()
    };
    try_start_with(options, dir, settings).unwrap()
}

#[test]
fn clients_of_other_protocols_are_counted_by_what_they_speak() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start_with_metrics(dir.path(), &[]);
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]] {
        let mut stream = TcpStream::connect(&broker.address).unwrap();
        stream.write_all(bytes).unwrap();
        let mut rest = vec![];
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, [0; 0]);
    }
    let text = metrics(&broker);
    for reason in ["http", "tls_on_plaintext"] {
        let line = format!("milena_broker_connection_failures_total{{listener=\"PLAINTEXT\",reason=\"{reason}\"}} 1");
        assert!(text.contains(&line), "{text}");
    }
    broker.shutdown();
}

/// The settings of a listener as Kafka's documents have them for OAUTHBEARER.
#[test]
fn callback_handlers_of_kafka_are_accepted_and_others_refused() {
    let key = "listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class";
    let set = |class: &str| {
        broker(&[
            ("listeners", "SASL_SSL://127.0.0.1:0"),
            ("sasl.enabled.mechanisms", "OAUTHBEARER"),
            ("sasl.oauthbearer.jwks.endpoint.url", "https://login.example.org/keys"),
            (key, class),
        ])
    };
    set("org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler").unwrap();
    let error = set("com.example.Handler").unwrap_err().to_string();
    assert!(error.contains("Java classes cannot be loaded"), "{error}");
}
