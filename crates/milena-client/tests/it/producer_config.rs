//! Configurations of the producer, and the errors about invalid ones.

use milena_client::config::{
    Acks, ConfigErrors, ConfigMap, MetadataRecovery, Note, PartitionerName, ProducerConfig, Source,
};
use milena_wire::compression::Codec;

fn resolve(settings: &[(&str, &str)]) -> Result<ProducerConfig, ConfigErrors> {
    let mut map = ConfigMap::from([("bootstrap.servers", "localhost:9092")]);
    map.extend(settings.iter().copied());
    ProducerConfig::resolve(&map)
}

fn check_errors(settings: &[(&str, &str)], expected: &[&str]) {
    let text = resolve(settings).map_or_else(|errors| errors.to_string(), |_| String::new());
    assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{settings:?}");
}

#[test]
fn defaults_are_kafkas() {
    let config = ProducerConfig::builder("localhost:9092").build().unwrap();
    assert_eq!((config.acks, config.retries), (Acks::All, 2_147_483_647));
    assert!(config.enable_idempotence);
    assert_eq!((config.transactional_id, config.transaction_timeout_ms), (None, 60_000));
    assert_eq!(
        (config.delivery_timeout_ms, config.request_timeout_ms),
        (120_000, 30_000)
    );
    assert_eq!(config.max_in_flight_requests_per_connection, 5);
    assert_eq!((config.batch_size, config.linger_ms), (16_384, 5));
    assert_eq!((config.buffer_memory, config.max_block_ms), (32 << 20, 60_000));
    assert_eq!(config.max_request_size, 1 << 20);
    assert_eq!(config.compression, Codec::None.into());
    assert_eq!(config.partitioner, PartitionerName::BuiltIn);
    assert!(config.partitioner_adaptive_partitioning_enable && !config.partitioner_ignore_keys);
    assert_eq!(config.partitioner_availability_timeout_ms, None);
    assert_eq!((config.retry_backoff_ms, config.retry_backoff_max_ms), (100, 1000));
    assert_eq!(
        (config.reconnect_backoff_ms, config.reconnect_backoff_max_ms),
        (50, 1000)
    );
    assert_eq!(
        (
            config.socket_connection_setup_timeout_ms,
            config.socket_connection_setup_timeout_max_ms
        ),
        (10_000, 30_000)
    );
    assert_eq!(config.connections_max_idle_ms, Some(540_000));
    assert_eq!((config.receive_buffer_bytes, config.send_buffer_bytes), (None, None));
    assert_eq!(
        (config.metadata_max_age_ms, config.metadata_max_idle_ms),
        (300_000, 300_000)
    );
    assert_eq!(config.metadata_recovery, MetadataRecovery::Rebootstrap);
    assert_eq!(config.metadata_recovery_rebootstrap_trigger_ms, 300_000);
    assert_eq!(
        (config.metrics_num_samples, config.metrics_sample_window_ms),
        (2, 30_000)
    );
    assert_eq!(config.notes, []);
}

#[test]
fn all_errors_are_reported_at_once() {
    check_errors(
        &[
            ("lingr.ms", "5"),
            ("batch.size", "large"),
            ("group.id", "g"),
            ("sasl.kerberos.keytab", "/secret"),
            ("interceptor.classes", "com.example.Spy"),
            ("delivery.timeout.ms", "1000"),
        ],
        &[
            "group.id (code) is a key of the consumer, not of the producer; move it to the configuration of the consumer",
            "lingr.ms (code) is not a key of the producer; did you mean linger.ms?",
            "batch.size (code) cannot be \"large\"; it must be a 32-bit integer",
            "interceptor.classes (code) is not supported: interceptors are given in code, not as Java classes",
            "sasl.kerberos.keytab (code) is not supported: Kerberos (GSSAPI) is not supported; use SCRAM-SHA-512, \
             OAUTHBEARER, PLAIN or a client certificate",
            "delivery.timeout.ms=1000 (code) conflicts with request.timeout.ms=30000 (default): a record waits up to \
             linger.ms to be sent and up to request.timeout.ms for the response; make delivery.timeout.ms at least their sum",
        ],
    );
}

#[test]
fn idempotence_is_not_given_up_by_who_asked_for_it() {
    check_errors(
        &[("enable.idempotence", "true"), ("acks", "1"), ("retries", "0")],
        &[
            "enable.idempotence=true (code) conflicts with retries=0 (code): idempotence needs retries; \
             set retries above 0, or enable.idempotence=false",
            "enable.idempotence=true (code) conflicts with acks=1 (code): idempotence needs the acknowledgement of \
             all in-sync replicas; set acks=all, or enable.idempotence=false",
        ],
    );
    check_errors(
        &[("max.in.flight.requests.per.connection", "6")],
        &[
            "max.in.flight.requests.per.connection=6 (code) conflicts with enable.idempotence=true (default): a broker \
             remembers the last 5 batches of a producer; set at most 5, or enable.idempotence=false",
        ],
    );
    check_errors(
        &[("transactional.id", "t"), ("acks", "1")],
        &[
            "transactional.id=t (code) conflicts with acks=1 (code): transactions need an idempotent producer; leave \
             enable.idempotence, acks and retries out, or transactional.id",
        ],
    );
    let config = resolve(&[("acks", "1")]).unwrap();
    assert!(!config.enable_idempotence);
    let idempotence = config.settings().iter().find(|one| one.key == "enable.idempotence");
    let idempotence = idempotence.unwrap();
    assert_eq!(
        (idempotence.value.as_str(), &idempotence.source),
        ("false", &Source::Default)
    );
}

#[test]
fn a_broken_value_is_one_error() {
    check_errors(
        &[
            ("acks", "most"),
            ("enable.idempotence", "true"),
            ("transactional.id", "t"),
        ],
        &["acks (code) cannot be \"most\"; it must be one of all, -1, 0, 1"],
    );
    check_errors(
        &[("linger.ms", "soon"), ("delivery.timeout.ms", "1")],
        &["linger.ms (code) cannot be \"soon\"; it must be a 64-bit integer"],
    );
}

#[test]
fn guarantees_are_one_call() {
    let builder = || ProducerConfig::builder("localhost:9092");
    let config = builder().at_most_once().build().unwrap();
    assert_eq!(
        (config.acks, config.retries, config.enable_idempotence),
        (Acks::None, 0, false)
    );
    let config = builder().at_least_once().build().unwrap();
    assert_eq!((config.acks, config.enable_idempotence), (Acks::All, true));
    let config = builder().exactly_once("copier-1").build().unwrap();
    assert_eq!(config.transactional_id.as_deref(), Some("copier-1"));
    assert_eq!(config.client_id, "producer-copier-1");
    assert!(builder().exactly_once("copier-1").at_most_once().build().is_err());
}

#[test]
fn librdkafkas_names_mean_the_same() {
    let config = resolve(&[
        ("metadata.broker.list", "a:1,b:2"),
        ("request.required.acks", "-1"),
        ("queue.buffering.max.ms", "50"),
        ("queue.buffering.max.kbytes", "1024"),
        ("message.timeout.ms", "0"),
        ("message.send.max.retries", "3"),
        ("message.max.bytes", "2000000"),
        ("max.in.flight", "2"),
        ("compression.codec", "zstd"),
        ("partitioner", "consistent_random"),
        ("batch.num.messages", "10000"),
        ("socket.send.buffer.bytes", "0"),
        ("statistics.interval.ms", "0"),
    ])
    .unwrap();
    assert_eq!((config.acks, config.linger_ms, config.retries), (Acks::All, 50, 3));
    assert_eq!((config.buffer_memory, config.max_request_size), (1 << 20, 2_000_000));
    assert_eq!(config.delivery_timeout_ms, i32::MAX);
    assert_eq!(config.max_in_flight_requests_per_connection, 2);
    assert_eq!(config.compression, Codec::Zstd.into());
    assert_eq!(config.partitioner, PartitionerName::ConsistentRandom);
    assert_eq!(config.send_buffer_bytes, None);
    assert!(config.notes.iter().any(|note| matches!(
        note,
        Note::OtherName { key, meant: "linger.ms", .. } if key == "queue.buffering.max.ms"
    )));
    check_errors(
        &[
            ("batch.num.messages", "500"),
            ("dr_cb", "f"),
            ("enable.partition.eof", "true"),
        ],
        &[
            "dr_cb (code) is not supported: callbacks are given in code",
            "enable.partition.eof (code) is a key of the consumer, not of the producer; move it to the configuration of \
             the consumer",
            "batch.num.messages (code) is not supported: batches are measured in bytes; use batch.size",
        ],
    );
}

#[test]
fn wrong_names_lead_to_right_ones() {
    for (wrong, right) in [
        ("ack", "acks"),
        ("compression", "compression.type"),
        ("spring.kafka.producer.batch-sizes", "batch.size"),
        ("buffer_memry", "buffer.memory"),
        ("transaction.id", "transactional.id"),
        ("ms.linger", "linger.ms"),
        ("max.inflight.requests", "max.in.flight.requests.per.connection"),
    ] {
        let errors = resolve(&[(wrong, "1")]).unwrap_err().to_string();
        assert_eq!(
            errors,
            format!("{wrong} (code) is not a key of the producer; did you mean {right}?")
        );
    }
    check_errors(
        &[("colour", "red")],
        &["colour (code) is not a key of the producer; docs/producer-config.md lists all keys"],
    );
}

#[test]
fn partitioners_have_names_and_classes() {
    for (text, expected) in [
        ("murmur2", PartitionerName::Murmur2),
        ("murmur2_random", PartitionerName::Murmur2Random),
        ("consistent", PartitionerName::Consistent),
        ("fnv1a", PartitionerName::Fnv1a),
        ("fnv1a_random", PartitionerName::Fnv1aRandom),
        ("random", PartitionerName::Random),
        ("round_robin", PartitionerName::RoundRobin),
        (
            "org.apache.kafka.clients.producer.RoundRobinPartitioner",
            PartitionerName::RoundRobin,
        ),
    ] {
        let config = resolve(&[("partitioner.class", text)]).unwrap();
        assert_eq!(config.partitioner, expected);
        let again = ProducerConfig::builder("a:1").partitioner(expected).build().unwrap();
        assert_eq!(again.partitioner, expected);
    }
    check_errors(
        &[("partitioner.class", "com.example.Mine")],
        &[
            "partitioner.class (code) cannot be \"com.example.Mine\"; it must be one of consistent, consistent_random, fnv1a, \
             fnv1a_random, murmur2, murmur2_random, random, round_robin, entity, tenant, region, composite, time_bucket, \
             hot_keys, or Kafka's RoundRobinPartitioner; another partitioner is given in code",
        ],
    );
}

#[test]
fn files_are_read_as_for_the_consumer() {
    let properties = "acks = all\ncompression.type=gzip\ncompression.gzip.level = 7\n\
                      value.serializer=org.apache.kafka.common.serialization.StringSerializer";
    let mut map = ConfigMap::parse_properties(properties, "app.properties").unwrap();
    map.merge(ConfigMap::parse_toml("bootstrap.servers = [\"a:1\", \"b:2\"]\nlinger.ms = 7", "app.toml").unwrap());
    let config = ProducerConfig::try_from(map).unwrap();
    assert_eq!((config.bootstrap_servers.len(), config.linger_ms), (2, 7));
    assert_eq!(config.compression.level(), Some(7));
}

#[test]
fn clients_without_a_name_get_one() {
    let name = || resolve(&[]).unwrap().client_id;
    let (first, second) = (name(), name());
    assert!(first.starts_with("producer-") && first != second, "{first} {second}");
    assert_eq!(resolve(&[("client.id", "mine")]).unwrap().client_id, "mine");
}

#[test]
fn partitioners_have_parameters() {
    for (class, key, value) in [
        ("entity", "milena.partitioner.field", "header:customer"),
        ("region", "milena.partitioner.regions", "eu=0-3,us=4-7,us=9"),
        ("composite", "milena.partitioner.fields", "header:country,key[0]"),
        ("tenant", "milena.partitioner.spread", "3"),
        ("time_bucket", "milena.partitioner.bucket.ms", "60000"),
        ("hot_keys", "milena.partitioner.hot.records.per.minute", "500"),
    ] {
        let config = resolve(&[("partitioner.class", class), (key, value)]).unwrap();
        assert_eq!(config.partitioner.to_string(), class);
    }
    check_errors(
        &[
            ("partitioner.class", "region"),
            ("milena.partitioner.regions", "eu=3-0"),
        ],
        &[
            "milena.partitioner.regions (code) cannot be \"eu=3-0\"; it must be a list of region=partition or \
           region=first-last, as in eu=0-3,us=4-11,us=20",
        ],
    );
    check_errors(
        &[("partitioner.class", "region")],
        &["milena.partitioner.regions is missing; set it as in eu=0-3,us=4-11 for partitioner.class=region"],
    );
    for settings in [
        &[("partitioner.class", "region")][..],
        &[("partitioner.class", "entity")],
        &[("partitioner.class", "composite")],
        &[("partitioner.class", "tenant"), ("milena.partitioner.field", "key")],
        &[("milena.partitioner.spread", "3")],
    ] {
        let errors = resolve(settings).unwrap_err().to_string();
        assert!(errors.contains("milena.partitioner."), "{settings:?}: {errors}");
    }
}
