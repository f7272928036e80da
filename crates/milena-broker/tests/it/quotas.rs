//! Client quotas: how they are set and described, and their effect on each kind of request.

use std::{
    io::Read,
    net::TcpStream,
    time::{Duration, Instant},
};

use milena_broker::Options;
use milena_wire::{errors::ErrorCode, messages::*};

use crate::{
    client::{Client, QuotaEntity, alter_quotas_request, batch, fetch_request, produce_request, values},
    paused::{Scene, play},
    running::{start, start_with},
};

const ANONYMOUS: QuotaEntity<'_> = &[("user", Some("ANONYMOUS"))];

fn alter(
    client: &mut Client,
    entity: QuotaEntity<'_>,
    ops: &[(&str, Option<f64>)],
    validate_only: bool,
) -> (ErrorCode, String) {
    let response = client.call(&alter_quotas_request(entity, ops, validate_only), 1);
    assert_eq!(response.entries.len(), 1);
    let result = &response.entries[0];
    let code = ErrorCode::from_code(result.error_code).unwrap();
    (code, result.error_message.as_deref().unwrap_or_default().to_owned())
}

fn set(client: &mut Client, entity: QuotaEntity<'_>, key: &str, quota: impl Into<Option<f64>>) {
    let (code, message) = alter(client, entity, &[(key, quota.into())], false);
    assert_eq!(code, ErrorCode::None, "{message}");
}

/// All quotas, in one line for each entity.
fn described(client: &mut Client) -> Vec<String> {
    let response = client.call(&DescribeClientQuotasRequest::default(), 1);
    assert_eq!(response.error_code, 0);
    let entries = response.entries.unwrap().into_iter().map(|entry| {
        let name = |name: Option<_>| {
            name.map_or_else(
                || "(default)".to_owned(),
                |name: bytestring::ByteString| name.to_string(),
            )
        };
        let entity = entry.entity.into_iter();
        let entity: Vec<String> = entity
            .map(|part| format!("{} {}", part.entity_type, name(part.entity_name)))
            .collect();
        let values = entry.values.into_iter();
        let values: Vec<String> = values.map(|value| format!("{}={}", value.key, value.value)).collect();
        format!("{}: {}", entity.join(" "), values.join(" "))
    });
    entries.collect()
}

#[test]
fn quotas_are_stored_described_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    let user: QuotaEntity<'_> = &[("user", Some("Günter \"x\"")), ("client-id", None)];
    set(&mut client, user, "producer_byte_rate", 1024.0);
    set(&mut client, user, "request_percentage", 12.5);
    set(
        &mut client,
        &[("ip", Some("10.0.0.1"))],
        "connection_creation_rate",
        3.0,
    );
    set(&mut client, &[("ip", None)], "connection_creation_rate", 1e6);
    // Only validated, so not stored.
    let valid = alter(&mut client, ANONYMOUS, &[("consumer_byte_rate", Some(5.0))], true);
    assert_eq!(valid.0, ErrorCode::None);
    let invalid = alter(&mut client, ANONYMOUS, &[("consumer_byte_rate", Some(0.5))], true);
    assert_eq!(invalid.0, ErrorCode::InvalidRequest);
    let expected = [
        "client-id (default) user Günter \"x\": producer_byte_rate=1024 request_percentage=12.5",
        "ip (default): connection_creation_rate=1000000",
        "ip 10.0.0.1: connection_creation_rate=3",
    ];
    assert_eq!(described(&mut client), expected);
    broker.shutdown();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    assert_eq!(described(&mut client), expected);
    set(&mut client, user, "producer_byte_rate", None);
    set(&mut client, user, "request_percentage", None);
    assert_eq!(described(&mut client), expected[1..]);
    broker.shutdown();
}

#[test]
fn bad_requests_have_kafkas_codes() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(
        dir.path(),
        &[("milena.max.quota.entities", "1"), ("milena.max.name.bytes", "300")],
    );
    let mut client = broker.client();
    let rate = [("producer_byte_rate", Some(1.0))];
    let (long, host) = ("x".repeat(301), [("ip", Some("no.such.host.invalid"))]);
    let cases: [(QuotaEntity<'_>, &str); 6] = [
        (&[], "empty"),
        (&[("user", Some(""))], "Empty user"),
        (&[("group", Some("a"))], "Unhandled"),
        (&[("user", Some(&long))], "milena.max.name.bytes"),
        (&[("ip", Some("10.0.0.1")), ("user", None)], "combin"),
        (&host, "resolvable"),
    ];
    for (entity, text) in cases {
        let (code, message) = alter(&mut client, entity, &rate, false);
        assert_eq!(code, ErrorCode::InvalidRequest, "{message}");
        assert!(message.contains(text), "{message}");
    }
    set(&mut client, &[("user", None)], "producer_byte_rate", 1e9);
    let (code, message) = alter(&mut client, ANONYMOUS, &rate, false);
    assert_eq!(code, ErrorCode::PolicyViolation);
    assert!(message.contains("milena.max.quota.entities"), "{message}");
    for (entity_type, match_type, name, code) in [
        ("", 0, Some("a"), ErrorCode::InvalidRequest),
        ("user", 0, None, ErrorCode::InvalidRequest),
        ("user", 7, None, ErrorCode::InvalidRequest),
        ("group", 0, Some("a"), ErrorCode::UnsupportedVersion),
    ] {
        let request = DescribeClientQuotasRequest {
            components: vec![describe_client_quotas_request::ComponentData {
                entity_type: entity_type.into(),
                match_type,
                r#match: name.map(Into::into),
                ..Default::default()
            }],
            ..Default::default()
        };
        let response = client.call(&request, 1);
        assert_eq!(response.error_code, code.code(), "{entity_type} {match_type}");
        assert!(response.entries.is_none());
    }
    broker.shutdown();
}

/// Sends a request that is not begun before `pause` is over.
fn is_muted_for(scene: &Scene, client: &mut Client, pause_ms: i32) {
    client.send(&MetadataRequest::default(), 12);
    let mut probe = scene.client();
    scene.advance(Duration::from_millis(pause_ms as u64 - 10));
    // The broker has one thread: if it had begun the request, the response would be there before that of the probe.
    probe.call(&MetadataRequest::default(), 12);
    client.expect_silence();
    scene.advance(Duration::from_millis(20));
    client.receive::<MetadataRequest>(12);
}

#[test]
fn a_producer_over_its_quota_is_throttled_on_all_connections() {
    play(Options::default(), &[], |scene| {
        let (mut one, mut other) = (scene.client(), scene.client());
        let records = batch(&[&"x".repeat(10_000)]);
        let produce = produce_request("letters", 0, records);
        for _ in 0..3 {
            assert_eq!(one.call(&produce, 12).throttle_time_ms, 0, "no quota");
        }
        set(&mut other, ANONYMOUS, "producer_byte_rate", 1000.0);
        let first = one.call(&produce, 12);
        assert_eq!(first.responses[0].partition_responses[0].error_code, 0);
        // About 10,100 bytes in 10 seconds are 1 % too much.
        assert!(
            (1..1000).contains(&first.throttle_time_ms),
            "{}",
            first.throttle_time_ms
        );
        is_muted_for(scene, &mut one, first.throttle_time_ms);
        // The quota of a user is shared by its connections; the records are written all the same.
        let second = other.call(&produce, 12);
        assert_eq!(second.responses[0].partition_responses[0].error_code, 0);
        assert!(
            (5_000..20_000).contains(&second.throttle_time_ms),
            "{}",
            second.throttle_time_ms
        );
        scene.advance(Duration::from_secs(60));
        set(&mut one, ANONYMOUS, "producer_byte_rate", None);
        assert_eq!(one.call(&produce, 12).throttle_time_ms, 0);
    });
}

#[test]
fn a_connection_that_is_throttled_for_longer_than_it_may_be_idle_is_closed() {
    play(Options::default(), &[("connections.max.idle.ms", "5000")], |scene| {
        let mut client = scene.client();
        set(&mut client, ANONYMOUS, "producer_byte_rate", 1.0);
        let produce = produce_request("letters", 0, batch(&[&"x".repeat(10_000)]));
        assert!(client.call(&produce, 12).throttle_time_ms > 9_000_000);
        scene.advance(Duration::from_millis(5_010));
        assert!(client.receive_frame().is_none());
    });
}

#[test]
fn the_most_specific_quota_decides() {
    play(Options::default(), &[], |scene| {
        let mut client = scene.client();
        let produce = produce_request("letters", 0, batch(&[&"x".repeat(10_000)]));
        set(&mut client, &[("client-id", None)], "producer_byte_rate", 1.0);
        set(&mut client, ANONYMOUS, "producer_byte_rate", 1e9);
        assert_eq!(client.call(&produce, 12).throttle_time_ms, 0);
        set(
            &mut client,
            &[ANONYMOUS[0], ("client-id", Some("tests"))],
            "producer_byte_rate",
            1000.0,
        );
        assert!(client.call(&produce, 12).throttle_time_ms > 0);
    });
}

#[test]
fn a_producer_without_acknowledgement_is_throttled_too() {
    play(Options::default(), &[], |scene| {
        let mut client = scene.client();
        set(&mut client, ANONYMOUS, "producer_byte_rate", 1000.0);
        let mut produce = produce_request("letters", 0, batch(&[&"x".repeat(11_000)]));
        produce.acks = 0;
        client.send(&produce, 12);
        client.send(&MetadataRequest::default(), 12);
        scene.others_are_served();
        scene.advance(Duration::from_millis(500));
        client.expect_silence();
        scene.advance(Duration::from_secs(2));
        client.receive::<MetadataRequest>(12);
    });
}

#[test]
fn a_consumer_over_its_quota_gets_an_empty_response_and_keeps_its_session() {
    play(Options::default(), &[], |scene| {
        let mut client = scene.client();
        for _ in 0..4 {
            client.produce("letters", 0, batch(&[&"x".repeat(6_000)]));
        }
        set(&mut client, ANONYMOUS, "consumer_byte_rate", 1000.0);
        let mut fetch = fetch_request("letters", 0, 0);
        (fetch.session_id, fetch.session_epoch) = (0, 0);
        // 10,000 bytes are the most in a window, so one batch of four is sent.
        let first = client.call(&fetch, 12);
        assert_eq!(first.throttle_time_ms, 0);
        let records = first.responses[0].partitions[0].records.clone().unwrap();
        assert_eq!(values(&records).len(), 1);
        (fetch.session_id, fetch.session_epoch) = (first.session_id, 1);
        fetch.topics[0].partitions[0].fetch_offset = 1;
        let refused = client.call(&fetch, 12);
        assert!(refused.throttle_time_ms > 0);
        assert_eq!((refused.error_code, refused.session_id), (0, first.session_id));
        assert!(refused.responses.is_empty(), "{refused:?}");
        scene.advance(Duration::from_secs(12));
        fetch.session_epoch = 2;
        let second = client.call(&fetch, 12);
        assert_eq!((second.error_code, second.throttle_time_ms), (0, 0));
        let records = second.responses[0].partitions[0].records.clone().unwrap();
        assert_eq!(values(&records).len(), 1);
    });
}

#[test]
fn a_batch_above_the_quota_of_a_window_does_not_stop_a_consumer() {
    play(Options::default(), &[], |scene| {
        let mut client = scene.client();
        client.produce("letters", 0, batch(&[&"x".repeat(30_000)]));
        set(&mut client, ANONYMOUS, "consumer_byte_rate", 1000.0);
        let response = client.call(&fetch_request("letters", 0, 0), 12);
        let records = response.responses[0].partitions[0].records.clone().unwrap();
        assert_eq!(values(&records).len(), 1);
        assert!(
            (19_000..22_000).contains(&response.throttle_time_ms),
            "{}",
            response.throttle_time_ms
        );
    });
}

fn create(topic: &str, partitions: i32, validate_only: bool) -> CreateTopicsRequest {
    CreateTopicsRequest {
        topics: vec![create_topics_request::CreatableTopic {
            name: topic.into(),
            num_partitions: partitions,
            replication_factor: 1,
            ..Default::default()
        }],
        validate_only,
        ..Default::default()
    }
}

#[test]
fn changes_of_topics_are_refused_or_delayed_by_version() {
    play(Options::default(), &[], |scene| {
        // A connection for each request, because a throttled one is muted.
        let client = || scene.client();
        set(&mut client(), ANONYMOUS, "controller_mutation_rate", 1.0);
        let code = ErrorCode::ThrottlingQuotaExceeded.code();
        // A burst of 11 is allowed, and one request may exceed it.
        let first = client().call(&create("a", 13, false), 7);
        assert_eq!((first.topics[0].error_code, first.throttle_time_ms), (0, 0));
        let second = client().call(&create("b", 1, false), 6);
        assert_eq!((second.topics[0].error_code, second.throttle_time_ms), (code, 2000));
        let message = second.topics[0].error_message.as_deref();
        assert_eq!(message, Some("The throttling quota has been exceeded."));
        let validated = client().call(&create("b", 1, true), 7);
        assert_eq!(validated.topics[0].error_code, code);
        // Older clients do not know the error: they are served, and throttled.
        let old = client().call(&create("c", 1, false), 5);
        assert_eq!((old.topics[0].error_code, old.throttle_time_ms), (0, 3000));
        let mut delete = DeleteTopicsRequest {
            topic_names: vec!["c".into()],
            ..Default::default()
        };
        let refused = client().call(&delete, 5);
        assert_eq!(
            (refused.responses[0].error_code, refused.throttle_time_ms),
            (code, 3000)
        );
        let old = client().call(&delete, 4);
        assert_eq!((old.responses[0].error_code, old.throttle_time_ms), (0, 4000));
        let grow = CreatePartitionsRequest {
            topics: vec![create_partitions_request::CreatePartitionsTopic {
                name: "letters".into(),
                count: 3,
                assignments: None,
                ..Default::default()
            }],
            ..Default::default()
        };
        let refused = client().call(&grow, 3);
        assert_eq!((refused.results[0].error_code, refused.throttle_time_ms), (code, 4000));
        let old = client().call(&grow, 2);
        assert_eq!((old.results[0].error_code, old.throttle_time_ms), (0, 6000));
        // A topic that would be created by its first use is unknown meanwhile.
        let metadata = MetadataRequest {
            topics: Some(vec![metadata_request::MetadataRequestTopic {
                name: Some("automatic".into()),
                ..Default::default()
            }]),
            allow_auto_topic_creation: true,
            ..Default::default()
        };
        let unknown = client().call(&metadata, 12);
        assert_eq!(unknown.topics[0].error_code, ErrorCode::UnknownTopicOrPartition.code());
        scene.advance(Duration::from_secs(7));
        assert_eq!(client().call(&metadata, 12).topics[0].error_code, 0);
        delete.topic_names = vec!["a".into()];
        assert_eq!(client().call(&delete, 5).responses[0].error_code, 0);
    });
}

#[test]
fn the_time_of_requests_is_limited_to_one_sample_of_throttling() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    broker.client().create_topic("letters", 1, &[]);
    broker.client().produce("letters", 0, batch(&["a"]));
    // A quota that every request exceeds.
    set(&mut broker.client(), ANONYMOUS, "request_percentage", 1e-9);
    let metadata = broker.client().call(&MetadataRequest::default(), 12);
    assert_eq!(metadata.throttle_time_ms, 1000);
    let produced = broker.client().call(&produce_request("letters", 0, batch(&["b"])), 12);
    assert_eq!(produced.throttle_time_ms, 1000);
    assert_eq!(produced.responses[0].partition_responses[0].error_code, 0);
    let fetched = broker.client().call(&fetch_request("letters", 0, 0), 12);
    assert_eq!(fetched.throttle_time_ms, 1000);
    assert!(fetched.responses.is_empty());
    // A request of brokers among themselves is exempt: it has no field for it, and the connection is not muted.
    let mut client = broker.client();
    for _ in 0..2 {
        let began = Instant::now();
        client.call(&WriteTxnMarkersRequest::default(), 1);
        assert!(began.elapsed() < Duration::from_secs(60));
    }
    broker.shutdown();
}

#[test]
fn an_address_with_too_many_connections_is_held_and_closed() {
    play(Options::default(), &[], |scene| {
        let mut admin = scene.client();
        set(
            &mut admin,
            &[("ip", Some("127.0.0.1"))],
            "connection_creation_rate",
            1.0,
        );
        let accepted: Vec<Client> = (0..10).map(|_| scene.client()).collect();
        for mut client in accepted {
            client.call(&MetadataRequest::default(), 12);
        }
        let mut refused = TcpStream::connect(&scene.address).unwrap();
        refused.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // Open connections are served meanwhile, also to change the quota.
        for _ in 0..20 {
            admin.call(&MetadataRequest::default(), 12);
        }
        set(
            &mut admin,
            &[("ip", Some("127.0.0.1"))],
            "connection_creation_rate",
            None,
        );
        scene.advance(Duration::from_secs(2));
        assert_eq!(refused.read(&mut [0; 1]).unwrap(), 0, "closed without a byte");
        scene.others_are_served();
    });
}

#[test]
fn throttle_times_and_quotas_are_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        metrics: Some("127.0.0.1:0".to_owned()),
        ..Options::default()
    };
    let broker = start_with(options, dir.path());
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    set(&mut client, ANONYMOUS, "producer_byte_rate", 100.0);
    let throttled = client.call(&produce_request("letters", 0, batch(&[&"x".repeat(1_000)])), 12);
    assert!(throttled.throttle_time_ms > 0);
    let text = crate::metrics::scrape(broker.metrics_address().unwrap());
    let labels = "{user=\"ANONYMOUS\",client_id=\"\"}";
    assert!(text.contains(&format!(
        "kafka_server_produce_throttle_time{labels} {}",
        throttled.throttle_time_ms
    )));
    assert!(text.contains(&format!("kafka_server_produce_byte_rate{labels} ")));
    let labels = "{quota=\"producer_byte_rate\",user=\"ANONYMOUS\",client_id=\"\"}";
    assert!(text.contains(&format!("milena_client_quota{labels} 100\n")), "{text}");
    assert!(text.contains(&format!("milena_client_throttles_total{labels} 1\n")));
    broker.shutdown();
}

#[test]
fn the_window_of_quotas_is_a_setting() {
    let settings = [("quota.window.num", "3"), ("quota.window.size.seconds", "2")];
    play(Options::default(), &settings, |scene| {
        let mut client = scene.client();
        set(&mut client, ANONYMOUS, "producer_byte_rate", 1000.0);
        // Two full samples of two seconds: 4,000 bytes.
        let response = client.call(&produce_request("letters", 0, batch(&[&"x".repeat(4_400)])), 12);
        assert!(
            (400..700).contains(&response.throttle_time_ms),
            "{}",
            response.throttle_time_ms
        );
    });
}

#[test]
fn clients_above_the_limit_share_one_measurement() {
    play(Options::default(), &[("milena.max.quota.clients", "1")], |scene| {
        set(
            &mut scene.client(),
            &[("client-id", None)],
            "producer_byte_rate",
            1000.0,
        );
        let produce = produce_request("letters", 0, batch(&[&"x".repeat(6_000)]));
        let throttled = ["a", "b", "c"].map(|client_id| {
            let mut client = scene.client();
            client.client_id = client_id;
            client.call(&produce, 12).throttle_time_ms > 0
        });
        // 10,000 bytes are the most in a window: the first has its own, the others have one together.
        assert_eq!(throttled, [false, false, true]);
    });
}
