//! Client quotas: Kafka's tools on our broker, and one script of requests on our broker and on a real Kafka.

use std::time::{Duration, Instant};

use milena_wire::{errors::ErrorCode, messages::*};

use crate::{
    client::{Client, QuotaEntity, alter_quotas_request, batch, fetch_request, produce_request},
    kafka_tools::Bench,
    process::Process,
    programs::Kafka,
};

#[test]
fn quotas_are_managed_and_keep_a_producer_to_its_rate() {
    let bench = Bench::start();
    for (entity, config) in [
        (
            "users --entity-name alice",
            "producer_byte_rate=1024,request_percentage=50",
        ),
        ("users --entity-default", "consumer_byte_rate=2048"),
        (
            "users --entity-name alice --entity-type clients --entity-name app",
            "producer_byte_rate=4096",
        ),
        ("clients --entity-name app", "controller_mutation_rate=0.5"),
        ("ips --entity-name 10.1.2.3", "connection_creation_rate=7"),
        ("ips --entity-default", "connection_creation_rate=1000"),
    ] {
        let altered = bench.run(&format!("configs --alter --entity-type {entity} --add-config {config}"));
        assert!(altered.starts_with("Completed updating "), "{altered}");
    }
    let users = bench.run("configs --describe --entity-type users");
    let alice = users
        .lines()
        .find(|line| line.contains("user-principal 'alice'"))
        .unwrap();
    assert!(
        alice.contains("producer_byte_rate=1024.0") && alice.contains("request_percentage=50.0"),
        "{users}"
    );
    assert!(
        users.contains("the default user-principal are consumer_byte_rate=2048.0"),
        "{users}"
    );
    let both =
        bench.run("configs --describe --entity-type users --entity-name alice --entity-type clients --entity-name app");
    assert!(both.contains("producer_byte_rate=4096.0"), "{both}");
    let clients = bench.run("configs --describe --entity-type clients --entity-name app");
    assert!(
        clients.contains("client-id 'app' are controller_mutation_rate=0.5"),
        "{clients}"
    );
    let ips = bench.run("configs --describe --entity-type ips");
    assert!(
        ips.contains("10.1.2.3") && ips.contains("connection_creation_rate=7.0"),
        "{ips}"
    );
    let refused =
        bench.run_failing("configs --alter --entity-type users --entity-name alice --add-config producer_byte_rate=-5");
    assert!(refused.contains("must be greater than 0"), "{refused}");
    bench.run("configs --alter --entity-type users --entity-default --delete-config consumer_byte_rate");
    let users = bench.run("configs --describe --entity-type users");
    assert!(!users.contains("consumer_byte_rate"), "{users}");
    keeps_a_producer_to_its_rate(&bench);
    bench.end();
}

/// The client is told to wait, and all records arrive. How long that takes is not checked: machines differ.
fn keeps_a_producer_to_its_rate(bench: &Bench) {
    bench.run("topics --create --topic letters --partitions 1");
    bench.run("configs --alter --entity-type clients --entity-name perf-producer-client --add-config producer_byte_rate=100000");
    let perf = bench.run(
        "producer-perf --topic letters --num-records 1300 --record-size 1000 --throughput -1 --print-metrics \
         --command-property client.id=perf-producer-client",
    );
    assert!(perf.contains("1300 records sent"), "{perf}");
    let throttled = perf
        .lines()
        .find(|line| line.contains("produce-throttle-time-max"))
        .unwrap();
    let longest: f64 = throttled.rsplit(':').next().unwrap().trim().parse().unwrap();
    assert!(longest > 0.0, "{throttled}");
    assert_eq!(bench.run("get-offsets --topic letters"), "letters:0:1300\n");
}

/// A single test, because starting Kafka takes long.
#[test]
fn quotas_have_the_same_codes_and_effects_as_in_kafka() {
    let kafka = Kafka::start(19450);
    let dir = tempfile::tempdir().unwrap();
    let ours = Process::start(dir.path(), &[]);
    for script in [codes, mutations, bytes] {
        let (expected, got) = (script(&kafka.address()), script(&ours.address));
        assert_eq!(got, expected);
    }
    assert!(ours.terminate().success());
}

type Values<'a> = &'a [(&'a str, Option<f64>)];
type Components<'a> = &'a [(&'a str, i8, Option<&'a str>)];

fn alter(address: &str, entity: QuotaEntity<'_>, ops: &[(&str, Option<f64>)], validate_only: bool) -> Vec<i16> {
    let request = alter_quotas_request(entity, ops, validate_only);
    let response = Client::connect(address).call(&request, 0);
    response.entries.iter().map(|entry| entry.error_code).collect()
}

/// The error code of a query, and the number of entities that it finds.
fn find(address: &str, strict: bool, filters: &[(&str, i8, Option<&str>)]) -> (i16, usize) {
    let request = DescribeClientQuotasRequest {
        components: filters
            .iter()
            .map(
                |(entity_type, match_type, name)| describe_client_quotas_request::ComponentData {
                    entity_type: (*entity_type).into(),
                    match_type: *match_type,
                    r#match: name.map(Into::into),
                    ..Default::default()
                },
            )
            .collect(),
        strict,
        ..Default::default()
    };
    // Kafka has an empty message without an error in the newest version.
    let response = Client::connect(address).call(&request, 0);
    (response.error_code, response.entries.map_or(0, |entries| entries.len()))
}

/// Waits until a condition holds. Kafka's brokers learn of a change after the response to it.
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The codes of changes and queries, good and bad.
fn codes(address: &str) -> Vec<String> {
    let mut lines = vec![];
    let user: QuotaEntity<'_> = &[("user", Some("a"))];
    let ip: QuotaEntity<'_> = &[("ip", Some("127.0.0.1"))];
    let rate = "producer_byte_rate";
    let changes: &[(QuotaEntity<'_>, Values<'_>)] = &[
        (user, &[(rate, Some(1e6)), ("request_percentage", Some(0.5))]),
        (user, &[(rate, Some(2e6))]),
        (&[("user", None)], &[("consumer_byte_rate", Some(1e9))]),
        (&[("user", Some("a")), ("client-id", Some("b"))], &[(rate, Some(1e9))]),
        (&[("user", Some("a")), ("client-id", None)], &[(rate, Some(1e9))]),
        (&[("client-id", Some("b"))], &[("controller_mutation_rate", Some(1e3))]),
        (&[("user", Some("with spaces & ümlauts"))], &[(rate, Some(1e9))]),
        (ip, &[("connection_creation_rate", Some(1e6))]),
        (&[("ip", None)], &[("connection_creation_rate", Some(1e6))]),
        (user, &[("no_such_key", None)]),
        (&[("user", Some("unknown"))], &[(rate, None)]),
        (&[], &[(rate, Some(1.0))]),
        (&[("other", Some("a"))], &[(rate, Some(1.0))]),
        (&[("user", Some(""))], &[(rate, Some(1.0))]),
        (
            &[("ip", Some("127.0.0.1")), ("user", Some("a"))],
            &[("connection_creation_rate", Some(1.0))],
        ),
        (
            &[("ip", Some("no.such.host.invalid"))],
            &[("connection_creation_rate", Some(1.0))],
        ),
        (user, &[("no_such_key", Some(1.0))]),
        (user, &[("connection_creation_rate", Some(1.0))]),
        (ip, &[(rate, Some(1.0))]),
        (user, &[(rate, Some(0.0))]),
        (user, &[(rate, Some(-1.0))]),
        (user, &[(rate, Some(1.5))]),
        (user, &[(rate, Some(1e19))]),
        (ip, &[("connection_creation_rate", Some(3e9))]),
        (ip, &[("connection_creation_rate", Some(0.5))]),
        (user, &[(rate, Some(1.0)), (rate, Some(2.0))]),
    ];
    for (entity, ops) in changes {
        for validate_only in [true, false] {
            lines.push(format!(
                "{entity:?} {ops:?}: {:?}",
                alter(address, entity, ops, validate_only)
            ));
        }
    }
    wait_until("all entities are described", || find(address, false, &[]).1 == 8);
    let queries: &[(bool, Components<'_>)] = &[
        (false, &[("user", 0, Some("a"))]),
        (true, &[("user", 0, Some("a"))]),
        (true, &[("user", 2, None)]),
        (false, &[("user", 1, None)]),
        (true, &[("user", 0, Some("a")), ("client-id", 1, None)]),
        (false, &[("client-id", 2, None)]),
        (false, &[("ip", 2, None)]),
        (true, &[]),
        (false, &[("", 0, Some("a"))]),
        (false, &[("other", 0, Some("a"))]),
        (false, &[("user", 0, None)]),
        (false, &[("user", 1, Some("a"))]),
        (false, &[("user", 2, Some("a"))]),
        (false, &[("user", 9, None)]),
        (false, &[("user", 2, None), ("user", 1, None)]),
        (false, &[("ip", 2, None), ("user", 2, None)]),
    ];
    for (strict, filters) in queries {
        lines.push(format!("{strict} {filters:?}: {:?}", find(address, *strict, filters)));
    }
    lines
}

fn create(name: &str, partitions: i32, validate_only: bool) -> CreateTopicsRequest {
    CreateTopicsRequest {
        topics: vec![create_topics_request::CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: 1,
            ..Default::default()
        }],
        validate_only,
        ..Default::default()
    }
}

/// Changes of topics above the quota, by version: code, and whether the client is throttled. Each request has a connection
/// of its own, because a throttled one is muted.
fn mutations(address: &str) -> Vec<String> {
    let connect = || Client::connect(address);
    for name in ["grown", "deleted", "deleted-too"] {
        assert_eq!(connect().call(&create(name, 1, false), 7).topics[0].error_code, 0);
    }
    let user: QuotaEntity<'_> = &[("user", Some("ANONYMOUS"))];
    assert_eq!(
        alter(address, user, &[("controller_mutation_rate", Some(0.01))], false),
        [0]
    );
    let refused = ErrorCode::ThrottlingQuotaExceeded.code();
    wait_until("changes are refused", || {
        connect().call(&create("probe", 20, true), 7).topics[0].error_code == refused
    });
    let mut lines = vec![];
    for version in [7, 6, 5, 4] {
        let response = connect().call(&create(&format!("by-{version}"), 1, false), version);
        lines.push(format!(
            "create {version}: {} {}",
            response.topics[0].error_code,
            response.throttle_time_ms > 0
        ));
    }
    for (version, name) in [(5, "deleted"), (4, "deleted")] {
        let request = DeleteTopicsRequest {
            topic_names: vec![name.into()],
            timeout_ms: 30_000,
            ..Default::default()
        };
        let response = connect().call(&request, version);
        lines.push(format!(
            "delete {version}: {} {}",
            response.responses[0].error_code,
            response.throttle_time_ms > 0
        ));
    }
    for version in [3, 2] {
        let request = CreatePartitionsRequest {
            topics: vec![create_partitions_request::CreatePartitionsTopic {
                name: "grown".into(),
                count: 3,
                assignments: None,
                ..Default::default()
            }],
            timeout_ms: 30_000,
            ..Default::default()
        };
        let response = connect().call(&request, version);
        lines.push(format!(
            "grow {version}: {} {}",
            response.results[0].error_code,
            response.throttle_time_ms > 0
        ));
    }
    assert_eq!(alter(address, user, &[("controller_mutation_rate", None)], false), [0]);
    lines
}

/// Writes and reads above the quota of bytes: the results of a client once it is throttled. The quota is one of the user:
/// that of the default user, which `codes` has set, goes before one of a client id.
fn bytes(address: &str) -> Vec<String> {
    let connect = || Client::connect(address);
    wait_until("the quota of changes is gone", || {
        let code = connect().call(&create("letters", 1, false), 7).topics[0].error_code;
        code == 0 || code == ErrorCode::TopicAlreadyExists.code()
    });
    let produce = produce_request("letters", 0, batch(&[&"x".repeat(5_000)]));
    wait_until("the topic can be written", || {
        connect().call(&produce, 12).responses[0].partition_responses[0].error_code == 0
    });
    let user: QuotaEntity<'_> = &[("user", Some("ANONYMOUS"))];
    let quotas = [
        ("producer_byte_rate", Some(1000.0)),
        ("consumer_byte_rate", Some(1000.0)),
    ];
    assert_eq!(alter(address, user, &quotas, false), [0]);
    let mut lines = vec![];
    wait_until("a write is throttled", || {
        let response = connect().call(&produce, 12);
        let code = response.responses[0].partition_responses[0].error_code;
        let is_throttled = response.throttle_time_ms > 0;
        if is_throttled {
            lines.push(format!("produce: {code}"));
        }
        is_throttled
    });
    let fetch = fetch_request("letters", 0, 0);
    wait_until("a read is throttled", || {
        let response = connect().call(&fetch, 12);
        let is_throttled = response.throttle_time_ms > 0;
        if is_throttled {
            lines.push(format!("fetch: {} {}", response.error_code, response.responses.len()));
        }
        is_throttled
    });
    lines
}
