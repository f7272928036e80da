//! The script of a mock: scheduled events and recorded results.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use milena_client::consumer::{OffsetAndMetadata, OffsetError, Offsets, PollError, TopicPartition, WakeupHandle};
use tokio::sync::Notify;

use super::state::{State, Step};
use crate::broker::TestRecord;

/// A call of the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    Subscribe(BTreeSet<String>),
    SubscribePattern(String),
    Assign(BTreeSet<TopicPartition>),
    Unsubscribe,
    Poll(Duration),
    CommitSync(Offsets),
    CommitAsync(Offsets),
    Seek(TopicPartition, i64),
    SeekToBeginning(Vec<TopicPartition>),
    SeekToEnd(Vec<TopicPartition>),
    Pause(Vec<TopicPartition>),
    Resume(Vec<TopicPartition>),
    Close,
}

/// The other side of a [`MockConsumer`](super::MockConsumer): the records, rebalances and errors that it will see,
/// and its results. Clones share the same script.
///
/// Scheduled steps happen inside `poll`, one in each, in the order in which they were scheduled. A rebalance and a
/// task are followed by records in the same `poll`.
#[derive(Clone)]
pub struct MockScript {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

impl MockScript {
    pub(super) fn new(state: State) -> Self {
        let shared = Shared {
            state: Mutex::new(state),
            changed: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state());
        self.shared.changed.notify_one();
        changed
    }

    pub(super) async fn changed_or(&self, wakeup: &WakeupHandle) {
        tokio::select! {
            () = self.shared.changed.notified() => {}
            () = wakeup.woken() => {}
        }
    }

    /// Appends records to a partition, assigned or not. Those without a timestamp get that of the script's
    /// clock, which begins at zero.
    pub fn add_records<R: Into<TestRecord>>(&self, partition: &TopicPartition, records: impl IntoIterator<Item = R>) {
        self.change(|state| {
            for record in records {
                let end = state.ends(partition).1;
                add_record(state, partition, end, record.into());
            }
        });
    }

    /// Appends a record at an offset at or after the end. The gap looks like records that compaction has
    /// removed.
    pub fn add_record_at(&self, partition: &TopicPartition, offset: i64, record: impl Into<TestRecord>) {
        self.change(|state| add_record(state, partition, offset, record.into()));
    }

    /// Sets the beginning of a partition: earlier records are removed, as by retention.
    pub fn set_beginning_offset(&self, partition: &TopicPartition, offset: i64) {
        self.change(|state| state.logs.entry(partition.clone()).or_default().set_beginning(offset));
    }

    /// Sets the end of a partition: later records are cut off; a gap looks as if compaction had removed its
    /// records.
    pub fn set_end_offset(&self, partition: &TopicPartition, offset: i64) {
        self.change(|state| state.logs.entry(partition.clone()).or_default().set_end(offset));
    }

    /// Sets the committed offset of the group.
    pub fn set_committed(&self, partition: &TopicPartition, offset: i64) {
        let committed = OffsetAndMetadata {
            offset,
            leader_epoch: None,
            metadata: Default::default(),
        };
        self.change(|state| state.committed.insert(partition.clone(), committed));
    }

    /// Schedules a rebalance after which the consumer has exactly these partitions. Kept partitions are not
    /// touched: the listener is called for the revoked ones first, then for the assigned ones.
    pub fn rebalance(&self, partitions: impl IntoIterator<Item = TopicPartition>) {
        self.schedule(Step::Rebalance {
            target: partitions.into_iter().collect(),
            eagerly: false,
        });
    }

    /// The same with the eager protocol: all partitions are revoked first, and the kept ones assigned again.
    pub fn rebalance_eagerly(&self, partitions: impl IntoIterator<Item = TopicPartition>) {
        self.schedule(Step::Rebalance {
            target: partitions.into_iter().collect(),
            eagerly: true,
        });
    }

    /// Schedules the loss of all partitions, as when the group has removed the consumer.
    pub fn lose_partitions(&self) {
        self.schedule(Step::Lose);
    }

    /// Schedules an error for a `poll`.
    pub fn fail_poll(&self, error: PollError) {
        self.schedule(Step::Fail(error));
    }

    /// Schedules a `poll` without records, even if there are some.
    pub fn poll_nothing(&self) {
        self.schedule(Step::Nothing);
    }

    /// Schedules a function.
    pub fn run_in_poll(&self, task: impl FnOnce(&Self) + Send + 'static) {
        self.schedule(Step::Run(Box::new(task)));
    }

    fn schedule(&self, step: Step) {
        self.change(|state| state.steps.push_back(step));
    }

    /// Makes the next commit fail, for all of its partitions, automatic ones included. Repeated calls apply to
    /// successive commits.
    pub fn fail_commit(&self, error: OffsetError) {
        self.change(|state| state.commit_failures.push_back(error));
    }

    /// From now on a `poll` that has no records waits for some, for another change of the script, or for a wake-up. Its
    /// timeout does not count.
    pub fn wait_for_records(&self) {
        self.change(|state| state.waits = true);
    }

    /// Advances the clock.
    pub fn advance(&self, duration: Duration) {
        self.change(|state| state.now += duration);
    }

    /// The time since the creation of the consumer. Only polls without records and [`advance`](Self::advance)
    /// take time.
    pub fn now(&self) -> Duration {
        self.state().now
    }

    /// The committed offset of a partition.
    pub fn committed(&self, partition: &TopicPartition) -> Option<i64> {
        self.state().committed.get(partition).map(|committed| committed.offset)
    }

    /// All that has been committed.
    pub fn all_committed(&self) -> Offsets {
        self.state().committed.clone()
    }

    /// The next record of a partition, if that is known.
    pub fn position(&self, partition: &TopicPartition) -> Option<i64> {
        let state = self.state();
        state.positions.position(partition).map(|position| position.offset)
    }

    /// All calls so far. Questions and automatic commits are not among them.
    pub fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    pub fn is_closed(&self) -> bool {
        self.state().closed
    }
}

fn add_record(state: &mut State, partition: &TopicPartition, offset: i64, mut record: TestRecord) {
    record.timestamp.get_or_insert_with(|| state.now_ms());
    state.logs.entry(partition.clone()).or_default().add(offset, record);
}

impl fmt::Debug for MockScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockScript").finish_non_exhaustive()
    }
}
