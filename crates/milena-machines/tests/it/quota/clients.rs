//! Quotas of users and client ids: precedence, sharing, throttle times, memory.

use milena_machines::quota::{ClientName, ClientQuotas, ConnectionRates, QuotaKey, QuotaTable, Refusable, Window};

use super::entity;

const USER: &str = "user";
const CLIENT: &str = "client-id";

struct Scene {
    table: QuotaTable,
    quotas: ClientQuotas,
    key: QuotaKey,
    now_ms: i64,
}

impl Scene {
    fn new(key: QuotaKey, window: Window) -> Self {
        Self {
            table: QuotaTable::default(),
            quotas: ClientQuotas::new(key, window, 1000),
            key,
            now_ms: 1_700_000_000_000,
        }
    }

    fn produce() -> Self {
        Self::new(QuotaKey::ProducerByteRate, Window::default())
    }

    fn set(&mut self, parts: &[(&str, Option<&str>)], quota: impl Into<Option<f64>>) {
        let quotas = quota.into().map(|quota| (self.key, quota)).into_iter().collect();
        self.table.set(entity(parts), quotas);
        self.quotas.set_limits(self.table.limits(self.key));
    }

    fn record(&mut self, user: &str, client_id: &str, value: f64) -> i64 {
        self.quotas.record(ClientName { user, client_id }, value, self.now_ms)
    }

    /// Checks the quota of a client, and whether it is throttled after as much as `value` in each sample.
    #[track_caller]
    fn check(&mut self, user: &str, client_id: &str, quota: impl Into<Option<f64>>, value: f64, is_throttled: bool) {
        let (client, quota) = (ClientName { user, client_id }, quota.into());
        assert_eq!(self.quotas.limit(client), quota);
        assert_eq!(self.quotas.max_in_window(client), quota.map(|quota| quota * 10.0));
        assert_eq!(self.record(user, client_id, value * 11.0) > 0, is_throttled);
    }
}

#[test]
fn a_quota_that_changes_applies_to_earlier_usage() {
    for level in [&[USER][..], &[CLIENT], &[USER, CLIENT]] {
        let entity = |user, client| {
            let parts = [(USER, user), (CLIENT, client)].into_iter();
            parts.filter(|(kind, _)| level.contains(kind)).collect::<Vec<_>>()
        };
        let mut scene = Scene::produce();
        let one = entity(Some("User1"), Some("p1"));
        scene.set(&one, 2000.0);
        scene.set(&entity(Some("User2"), Some("p2")), 4000.0);
        scene.check("RandomUser", "random-client-id", None, 1e9, false);
        scene.check("User2", "p2", 4000.0, 0.0, false);
        scene.check("User1", "p1", 2000.0, 2500.0, true);
        scene.set(&one, 3000.0);
        scene.check("User1", "p1", 3000.0, 0.0, false);
        scene.set(&one, 500.0);
        scene.check("User1", "p1", 500.0, 0.0, true);
        scene.set(&one, None);
        scene.set(&entity(None, None), 4000.0);
        scene.check("User1", "p1", 4000.0, 1000.0, false);
    }
}

#[test]
fn a_quota_that_is_removed_throttles_no_more() {
    for parts in [
        &[(USER, None)][..],
        &[(USER, Some("userA"))],
        &[(USER, Some("userA")), (CLIENT, Some("client1"))],
        &[(CLIENT, None)],
    ] {
        let mut scene = Scene::produce();
        scene.check("userA", "client1", None, 1000.0, false);
        scene.set(parts, 10.0);
        scene.check("userA", "client1", 10.0, 1000.0, true);
        scene.set(parts, None);
        scene.check("userA", "client1", None, 1000.0, false);
        assert!(!scene.quotas.is_enabled());
        assert_eq!(scene.quotas.sensors_len(), 0);
    }
}

#[test]
fn the_most_in_a_window_follows_from_its_samples() {
    let window = Window {
        samples: 4,
        sample_ms: 1000,
    };
    let mut scene = Scene::new(QuotaKey::ConsumerByteRate, window);
    let client = ClientName {
        user: "userA",
        client_id: "client1",
    };
    assert_eq!(scene.quotas.max_in_window(client), None);
    scene.set(&[(USER, None)], 10.0);
    assert_eq!(scene.quotas.max_in_window(client), Some(30.0));
}

#[test]
fn the_most_specific_quota_decides_and_names_who_shares_it() {
    let mut scene = Scene::produce();
    let (a, b) = (Some("userA"), Some("userB"));
    let one = Some("client1");
    scene.set(&[(USER, None)], 1000.0);
    scene.set(&[(CLIENT, None)], 2000.0);
    scene.set(&[(USER, None), (CLIENT, None)], 3000.0);
    scene.set(&[(USER, a)], 4000.0);
    scene.set(&[(USER, a), (CLIENT, one)], 5000.0);
    scene.set(&[(USER, b)], 6000.0);
    scene.set(&[(USER, b), (CLIENT, one)], 7000.0);
    scene.set(&[(USER, b), (CLIENT, None)], 8000.0);
    scene.set(&[(USER, Some("userC"))], 10_000.0);
    scene.set(&[(CLIENT, one)], 9000.0);

    scene.check("userA", "client1", 5000.0, 4500.0, false);
    scene.check("userA", "client2", 4000.0, 4500.0, true);
    // The quota of a user is shared by its clients, except those with a quota of their own.
    scene.check("userA", "client3", 4000.0, 0.0, true);
    scene.check("userA", "client1", 5000.0, 0.0, false);
    scene.check("userB", "client1", 7000.0, 8000.0, true);
    scene.check("userB", "client2", 8000.0, 7000.0, false);
    scene.check("userB", "client3", 8000.0, 7000.0, false);
    scene.check("userD", "client1", 3000.0, 3500.0, true);
    scene.check("userD", "client2", 3000.0, 2500.0, false);
    scene.check("userE", "client1", 3000.0, 2500.0, false);

    // Without the default of clients of users, users have their default, and are measured anew.
    scene.set(&[(USER, None), (CLIENT, None)], None);
    scene.check("userD", "client1", 1000.0, 0.0, false);
    scene.check("userE", "client4", 1000.0, 1500.0, true);
    scene.check("userF", "client4", 1000.0, 800.0, false);
    scene.check("userF", "client5", 1000.0, 800.0, true);

    // Without that, clients have their default, which all users share.
    scene.set(&[(USER, None)], None);
    scene.check("userF", "client4", 2000.0, 0.0, false);
    scene.check("userF", "client5", 2000.0, 0.0, false);
    scene.check("userF", "client5", 2000.0, 2500.0, true);
    scene.check("userG", "client5", 2000.0, 0.0, true);

    scene.set(&[(USER, a)], 8000.0);
    scene.set(&[(USER, a), (CLIENT, one)], 10_000.0);
    scene.check("userA", "client2", 8000.0, 0.0, false);
    scene.check("userA", "client2", 8000.0, 4500.0, true);
    scene.check("userA", "client1", 10_000.0, 0.0, false);
    scene.check("userA", "client1", 10_000.0, 6000.0, true);
    scene.set(&[(USER, a), (CLIENT, one)], None);
    scene.check("userA", "client6", 8000.0, 0.0, true);
    scene.set(&[(USER, a), (CLIENT, Some("client6"))], 11_000.0);
    scene.check("userA", "client6", 11_000.0, 8500.0, false);
    scene.set(&[(USER, a), (CLIENT, None)], 12_000.0);
    scene.set(&[(USER, a), (CLIENT, Some("client6"))], None);
    scene.check("userA", "client6", 12_000.0, 4000.0, true);
}

#[test]
fn a_client_without_a_name_has_no_quota_of_clients() {
    let mut scene = Scene::produce();
    scene.set(&[(CLIENT, None)], 10.0);
    scene.check("userA", "", None, 1e9, false);
    scene.set(&[(USER, Some("userA"))], 20.0);
    scene.check("userA", "", 20.0, 1e9, true);
}

#[test]
fn a_spike_throttles_until_the_rate_is_back() {
    let mut scene = Scene::produce();
    scene.set(&[(CLIENT, None)], 500.0);
    for _ in 0..10 {
        assert_eq!(scene.record("ANONYMOUS", "unknown", 400.0), 0);
        scene.now_ms += 1000;
    }
    // 400 * 10 + 2300 = 6300 in 10.5 seconds are 600 per second; (600 - 500) / 500 * 10.5 s = 2.1 s.
    scene.now_ms += 500;
    assert_eq!(scene.record("ANONYMOUS", "unknown", 2300.0), 2100);
    scene.now_ms += 2100;
    for _ in 0..10 {
        scene.record("ANONYMOUS", "unknown", 400.0);
        scene.now_ms += 1000;
    }
    assert_eq!(scene.record("ANONYMOUS", "unknown", 0.0), 0);
}

#[test]
fn request_time_throttles_for_one_sample_at_most() {
    let mut scene = Scene::new(QuotaKey::RequestPercentage, Window::default());
    scene.set(&[(USER, Some("ANONYMOUS"))], 1.0);
    for _ in 0..10 {
        assert_eq!(scene.record("ANONYMOUS", "test-client", 0.4), 0);
        scene.now_ms += 1000;
    }
    scene.now_ms += 500;
    // 0.1 seconds of a spike are 2.1 seconds of throttling, above the maximum.
    assert_eq!(scene.record("ANONYMOUS", "test-client", 67.1), 1000);
}

#[test]
fn usage_that_is_taken_back_does_not_count() {
    let mut scene = Scene::new(QuotaKey::ConsumerByteRate, Window::default());
    scene.set(&[(USER, None)], 100.0);
    let client = ClientName {
        user: "a",
        client_id: "b",
    };
    assert!(scene.record("a", "b", 5000.0) > 0);
    scene.quotas.record_unchecked(client, -5000.0, scene.now_ms);
    assert_eq!(scene.record("a", "b", 1000.0), 0);
}

#[test]
fn mutations_are_refused_once_the_bucket_is_overdrawn() {
    let window = Window {
        samples: 10,
        sample_ms: 1000,
    };
    let mut scene = Scene::new(QuotaKey::ControllerMutationRate, window);
    scene.set(&[(USER, Some("ANONYMOUS")), (CLIENT, Some("test-client"))], 10.0);
    let client = ClientName {
        user: "ANONYMOUS",
        client_id: "test-client",
    };
    for _ in 0..10 {
        assert_eq!(scene.quotas.record_strictly(client, 10.0, scene.now_ms), Ok(()));
        scene.now_ms += 1000;
    }
    assert_eq!(scene.quotas.record_strictly(client, 110.0, scene.now_ms), Ok(()));
    assert_eq!(scene.quotas.record_strictly(client, 110.0, scene.now_ms), Err(1000));
    scene.now_ms += 1000;
    assert_eq!(scene.quotas.record_strictly(client, 110.0, scene.now_ms), Ok(()));
    // A permissive quota takes tokens all the same, and returns the time.
    assert_eq!(scene.quotas.record(client, 90.0, scene.now_ms), 20_000);
}

#[test]
fn clients_beyond_the_maximum_share_one_measurement() {
    let mut table = QuotaTable::default();
    let quotas = [(QuotaKey::ProducerByteRate, 10.0)];
    table.set(entity(&[(CLIENT, None)]), quotas.into_iter().collect());
    let mut quotas = ClientQuotas::new(QuotaKey::ProducerByteRate, Window::default(), 3);
    quotas.set_limits(table.limits(QuotaKey::ProducerByteRate));
    let client = |client_id| ClientName { user: "u", client_id };
    for name in ["a", "b", "c", "d"] {
        assert_eq!(quotas.record(client(name), 60.0, 0), 0);
    }
    assert_eq!(quotas.sensors_len(), 3);
    assert!(quotas.is_overflowing());
    // A new name is no way around the quota.
    assert!(quotas.record(client("e"), 60.0, 10) > 0);
    assert_eq!(quotas.record(client("a"), 10.0, 10), 0);
    // When the usage of others is out of the window, there is room again.
    assert_eq!(quotas.record(client("e"), 60.0, 12_000), 0);
    assert_eq!(quotas.sensors_len(), 1);
    assert!(!quotas.is_overflowing());
    quotas.record(client("f"), 0.0, 12_000 + 3_600_000);
    assert_eq!(quotas.sensors_len(), 1, "idle for an hour");
}

#[test]
fn throttle_times_are_counted_by_client() {
    let mut scene = Scene::produce();
    scene.set(&[(USER, Some("a"))], 10.0);
    let client = ClientName {
        user: "a",
        client_id: "b",
    };
    scene.record("a", "b", 100.0);
    scene.quotas.count_throttle(client, 300, scene.now_ms);
    let usage = scene.quotas.usage(scene.now_ms);
    assert_eq!(usage.len(), 1);
    assert_eq!((&*usage[0].user, &*usage[0].client_id), ("a", ""));
    assert_eq!((usage[0].throttles, usage[0].throttled_ms), (1, 300));
    assert_eq!((usage[0].quota, usage[0].measured), (Some(10.0), 10.0));
}

#[test]
fn an_address_with_too_many_connections_is_held_for_one_sample_at_most() {
    let mut rates = ConnectionRates::new(Window::default(), 2);
    assert!(!rates.is_enabled());
    assert_eq!(rates.record(1, 0), Ok(()));
    assert!(rates.is_empty());
    rates.set_limits(Some(1.0), [(7, 2.0)].into());
    // Ten in the window of an address with the default, twenty of the other.
    for address in [1, 7] {
        let accepted = (0..100).filter(|_| rates.record(address, 0).is_ok()).count();
        assert_eq!(accepted, if address == 7 { 20 } else { 10 });
    }
    assert_eq!(rates.record(1, 0), Err(1000));
    // Those that were refused do not count: after the window there is room again.
    assert_eq!(rates.record(1, 11_000), Ok(()));
    // Addresses beyond the maximum share one rate.
    for address in 100..200 {
        let _ = rates.record(address, 11_000);
    }
    assert_eq!(rates.len(), 2);
    assert!(rates.record(300, 11_000).is_err());
}

#[test]
fn a_response_above_the_quota_is_refused_unless_it_is_the_first() {
    let mut scene = Scene::new(QuotaKey::ConsumerByteRate, Window::default());
    let client = ClientName {
        user: "a",
        client_id: "b",
    };
    assert_eq!(
        scene.quotas.record_refusable(client, 1e9, scene.now_ms),
        Refusable::Accepted { throttle_ms: 0 }
    );
    scene.set(&[(USER, None)], 100.0);
    let fetch = |scene: &mut Scene, value| scene.quotas.record_refusable(client, value, scene.now_ms);
    // One batch is larger than the quota of the whole window: it comes through, and the client pays for it.
    assert_eq!(fetch(&mut scene, 3000.0), Refusable::Accepted { throttle_ms: 20_000 });
    assert_eq!(fetch(&mut scene, 10.0), Refusable::Refused { throttle_ms: 20_100 });
    scene.now_ms += 20_000;
    assert_eq!(fetch(&mut scene, 900.0), Refusable::Accepted { throttle_ms: 0 });
    assert_eq!(fetch(&mut scene, 200.0), Refusable::Refused { throttle_ms: 1_000 });
    assert_eq!(fetch(&mut scene, 100.0), Refusable::Accepted { throttle_ms: 0 });
}
