//! The distribution of a topic's records over its partitions.

use super::{hash::of_bytes, sketch::Sketch};

/// Counts records, bytes and keys of each partition in constant memory.
#[derive(Debug)]
pub struct Skew {
    partitions: Vec<Counts>,
    top_keys: usize,
}

#[derive(Debug)]
struct Counts {
    records: u64,
    bytes: u64,
    without_key: u64,
    keys: Sketch,
    /// The key of each counter.
    names: Vec<Vec<u8>>,
}

/// The result of [`Skew`].
#[derive(Debug, Clone, PartialEq)]
pub struct SkewReport {
    pub records: u64,
    pub bytes: u64,
    /// The records of the largest partition divided by the average; 1 if all are equal. `None` without records.
    pub record_ratio: Option<f64>,
    /// As `record_ratio`, for bytes.
    pub byte_ratio: Option<f64>,
    /// All partitions, by number.
    pub partitions: Vec<PartitionSkew>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PartitionSkew {
    pub partition: i32,
    pub records: u64,
    pub bytes: u64,
    /// The share of all records, from 0 to 1.
    pub record_share: f64,
    /// The share of all bytes, from 0 to 1.
    pub byte_share: f64,
    /// Records without a key.
    pub without_key: u64,
    /// The most frequent keys, in descending order.
    pub top_keys: Vec<KeyCount>,
}

/// The number of records of a key. Both bounds are equal unless the partition has more keys than counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyCount {
    /// Its first [`KEY_BYTES_MAX`] bytes.
    pub key: Vec<u8>,
    pub at_least: u64,
    pub at_most: u64,
}

/// The maximum number of bytes kept of a key.
pub const KEY_BYTES_MAX: usize = 256;

/// Counters per reported key; more counters make the counts more exact.
const COUNTERS_PER_KEY: usize = 20;
const COUNTERS_MIN: usize = 200;

impl Skew {
    /// For a topic with `partitions` partitions; reports `top_keys` keys of each.
    pub fn new(partitions: usize, top_keys: usize) -> Self {
        let counters = top_keys.saturating_mul(COUNTERS_PER_KEY).max(COUNTERS_MIN);
        let counts = || Counts {
            records: 0,
            bytes: 0,
            without_key: 0,
            keys: Sketch::new(counters),
            names: Vec::new(),
        };
        Self {
            partitions: (0..partitions).map(|_| counts()).collect(),
            top_keys,
        }
    }

    /// Counts a record. Records of unknown partitions are ignored.
    pub fn add(&mut self, partition: i32, key: Option<&[u8]>, bytes: usize) {
        let partition = usize::try_from(partition).ok();
        let Some(counts) = partition.and_then(|partition| self.partitions.get_mut(partition)) else {
            return;
        };
        counts.records += 1;
        counts.bytes += bytes as u64;
        match key {
            Some(key) => counts.count_key(key),
            None => counts.without_key += 1,
        }
    }

    pub fn report(&self) -> SkewReport {
        let records = self.partitions.iter().map(|counts| counts.records);
        let bytes = self.partitions.iter().map(|counts| counts.bytes);
        let (all_records, all_bytes) = (records.clone().sum(), bytes.clone().sum());
        let partitions = (0..).zip(&self.partitions).map(|(partition, counts)| PartitionSkew {
            partition,
            records: counts.records,
            bytes: counts.bytes,
            record_share: share(counts.records, all_records),
            byte_share: share(counts.bytes, all_bytes),
            without_key: counts.without_key,
            top_keys: counts.top(self.top_keys),
        });
        SkewReport {
            records: all_records,
            bytes: all_bytes,
            record_ratio: ratio(records),
            byte_ratio: ratio(bytes),
            partitions: partitions.collect(),
        }
    }
}

impl Counts {
    fn count_key(&mut self, key: &[u8]) {
        let counted = self.keys.add(of_bytes(key));
        if !counted.is_new {
            return;
        }
        if counted.slot >= self.names.len() {
            self.names.resize_with(counted.slot + 1, Vec::new);
        }
        if let Some(name) = self.names.get_mut(counted.slot) {
            name.clear();
            name.extend(key.iter().take(KEY_BYTES_MAX));
        }
    }

    fn top(&self, keys: usize) -> Vec<KeyCount> {
        let counted = self.keys.counted();
        let named = counted.iter().take(keys).map(|counted| KeyCount {
            key: self.names.get(counted.slot).cloned().unwrap_or_default(),
            at_least: counted.at_least,
            at_most: counted.at_most,
        });
        named.collect()
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The maximum divided by the mean.
fn ratio(parts: impl Iterator<Item = u64> + Clone) -> Option<f64> {
    let largest = parts.clone().max()?;
    let (sum, count) = parts.fold((0, 0_u64), |(sum, count), part| (sum + part, count + 1));
    (sum > 0).then(|| largest as f64 * count as f64 / sum as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_ratios_are_of_all_partitions() {
        let mut skew = Skew::new(4, 2);
        for (partition, key, bytes) in [
            (0, Some("a"), 10),
            (0, Some("a"), 10),
            (0, Some("b"), 10),
            (0, None, 10),
            (0, Some("c"), 10),
            (0, Some("a"), 10),
            (2, Some("d"), 20),
            (2, Some("d"), 20),
        ] {
            skew.add(partition, key.map(str::as_bytes), bytes);
        }
        skew.add(4, Some(b"of another topic"), 1);
        skew.add(-1, Some(b"of no topic"), 1);
        let report = skew.report();
        assert_eq!((report.records, report.bytes), (8, 100));
        assert_eq!((report.record_ratio, report.byte_ratio), (Some(3.0), Some(2.4)));
        let shares: Vec<_> = report.partitions.iter().map(|one| one.record_share).collect();
        assert_eq!(shares, [0.75, 0.0, 0.25, 0.0]);
        let first = &report.partitions[0];
        assert_eq!((first.without_key, first.byte_share), (1, 0.6));
        let key = |key: &str, count| KeyCount {
            key: key.into(),
            at_least: count,
            at_most: count,
        };
        assert_eq!(first.top_keys, [key("a", 3), key("b", 1)]);
        assert_eq!(report.partitions[2].top_keys, [key("d", 2)]);
    }

    #[test]
    fn a_frequent_key_is_found_among_many_in_bounded_memory() {
        let mut skew = Skew::new(1, 3);
        for number in 0..100_000_u32 {
            skew.add(0, Some(&number.to_be_bytes()), 4);
            if number % 10 == 0 {
                skew.add(0, Some(b"frequent"), 8);
            }
        }
        let report = skew.report();
        let first = &report.partitions[0].top_keys[0];
        assert_eq!(first.key, b"frequent");
        assert!(first.at_least <= 10_000 && first.at_most >= 10_000, "{first:?}");
        assert!(first.at_most < 11_000, "{first:?}");
    }

    #[test]
    fn nothing_has_no_skew() {
        let report = Skew::new(3, 5).report();
        assert_eq!(
            (report.record_ratio, report.byte_ratio, report.records),
            (None, None, 0)
        );
        assert_eq!(report.partitions.len(), 3);
        assert_eq!(Skew::new(0, 5).report().partitions, []);
    }
}
