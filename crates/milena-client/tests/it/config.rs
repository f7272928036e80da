//! Configurations of the consumer, and the errors about invalid ones.

use milena_client::config::{
    AssignorName, AutoOffsetReset, ConfigErrors, ConfigMap, ConsumerConfig, DeserializerName, GroupProtocol,
    IsolationLevel, MetadataRecovery, Note, Profile, ServerAddress, Source,
};

fn resolve(settings: &[(&str, &str)]) -> Result<ConsumerConfig, ConfigErrors> {
    let mut map = ConfigMap::from([("bootstrap.servers", "localhost:9092")]);
    map.extend(settings.iter().copied());
    ConsumerConfig::resolve(&map)
}

fn check_errors(settings: &[(&str, &str)], expected: &[&str]) {
    let text = resolve(settings).map_or_else(|errors| errors.to_string(), |_| String::new());
    assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{settings:?}");
}

#[test]
fn defaults_are_kafkas() {
    let config = ConsumerConfig::builder("localhost:9092").group_id("g").build().unwrap();
    assert_eq!(config.bootstrap_servers, [server("localhost", 9092)]);
    assert_eq!(
        (config.client_rack.as_deref(), config.group_instance_id.as_deref()),
        (None, None)
    );
    assert_eq!(
        config.group_protocol,
        GroupProtocol::Classic {
            session_timeout_ms: 45_000,
            heartbeat_interval_ms: 3000,
            assignors: vec![AssignorName::Range, AssignorName::CooperativeSticky],
        }
    );
    assert_eq!((config.max_poll_interval_ms, config.max_poll_records), (300_000, 500));
    assert_eq!(
        (config.enable_auto_commit, config.auto_commit_interval_ms),
        (true, 5000)
    );
    assert_eq!(config.auto_offset_reset, AutoOffsetReset::Latest);
    assert_eq!(config.isolation_level, IsolationLevel::ReadUncommitted);
    assert!(config.exclude_internal_topics && config.allow_auto_create_topics && config.check_crcs);
    assert_eq!(config.key_deserializer, DeserializerName::Bytes);
    assert_eq!((config.fetch_min_bytes, config.fetch_max_bytes), (1, 52_428_800));
    assert_eq!(
        (config.fetch_max_wait_ms, config.max_partition_fetch_bytes),
        (500, 1_048_576)
    );
    assert_eq!((config.fetch_buffer_bytes, config.profile), (32 << 20, None));
    assert_eq!(
        (config.default_api_timeout_ms, config.request_timeout_ms),
        (60_000, 30_000)
    );
    assert_eq!((config.retry_backoff_ms, config.retry_backoff_max_ms), (100, 1000));
    assert_eq!(
        (config.reconnect_backoff_ms, config.reconnect_backoff_max_ms),
        (50, 1000)
    );
    assert_eq!(config.socket_connection_setup_timeout_ms, 10_000);
    assert_eq!(config.socket_connection_setup_timeout_max_ms, 30_000);
    assert_eq!(config.connections_max_idle_ms, Some(540_000));
    assert_eq!((config.receive_buffer_bytes, config.send_buffer_bytes), (None, None));
    assert_eq!(
        (
            config.metadata_max_age_ms,
            config.metadata_recovery_rebootstrap_trigger_ms
        ),
        (300_000, 300_000)
    );
    assert_eq!(config.metadata_recovery, MetadataRecovery::Rebootstrap);
    assert_eq!(
        (config.metrics_num_samples, config.metrics_sample_window_ms),
        (2, 30_000)
    );
    assert_eq!(config.notes, []);
}

fn server(host: &str, port: u16) -> ServerAddress {
    let host = host.to_owned();
    ServerAddress { host, port }
}

#[test]
fn all_errors_are_reported_at_once() {
    check_errors(
        &[
            ("max.poll.recods", "5"),
            ("max.poll.records", "many"),
            ("heartbeat.interval.ms", "50000"),
            ("acks", "all"),
            ("ssl.engine.factory.class", "com.example.Engine"),
            ("interceptor.classes", "com.example.Spy"),
        ],
        &[
            "acks (code) is a key of the producer, not of the consumer; move it to the configuration of the producer",
            "max.poll.recods (code) is not a key of the consumer; did you mean max.poll.records?",
            "interceptor.classes (code) is not supported: interceptors are given in code, not as Java classes",
            "max.poll.records (code) cannot be \"many\"; it must be a 32-bit integer",
            "ssl.engine.factory.class (code) is not supported: Java classes cannot be loaded",
            "heartbeat.interval.ms=50000 (code) conflicts with session.timeout.ms=45000 (default): several heartbeats \
             must fit into a session; set heartbeat.interval.ms to about a third of session.timeout.ms",
        ],
    );
}

#[test]
fn each_error_says_what_to_do() {
    for (key, value, expected) in [
        (
            "max.poll.records",
            "0",
            "max.poll.records (code) cannot be \"0\"; it must be at least 1",
        ),
        (
            "group.id",
            " ",
            "group.id (code) cannot be \" \"; it must be non-empty text; leave the key out if there is none",
        ),
        (
            "isolation.level",
            "serializable",
            "isolation.level (code) cannot be \"serializable\"; it must be one of read_committed, read_uncommitted",
        ),
        (
            "enable.auto.commit",
            "true",
            "enable.auto.commit=true (code) conflicts with group.id= (default): only a group has committed offsets; set \
             group.id, or leave enable.auto.commit out",
        ),
        (
            "bootstrap.servers",
            "kafka",
            "bootstrap.servers (code) cannot be \"kafka\"; it must be a list of host:port, as in kafka1:9092,[::1]:9092",
        ),
        (
            "security.protocol",
            "SASL_PLAINTEXT",
            "sasl.mechanism (default) cannot be used: its default is GSSAPI (Kerberos), which is not supported; set it to \
             PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
        ),
        (
            "auto.offset.reset",
            "by_duration:2h",
            "auto.offset.reset (code) cannot be \"by_duration:2h\"; it must be earliest, latest, none, or by_duration: and an \
             ISO-8601 duration, as in by_duration:P1DT12H",
        ),
    ] {
        check_errors(&[(key, value)], &[expected]);
    }
}

#[test]
fn missing_unknown_and_misspelt_values_are_reported() {
    for (key, value, expected) in [
        (
            "queued.max.messages.kbytes",
            "0",
            "queued.max.messages.kbytes (code) cannot be \"0\"; it must be at least 1024, counted in bytes",
        ),
        (
            "queued.max.messages.kbytes",
            "lots",
            "queued.max.messages.kbytes (code) cannot be \"lots\"; it must be a number of kilobytes",
        ),
        (
            "fetch.max.wait.ms",
            "30000",
            "fetch.max.wait.ms=30000 (code) conflicts with request.timeout.ms=30000 (default): a broker without new \
             records would respond after the request has timed out; make fetch.max.wait.ms smaller than request.timeout.ms",
        ),
        (
            "bootstrap.resolve.timeout.ms",
            "0",
            "bootstrap.resolve.timeout.ms (code) is not supported: it is a key of Kafka 4.4, and this client implements \
             Kafka 4.3",
        ),
        (
            "security.protocol",
            "TLS",
            "security.protocol (code) cannot be \"TLS\"; it must be one of sasl_ssl, plaintext, ssl, sasl_plaintext",
        ),
        (
            "zzz",
            "1",
            "zzz (code) is not a key of the consumer; docs/consumer-config.md lists all keys",
        ),
    ] {
        check_errors(&[(key, value)], &[expected]);
    }
    let nothing = ConsumerConfig::resolve(&ConfigMap::new()).unwrap_err().to_string();
    assert_eq!(
        nothing,
        "bootstrap.servers is missing; set it to host:port of a broker, several separated by commas"
    );
}

/// One mistake, one error: rules that depend on an invalid value are not checked.
#[test]
fn errors_do_not_breed() {
    for settings in [
        [("session.timeout.ms", "soon"), ("heartbeat.interval.ms", "50000")],
        [("group.id", ""), ("enable.auto.commit", "true")],
        [("group.protocol", "other"), ("session.timeout.ms", "45000")],
        [("reconnect.backoff.ms", "2000"), ("reconnect.backoff.max.ms", "x")],
        [("milena.profile", "fast"), ("fetch.min.bytes", "2")],
    ] {
        let errors = resolve(&settings).unwrap_err();
        assert_eq!(errors.iter().count(), 1, "{errors}");
    }
}

#[test]
fn each_protocol_has_its_own_keys() {
    let config = resolve(&[
        ("group.protocol", "Consumer"),
        ("group.id", "g"),
        ("group.remote.assignor", "uniform"),
    ]);
    let remote_assignor = Some("uniform".to_owned());
    assert_eq!(
        config.unwrap().group_protocol,
        GroupProtocol::Consumer { remote_assignor }
    );
    check_errors(
        &[
            ("group.protocol", "consumer"),
            ("session.timeout.ms", "45000"),
            ("heartbeat.interval.ms", "50000"),
        ],
        &[
            "heartbeat.interval.ms=50000 (code) conflicts with group.protocol=consumer (code): with \
             group.protocol=consumer the broker decides on this; set it there, or remove it",
            "session.timeout.ms=45000 (code) conflicts with group.protocol=consumer (code): with \
             group.protocol=consumer the broker decides on this; set it there, or remove it",
        ],
    );
    check_errors(
        &[
            ("group.remote.assignor", "uniform"),
            ("partition.assignment.strategy", ""),
        ],
        &[
            "group.remote.assignor=uniform (code) conflicts with group.protocol=classic (default): the broker assigns \
             only with group.protocol=consumer; use partition.assignment.strategy",
            "partition.assignment.strategy= (code) conflicts with group.protocol=classic (default): a member of the \
             group assigns and needs an assignor; name one, or leave the key out",
        ],
    );
}

#[test]
fn without_a_group_nothing_is_committed() {
    assert!(!resolve(&[]).unwrap().enable_auto_commit);
    assert!(!resolve(&[("enable.auto.commit", "false")]).unwrap().enable_auto_commit);
    assert!(resolve(&[("group.id", "g")]).unwrap().enable_auto_commit);
}

#[test]
fn profiles_give_way_to_what_is_set() {
    let values = |config: ConsumerConfig| {
        (
            config.fetch_min_bytes,
            config.fetch_max_wait_ms,
            config.max_poll_records,
            config.max_partition_fetch_bytes,
        )
    };
    let throughput = ConsumerConfig::builder("h:1")
        .profile(Profile::Throughput)
        .build()
        .unwrap();
    assert_eq!(values(throughput), (1_048_576, 500, 1000, 1_048_576));
    let latency = resolve(&[("milena.profile", "latency"), ("max.poll.records", "7")]).unwrap();
    let source = |key: &str| {
        latency
            .settings()
            .iter()
            .find(|setting| setting.key == key)
            .unwrap()
            .source
            .clone()
    };
    assert_eq!(source("fetch.max.wait.ms"), Source::Profile);
    assert_eq!(source("fetch.max.bytes"), Source::Default);
    assert_eq!(values(latency), (1, 50, 7, 262_144));
}

#[test]
fn librdkafkas_names_mean_the_same() {
    let config = resolve(&[
        ("metadata.broker.list", "a:1"),
        ("fetch.wait.max.ms", "7"),
        ("fetch.message.max.bytes", "8"),
        ("queued.max.messages.kbytes", "9"),
        ("socket.receive.buffer.bytes", "0"),
        ("socket.send.buffer.bytes", "10"),
        ("socket.timeout.ms", "11"),
        ("topic.metadata.refresh.interval.ms", "12"),
        ("auto.commit.enable", "false"),
        ("auto.offset.reset", "smallest"),
    ])
    .unwrap();
    // Set after bootstrap.servers, so it takes precedence.
    assert_eq!(config.bootstrap_servers, [server("a", 1)]);
    assert_eq!((config.fetch_max_wait_ms, config.max_partition_fetch_bytes), (7, 8));
    assert_eq!(config.fetch_buffer_bytes, 9 * 1024);
    assert_eq!(
        (config.receive_buffer_bytes, config.send_buffer_bytes),
        (None, Some(10))
    );
    assert_eq!((config.request_timeout_ms, config.metadata_max_age_ms), (11, 12));
    assert_eq!(config.auto_offset_reset, AutoOffsetReset::Earliest);
    assert_eq!(config.notes.len(), 10);
    let texts: Vec<_> = config.notes.iter().map(ToString::to_string).collect();
    assert!(
        texts.contains(&"fetch.wait.max.ms (code) is read as fetch.max.wait.ms".to_owned()),
        "{texts:?}"
    );
    assert!(
        texts.contains(&"auto.offset.reset (code): smallest is read as earliest".to_owned()),
        "{texts:?}"
    );
}

#[test]
fn policies_have_their_old_names() {
    for (name, policy) in [
        ("beginning", AutoOffsetReset::Earliest),
        ("largest", AutoOffsetReset::Latest),
        ("end", AutoOffsetReset::Latest),
        ("error", AutoOffsetReset::None),
    ] {
        assert_eq!(
            resolve(&[("auto.offset.reset", name)]).unwrap().auto_offset_reset,
            policy
        );
    }
}

#[test]
fn wrong_names_lead_to_right_ones() {
    for (wrong, right) in [
        ("min.fetch.bytes", "fetch.min.bytes"),
        ("auto.commit.offset", "enable.auto.commit"),
        ("bootstrap.server", "bootstrap.servers"),
        ("BOOTSTRAP_SERVERS", "bootstrap.servers"),
        ("zookeeper.connect", "bootstrap.servers"),
        ("spring.kafka.consumer.group-id", "group.id"),
        ("consumer.max.poll.records", "max.poll.records"),
        ("session.timeout", "session.timeout.ms"),
        ("poll.max.records", "max.poll.records"),
        ("isolation_level", "isolation.level"),
        ("milena.profil", "milena.profile"),
    ] {
        let text = resolve(&[(wrong, "1")]).unwrap_err().to_string();
        assert!(text.ends_with(&format!("did you mean {right}?")), "{text}");
    }
    let long = "é.".repeat(100_000);
    let text = resolve(&[(&long, "1")]).unwrap_err().to_string();
    assert!(text.ends_with("lists all keys"));
}

#[test]
fn java_classes_are_understood() {
    let package = "org.apache.kafka.common.serialization.";
    for (class, name) in [
        ("StringDeserializer", DeserializerName::String),
        ("ByteArrayDeserializer", DeserializerName::Bytes),
        ("BytesDeserializer", DeserializerName::Bytes),
        ("ByteBufferDeserializer", DeserializerName::Bytes),
        ("ShortDeserializer", DeserializerName::I16),
        ("IntegerDeserializer", DeserializerName::I32),
        ("LongDeserializer", DeserializerName::I64),
        ("FloatDeserializer", DeserializerName::F32),
        ("DoubleDeserializer", DeserializerName::F64),
        ("BooleanDeserializer", DeserializerName::Bool),
        ("UUIDDeserializer", DeserializerName::Uuid),
        ("VoidDeserializer", DeserializerName::Void),
    ] {
        let class = format!("{package}{class}");
        let config = resolve(&[("key.deserializer", &class), ("value.deserializer", "json")]).unwrap();
        assert_eq!(
            (config.key_deserializer, config.value_deserializer),
            (name, DeserializerName::Json)
        );
    }
    let avro = "io.confluent.kafka.serializers.KafkaAvroDeserializer";
    let text = resolve(&[("value.deserializer", avro)]).unwrap_err().to_string();
    assert!(text.contains("a deserializer of your own is given in code"), "{text}");

    let both = "range, org.apache.kafka.clients.consumer.RangeAssignor,sticky,sticky";
    let config = resolve(&[("partition.assignment.strategy", both)]).unwrap();
    let GroupProtocol::Classic { assignors, .. } = config.group_protocol else {
        panic!("classic is the default");
    };
    assert_eq!(assignors, [AssignorName::Range, AssignorName::Sticky]);
    assert!(matches!(&config.notes[..], [Note::Repeated { key, .. }] if key == "partition.assignment.strategy"));
}

#[test]
fn addresses_are_read_as_by_java() {
    let config = resolve(&[("bootstrap.servers", "PLAINTEXT://a_b.c:1, [::1]:2,::1:3")]).unwrap();
    assert_eq!(
        config.bootstrap_servers,
        [server("a_b.c", 1), server("::1", 2), server("::1", 3)]
    );
    assert_eq!(config.bootstrap_servers[1].to_string(), "[::1]:2");
    for wrong in ["SSL://a:1", "a:0", ":1", "a:+1", "[a:1", "a]:1", "a b:1", ""] {
        assert!(resolve(&[("bootstrap.servers", wrong)]).is_err(), "{wrong}");
    }
}

#[test]
fn a_single_pause_stays_what_it_is() {
    let config = resolve(&[("reconnect.backoff.ms", "2000")]).unwrap();
    assert_eq!(
        (config.reconnect_backoff_ms, config.reconnect_backoff_max_ms),
        (2000, 2000)
    );
    assert_eq!(
        resolve(&[("connections.max.idle.ms", "-1")])
            .unwrap()
            .connections_max_idle_ms,
        None
    );
}

#[test]
fn clients_without_a_name_get_one() {
    let named = |settings: &[(&str, &str)]| resolve(settings).unwrap().client_id;
    assert_eq!(named(&[("client.id", "mine")]), "mine");
    assert_eq!(named(&[("group.id", "g"), ("group.instance.id", "i")]), "consumer-g-i");
    let number = |id: &str, prefix: &str| id.strip_prefix(prefix).unwrap().parse::<u64>().unwrap();
    let first = number(&named(&[("group.id", "g")]), "consumer-g-");
    let second = number(&named(&[]), "consumer-");
    assert!(second > first);
}

/// The list of keys is complete.
#[test]
fn every_key_that_does_something_is_listed() {
    let config = resolve(&[("max.poll.records", "7"), ("security.protocol", "PLAINTEXT")]).unwrap();
    let line = |key: &str| {
        let setting = config.settings().iter().find(|setting| setting.key == key);
        setting.map(ToString::to_string)
    };
    assert_eq!(line("max.poll.records").as_deref(), Some("max.poll.records=7 (code)"));
    assert_eq!(
        line("enable.auto.commit").as_deref(),
        Some("enable.auto.commit=false (default)")
    );
    assert_eq!(
        line("client.id"),
        Some(format!("client.id={} (default)", config.client_id))
    );
    assert_eq!(
        line("security.protocol").as_deref(),
        Some("security.protocol=PLAINTEXT (code)")
    );
    assert_eq!(line("client.dns.lookup"), None);
}

#[test]
fn what_can_become_a_configuration_is_taken() {
    fn take<C>(config: C) -> Result<ConsumerConfig, ConfigErrors>
    where
        C: TryInto<ConsumerConfig>,
        ConfigErrors: From<C::Error>,
    {
        Ok(config.try_into()?)
    }
    let builder = ConsumerConfig::builder("h:1")
        .group_id("g")
        .group_instance_id("i")
        .client_id("c")
        .client_rack("r")
        .auto_offset_reset(AutoOffsetReset::None)
        .enable_auto_commit(false)
        .isolation_level(IsolationLevel::ReadCommitted)
        .max_poll_records(3)
        .assignors(&[AssignorName::RoundRobin, AssignorName::CooperativeSticky]);
    let config = take(builder.clone()).unwrap();
    let map = builder.clone().into_map();
    assert_eq!(take(&map).unwrap(), config);
    assert_eq!(take(map).unwrap(), config);
    assert_eq!(take(config.clone()).unwrap(), config);
    assert_eq!((config.client_rack.as_deref(), config.max_poll_records), (Some("r"), 3));
    assert!(take(builder.consumer_protocol()).is_err());
}

#[test]
fn secrets_are_not_shown() {
    let mut map = ConfigMap::new();
    map.set("security.protocol", "SASL_PLAINTEXT")
        .set("sasl.mechanism", "PLAIN")
        .set("sasl.jaas.config", "hunter2")
        .set("sasl.password", "hunter2")
        .set("group.id", "g");
    let text = format!("{map:?}{}", ConsumerConfig::resolve(&map).unwrap_err());
    assert!(!text.contains("hunter2"), "{text}");
    assert!(text.contains("\"g\""), "{text}");
    let twice = ConfigMap::parse_properties("ssl.key.password=a1b\nssl.key.password=c2d", "f").unwrap_err();
    assert!(
        !twice.to_string().contains("a1b") && !twice.to_string().contains("c2d"),
        "{twice}"
    );
}
