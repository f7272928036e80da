//! Throttled clients: the response leaves at once, then the connection is muted. The clock is virtual: tests move it.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use milena_broker::{Options, RequestCost, Throttle};
use milena_wire::{api::ApiKey, messages::*};

use crate::{
    client::{Client, batch, fetch_request, produce_request, values},
    paused::{self, Scene},
};

const PAUSE: Duration = Duration::from_secs(100);

/// Throttles clients after each produce and each fetch, and counts those.
#[derive(Debug, Default)]
struct AfterData {
    calls: AtomicUsize,
    bytes: AtomicUsize,
}

impl Throttle for AfterData {
    fn throttle_time(&self, cost: &RequestCost<'_>) -> Duration {
        assert_eq!(cost.client_id, Some("tests"));
        if !matches!(cost.api, ApiKey::Produce | ApiKey::Fetch) {
            return Duration::ZERO;
        }
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.bytes
            .store(cost.request_bytes + cost.response_bytes, Ordering::SeqCst);
        PAUSE
    }
}

/// A scene whose clients are throttled.
struct Throttled<'a> {
    scene: &'a Scene,
    throttle: Arc<AfterData>,
}

impl Deref for Throttled<'_> {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        self.scene
    }
}

impl Throttled<'_> {
    fn calls(&self) -> usize {
        self.throttle.calls.load(Ordering::SeqCst)
    }
}

fn play(act: impl FnOnce(&Throttled<'_>) + Send + 'static) {
    let throttle = Arc::new(AfterData::default());
    let options = Options {
        throttle: Some(Arc::clone(&throttle) as Arc<dyn Throttle>),
        ..Options::default()
    };
    paused::play(options, &[], |scene| act(&Throttled { scene, throttle }));
}

/// The next request is not begun before the pause is over, and then it is.
fn pauses(scene: &Throttled<'_>, client: &mut Client) {
    client.send(&fetch_request("letters", 0, 0), 12);
    let before = scene.calls();
    scene.others_are_served();
    scene.advance(PAUSE - Duration::from_millis(1));
    assert_eq!(scene.calls(), before, "begun during the pause");
    // Timers are as fine as a millisecond.
    scene.advance(Duration::from_millis(2));
    let response = client.receive::<FetchRequest>(12);
    assert_eq!(scene.calls(), before + 1);
    assert_eq!(response.throttle_time_ms, 100_000);
}

#[test]
fn a_client_is_told_at_once_and_then_not_heard() {
    play(|scene| {
        let mut client = scene.client();
        let records = batch(&["a"]);
        let response = client.call(&produce_request("letters", 0, records.clone()), 12);
        assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
        assert_eq!(response.throttle_time_ms, 100_000);
        assert!(scene.throttle.bytes.load(Ordering::SeqCst) > records.len());
        pauses(scene, &mut client);
    });
}

#[test]
fn the_throttle_time_begins_with_a_response_that_had_to_wait() {
    play(|scene| {
        let mut client = scene.client();
        let mut waits = fetch_request("letters", 0, 0);
        waits.max_wait_ms = 50_000;
        client.send(&waits, 12);
        let long = "records are sent from the file ".repeat(100);
        scene.client().produce("letters", 0, batch(&[&long]));
        let response = client.receive::<FetchRequest>(12);
        assert_eq!(response.throttle_time_ms, 100_000);
        let records = response.responses[0].partitions[0].records.as_ref().unwrap();
        assert_eq!(values(records).len(), 1);
        assert!(scene.throttle.bytes.load(Ordering::SeqCst) > long.len());
        pauses(scene, &mut client);
    });
}

#[test]
fn a_request_without_a_response_is_throttled_too() {
    play(|scene| {
        let mut client = scene.client();
        let mut produce = produce_request("letters", 0, batch(&["a"]));
        produce.acks = 0;
        client.send(&produce, 12);
        while scene.calls() == 0 {
            scene.others_are_served();
        }
        pauses(scene, &mut client);
    });
}
