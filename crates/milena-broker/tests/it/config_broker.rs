//! Settings of the broker: values and checks.

use milena_broker::config::{BrokerConfig, BrokerOverrides, Listener, SecurityProtocol};

use crate::{broker, raw};

#[test]
fn a_broker_without_settings_works() {
    let config = broker(&[]).unwrap();
    assert_eq!(
        (config.node_id, config.num_partitions, config.default_replication_factor),
        (1, 1, 1)
    );
    assert!(config.auto_create_topics_enable && config.delete_topic_enable && !config.strict_replication_factor);
    assert_eq!(
        (config.socket_request_max_bytes, config.fetch_max_bytes),
        (104_857_600, 57_671_680)
    );
    assert_eq!((config.rack, config.log_dirs), (None, vec![]));
    let expected = Listener {
        name: "PLAINTEXT".to_owned(),
        protocol: SecurityProtocol::Plaintext,
        host: "127.0.0.1".to_owned(),
        port: 9092,
    };
    assert_eq!(config.advertised_listeners, config.listeners);
    assert_eq!(config.listeners, [expected]);
}

#[test]
fn settings_reach_their_fields() {
    let config = broker(&[
        ("broker.id", " 7"),
        ("broker.rack", "r1"),
        ("log.dir", "/a,/b"),
        ("listeners", "IN://:19092, PLAINTEXT://127.0.0.1:0"),
        ("advertised.listeners", "IN://example.org:1"),
        ("listener.security.protocol.map", "IN:PLAINTEXT,PLAINTEXT:PLAINTEXT"),
        ("log.cleaner.min.cleanable.ratio", "1e-1"),
        ("group.max.size", "5"),
        ("max.connections.per.ip.overrides", "localhost:7, ::1:8"),
        ("milena.strict.replication.factor", "TRUE"),
    ])
    .unwrap();
    assert_eq!((config.node_id, config.rack.as_deref()), (7, Some("r1")));
    assert_eq!(config.log_dirs, ["/a", "/b"]);
    assert_eq!(
        config
            .listeners
            .iter()
            .map(|listener| listener.port)
            .collect::<Vec<_>>(),
        [19092, 0]
    );
    assert_eq!(config.advertised_listeners[0].host, "example.org");
    assert_eq!(config.topic_defaults.min_cleanable_dirty_ratio, 0.1);
    assert!(config.strict_replication_factor);
    let limits = [("localhost".to_owned(), 7), ("::1".to_owned(), 8)];
    assert_eq!(config.max_connections_per_ip_overrides, limits);
    assert_eq!(config.get::<i32>("group.max.size"), Ok(5));
    assert_eq!(
        config.get::<String>("group.consumer.migration.policy").as_deref(),
        Ok("bidirectional")
    );
}

#[test]
fn what_is_set_at_run_time_wins() {
    let mut overrides = BrokerOverrides::fixed(raw(&[("log.retention.ms", "1"), ("max.connections", "1")]));
    overrides.dynamic_default = raw(&[("log.retention.ms", "2")]);
    let config = BrokerConfig::resolve(overrides.clone()).unwrap();
    assert_eq!((config.topic_defaults.retention_ms, config.max_connections), (2, 1));
    overrides.dynamic = raw(&[("log.retention.ms", "3")]);
    assert_eq!(BrokerConfig::resolve(overrides).unwrap().topic_defaults.retention_ms, 3);
}

#[test]
fn what_is_wrong_with_one_key_is_said() {
    for (settings, message) in [
        (
            &[("num.partition", "1")][..],
            "num.partition (code) is not a key of the broker; did you mean num.partitions?",
        ),
        (
            &[("process.roles", "broker")],
            "process.roles (code) is not supported: the broker is the only node and needs no quorum of controllers",
        ),
        (
            &[("num.io.threads", "9")],
            "num.io.threads (code) is not supported: the runtime decides on the number of threads",
        ),
        (
            &[("num.partitions", "0")],
            "num.partitions (code) cannot be \"0\"; it must be at least 1",
        ),
        (
            &[("log.retention.hours", "0")],
            "log.retention.hours cannot be \"0\": it must be at least 1, or -1 for unlimited",
        ),
        (
            &[("log.roll.ms", "0")],
            "log.roll.ms (code) cannot be \"0\"; it must be at least 1",
        ),
        (
            &[("group.coordinator.rebalance.protocols", "consumer")],
            "group.coordinator.rebalance.protocols cannot be \"consumer\": classic must be included",
        ),
        (
            &[("group.consumer.assignors", "range,foo")],
            "group.consumer.assignors cannot be \"range,foo\": the assignors of this broker are uniform, range",
        ),
        (
            &[("max.connections.per.ip.overrides", "x")],
            "max.connections.per.ip.overrides cannot be \"x\": it must be a list of host:limit",
        ),
        (
            &[("log.dirs", "/a,,/b")],
            "log.dirs (code) cannot be \"/a,,/b\"; it must be a comma-separated list without empty elements",
        ),
        (
            &[("group.consumer.migration.policy", "never")],
            "group.consumer.migration.policy (code) cannot be \"never\"; it must be \
             one of disabled, downgrade, upgrade, bidirectional",
        ),
        (
            &[("ssl.provider", "secret")],
            "ssl.provider (code) is not supported: the broker does not use Java's TLS",
        ),
    ] {
        assert_eq!(broker(settings).unwrap_err().to_string(), message);
    }
}

#[test]
fn what_is_wrong_with_several_keys_or_with_a_listener_is_said() {
    for (settings, message) in [
        (
            &[("node.id", "1"), ("broker.id", "2")][..],
            "node.id=1 (code) conflicts with broker.id=2 (code): both are names of the same key; remove one of them",
        ),
        (
            &[("log.dirs", "/a"), ("log.dir", "/b")],
            "log.dirs=/a (code) conflicts with log.dir=/b (code): both are names of the same key; remove one of them",
        ),
        (
            &[("group.consumer.session.timeout.ms", "1000")],
            "group.consumer.session.timeout.ms=1000 (code) conflicts with \
             group.consumer.min.session.timeout.ms=45000 (default): it is below the minimum",
        ),
        (
            &[("queued.max.request.bytes", "5")],
            "queued.max.request.bytes=5 (code) conflicts with socket.request.max.bytes=104857600 (default): the largest request must fit",
        ),
        (
            &[("listeners", "")],
            "listeners cannot be \"\": at least one listener is required",
        ),
        (
            &[("listeners", "PLAINTEXT://0.0.0.0:9092")],
            "advertised.listeners cannot be \"PLAINTEXT://0.0.0.0:9092\": clients cannot connect to a wildcard address",
        ),
        (
            &[("advertised.listeners", "PLAINTEXT://0.0.0.0:9092")],
            "advertised.listeners cannot be \"PLAINTEXT://0.0.0.0:9092\": clients cannot connect to a wildcard address",
        ),
        (
            &[("advertised.listeners", "SSL://localhost:9092")],
            "advertised.listeners cannot be \"SSL://localhost:9092\": no listener has this name",
        ),
    ] {
        assert_eq!(broker(settings).unwrap_err().to_string(), message);
    }
}
