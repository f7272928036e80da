//! One relay, step by step.

use super::*;

const SLOTS: u16 = 4;

fn config() -> RelayConfig {
    RelayConfig {
        slots: SLOTS,
        batch_rows: 3,
        window_rows: 5,
        window_bytes: 1_000,
        lease_ms: 12_000,
        ..RelayConfig::default()
    }
}

fn aggregate(id: &str) -> Aggregate {
    Aggregate {
        kind: "order".into(),
        id: id.into(),
    }
}

fn row(sequence: i64, id: &str) -> Row<()> {
    Row {
        sequence,
        slot: 0,
        aggregate: aggregate(id),
        topic: "order.events".into(),
        bytes: 10,
        payload: (),
    }
}

fn granted(slots: impl IntoIterator<Item = u16>, relays: u32) -> GrantedLeases {
    GrantedLeases {
        held: slots.into_iter().map(|slot| SlotLease { slot, epoch: 1 }).collect(),
        relays,
    }
}

/// A relay with all slots at 0 ms.
fn leased() -> Relay<()> {
    let mut relay = Relay::new(config(), 0, 7);
    let call = relay.poll_lease(0).unwrap();
    assert!(call.may_claim && call.release.is_empty() && !call.is_last);
    relay.handle_leases(0, &granted(0..SLOTS, 1));
    relay
}

fn read(relay: &mut Relay<()>, now_ms: i64, rows: Vec<Row<()>>) -> ReadCall {
    let call = relay.poll_read(now_ms).unwrap();
    relay.handle_rows(now_ms, rows, false);
    call
}

fn sent(relay: &mut Relay<()>, now_ms: i64) -> Vec<i64> {
    std::iter::from_fn(|| relay.poll_publish(now_ms)).collect()
}

#[test]
fn nothing_is_read_or_sent_without_a_lease() {
    let mut relay = Relay::<()>::new(config(), 0, 7);
    assert_eq!(relay.poll_read(0), None);
    let _ = relay.poll_lease(0).unwrap();
    assert_eq!(relay.poll_lease(0), None, "one call at a time");
    relay.handle_leases(0, &granted([], 2));
    assert_eq!(relay.poll_read(0), None);
}

#[test]
fn one_event_of_an_aggregate_is_in_flight_at_a_time() {
    let mut relay = leased();
    read(&mut relay, 0, vec![row(1, "a"), row(2, "a"), row(3, "b")]);
    assert_eq!(sent(&mut relay, 0), [1, 3]);
    relay.handle_published(1);
    assert_eq!(sent(&mut relay, 0), [2]);
}

#[test]
fn rows_in_memory_are_left_out_until_they_are_marked() {
    let mut relay = leased();
    read(&mut relay, 0, vec![row(1, "a"), row(2, "b"), row(3, "c")]);
    assert_eq!(sent(&mut relay, 0).len(), 3);
    relay.handle_published(2);
    let call = read(&mut relay, 0, vec![row(4, "d")]);
    assert_eq!((call.held.as_slice(), call.rows_max), ([1, 2, 3].as_slice(), 2));
    assert_eq!(relay.poll_mark(0).unwrap(), [2]);
    relay.handle_marked();
    let call = relay.poll_read(5).unwrap();
    assert_eq!(call.held, [1, 3, 4]);
}

#[test]
fn the_window_bounds_rows_and_bytes() {
    let mut relay = leased();
    read(&mut relay, 0, vec![row(1, "a"), row(2, "b"), row(3, "c")]);
    read(&mut relay, 0, vec![row(4, "d"), row(5, "e")]);
    assert_eq!(relay.poll_read(0), None);
    let mut relay = leased();
    let large = Row {
        bytes: 2_000,
        ..row(1, "a")
    };
    read(&mut relay, 0, vec![large]);
    assert_eq!(relay.poll_read(10), None);
    assert_eq!(sent(&mut relay, 10), [1]);
    relay.handle_published(1);
    assert!(
        relay.poll_read(10).is_some(),
        "the payload is gone, only its mark is missing"
    );
}

#[test]
fn a_refused_event_stops_its_aggregate_only() {
    let mut relay = leased();
    read(&mut relay, 0, vec![row(1, "a"), row(2, "a"), row(3, "b")]);
    assert_eq!(sent(&mut relay, 0), [1, 3]);
    relay.handle_refused(0, 1, RefusedScope::Event, "too large".to_owned());
    relay.handle_published(3);
    assert_eq!(sent(&mut relay, 0), [] as [i64; 0]);
    let note = relay.poll_note().unwrap();
    assert_eq!((note.sequence, note.reason.as_str()), (1, "too large"));
    let call = read(&mut relay, 10, vec![row(4, "c")]);
    assert_eq!(call.stopped_aggregates, [aggregate("a")]);
    assert_eq!(call.held, [3], "the rows of the aggregate are read again later");
    assert_eq!(sent(&mut relay, 10), [4]);
    // The backoff ends, and the aggregate is read from its first row on.
    relay.handle_timeout(2_000);
    let call = read(&mut relay, 2_000, vec![row(1, "a"), row(2, "a")]);
    assert!(call.stopped_aggregates.is_empty());
    assert_eq!(sent(&mut relay, 2_000), [1]);
    relay.handle_refused(2_000, 1, RefusedScope::Event, "too large".to_owned());
    let (_, stop) = relay.stops().next().unwrap();
    assert_eq!(stop.attempts, 2);
}

#[test]
fn a_read_that_left_out_a_refused_event_is_discarded() {
    let mut relay = leased();
    read(&mut relay, 0, vec![row(1, "a")]);
    assert_eq!(sent(&mut relay, 0), [1]);
    let call = relay.poll_read(5).unwrap();
    assert_eq!(call.held, [1]);
    relay.handle_refused(5, 1, RefusedScope::Event, "too large".to_owned());
    // An operator resets the failure before the rows arrive, so the aggregate is not stopped.
    relay.handle_noted(1, true);
    assert_eq!(relay.poll_recheck(6).unwrap(), [1]);
    relay.handle_rechecked(6, &[1]);
    relay.handle_rows(7, vec![row(2, "a")], false);
    assert_eq!(sent(&mut relay, 7), [] as [i64; 0], "2 would overtake 1");
    read(&mut relay, 7, vec![row(1, "a"), row(2, "a")]);
    assert_eq!(sent(&mut relay, 7), [1]);
}

#[test]
fn a_refused_topic_stops_all_its_aggregates() {
    let mut relay = leased();
    read(&mut relay, 0, vec![row(1, "a"), row(2, "b"), row(3, "b")]);
    assert_eq!(sent(&mut relay, 0), [1, 2]);
    relay.handle_refused(0, 1, RefusedScope::Topic, "unknown topic".to_owned());
    relay.handle_refused(0, 2, RefusedScope::Topic, "unknown topic".to_owned());
    let stops: Vec<_> = relay.stops().collect();
    assert_eq!(stops.len(), 1);
    assert_eq!(stops[0].1.attempts, 1);
    let call = relay.poll_read(5).unwrap();
    assert_eq!(call.stopped_topics, ["order.events"]);
    assert!(call.held.is_empty());
}

#[test]
fn an_unavailable_cluster_delays_all_events_and_loses_none() {
    let mut relay = leased();
    read(&mut relay, 0, vec![row(1, "a"), row(2, "b")]);
    assert_eq!(sent(&mut relay, 0), [1, 2]);
    relay.handle_unavailable(100, 1);
    relay.handle_unavailable(100, 2);
    assert_eq!(sent(&mut relay, 100), [] as [i64; 0]);
    let at_ms = relay.poll_timeout(100).unwrap();
    assert_eq!(sent(&mut relay, at_ms.max(200)), [1, 2]);
    assert_eq!(relay.failures(), 0);
}

#[test]
fn events_are_sent_only_while_their_delivery_ends_within_the_lease() {
    let mut relay = leased();
    read(&mut relay, 0, vec![row(1, "a"), row(2, "a")]);
    assert_eq!(sent(&mut relay, 5_999), [1]);
    relay.handle_published(1);
    assert_eq!(sent(&mut relay, 6_000), [] as [i64; 0]);
    assert!(!relay.is_lease_expired(11_999) && relay.is_lease_expired(12_000));
    // A renewal counts from its beginning, however late the response is.
    let _ = relay.poll_lease(7_000).unwrap();
    relay.handle_leases(12_500, &granted(0..SLOTS, 1));
    assert_eq!(sent(&mut relay, 12_999), [2]);
    relay.handle_published(2);
}

#[test]
fn rows_of_a_lost_slot_are_given_up() {
    let mut relay = leased();
    read(&mut relay, 0, vec![row(1, "a"), row(2, "a")]);
    assert_eq!(sent(&mut relay, 0), [1]);
    let _ = relay.poll_lease(2_000).unwrap();
    let later = GrantedLeases {
        held: vec![SlotLease { slot: 0, epoch: 3 }],
        relays: 1,
    };
    relay.handle_leases(2_000, &later);
    assert_eq!(relay.held(), 1, "only the row in flight stays");
    relay.handle_unavailable(2_100, 1);
    assert_eq!(relay.held(), 0, "another relay may have published it");
}

#[test]
fn slots_above_the_share_are_released_after_their_rows() {
    let mut relay = leased();
    let of_slot = |sequence, id, slot| Row {
        slot,
        ..row(sequence, id)
    };
    read(
        &mut relay,
        0,
        vec![of_slot(1, "a", 3), of_slot(2, "a", 3), of_slot(3, "b", 2)],
    );
    assert_eq!(sent(&mut relay, 0), [1, 3]);
    let _ = relay.poll_lease(2_000).unwrap();
    relay.handle_leases(2_000, &granted(0..SLOTS, 2));
    assert_eq!(relay.poll_read(2_000).unwrap().slots, [0, 1]);
    relay.handle_rows(2_000, vec![], false);
    relay.handle_published(3);
    assert_eq!(relay.poll_lease(2_000), None, "the event is not marked yet");
    assert_eq!(relay.poll_mark(2_000).unwrap(), [3]);
    relay.handle_marked();
    assert_eq!(relay.poll_lease(2_000).unwrap().release, [2]);
    relay.handle_leases(2_000, &granted([0, 1, 3], 2));
    assert_eq!(relay.slots(), 3);
    assert_eq!(sent(&mut relay, 2_000), [] as [i64; 0]);
    assert_eq!(claim_max(SLOTS, 2, 0), 2);
    assert_eq!(claim_max(SLOTS, 3, 0), 2);
    assert_eq!(claim_max(SLOTS, 1, 4), 0);
}

#[test]
fn a_relay_that_stops_finishes_its_events_and_releases_all() {
    let mut relay = leased();
    read(&mut relay, 0, vec![row(1, "a"), row(2, "a")]);
    assert_eq!(sent(&mut relay, 0), [1]);
    relay.handle_stop();
    let call = relay.poll_lease(1).unwrap();
    assert_eq!(
        (call.release.as_slice(), call.may_claim, call.is_last),
        ([1, 2, 3].as_slice(), false, false)
    );
    relay.handle_leases(1, &granted([0], 1));
    relay.handle_published(1);
    assert_eq!(sent(&mut relay, 1), [] as [i64; 0]);
    assert_eq!(relay.poll_mark(1).unwrap(), [1]);
    relay.handle_marked();
    let call = relay.poll_lease(1).unwrap();
    assert!(call.is_last && call.release == [0]);
    relay.handle_leases(1, &granted([], 0));
    assert!(relay.is_ended());
}

#[test]
fn a_relay_sleeps_after_an_empty_read_and_reads_once_more() {
    let mut relay = leased();
    relay.handle_listening(0, true);
    read(&mut relay, 0, vec![row(1, "a")]);
    assert_eq!(relay.poll_sleep(), None);
    read(&mut relay, 5, vec![]);
    assert_eq!(relay.poll_sleep().unwrap(), [0, 1, 2, 3]);
    relay.handle_sleep(6, false);
    assert_eq!(relay.poll_sleep(), None, "a writer is busy: read again first");
    read(&mut relay, 10, vec![]);
    assert!(relay.poll_sleep().is_some());
    relay.handle_sleep(11, true);
    assert!(relay.is_asleep());
    read(&mut relay, 11, vec![]);
    assert_eq!(relay.poll_read(110), None);
    relay.handle_wake(110);
    assert!(relay.poll_wake() && !relay.is_asleep());
    read(&mut relay, 110, vec![]);
    // Without a wake-up, the poll interval is the bound.
    assert!(relay.poll_sleep().is_some());
    relay.handle_sleep(112, true);
    read(&mut relay, 112, vec![]);
    assert!(relay.poll_read(212).is_some());
}

#[test]
fn a_failed_statement_is_repeated_after_a_wait() {
    let mut relay = leased();
    read(&mut relay, 0, vec![row(1, "a")]);
    assert_eq!(sent(&mut relay, 0), [1]);
    relay.handle_published(1);
    assert_eq!(relay.poll_mark(0).unwrap(), [1]);
    relay.handle_mark_failed(0);
    assert_eq!(relay.poll_mark(0), None);
    assert_eq!(relay.poll_read(5), None);
    let at_ms = relay.poll_timeout(0).unwrap();
    assert_eq!(relay.poll_mark(at_ms.max(100)).unwrap(), [1]);
}

#[test]
fn one_relay_cleans_up() {
    let mut relay = leased();
    assert!(!relay.poll_clean(59_999));
    assert!(relay.poll_clean(60_000) && !relay.poll_clean(60_000));
    relay.handle_cleaned(60_500);
    assert!(!relay.poll_clean(3_660_000) && relay.poll_clean(3_660_500));
}
