//! Key holds: the order of keys through retries, and failed publishes.

use milena_machines::app::{
    Action, CommittedOffset, Failure, HandlerConfig, HeldRecord, Outcome, PartitionId, Publish, PublishResult,
    RetryOrdering, RetryPolicy, Role, StallReason,
};

use super::rig::{Rig, config, handler};

fn fencing() -> Rig {
    Rig::new(config(HandlerConfig {
        retry: RetryPolicy {
            attempts: 1,
            delays_ms: vec![60_000],
            ordering: RetryOrdering::HoldKey,
            held_keys_max: 1,
            ..handler().retry
        },
        ..handler()
    }))
}

/// Lets a record fail and move to the held-keys topic.
fn hold(rig: &mut Rig, partition: PartitionId, offset: i64, key: &'static str, at: i64) {
    rig.read(partition, offset, key);
    let record = rig.one().record;
    rig.finish(record, Outcome::Failed(Failure::Retry));
    assert!(matches!(rig.publish(), Publish::HeldKeys { due_ms: Some(_), .. }));
    rig.published(record, PublishResult::AckedAt(at));
}

fn committed(offset: i64) -> CommittedOffset {
    CommittedOffset {
        offset,
        metadata: String::new(),
    }
}

#[test]
fn what_follows_of_a_key_goes_behind_it_until_that_is_committed() {
    let mut rig = fencing();
    let partition = rig.assign(0);
    hold(&mut rig, partition, 0, "a", 5);
    rig.said();
    rig.read(partition, 1, "a");
    rig.read(partition, 2, "b");
    assert_eq!(rig.offsets(), [2]);
    let said = rig.said();
    let [Action::Publish { record, what }] = said[..] else {
        panic!("{said:?}")
    };
    assert!(matches!(
        what,
        Publish::HeldKeys {
            due_ms: None,
            attempts: 0,
            ..
        }
    ));
    rig.published(record, PublishResult::AckedAt(6));
    // The first is done, but not the one behind it.
    rig.work.handle_held_commit(partition, &committed(6));
    assert_eq!(rig.work.held_keys(partition), 1);
    rig.work.handle_held_commit(partition, &committed(7));
    rig.read(partition, 3, "a");
    assert_eq!(rig.offsets(), [3]);
}

#[test]
fn a_new_owner_fences_what_it_finds_and_asks() {
    let mut rig = fencing();
    let partition = rig.assign(0);
    let held = HeldRecord {
        key: Some(b"a".to_vec()),
        offset: 5,
    };
    rig.work.handle_held_records(rig.now, partition, [held]);
    rig.read(partition, 1, "a");
    assert_eq!(rig.offsets(), [] as [i64; 0]);
    rig.said();
    rig.advance(1_000);
    assert!(rig.said().contains(&Action::CheckKeyHolds(vec![partition])));
}

#[test]
fn without_room_for_its_key_a_record_waits_in_its_place() {
    let mut rig = fencing();
    let partition = rig.assign(0);
    hold(&mut rig, partition, 0, "a", 5);
    rig.read(partition, 1, "b");
    let record = rig.one().record;
    rig.finish(record, Outcome::Failed(Failure::Retry));
    let why = rig.work.stall_reason(rig.now, partition);
    assert!(matches!(why, Some(StallReason::WaitsForRetry { .. })), "{why:?}");
}

#[test]
fn what_is_held_is_not_tried_before_its_time() {
    let mut rig = fencing();
    let held = rig.assign_at(0, Role::HeldKeys, 0, None);
    let retry = milena_machines::app::RetryInfo {
        attempts: 1,
        due_ms: Some(rig.now + 60_000),
        first_failed_ms: None,
        returns: 0,
    };
    rig.read_retry(held, 0, "a", Some(retry));
    rig.read(held, 1, "a");
    rig.read(held, 2, "b");
    assert_eq!(rig.offsets(), [2]);
    rig.advance(59_999);
    assert_eq!(rig.offsets(), [] as [i64; 0]);
    rig.advance(1);
    assert_eq!(rig.offsets(), [0]);
}

#[test]
fn what_can_never_be_written_is_a_dead_letter() {
    let mut rig = Rig::new(config(handler()));
    let partition = rig.assign(0);
    rig.read(partition, 0, "a");
    let record = rig.one().record;
    rig.finish(record, Outcome::Emit);
    assert_eq!(rig.publish(), Publish::Output);
    rig.published(record, PublishResult::Refused);
    assert!(matches!(rig.publish(), Publish::DeadLetter { .. }));
    rig.published(record, PublishResult::Acked);
    assert_eq!(rig.work.status().records, 0);
}
