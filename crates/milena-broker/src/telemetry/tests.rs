use std::collections::BTreeMap;

use super::*;
use crate::config::BrokerOverrides;

const CLIENTS_MAX: usize = 1_000;

/// A configuration with these subscriptions, each with its settings.
fn config(subscriptions: &[(&str, &[(&str, &str)])]) -> Arc<BrokerConfig> {
    let settings = |pairs: &[(&str, &str)]| {
        let pairs = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        pairs.collect::<BTreeMap<_, _>>()
    };
    let subscriptions = subscriptions
        .iter()
        .map(|(name, pairs)| ((*name).to_owned(), settings(pairs)));
    let overrides = BrokerOverrides {
        client_metrics: subscriptions.collect(),
        ..BrokerOverrides::fixed(settings(&[("telemetry.max.bytes", "100")]))
    };
    Arc::new(BrokerConfig::resolve(overrides).unwrap())
}

fn client(number: u8, client_id: &str) -> TelemetryClient {
    TelemetryClient {
        instance_id: Uuid::from_bytes([number; 16]),
        client_id: client_id.into(),
        software_name: "apache-kafka-java".into(),
        software_version: "4.3.1".into(),
        source_address: "127.0.0.1".to_owned(),
        source_port: 1234,
    }
}

fn push_of(subscription: &Subscription) -> Push {
    Push {
        subscription_id: subscription.id,
        terminating: false,
        compression_type: 0,
        size: 10,
    }
}

#[test]
fn a_client_is_asked_for_the_union_of_its_subscriptions_at_the_shortest_interval() {
    let some: &[(&str, &str)] = &[("metrics", "a.,b."), ("interval.ms", "5000")];
    let of_java: &[(&str, &str)] = &[
        ("metrics", "b.,c."),
        ("interval.ms", "1000"),
        ("match", "client_software_name=.*java.*,client_id=web-[0-9]+"),
    ];
    let all: &[(&str, &str)] = &[("metrics", "*"), ("match", "client_id=deep")];
    let config = config(&[("some", some), ("of-java", of_java), ("all", all)]);
    let mut telemetry = Telemetry::new(CLIENTS_MAX);
    let mut subscribed = |client: &TelemetryClient| {
        let subscription = telemetry.subscribe(&config, client, 0).unwrap();
        let metrics: Vec<String> = subscription.metrics.iter().map(ToString::to_string).collect();
        (metrics.join(" "), subscription.interval_ms)
    };
    assert_eq!(subscribed(&client(1, "web-17")), ("a. b. c.".to_owned(), 1000));
    assert_eq!(
        subscribed(&client(2, "web-17b")),
        ("a. b.".to_owned(), 5000),
        "all of the id must match"
    );
    assert_eq!(subscribed(&client(3, "deep")), ("*".to_owned(), 5000));
}

#[test]
fn without_a_subscription_nothing_is_asked_for() {
    let subscription = Telemetry::new(CLIENTS_MAX)
        .subscribe(&config(&[]), &client(1, "any"), 0)
        .unwrap();
    assert_eq!(
        (subscription.metrics.len(), subscription.interval_ms),
        (0, INTERVAL_MS_DEFAULT)
    );
}

#[test]
fn who_asks_or_pushes_too_early_is_throttled() {
    let config = config(&[("all", &[("metrics", "*"), ("interval.ms", "1000")])]);
    let (mut telemetry, client) = (Telemetry::new(CLIENTS_MAX), client(1, "any"));
    let subscription = telemetry.subscribe(&config, &client, 0).unwrap();
    let push = push_of(&subscription);
    assert_eq!(
        telemetry.subscribe(&config, &client, 999),
        Err(ErrorCode::ThrottlingQuotaExceeded)
    );
    assert_eq!(
        telemetry.push(&config, &client, push, 10),
        Ok(Codec::None),
        "the first may come at once"
    );
    assert_eq!(
        telemetry.push(&config, &client, push, 1009),
        Err(ErrorCode::ThrottlingQuotaExceeded)
    );
    assert_eq!(telemetry.push(&config, &client, push, 1010), Ok(Codec::None));
    let last = Push {
        terminating: true,
        ..push
    };
    assert_eq!(
        telemetry.push(&config, &client, last, 1011),
        Ok(Codec::None),
        "the last may come early"
    );
    assert_eq!(
        telemetry.push(&config, &client, push, 9000),
        Err(ErrorCode::InvalidRequest)
    );
}

#[test]
fn a_push_is_checked_against_the_present_subscription() {
    let before = config(&[("all", &[("metrics", "a."), ("interval.ms", "1000")])]);
    let after = config(&[("all", &[("metrics", "b."), ("interval.ms", "1000")])]);
    let (mut telemetry, client) = (Telemetry::new(CLIENTS_MAX), client(1, "any"));
    let subscription = telemetry.subscribe(&before, &client, 0).unwrap();
    let push = push_of(&subscription);
    let (unknown, large) = (
        Push {
            compression_type: 9,
            ..push
        },
        Push { size: 101, ..push },
    );
    assert_eq!(
        telemetry.push(&before, &client, unknown, 0),
        Err(ErrorCode::UnsupportedCompressionType)
    );
    assert_eq!(
        telemetry.push(&before, &client, large, 1000),
        Err(ErrorCode::TelemetryTooLarge)
    );
    assert_eq!(
        telemetry.push(&after, &client, push, 2000),
        Err(ErrorCode::UnknownSubscriptionId)
    );
    // It may ask at once, and pushes under the new id.
    let subscription = telemetry.subscribe(&after, &client, 2001).unwrap();
    assert_eq!(subscription.metrics, ["b."]);
    assert_eq!(
        telemetry.push(&after, &client, push_of(&subscription), 2002),
        Ok(Codec::None)
    );
}

#[test]
fn no_more_clients_are_remembered_than_there_is_room_for() {
    let config = config(&[("all", &[("metrics", "*"), ("interval.ms", "1000")])]);
    let mut telemetry = Telemetry::new(CLIENTS_MAX);
    let mut client = client(1, "any");
    for number in 0..CLIENTS_MAX as u128 + 10 {
        client.instance_id = Uuid::from_bytes(number.to_be_bytes());
        telemetry
            .subscribe(&config, &client, i64::try_from(number).unwrap() / 100)
            .unwrap();
    }
    assert_eq!(telemetry.clients.len(), CLIENTS_MAX);
    client.instance_id = Uuid::from_bytes([9; 16]);
    telemetry.subscribe(&config, &client, 10_000_000).unwrap();
    assert_eq!(telemetry.clients.len(), 1, "all others have missed their intervals");
}
