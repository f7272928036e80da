//! The metrics endpoint.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use milena_broker::Options;
use milena_wire::messages::{
    InitProducerIdRequest, JoinGroupRequest, MetadataRequest, OffsetCommitRequest, join_group_request,
    offset_commit_request,
};

use crate::{
    client::{Client, batch},
    running::{start_with, try_start_with},
};

fn with_metrics() -> Options {
    Options {
        metrics: Some("127.0.0.1:0".to_owned()),
        ..Options::default()
    }
}

fn http(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{request}\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

pub fn scrape(address: SocketAddr) -> String {
    let response = http(address, "GET /metrics HTTP/1.1");
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    body.to_owned()
}

/// The value of a sample, with its labels as they are written.
fn value(metrics: &str, sample: &str) -> f64 {
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{sample} ")));
    line.unwrap_or_else(|| panic!("{sample} is not in\n{metrics}"))
        .parse()
        .unwrap()
}

fn commit(client: &mut Client, offset: i64) {
    let request = OffsetCommitRequest {
        group_id: "readers".into(),
        generation_id_or_member_epoch: -1,
        topics: vec![offset_commit_request::OffsetCommitRequestTopic {
            name: "letters".into(),
            partitions: vec![offset_commit_request::OffsetCommitRequestPartition {
                partition_index: 0,
                committed_offset: offset,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(client.call(&request, 8).topics[0].partitions[0].error_code, 0);
}

#[test]
fn a_scrape_has_requests_errors_bytes_connections_and_logs() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start_with(with_metrics(), dir.path());
    let address = broker.metrics_address().unwrap();
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    let records = batch(&["a", "b", "c"]);
    let batch_bytes = records.len() as f64;
    client.produce("letters", 0, records);
    client.fetch("letters", 0, 0);
    client.fetch("letters", 0, 77);
    client.fetch("letters", 5, 0);
    // A request is counted when its response is sent, which is before the next one on the connection begins.
    client.call(&MetadataRequest::default(), 12);

    let metrics = scrape(address);
    let requests = |api: &str| {
        let labels = format!("{{request=\"{api}\"}}");
        let total = value(
            &metrics,
            &format!("kafka_network_requestmetrics_requests_total{labels}"),
        );
        let count = value(
            &metrics,
            &format!("kafka_network_requestmetrics_totaltimems_count{labels}"),
        );
        let all = format!("kafka_network_requestmetrics_totaltimems_bucket{{request=\"{api}\",le=\"+Inf\"}}");
        assert_eq!((total, total), (count, value(&metrics, &all)), "{api}");
        total
    };
    assert_eq!(
        (requests("Produce"), requests("Fetch"), requests("CreateTopics")),
        (1.0, 3.0, 1.0)
    );
    let errors = |error: &str| {
        let sample = format!("kafka_network_requestmetrics_errors_total{{request=\"Fetch\",error=\"{error}\"}}");
        value(&metrics, &sample)
    };
    assert_eq!(errors("OFFSET_OUT_OF_RANGE"), 1.0);
    assert_eq!(errors("UNKNOWN_TOPIC_OR_PARTITION"), 1.0);
    let of_topic = |name: &str| {
        value(
            &metrics,
            &format!("kafka_server_brokertopicmetrics_{name}{{topic=\"letters\"}}"),
        )
    };
    assert_eq!(of_topic("bytesin_total"), batch_bytes);
    assert_eq!(of_topic("bytesout_total"), batch_bytes);
    assert_eq!(of_topic("messagesin_total"), 3.0);
    let of_partition = |name: &str| value(&metrics, &format!("{name}{{topic=\"letters\",partition=\"0\"}}"));
    assert_eq!(of_partition("kafka_log_log_size"), batch_bytes);
    assert_eq!(of_partition("kafka_log_log_logstartoffset"), 0.0);
    assert_eq!(of_partition("kafka_log_log_logendoffset"), 3.0);
    assert_eq!(of_partition("kafka_topic_partition_current_offset"), 3.0);
    assert_eq!(value(&metrics, "milena_connections"), 1.0);
    assert_eq!(value(&metrics, "kafka_topic_partitions{topic=\"letters\"}"), 1.0);
    assert!(value(&metrics, "kafka_server_socket_server_metrics_incoming_byte_total") > batch_bytes);
    assert!(value(&metrics, "kafka_server_socket_server_metrics_outgoing_byte_total") > batch_bytes);
    broker.shutdown();
}

#[test]
fn a_scrape_has_groups_with_their_lag_and_transactions_by_state() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start_with(with_metrics(), dir.path());
    let address = broker.metrics_address().unwrap();
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    client.produce("letters", 0, batch(&["a", "b", "c"]));
    commit(&mut client, 1);
    let join = JoinGroupRequest {
        group_id: "joiners".into(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        protocol_type: "consumer".into(),
        protocols: vec![join_group_request::JoinGroupRequestProtocol {
            name: "range".into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(client.call(&join, 3).error_code, 0);
    let transactional = InitProducerIdRequest {
        transactional_id: Some("copying".into()),
        transaction_timeout_ms: 60_000,
        ..Default::default()
    };
    // The coordinator may still be loading.
    while client.call(&transactional, 4).error_code != 0 {}

    let metrics = scrape(address);
    assert_eq!(
        value(&metrics, "kafka_coordinator_group_groupmetadatamanager_numgroups"),
        2.0
    );
    assert_eq!(
        value(&metrics, "milena_groups{protocol=\"classic\",state=\"Empty\"}"),
        1.0
    );
    assert_eq!(
        value(&metrics, "kafka_consumergroup_members{consumergroup=\"readers\"}"),
        0.0
    );
    assert_eq!(
        value(&metrics, "kafka_consumergroup_members{consumergroup=\"joiners\"}"),
        1.0
    );
    let of_group = |name: &str| {
        let labels = "{consumergroup=\"readers\",topic=\"letters\",partition=\"0\"}";
        value(&metrics, &format!("{name}{labels}"))
    };
    assert_eq!(of_group("kafka_consumergroup_current_offset"), 1.0);
    assert_eq!(of_group("kafka_consumergroup_lag"), 2.0);
    assert_eq!(value(&metrics, "milena_transactions{state=\"Empty\"}"), 1.0);
    broker.shutdown();
}

#[test]
fn the_endpoint_is_off_by_default_and_refuses_other_requests() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start_with(Options::default(), dir.path());
    assert_eq!(broker.metrics_address(), None);
    broker.shutdown();
    let broker = start_with(with_metrics(), dir.path());
    let address = broker.metrics_address().unwrap();
    assert!(http(address, "GET / HTTP/1.1").starts_with("HTTP/1.1 404 "));
    assert!(http(address, "POST /metrics HTTP/1.1").starts_with("HTTP/1.1 405 "));
    assert!(http(address, &"x".repeat(8 << 10)).starts_with("HTTP/1.1 431 "));
    let head = http(address, "HEAD /metrics HTTP/1.1");
    assert!(
        head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    let taken = Options {
        metrics: Some(address.to_string()),
        ..Options::default()
    };
    let other = tempfile::tempdir().unwrap();
    let error = try_start_with(taken, other.path(), &[]).err().unwrap().to_string();
    assert!(error.starts_with("cannot serve metrics on 127.0.0.1:"), "{error}");
    broker.shutdown();
}
