//! The order of a key while one of its records is being retried elsewhere.
//!
//! A retry topic lets later records of a key overtake the one that failed. [`RetryOrdering::HoldKey`] does not: what
//! fails moves to one topic, `<topic>.held`, and whatever of its key follows moves there too, behind it, until the key
//! has nothing left there. That topic is read by a group of its own, in the order of keys, and the delays of the retry
//! topics are waited for there, each key for itself.
//!
//! # The states of a key of a main partition
//!
//! | state | meaning | a record of the key that is next in line |
//! |---|---|---|
//! | free | nothing of it is in the held topic that is not done | goes to the handler |
//! | moving | one of its records is being written to the held topic | waits: its queue has a record out |
//! | fenced at `o` | the last of its records in the held topic is at `o` there | is written to the held topic |
//!
//! free → moving when a record has used up its attempts in place; fenced → moving with every record that follows;
//! moving → fenced when the held topic has acknowledged, which says at which offset; fenced at `o` → free when the group
//! that reads the held topic has *committed* that `o` is done, by its offset or by the map in the commit's metadata.
//! Nothing else is written: what others need a table or a topic of locks for, that commit says already.
//!
//! # What is written before which offset moves
//!
//! 1. the record, to the partition of the held topic that has the number of its own; one of a key at a time
//! 2. its offset in the main topic counts as done only when that is acknowledged
//! 3. its offset in the held topic counts as done when its handler is done with it, or it is among the dead letters
//! 4. the key is free when 3 is committed
//!
//! # When a process ends between any two of these
//!
//! - before 1 is acknowledged: the record is read again from the main topic. If it was written all the same it is handled
//!   twice, in its place both times.
//! - between 1 and the commit of 2: so too. The next owner of the main partition first reads the held partition from what
//!   is committed there to its end, so it knows that the key is fenced, and writes the record behind.
//! - between 3 and its commit: it is handled again by the next owner of the held partition, and the key stays fenced.
//! - after that: nothing is lost that anybody needs; who asks later learns it from the same commit.
//!
//! # When partitions move
//!
//! The two partitions may have different owners; each moves as any other does. An owner that does not know yet that a
//! partition is not its own can repeat what others do, as always with at-least-once delivery, but it keeps the order
//! itself: the *first* time that anything of a key takes effect is in the order of the main topic. With transactions,
//! the write and the offset are in one, and the reader of the held partition waits for those that are open.
//!
//! # Bounds
//!
//! So many keys of a partition are fenced at most ([`RetryPolicy::held_keys_max`]). What fails then waits in its place for
//! as long as in the held topic, and only its key with it. What is held and waits counts for its partition of the held
//! topic alone; when that is full, it is not fetched until something of it is done.
//!
//! How often a record was tried in the held topic is not written anywhere. After a crash its waits begin anew, but never
//! before the time that was written with it.
//!
//! [`RetryOrdering::HoldKey`]: super::RetryOrdering::HoldKey
//! [`RetryPolicy::held_keys_max`]: super::RetryPolicy::held_keys_max

use std::collections::BTreeMap;

use super::{CommittedOffset, commit_map, tracker::FinishedRange};

/// A record in the held topic that is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRecord {
    pub key: Option<Vec<u8>>,
    /// Its offset there.
    pub offset: i64,
}

/// The fenced keys of a main partition.
#[derive(Debug, Default)]
pub struct HeldKeys {
    /// Where the last record of each key is held.
    keys: BTreeMap<Vec<u8>, i64>,
    /// So too for records without one, if they are in order.
    without_key: Option<i64>,
}

impl HeldKeys {
    /// What a new owner finds in the held topic.
    pub fn new(held: impl IntoIterator<Item = HeldRecord>, null_is_key: bool) -> Self {
        let mut fence = Self::default();
        for HeldRecord { key, offset } in held {
            if key.is_some() || null_is_key {
                fence.close(key.as_deref(), offset);
            }
        }
        fence
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.without_key.is_none()
    }

    pub fn len(&self) -> usize {
        self.keys.len() + usize::from(self.without_key.is_some())
    }

    pub fn is_closed(&self, key: Option<&[u8]>) -> bool {
        match key {
            Some(key) => self.keys.contains_key(key),
            None => self.without_key.is_some(),
        }
    }

    /// A record of a key is in the held topic.
    pub fn close(&mut self, key: Option<&[u8]>, offset: i64) {
        match key {
            Some(key) => match self.keys.get_mut(key) {
                Some(last) => *last = offset.max(*last),
                None => drop(self.keys.insert(key.to_vec(), offset)),
            },
            None => self.without_key = self.without_key.max(Some(offset)),
        }
    }

    /// What the group that reads the held topic has committed. Keys of which nothing is left there are free. A map that
    /// cannot be read tells nothing, and the offset counts alone.
    pub fn open(&mut self, committed: &CommittedOffset) {
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
        let mut fence = HeldKeys::new([held("a", 3), held("b", 4), held("a", 7)], false);
        assert_eq!(fence.len(), 2);
        fence.open(&committed(4, &[]));
        assert!(fence.is_closed(Some(b"a")) && fence.is_closed(Some(b"b")));
        fence.open(&committed(5, &[]));
        assert!(fence.is_closed(Some(b"a")) && !fence.is_closed(Some(b"b")));
        fence.open(&committed(8, &[]));
        assert!(fence.is_empty());
    }

    /// One key may wait for long and must not keep the others of its partition fenced.
    #[test]
    fn what_is_done_above_the_offset_counts() {
        let mut fence = HeldKeys::new([held("waits", 3), held("done", 5)], false);
        fence.open(&committed(3, &[5]));
        assert!(fence.is_closed(Some(b"waits")));
        assert!(!fence.is_closed(Some(b"done")));
    }

    #[test]
    fn a_record_that_follows_moves_the_fence_and_never_back() {
        let mut fence = HeldKeys::default();
        fence.close(Some(b"a"), 9);
        fence.close(Some(b"a"), 2);
        fence.open(&committed(9, &[]));
        assert!(fence.is_closed(Some(b"a")));
    }

    #[test]
    fn records_without_a_key_have_a_fence_only_if_they_are_in_order() {
        let without = || HeldRecord { key: None, offset: 1 };
        assert!(HeldKeys::new([without()], false).is_empty());
        let mut fence = HeldKeys::new([without()], true);
        assert!(fence.is_closed(None) && !fence.is_closed(Some(b"a")));
        fence.open(&committed(2, &[]));
        assert!(fence.is_empty());
    }

    #[test]
    fn metadata_that_is_no_map_frees_nobody_early() {
        let mut fence = HeldKeys::new([held("a", 3)], false);
        fence.open(&CommittedOffset {
            offset: 3,
            metadata: "what others write".to_owned(),
        });
        assert!(fence.is_closed(Some(b"a")));
    }
}
