//! Spreading of hot keys.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use tracing::{info, warn};

use super::{
    BuiltIn, Choice, KeyVariety, PartitionInput, Partitioner, PartitionerNumbers, Partitions, hash::of_bytes,
    sketch::Sketch,
};

/// Configuration of [`HotKeys`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotKeysConfig {
    /// A key with more records than this per minute is hot.
    pub records_per_minute: u64,
    /// The number of partitions for a hot key; at least one.
    pub spread: u32,
    /// The number of keys of a topic that are counted at a time. A key with more than `1/counters` of all records is
    /// never missed.
    pub counters: usize,
}

impl Default for HotKeysConfig {
    fn default() -> Self {
        Self {
            records_per_minute: 10_000,
            spread: 4,
            counters: 1024,
        }
    }
}

/// Spreads a hot key over several partitions, at the cost of the order of its records. Other records use another
/// partitioner, Kafka's own by default.
///
/// Counts restart every minute. A key stays hot during the next minute, and cools down after a whole minute below the
/// limit. Each hot key is logged as a warning and counted in the metrics. With more keys than counters, counts err on
/// the low side, so that no key loses its order without need.
///
/// Topics with fewer keys than partitions are logged too, once per topic.
#[derive(Debug)]
pub struct HotKeys<P = BuiltIn> {
    others: P,
    config: HotKeysConfig,
    started: Instant,
    topics: Mutex<BTreeMap<Box<str>, TopicKeys>>,
    hot_keys: AtomicU64,
    hot_keys_total: AtomicU64,
    records_spread_total: AtomicU64,
}

const WINDOW_MS: u64 = 60_000;

/// The keys of one topic.
#[derive(Debug)]
struct TopicKeys {
    /// The minute of the counts.
    window: u64,
    counts: Sketch,
    hot: HashMap<u64, Hot>,
    variety: KeyVariety,
}

#[derive(Debug)]
struct Hot {
    /// Whether it was above the limit in this window too.
    again: bool,
    /// The number of its records, for round robin.
    counter: u32,
}

impl Default for HotKeys {
    fn default() -> Self {
        Self::new(BuiltIn::default(), HotKeysConfig::default())
    }
}

impl<P: Partitioner> HotKeys<P> {
    pub fn new(others: P, config: HotKeysConfig) -> Self {
        Self {
            others,
            config,
            started: Instant::now(),
            topics: Mutex::default(),
            hot_keys: AtomicU64::new(0),
            hot_keys_total: AtomicU64::new(0),
            records_spread_total: AtomicU64::new(0),
        }
    }

    fn partition_at(&self, now_ms: u64, record: &PartitionInput<'_>, partitions: &Partitions<'_>) -> Choice {
        let choice = self.others.partition(record, partitions);
        let (Choice::Partition(first), Some(key)) = (choice, record.key) else {
            return choice;
        };
        let Some(counter) = self.count(now_ms, record.topic, key, partitions) else {
            return choice;
        };
        let step = counter % self.config.spread.clamp(1, partitions.divisor());
        if step > 0 {
            self.records_spread_total.fetch_add(1, Ordering::Relaxed);
        }
        Choice::Partition(partitions.at(u32::try_from(first).unwrap_or(0).saturating_add(step)))
    }

    /// Counts a record. For a hot key, returns the number of its earlier records.
    fn count(&self, now_ms: u64, topic: &str, key: &[u8], partitions: &Partitions<'_>) -> Option<u32> {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if !topics.contains_key(topic) {
            let keys = TopicKeys::new(self.config.counters, partitions.divisor() as usize);
            topics.insert(topic.into(), keys);
        }
        let keys = topics.get_mut(topic)?;
        let cooled = keys.begin_window(now_ms / WINDOW_MS);
        if cooled > 0 {
            self.hot_keys.fetch_sub(cooled, Ordering::Relaxed);
            info!(
                event = "hot_keys_cooled",
                topic,
                keys = cooled,
                "keys are no longer hot; their records are in order again"
            );
        }
        let hash = of_bytes(key);
        if let Some(few) = keys.variety.record(hash) {
            warn!(event = "few_keys", topic, "{few}");
        }
        let is_over = keys.counts.add(hash).at_least > self.config.records_per_minute;
        if is_over && !keys.hot.contains_key(&hash) {
            self.hot_keys.fetch_add(1, Ordering::Relaxed);
            self.hot_keys_total.fetch_add(1, Ordering::Relaxed);
            warn!(
                event = "hot_key",
                topic,
                key = %String::from_utf8_lossy(key),
                per_minute = self.config.records_per_minute,
                partitions = self.config.spread,
                "hot key: its records are spread over several partitions and lose their order"
            );
            keys.hot.insert(
                hash,
                Hot {
                    again: true,
                    counter: 0,
                },
            );
        }
        let hot = keys.hot.get_mut(&hash)?;
        hot.again |= is_over;
        let counter = hot.counter;
        hot.counter = counter.wrapping_add(1);
        Some(counter)
    }
}

impl TopicKeys {
    fn new(counters: usize, partitions: usize) -> Self {
        Self {
            window: 0,
            counts: Sketch::new(counters),
            hot: HashMap::new(),
            variety: KeyVariety::new(partitions),
        }
    }

    /// Starts a new window if the minute has changed. Returns the number of keys that have cooled down.
    fn begin_window(&mut self, window: u64) -> u64 {
        if window <= self.window {
            return 0;
        }
        let is_next = window == self.window + 1;
        self.window = window;
        self.counts.clear();
        let before = self.hot.len();
        self.hot.retain(|_, hot| is_next && hot.again);
        for hot in self.hot.values_mut() {
            hot.again = false;
        }
        (before - self.hot.len()) as u64
    }
}

impl<P: Partitioner> Partitioner for HotKeys<P> {
    fn partition(&self, record: &PartitionInput<'_>, partitions: &Partitions<'_>) -> Choice {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.partition_at(now_ms, record, partitions)
    }

    fn numbers(&self) -> PartitionerNumbers {
        PartitionerNumbers {
            hot_keys: self.hot_keys.load(Ordering::Relaxed),
            hot_keys_total: self.hot_keys_total.load(Ordering::Relaxed),
            records_spread_total: self.records_spread_total.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const TEN: Partitions<'_> = Partitions {
        count: 10,
        available: &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        loads: &[],
    };

    fn record<'a>(topic: &'a str, key: &'a [u8]) -> PartitionInput<'a> {
        PartitionInput {
            topic,
            key: Some(key),
            value: None,
            headers: &[],
            timestamp_ms: 0,
        }
    }

    fn small() -> HotKeys {
        let config = HotKeysConfig {
            records_per_minute: 100,
            spread: 3,
            counters: 16,
        };
        HotKeys::new(BuiltIn::default(), config)
    }

    /// The partitions of `records` records of a key.
    fn send(hot_keys: &HotKeys, now_ms: u64, key: &[u8], records: usize) -> BTreeSet<i32> {
        let placed = (0..records).map(|_| hot_keys.partition_at(now_ms, &record("t", key), &TEN));
        placed
            .map(|choice| match choice {
                Choice::Partition(partition) => partition,
                Choice::Sticky => panic!("it has a key"),
            })
            .collect()
    }

    fn home(key: &[u8]) -> i32 {
        TEN.of_hash(super::super::murmur2(key))
    }

    #[test]
    fn a_key_is_spread_from_the_record_that_is_too_much() {
        let hot_keys = small();
        assert_eq!(send(&hot_keys, 0, b"k", 100), BTreeSet::from([home(b"k")]));
        let spread = [0, 1, 2].map(|step| (home(b"k") + step) % 10);
        assert_eq!(send(&hot_keys, 0, b"k", 30), BTreeSet::from(spread));
        assert_eq!(send(&hot_keys, 0, b"other", 100), BTreeSet::from([home(b"other")]));
        let numbers = hot_keys.numbers();
        assert_eq!(
            (numbers.hot_keys, numbers.hot_keys_total, numbers.records_spread_total),
            (1, 1, 20)
        );
    }

    #[test]
    fn by_default_ten_thousand_in_a_minute_are_spread_over_four() {
        let hot_keys = HotKeys::default();
        assert_eq!(send(&hot_keys, 59_999, b"k", 10_000).len(), 1);
        assert_eq!(send(&hot_keys, 59_999, b"k", 100).len(), 4);
    }

    #[test]
    fn a_key_is_hot_until_it_was_not_for_a_whole_minute() {
        let hot_keys = small();
        send(&hot_keys, 0, b"k", 101);
        assert_eq!(
            send(&hot_keys, 60_000, b"k", 90).len(),
            3,
            "still hot in the next minute"
        );
        assert_eq!(
            send(&hot_keys, 120_000, b"k", 90).len(),
            1,
            "it was not above the limit again"
        );
        assert_eq!(hot_keys.numbers().hot_keys, 0);
        send(&hot_keys, 120_000, b"k", 20);
        assert_eq!(hot_keys.numbers().hot_keys_total, 2);
        assert_eq!(send(&hot_keys, 240_000, b"k", 1), BTreeSet::from([home(b"k")]));
    }

    #[test]
    fn many_keys_that_are_not_hot_do_not_seem_so() {
        let hot_keys = small();
        for number in 0..20_000_u32 {
            let key = number.to_be_bytes();
            assert_eq!(send(&hot_keys, 0, &key, 1), BTreeSet::from([home(&key)]));
        }
        assert_eq!(hot_keys.numbers(), PartitionerNumbers::default());
    }

    #[test]
    fn a_key_is_found_among_many() {
        let hot_keys = small();
        for number in 0..20_000_u32 {
            send(&hot_keys, 0, &number.to_be_bytes(), 1);
            send(&hot_keys, 0, b"k", usize::from(number % 10 == 0));
        }
        assert_eq!(hot_keys.numbers().hot_keys, 1);
    }

    #[test]
    fn topics_are_counted_apart_and_never_are_more_partitions_taken_than_there_are() {
        let hot_keys = small();
        let one = Partitions { count: 2, ..TEN };
        for topic in ["a", "b"] {
            for _ in 0..100 {
                hot_keys.partition_at(0, &record(topic, b"k"), &one);
            }
        }
        assert_eq!(hot_keys.numbers().hot_keys, 0);
        let placed = (0..10).map(|_| hot_keys.partition_at(0, &record("a", b"k"), &one));
        let placed: Vec<Choice> = placed.collect();
        assert!(placed.contains(&Choice::Partition(0)) && placed.contains(&Choice::Partition(1)));
        assert!(!placed.contains(&Choice::Partition(2)));
    }
}
