//! The HTTP endpoint of an application.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use milena_app::prelude::*;
use milena_test::TestBroker;
use regex::Regex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::rig::{app, committed, until, within};

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, body.to_owned())
}

/// Parses the text format: samples of a name follow one TYPE line, and no series occurs twice. Returns the value of
/// each series.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let name = Regex::new(r"^[a-zA-Z_:][a-zA-Z0-9_:]*$").unwrap();
    let sample = Regex::new(r#"^([^ {]+)(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\["\\n])*",?)*\})? (\S+)$"#).unwrap();
    let (mut found, mut types, mut current) = (BTreeMap::new(), BTreeSet::new(), String::new());
    assert!(text.ends_with('\n'));
    for line in text.lines().filter(|line| !line.starts_with("# HELP ")) {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (of, kind) = typed.split_once(' ').unwrap();
            assert!(name.is_match(of) && matches!(kind, "counter" | "gauge"), "{line}");
            assert!(types.insert(of.to_owned()), "{of} has two types");
            current = of.to_owned();
            continue;
        }
        let parts = sample.captures(line).unwrap_or_else(|| panic!("not a sample: {line}"));
        assert_eq!(&parts[1], current, "{line}");
        let series = format!("{}{}", &parts[1], parts.get(2).map_or("", |labels| labels.as_str()));
        let value = parts[5].parse().unwrap_or_else(|_| panic!("not a number: {line}"));
        assert!(found.insert(series, value).is_none(), "{line} is there twice");
    }
    found
}

#[tokio::test]
async fn metrics_health_and_status_are_served() {
    #[derive(serde::Deserialize)]
    struct Order {
        #[allow(dead_code, reason = "it is only read")]
        id: u64,
    }
    async fn handle(Event(_order): Event<Order>) {}
    let broker = TestBroker::start();
    broker.create_topic("orders", 2);
    broker.produce("orders", 0, ["{\"id\":1}", "{\"id\":2}", "nonsense \"\n\\"]);
    let running = app(&broker)
        .serve("127.0.0.1:0")
        .metrics_endpoint("127.0.0.1:0")
        .on("orders", handle, |policy| policy)
        .start()
        .await
        .unwrap();
    committed(&broker, "billing", "orders", 0, 3).await;
    let address = running.served_at().unwrap();
    let found = within("the count of dead letters", async {
        loop {
            let (code, text) = get(address, "/metrics").await;
            assert_eq!(code, 200);
            let found = samples(&text);
            if found.get("dlq_message_count{topic=\"orders.dlq\"}") == Some(&1.0) {
                return found;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    let of = |series: &str| found.get(series).copied();
    assert_eq!(of("consumer_success_total{handler=\"orders\"}"), Some(2.0));
    assert_eq!(of("consumer_decode_errors_total{handler=\"orders\"}"), Some(1.0));
    assert_eq!(of("events_validation_failed_total{handler=\"orders\"}"), Some(1.0));
    assert_eq!(of("events_processed_success_total{handler=\"orders\"}"), Some(2.0));
    let age = of("dlq_oldest_message_age_seconds{topic=\"orders.dlq\"}").unwrap();
    assert!((0.0..60.0).contains(&age), "{age}");
    let is_lag = |series: &&String| {
        series.starts_with("kafka_consumer_records_lag{")
            && series.contains("group=\"billing\"")
            && series.contains("partition=\"0\"")
    };
    assert_eq!(found.keys().filter(is_lag).count(), 1, "{found:#?}");
    for name in ["kafka_consumer_rebalance_total", "kafka_producer_record_send_total"] {
        let labelled = |series: &String| series.starts_with(name) && series.contains("group=\"billing\"");
        assert!(found.keys().any(labelled), "{name}");
    }
    assert_eq!(get(address, "/healthz").await, (200, "ok\n".to_owned()));
    assert_eq!(get(address, "/readyz").await.0, 200);
    let (code, status) = get(address, "/status").await;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!((code, &status["healthy"]), (200, &serde_json::json!(true)));
    assert_eq!(status["partitions"].as_array().unwrap().len(), 2);
    assert_eq!(get(address, "/").await.0, 404);
    let metrics_at = running.metrics_at().unwrap();
    let (code, text) = get(metrics_at, "/metrics").await;
    assert_eq!(
        (code, samples(&text).keys().collect::<Vec<_>>()),
        (200, found.keys().collect())
    );
    assert_eq!(get(metrics_at, "/status").await.0, 404);
    running.stop().await.unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "it is served after the end");
}

#[tokio::test]
async fn health_says_what_is_wrong() {
    async fn refuse() -> Result<(), Fault> {
        Err(Fault::poison("never"))
    }
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, ["one"]);
    let running = app(&broker)
        .serve("127.0.0.1:0")
        .on("orders", refuse, |policy| policy.when_exhausted(Exhausted::Stop))
        .start()
        .await
        .unwrap();
    let address = running.served_at().unwrap();
    let reasons = within("bad health", async {
        loop {
            let (code, body) = get(address, "/healthz").await;
            if code == 503 {
                return body;
            }
        }
    })
    .await;
    assert!(reasons.starts_with("orders-0 @ 0 of 1: stopped"), "{reasons}");
    assert_eq!(get(address, "/readyz").await.0, 503);
}

#[tokio::test]
async fn an_address_that_is_taken_is_an_error_before_anything_is_read() {
    async fn handle() {}
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let app = app(&broker).serve(&address).on("orders", handle, |policy| policy);
    let error = app.start().await.unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("cannot serve metrics and health on {address}: ")),
        "{error}"
    );
}

#[tokio::test]
async fn the_status_names_the_reason_of_a_missing_acknowledgement() {
    async fn bill() -> Done {
        Done::Emit(vec![OutRecord::new("bills").value("a bill")])
    }
    let broker = TestBroker::builder().set("auto.create.topics.enable", false).start();
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, ["one"]);
    let running = app(&broker).on("orders", bill, |policy| policy).start().await.unwrap();
    let reason = "(topic bills is unavailable: UNKNOWN_TOPIC_OR_PARTITION";
    until("the reason", || {
        let status = running.status();
        status
            .partitions
            .iter()
            .any(|partition| partition.to_string().contains(reason))
    })
    .await;
    broker.create_topic("bills", 1);
    committed(&broker, "billing", "orders", 0, 1).await;
    until("its end", || {
        running
            .status()
            .partitions
            .iter()
            .all(|partition| partition.publish_problem.is_none())
    })
    .await;
    running.stop().await.unwrap();
}
