//! Records that go on while the output of those before them is not acknowledged.

use milena_machines::app::{
    Action, CommitResult, Delivery, Failure, HandlerConfig, Order, Outcome, Publish, PublishResult, RecordId,
    RetryOrdering, RetryPolicy, SchedulerConfig,
};

use super::rig::{Rig, config, handler, rig};

impl Rig {
    /// The next record is handed out alone, emits something, and the producer takes that.
    fn emit(&mut self, offset: i64) -> RecordId {
        let dispatched = self.one();
        assert_eq!(dispatched.offset, offset);
        self.finish(dispatched.record, Outcome::Emit);
        assert_eq!(self.publish(), Publish::Output);
        self.work.handle_taken(dispatched.record);
        dispatched.record
    }
}

#[test]
fn what_is_taken_is_passed_and_done_in_its_order() {
    let mut rig = rig();
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "a", "a"]);
    let [first, second] = [0, 1].map(|offset| rig.emit(offset));
    assert_eq!(rig.offsets(), [2]);
    rig.published(second, PublishResult::Acked);
    rig.advance(2_000);
    assert_eq!(rig.said(), [], "the first is not acknowledged");
    rig.published(first, PublishResult::Acked);
    rig.advance(2_000);
    assert_eq!(rig.commit().offset, 2);
}

#[test]
fn the_same_in_the_order_of_the_partition() {
    let mut rig = Rig::new(config(HandlerConfig {
        order: Order::Partition,
        ..handler()
    }));
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "b"]);
    let [first, second] = [0, 1].map(|offset| rig.emit(offset));
    rig.published(first, PublishResult::Acked);
    rig.published(second, PublishResult::Acked);
    rig.advance(2_000);
    assert_eq!(rig.commit().offset, 2);
}

#[test]
fn what_has_passed_one_that_is_not_written_is_handled_again_behind_it() {
    let mut rig = rig();
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "a", "a", "a"]);
    let [first, second, third] = [0, 1, 2].map(|offset| rig.emit(offset));
    let fourth = rig.one().record;
    rig.published(second, PublishResult::Acked);
    rig.published(first, PublishResult::Failed);
    assert_eq!(rig.offsets(), []);
    rig.said();
    rig.finish(fourth, Outcome::Emit);
    assert_eq!(rig.said(), [], "it would be written before the first");
    rig.advance(200);
    assert_eq!(rig.publish(), Publish::Output);
    rig.published(first, PublishResult::Acked);
    assert_eq!(rig.offsets(), [], "the third is under way");
    rig.published(third, PublishResult::Acked);
    rig.said();
    let again = [1, 2, 3].map(|offset| rig.emit(offset));
    assert_eq!(again, [second, third, fourth]);
    for record in again {
        rig.published(record, PublishResult::Acked);
    }
    rig.advance(2_000);
    assert_eq!(rig.commit().offset, 4);
}

#[test]
fn what_failed_waits_for_those_before_it() {
    let mut rig = rig();
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "a"]);
    let [first, second] = [0, 1].map(|offset| rig.emit(offset));
    rig.published(second, PublishResult::Failed);
    rig.advance(50);
    assert_eq!(rig.said(), []);
    rig.published(first, PublishResult::Acked);
    rig.said();
    rig.advance(200);
    assert_eq!(rig.publish(), Publish::Output);
    rig.published(second, PublishResult::Acked);
    rig.committed(CommitResult::Ok);
    rig.said();
    rig.advance(2_000);
    assert_eq!(rig.commit().offset, 2);
}

#[test]
fn what_is_refused_becomes_a_dead_letter_of_its_own_record() {
    let mut rig = rig();
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "a"]);
    let [first, second] = [0, 1].map(|offset| rig.emit(offset));
    rig.published(first, PublishResult::Refused);
    assert!(matches!(rig.publish(), Publish::DeadLetter { .. }));
    rig.published(second, PublishResult::Acked);
    assert_eq!(rig.offsets(), []);
    rig.published(first, PublishResult::Acked);
    assert_eq!(rig.emit(1), second);
    rig.published(second, PublishResult::Acked);
    rig.advance(2_000);
    assert_eq!(rig.commit().offset, 2);
}

#[test]
fn a_call_that_fails_behind_what_is_taken_goes_its_own_way() {
    let mut rig = rig();
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "a"]);
    let first = rig.emit(0);
    let second = rig.one().record;
    rig.published(first, PublishResult::Failed);
    rig.said();
    rig.finish(second, Outcome::Failed(Failure::Poison));
    assert!(matches!(rig.publish(), Publish::DeadLetter { .. }));
    rig.published(second, PublishResult::Acked);
    rig.advance(200);
    assert_eq!(rig.publish(), Publish::Output);
    rig.published(first, PublishResult::Acked);
    rig.committed(CommitResult::Ok);
    rig.said();
    rig.advance(2_000);
    assert_eq!(rig.commit().offset, 2);
}

#[test]
fn what_has_passed_is_left_behind_with_what_is_not_written() {
    let mut rig = rig();
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "a"]);
    let [first, second] = [0, 1].map(|offset| rig.emit(offset));
    rig.published(second, PublishResult::Acked);
    rig.work.handle_revoking(rig.now, &[partition]);
    rig.published(first, PublishResult::Failed);
    let said = rig.said();
    assert!(said.contains(&Action::Cancel(first)), "{said:?}");
    assert!(
        !said.iter().any(|action| matches!(action, Action::Commit { .. })),
        "{said:?}"
    );
    assert!(said.contains(&Action::Released(partition)), "{said:?}");
}

#[test]
fn where_keys_are_fenced_all_wait() {
    let fenced = HandlerConfig {
        retry: RetryPolicy {
            ordering: RetryOrdering::HoldKey,
            delays_ms: vec![60_000],
            held_keys_max: 1,
            ..handler().retry
        },
        ..handler()
    };
    let mut rig = Rig::new(config(fenced));
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "a"]);
    let first = rig.emit(0);
    assert_eq!(rig.offsets(), []);
    rig.published(first, PublishResult::Acked);
    assert_eq!(rig.offsets(), [1]);
}

#[test]
fn where_nothing_may_be_repeated_all_wait() {
    let mut rig = Rig::new(SchedulerConfig {
        delivery: Delivery::AtMostOnce,
        ..config(HandlerConfig {
            retry: RetryPolicy {
                attempts: 1,
                ..handler().retry
            },
            ..handler()
        })
    });
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "a"]);
    rig.advance(2_000);
    rig.said();
    rig.committed(CommitResult::Ok);
    let first = rig.emit(0);
    rig.advance(2_000);
    rig.committed(CommitResult::Ok);
    rig.said();
    assert_eq!(rig.offsets(), []);
    rig.published(first, PublishResult::Acked);
    assert_eq!(rig.offsets(), [1]);
}
