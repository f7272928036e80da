//! Client metrics: subscriptions as resources, and pushes to a receiver.

use std::sync::{Arc, Mutex};

use milena_broker::{Options, TelemetryPush, TelemetryReceiver};
use milena_wire::{
    Uuid,
    compression::{Codec, Compression, Compressor},
    errors::ErrorCode,
    messages::{
        ApiVersionsRequest, GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse,
        ListConfigResourcesRequest, PushTelemetryRequest,
    },
};
use tempfile::TempDir;

use crate::{
    client::Client,
    foreign_suites::{SET, alter, describe, running, value_of},
    running::{Running, start, try_start_with},
};

const CLIENT_METRICS: i8 = 16;
const DELETE: i8 = 1;

/// Stores pushes: the client's software, whether it was the last push, and the metrics.
#[derive(Debug, Default)]
struct Received(Mutex<Vec<(String, bool, Vec<u8>)>>);

impl TelemetryReceiver for Received {
    fn receive(&self, push: &TelemetryPush<'_>) {
        let software = push.client.software_name.to_string();
        self.0
            .lock()
            .unwrap()
            .push((software, push.terminating, push.metrics.to_vec()));
    }
}

fn say_hello(client: &mut Client, software: &str) -> Vec<i16> {
    let request = ApiVersionsRequest {
        client_software_name: software.into(),
        client_software_version: "1.0".into(),
        ..Default::default()
    };
    let keys = client.call(&request, 4).api_keys;
    keys.iter().map(|api| api.api_key).collect()
}

fn subscribe(client: &mut Client, client_instance_id: Uuid) -> GetTelemetrySubscriptionsResponse {
    let request = GetTelemetrySubscriptionsRequest {
        client_instance_id,
        ..Default::default()
    };
    client.call(&request, 0)
}

#[test]
fn subscriptions_are_stored_shown_and_listed() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    let slow = (CLIENT_METRICS, "slow");
    let ops = [
        ("metrics", SET, "org.apache.kafka.producer.,org.apache.kafka.consumer."),
        ("match", SET, "client_software_name=.*java.*"),
    ];
    assert_eq!(alter(&mut client, slow, &ops), (ErrorCode::None, None));
    for (wrong, code, text) in [
        (("interval.ms", SET, "5"), ErrorCode::InvalidRequest, "100 to 3600000"),
        (("foo", SET, "5"), ErrorCode::InvalidRequest, "foo"),
        (
            ("match", SET, "color=.*"),
            ErrorCode::InvalidConfig,
            "the attribute must be one of",
        ),
        (
            ("match", SET, "client_id=("),
            ErrorCode::InvalidConfig,
            "regular expression",
        ),
        (
            ("match", SET, "client_id"),
            ErrorCode::InvalidConfig,
            "attribute=pattern",
        ),
    ] {
        let (error, message) = alter(&mut client, slow, &[wrong]);
        assert_eq!(error, code, "{wrong:?}");
        assert!(message.unwrap().contains(text), "{wrong:?}");
    }
    broker.shutdown();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    let shown = describe(&mut client, slow);
    assert_eq!(value_of(&shown, "interval.ms"), Some(("300000".to_owned(), 5)));
    assert_eq!(
        value_of(&shown, "match"),
        Some(("client_software_name=.*java.*".to_owned(), 7))
    );
    let list = |client: &mut Client| {
        let resources = client.call(&ListConfigResourcesRequest::default(), 0).config_resources;
        resources
            .iter()
            .map(|resource| resource.resource_name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(list(&mut client), ["slow"]);
    let gone = alter(&mut client, slow, &[("metrics", DELETE, ""), ("match", DELETE, "")]);
    assert_eq!(gone, (ErrorCode::None, None));
    assert!(list(&mut client).is_empty());
    assert_eq!(
        alter(&mut client, (CLIENT_METRICS, ""), &ops).0,
        ErrorCode::InvalidRequest
    );
    broker.shutdown();
}

#[test]
fn a_broker_without_a_receiver_asks_no_client_for_metrics() {
    let (_dir, broker) = running();
    let keys = say_hello(&mut broker.client(), "tests");
    assert!(!keys.contains(&71) && !keys.contains(&72), "{keys:?}");
    broker.shutdown();
}

/// A broker with a receiver, and a client with a subscription of 100 ms.
fn receiving(settings: &[(&str, &str)]) -> (TempDir, Running, Arc<Received>, Client) {
    let dir = tempfile::tempdir().unwrap();
    let received = Arc::new(Received::default());
    let options = Options {
        telemetry: Some(received.clone()),
        ..Options::default()
    };
    let broker = try_start_with(options, dir.path(), settings).unwrap();
    let mut client = broker.client();
    let keys = say_hello(&mut client, "some-java-client");
    assert!(!keys.contains(&71), "there is nothing to ask for yet");
    let ops = [
        ("metrics", SET, "a.,b."),
        ("interval.ms", SET, "100"),
        ("match", SET, "client_software_name=.*java.*,client_id=tests"),
    ];
    let altered = alter(&mut client, (CLIENT_METRICS, "some"), &ops);
    assert_eq!(altered, (ErrorCode::None, None));
    let keys = say_hello(&mut client, "some-java-client");
    assert!(keys.contains(&71) && keys.contains(&72), "{keys:?}");
    (dir, broker, received, client)
}

#[test]
fn clients_push_what_they_are_asked_for() {
    let (_dir, broker, received, mut client) = receiving(&[]);
    let subscription = subscribe(&mut client, Uuid::ZERO);
    assert_eq!((subscription.error_code, subscription.push_interval_ms), (0, 100));
    assert_eq!(subscription.requested_metrics, ["a.", "b."]);
    assert!(!subscription.client_instance_id.is_zero() && subscription.delta_temporality);
    let mut other = broker.client();
    say_hello(&mut other, "another");
    let other = subscribe(&mut other, Uuid::ZERO);
    assert_eq!((other.requested_metrics.len(), other.push_interval_ms), (0, 300_000));

    let mut compressed = vec![];
    let metrics = vec![7; 1000];
    let mut compressor = Compressor::new(Compression::from(Codec::Zstd));
    compressor.compress(&metrics, &mut compressed).unwrap();
    let push = PushTelemetryRequest {
        client_instance_id: subscription.client_instance_id,
        subscription_id: subscription.subscription_id,
        compression_type: 4,
        metrics: compressed.into(),
        ..Default::default()
    };
    assert_eq!(client.call(&push, 0).error_code, 0);
    let last = PushTelemetryRequest {
        terminating: true,
        compression_type: 0,
        metrics: vec![1, 2].into(),
        ..push
    };
    assert_eq!(client.call(&last, 0).error_code, 0);
    let software = "some-java-client".to_owned();
    let expected = [(software.clone(), false, metrics), (software, true, vec![1, 2])];
    assert_eq!(*received.0.lock().unwrap(), expected);
    let after = ErrorCode::from_code(client.call(&last, 0).error_code);
    assert_eq!(after, Some(ErrorCode::InvalidRequest), "it has said that it ends");
    broker.shutdown();
}

#[test]
fn a_push_that_cannot_be_read_is_refused() {
    let (_dir, broker, received, mut client) = receiving(&[]);
    // Each is another client, so that none comes too early.
    for (number, codec, size, expected) in [
        (0, 0, 10, ErrorCode::InvalidRequest),
        (1, 9, 10, ErrorCode::UnsupportedCompressionType),
        (2, 0, 1_048_577, ErrorCode::TelemetryTooLarge),
        (3, 4, 10, ErrorCode::InvalidRecord),
    ] {
        let id = Uuid::from_bytes([number; 16]);
        let subscription = subscribe(&mut client, id);
        let push = PushTelemetryRequest {
            client_instance_id: id,
            subscription_id: subscription.subscription_id,
            compression_type: codec,
            metrics: vec![0; size].into(),
            ..Default::default()
        };
        let refused = ErrorCode::from_code(client.call(&push, 0).error_code);
        assert_eq!(refused, Some(expected));
    }
    assert!(received.0.lock().unwrap().is_empty());
    broker.shutdown();
}

#[test]
fn a_client_above_the_limit_takes_the_room_of_the_one_that_was_silent_for_longest() {
    let (_dir, broker, _, mut client) = receiving(&[("milena.max.client.metrics.instances", "1")]);
    let first = subscribe(&mut client, Uuid::ZERO).client_instance_id;
    // A client that is known must wait for its interval, unless it was forgotten meanwhile.
    let again = |client: &mut Client| ErrorCode::from_code(subscribe(client, first).error_code);
    assert_eq!(again(&mut client), Some(ErrorCode::ThrottlingQuotaExceeded));
    subscribe(&mut client, Uuid::ZERO);
    assert_eq!(again(&mut client), Some(ErrorCode::None));
    broker.shutdown();
}
