//! Key holds: the order of a key while one of its records is retried.
//!
//! A retry topic lets later records of a key overtake the one that failed. [`RetryOrdering::HoldKey`] does not: a record
//! that fails moves to one topic, `<topic>.held`, and later records of its key follow it there, until the key has no
//! unfinished records in that topic. A group of its own reads the held-keys topic in the order of keys and waits there for
//! the delays of the retry topics, each key for itself.
//!
//! # States of a key of a main partition
//!
//! | state | meaning | the next record of the key |
//! |---|---|---|
//! | free | it has no unfinished records in the held-keys topic | goes to the handler |
//! | moving | one of its records is being written to the held-keys topic | waits: its queue has a record in flight |
//! | held at `o` | the last of its records in the held-keys topic is at offset `o` | is written to the held-keys topic |
//!
//! free → moving when a record has used up its attempts in place; held → moving with every record that follows;
//! moving → held when the write is acknowledged with its offset; held at `o` → free when the group that reads the held-keys
//! topic has *committed* that `o` is done, by its offset or by the map in the metadata. That commit is the only state:
//! there is no table and no topic of locks.
//!
//! # Order of writes
//!
//! 1. the record, to the partition of the held-keys topic with the same number; one of a key at a time
//! 2. its offset in the main topic is done only when that is acknowledged
//! 3. its offset in the held-keys topic is done when its handler is done with it, or it is a dead letter
//! 4. the key is free when 3 is committed
//!
//! # Crashes between two of these
//!
//! - before 1 is acknowledged: the record is read again from the main topic. If it was written all the same it is handled
//!   twice, both times in its place of the order.
//! - between 1 and the commit of 2: the same. The next owner of the main partition first reads the held-keys partition from
//!   its committed offset to its end, so it knows that the key is held, and writes the record behind.
//! - between 3 and its commit: the next owner of the held-keys partition handles it again, and the key stays held.
//! - after that: nothing is lost; a later owner reads the same commit.
//!
//! # Rebalances
//!
//! The two partitions may have different owners; each moves as any other does. An owner that does not know yet that it has
//! lost a partition can repeat records, as always with at-least-once delivery, but it keeps the order itself: the *first*
//! effect of each record of a key is in the order of the main topic. With transactions, the write and the offset are in
//! one, and the reader of the held-keys partition waits for open transactions.
//!
//! # Bounds
//!
//! At most [`RetryPolicy::held_keys_max`] keys of a partition are held. A record that fails beyond that waits in place for
//! as long as in the held-keys topic, and only its key waits with it. Waiting records of the held-keys topic count for
//! their partition alone; when that is full, it is not fetched until one of them is done.
//!
//! The number of attempts in the held-keys topic is not stored. After a crash its waits begin again, but never before the
//! due time that was written with the record.
//!
//! [`RetryOrdering::HoldKey`]: super::RetryOrdering::HoldKey
//! [`RetryPolicy::held_keys_max`]: super::RetryPolicy::held_keys_max

use std::collections::BTreeMap;

use super::{CommittedOffset, RetryOrdering, SchedulerConfig, commit_map, tracker::FinishedRange};
use crate::TopicPartition;

/// The interval at which the commits of the held-keys topic are checked: a quarter of the shortest delay, within these.
const CHECK_MIN_MS: i64 = 100;
const CHECK_MAX_MS: i64 = 1_000;

/// An unfinished record in the held-keys topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRecord {
    pub key: Option<Vec<u8>>,
    /// Its offset there.
    pub offset: i64,
}

/// The held keys of all main partitions. They outlive an assignment: without newer knowledge, keys that were held when a
/// partition was here before are still held.
#[derive(Debug)]
pub(crate) struct KeyHolds {
    partitions: BTreeMap<TopicPartition, HeldKeys>,
    check_interval_ms: i64,
}

impl KeyHolds {
    pub(crate) fn new(config: &SchedulerConfig) -> Self {
        let retries = config.handlers.iter().map(|handler| &handler.retry);
        let holding = retries.filter(|retry| retry.ordering == RetryOrdering::HoldKey);
        let shortest = holding.flat_map(|retry| retry.delays_ms.iter().copied()).min();
        Self {
            partitions: BTreeMap::new(),
            check_interval_ms: (shortest.unwrap_or(0) / 4).clamp(CHECK_MIN_MS, CHECK_MAX_MS),
        }
    }

    /// The time of the next check.
    pub(crate) fn next_check_ms(&self, now_ms: i64) -> i64 {
        now_ms.saturating_add(self.check_interval_ms)
    }

    /// Replaces the held keys of a partition by those found in the held-keys topic.
    pub(crate) fn replace(&mut self, partition: TopicPartition, held: HeldKeys) {
        self.partitions.insert(partition, held);
    }

    /// Notes a record of a key in the held-keys topic.
    pub(crate) fn hold(&mut self, partition: &TopicPartition, key: Option<&[u8]>, offset: i64) {
        self.partitions.entry(partition.clone()).or_default().hold(key, offset);
    }

    /// Frees the keys whose records are all done, as the group of the held-keys topic has committed it.
    pub(crate) fn free(&mut self, partition: &TopicPartition, committed: &CommittedOffset) {
        if let Some(held) = self.partitions.get_mut(partition) {
            held.free(committed);
        }
    }

    pub(crate) fn is_held(&self, partition: &TopicPartition, key: Option<&[u8]>) -> bool {
        let held = self.partitions.get(partition);
        held.is_some_and(|held| held.is_held(key))
    }

    /// The number of held keys of a partition.
    pub(crate) fn count(&self, partition: &TopicPartition) -> usize {
        self.partitions.get(partition).map_or(0, HeldKeys::len)
    }
}

/// The held keys of a main partition.
#[derive(Debug, Default)]
pub(crate) struct HeldKeys {
    /// The offset of the last record of each key in the held-keys topic.
    keys: BTreeMap<Vec<u8>, i64>,
    /// The same for records without a key, if they are in order.
    without_key: Option<i64>,
}

impl HeldKeys {
    /// The keys of records that a new owner has found in the held-keys topic.
    pub(crate) fn new(records: impl IntoIterator<Item = HeldRecord>, null_is_key: bool) -> Self {
        let mut held = Self::default();
        for HeldRecord { key, offset } in records {
            if key.is_some() || null_is_key {
                held.hold(key.as_deref(), offset);
            }
        }
        held
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len() + usize::from(self.without_key.is_some())
    }

    pub(crate) fn is_held(&self, key: Option<&[u8]>) -> bool {
        match key {
            Some(key) => self.keys.contains_key(key),
            None => self.without_key.is_some(),
        }
    }

    pub(crate) fn hold(&mut self, key: Option<&[u8]>, offset: i64) {
        match key {
            Some(key) => match self.keys.get_mut(key) {
                Some(last) => *last = offset.max(*last),
                None => drop(self.keys.insert(key.to_vec(), offset)),
            },
            None => self.without_key = self.without_key.max(Some(offset)),
        }
    }

    /// Frees keys by a commit. If its metadata is not a map, only the offset counts.
    pub(crate) fn free(&mut self, committed: &CommittedOffset) {
        let finished = commit_map::decode(&committed.metadata, committed.offset).unwrap_or_default();
        let is_done = |offset: i64| {
            let in_map = |range: &FinishedRange| range.start <= offset && offset < range.end;
            offset < committed.offset || finished.iter().any(in_map)
        };
        self.keys.retain(|_, offset| !is_done(*offset));
        self.without_key = self.without_key.filter(|offset| !is_done(*offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::{commit_map::Room, tracker::Tracker};

    fn held(key: &str, offset: i64) -> HeldRecord {
        HeldRecord {
            key: Some(key.as_bytes().to_vec()),
            offset,
        }
    }

    fn committed(offset: i64, done_above: &[i64]) -> CommittedOffset {
        let ranges = done_above.iter().map(|at| FinishedRange {
            start: *at,
            end: *at + 1,
        });
        let tracker = Tracker::new(0, offset, ranges.collect());
        let room = Room {
            chars: 4_096,
            wide: true,
        };
        CommittedOffset {
            offset,
            metadata: commit_map::encode(&tracker, room).text,
        }
    }

    #[test]
    fn a_key_is_free_when_the_last_of_it_is_committed_as_done() {
        let mut held_keys = HeldKeys::new([held("a", 3), held("b", 4), held("a", 7)], false);
        assert_eq!(held_keys.len(), 2);
        held_keys.free(&committed(4, &[]));
        assert!(held_keys.is_held(Some(b"a")) && held_keys.is_held(Some(b"b")));
        held_keys.free(&committed(5, &[]));
        assert!(held_keys.is_held(Some(b"a")) && !held_keys.is_held(Some(b"b")));
        held_keys.free(&committed(8, &[]));
        assert!(held_keys.len() == 0);
    }

    /// One key may wait for long and must not keep the others of its partition held.
    #[test]
    fn what_is_done_above_the_offset_counts() {
        let mut held_keys = HeldKeys::new([held("waits", 3), held("done", 5)], false);
        held_keys.free(&committed(3, &[5]));
        assert!(held_keys.is_held(Some(b"waits")));
        assert!(!held_keys.is_held(Some(b"done")));
    }

    #[test]
    fn a_record_that_follows_moves_the_hold_and_never_back() {
        let mut held_keys = HeldKeys::default();
        held_keys.hold(Some(b"a"), 9);
        held_keys.hold(Some(b"a"), 2);
        held_keys.free(&committed(9, &[]));
        assert!(held_keys.is_held(Some(b"a")));
    }

    #[test]
    fn records_without_a_key_are_held_only_if_they_are_in_order() {
        let without = || HeldRecord { key: None, offset: 1 };
        assert!(HeldKeys::new([without()], false).len() == 0);
        let mut held_keys = HeldKeys::new([without()], true);
        assert!(held_keys.is_held(None) && !held_keys.is_held(Some(b"a")));
        held_keys.free(&committed(2, &[]));
        assert!(held_keys.len() == 0);
    }

    #[test]
    fn metadata_that_is_no_map_frees_no_key_early() {
        let mut held_keys = HeldKeys::new([held("a", 3)], false);
        held_keys.free(&CommittedOffset {
            offset: 3,
            metadata: "metadata of another client".to_owned(),
        });
        assert!(held_keys.is_held(Some(b"a")));
    }
}
