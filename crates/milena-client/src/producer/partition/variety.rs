//! Detection of topics with fewer keys than partitions.

use std::{
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use super::hash::of_bytes;

/// A topic with fewer distinct keys than partitions: some partitions stay empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FewKeys {
    pub keys: usize,
    pub partitions: usize,
    pub records: u64,
}

impl fmt::Display for FewKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            keys,
            partitions,
            records,
        } = self;
        write!(
            f,
            "{records} records have {keys} distinct keys, fewer than the {partitions} partitions: some partitions stay empty; \
             use finer keys or fewer partitions"
        )
    }
}

/// Counts the distinct keys of one topic until there are enough, or certainly too few. It stores fewer keys than there
/// are partitions, and none afterwards.
#[derive(Debug)]
pub struct KeyVariety {
    partitions: usize,
    /// Sorted hashes of the keys.
    keys: Vec<u64>,
    records: u64,
    is_done: bool,
}

/// Records per partition after which more keys would have been seen.
const RECORDS_PER_PARTITION: u64 = 1000;

impl KeyVariety {
    pub fn new(partitions: usize) -> Self {
        Self {
            partitions,
            keys: Vec::new(),
            records: 0,
            is_done: partitions < 2,
        }
    }

    /// Counts a key by its hash. Returns a warning once, if there are too few keys.
    pub fn record(&mut self, hash: u64) -> Option<FewKeys> {
        if self.is_done {
            return None;
        }
        self.records += 1;
        if let Err(index) = self.keys.binary_search(&hash) {
            self.keys.insert(index, hash);
        }
        let keys = self.keys.len();
        let are_enough = keys >= self.partitions;
        let is_clear = self.records >= self.partitions as u64 * RECORDS_PER_PARTITION;
        if are_enough || is_clear {
            self.is_done = true;
            self.keys = Vec::new();
        }
        (is_clear && !are_enough).then_some(FewKeys {
            keys,
            partitions: self.partitions,
            records: self.records,
        })
    }
}

/// [`KeyVariety`] of a topic for many threads. Once decided, it costs one atomic load.
#[derive(Debug)]
pub(in crate::producer) struct TopicKeys {
    is_over: AtomicBool,
    variety: Mutex<KeyVariety>,
}

impl TopicKeys {
    pub(in crate::producer) fn new(partitions: usize) -> Self {
        let variety = KeyVariety::new(partitions);
        Self {
            is_over: AtomicBool::new(variety.is_done),
            variety: Mutex::new(variety),
        }
    }

    #[inline]
    pub(in crate::producer) fn record(&self, topic: &str, key: &[u8]) {
        if !self.is_over.load(Relaxed) {
            self.observe(topic, key);
        }
    }

    fn observe(&self, topic: &str, key: &[u8]) {
        let mut variety = self.variety.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(few) = variety.record(of_bytes(key)) {
            tracing::warn!(event = "few_keys", topic, "{few}");
        }
        self.is_over.store(variety.is_done, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(partitions: usize, keys: u64, records: u64) -> Vec<FewKeys> {
        let mut variety = KeyVariety::new(partitions);
        (0..records)
            .filter_map(|record| variety.record(record % keys))
            .collect()
    }

    #[test]
    fn too_few_keys_are_reported_once() {
        let few = FewKeys {
            keys: 2,
            partitions: 3,
            records: 3000,
        };
        assert_eq!(warnings(3, 2, 10_000), [few]);
        assert_eq!(warnings(3, 2, 2999), []);
        assert_eq!(warnings(3, 3, 10_000), []);
        assert_eq!(warnings(1, 1, 10_000), []);
    }
}
