//! A compacted log against a plain list, through random appends, transactions, compaction, restarts and crashes.
//!
//! These invariants hold in any case: each record that is read was written, with its offset, time and value; of
//! each key, the remaining records are the last ones, without a gap; and the last one is there, unless it is an
//! expired tombstone.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use milena_log::{
    CompactionLimits, Durability, Log, LogConfig, Opening,
    disk::{Disk, MemoryDisk},
};
use milena_wire::{
    compression::Codec,
    records::{Attributes, BatchOptions, ControlRecord},
};

use crate::{
    batches::{DIR, FRESH, end_of, open},
    fragile::FragileDisk,
    keyed::{Keyed, committed, keyed},
    random::Random,
};

const SEEDS: u64 = 100;
const STEPS: usize = 150;
const DELETE_RETENTION_MS: i64 = 1_000;
/// The first two are idempotent only, the others write transactions only.
const PRODUCERS: [i64; 4] = [7, 8, 20, 21];

struct Written {
    record: Keyed,
    /// Its transaction.
    transaction: Option<usize>,
    /// The earliest and the latest time of its first compaction.
    met: Option<i64>,
    compacted: Option<i64>,
}

struct Transaction {
    producer_id: i64,
    first_offset: i64,
    /// The marker's offset, and whether it commits.
    marker: Option<(i64, bool)>,
}

struct World {
    random: Random,
    config: LogConfig,
    disk: FragileDisk,
    log: Log,
    written: BTreeMap<i64, Written>,
    transactions: Vec<Transaction>,
    next_sequences: BTreeMap<i64, i32>,
    last_sent: BTreeMap<i64, (Bytes, i64)>,
    start: i64,
    end: i64,
    /// Nothing at or above was ever offered to compaction.
    offered: i64,
    /// State that a driver would have stored for the next start.
    recovery_point: i64,
    first_dirty: i64,
    now: i64,
    /// Whether the log alone still has all producer state. It does not if the last batch of a producer was
    /// deleted, or was lost in a power cut after compaction had relied on it.
    keeps_producers: bool,
}

impl World {
    fn new(seed: u64, durability: Durability) -> Self {
        let mut random = Random::new(seed);
        let config = LogConfig {
            segment_bytes: 900 + random.below(2_000) as u32,
            index_interval_bytes: random.below(400) as u32,
            timestamp_after_max_ms: i64::MAX,
            compact: true,
            delete: false,
            delete_retention_ms: DELETE_RETENTION_MS,
            durability,
            ..LogConfig::default()
        };
        let disk = FragileDisk::new(MemoryDisk::crashable());
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        Self {
            random,
            log: open(&shared, &config, FRESH),
            config,
            disk,
            written: BTreeMap::new(),
            transactions: vec![],
            next_sequences: BTreeMap::new(),
            last_sent: BTreeMap::new(),
            start: 0,
            end: 0,
            offered: 0,
            recovery_point: 0,
            first_dirty: 0,
            now: 1_000,
            keeps_producers: true,
        }
    }

    fn step(&mut self) {
        match self.random.below(24) {
            0..=8 => self.append(),
            9..=10 => self.end_transaction(),
            11 => self.send_again(),
            12..=14 => self.sync(),
            15..=17 => self.compact(),
            18 => self.crash_in_compaction(),
            19 => self.restart(true),
            20 => self.restart(false),
            21 => self.cut_power(),
            22 => self.delete_records(),
            _ => self.now += self.random.below(700) as i64,
        }
        assert_eq!(self.log.view().log_end_offset, self.end);
    }

    fn append(&mut self) {
        let producer_id = PRODUCERS[self.random.below(PRODUCERS.len())];
        let is_transactional = producer_id >= 20;
        let transaction = is_transactional.then(|| self.transaction_of(producer_id));
        let records = self.records();
        let sequence = self.next_sequences.entry(producer_id).or_insert(0);
        let options = BatchOptions {
            attributes: Attributes::default().with_transactional(is_transactional),
            producer_id,
            producer_epoch: 0,
            base_sequence: *sequence,
            ..BatchOptions::default()
        };
        *sequence += records.len() as i32;
        let codec = Codec::ALL[self.random.below(Codec::ALL.len())];
        let bytes = keyed(&records, options, codec);
        let appended = self.log.append(&bytes, 0, self.now).unwrap();
        assert_eq!((appended.base_offset, appended.duplicate), (self.end, false));
        self.last_sent.insert(producer_id, (bytes, self.end));
        for record in records {
            let written = Written {
                record,
                transaction,
                met: None,
                compacted: None,
            };
            self.written.insert(self.end, written);
            self.end += 1;
        }
    }

    fn records(&mut self) -> Vec<Keyed> {
        let count = 1 + self.random.below(5);
        let record = |_| Keyed {
            timestamp: self.now - 100 + self.random.below(200) as i64,
            key: format!("key {}", self.random.below(12)),
            value: (!self.random.one_in(5)).then(|| "value ".repeat(self.random.below(20))),
        };
        (0..count).map(record).collect()
    }

    /// The producer's open transaction, begun here if there is none.
    fn transaction_of(&mut self, producer_id: i64) -> usize {
        let is_open =
            |transaction: &Transaction| transaction.producer_id == producer_id && transaction.marker.is_none();
        self.transactions.iter().position(is_open).unwrap_or_else(|| {
            self.transactions.push(Transaction {
                producer_id,
                first_offset: self.end,
                marker: None,
            });
            self.transactions.len() - 1
        })
    }

    fn end_transaction(&mut self) {
        let Some(transaction) = self
            .transactions
            .iter_mut()
            .find(|transaction| transaction.marker.is_none())
        else {
            return;
        };
        let commits = self.random.one_in(2);
        let marker = match commits {
            true => ControlRecord::Commit { coordinator_epoch: 0 },
            false => ControlRecord::Abort { coordinator_epoch: 0 },
        };
        let producer_id = transaction.producer_id;
        let appended = self
            .log
            .append_marker(end_of(marker, producer_id, 0), 0, self.now)
            .unwrap();
        assert_eq!(appended.base_offset, self.end);
        transaction.marker = Some((self.end, commits));
        self.end += 1;
    }

    fn send_again(&mut self) {
        let producer_id = PRODUCERS[self.random.below(PRODUCERS.len())];
        if let Some((bytes, base_offset)) = self.last_sent.get(&producer_id) {
            let appended = self.log.append(bytes, 0, self.now).unwrap();
            assert_eq!((appended.base_offset, appended.duplicate), (*base_offset, true));
        }
    }

    fn sync(&mut self) {
        self.log.sync().unwrap();
        if self.random.one_in(2) {
            self.recovery_point = self.log.recovery_point();
        }
    }

    fn compact(&mut self) {
        let before = self.log.view();
        let seen_before = committed(&before, self.start, 2_000);
        self.offer();
        let limits = self.limits();
        if let Some(stats) = self.log.compact(self.now, limits).unwrap() {
            self.compacted(stats.first_dirty_offset);
        }
        assert_eq!(
            committed(&before, self.start, 2_000),
            seen_before,
            "through an old view"
        );
        self.check();
    }

    fn limits(&mut self) -> CompactionLimits {
        let map_bytes_max = [0, 24 * 20, 1 << 20][self.random.below(3)];
        CompactionLimits { map_bytes_max }
    }

    /// Records what compaction may do from here on.
    fn offer(&mut self) {
        let limit = self.log.view().last_stable_offset.min(self.log.recovery_point());
        self.offered = self.offered.max(limit);
        for (_, written) in self.written.range_mut(..limit) {
            written.met.get_or_insert(self.now);
        }
    }

    /// Checks the state after a round: below its end each key is there once, and no expired tombstone.
    fn compacted(&mut self, end: i64) {
        assert_eq!(self.log.first_dirty_offset(), end.max(self.start));
        assert!(end <= self.offered);
        if self.random.one_in(2) {
            self.first_dirty = end;
        }
        let mut last = BTreeMap::new();
        for (offset, written) in self.written.range(..end) {
            if self.is_committed(written) {
                last.insert(&written.record.key, *offset);
            }
        }
        for (offset, record) in self.seen(self.start).range(..end) {
            assert_eq!(last[&record.key], *offset, "{} is there more than once", record.key);
            let over = self.written[offset].compacted.map(|first| first + DELETE_RETENTION_MS);
            let too_long = record.value.is_none() && over.is_some_and(|over| over <= self.now);
            assert!(!too_long, "the tombstone at {offset} should be gone since {over:?}");
        }
        for (_, written) in self.written.range_mut(..end) {
            written.compacted.get_or_insert(self.now);
        }
    }

    fn is_committed(&self, written: &Written) -> bool {
        let transaction = written
            .transaction
            .and_then(|transaction| self.transactions.get(transaction));
        transaction.is_none_or(|transaction| transaction.marker.is_some_and(|(_, commits)| commits))
    }

    fn seen(&self, from: i64) -> BTreeMap<i64, Keyed> {
        committed(&self.log.view(), from, 2_000).into_iter().collect()
    }

    /// Compares the records that are read with those that were written.
    fn check(&mut self) {
        let stable = self.log.view().last_stable_offset;
        let open = self
            .transactions
            .iter()
            .filter(|transaction| transaction.marker.is_none());
        assert!(
            open.map(|open| open.first_offset)
                .min()
                .is_none_or(|first| stable <= first)
        );
        let all = committed(&self.log.view(), self.start, 2_000);
        assert!(all.is_sorted_by_key(|(offset, _)| *offset));
        let seen = self.seen(self.start);
        for (offset, record) in &seen {
            let written = &self.written[offset];
            assert!(self.is_committed(written) && written.record == *record, "at {offset}");
        }
        // From the last to the first, so that newer records are known.
        let (mut newer, mut holes) = (BTreeSet::new(), BTreeSet::new());
        for (offset, written) in self.written.range(..stable.max(self.offered)).rev() {
            if !self.is_committed(written) {
                continue;
            }
            let key = &written.record.key;
            if *offset >= stable {
                // A restart has hidden it until the next sync.
            } else if seen.contains_key(offset) {
                assert!(!holes.contains(key), "{key} at {offset} came back");
            } else {
                assert!(*offset < self.offered, "{key} at {offset} was never compacted");
                let over = written.met.is_some_and(|met| met + DELETE_RETENTION_MS <= self.now);
                let is_over = written.record.value.is_none() && over;
                assert!(newer.contains(key) || is_over, "{key} at {offset} is lost");
                holes.insert(key);
            }
            if *offset < self.offered {
                newer.insert(key);
            }
        }
        let from = self.start + self.random.below((self.end - self.start + 1) as usize) as i64;
        let len_max = self.random.below(2_000);
        let part: Vec<_> = all.into_iter().filter(|(offset, _)| *offset >= from).collect();
        assert_eq!(committed(&self.log.view(), from, len_max), part, "from {from}");
    }

    /// The disk refuses some operation in the middle of compaction, and then the process dies or the power is cut.
    fn crash_in_compaction(&mut self) {
        self.offer();
        let limits = self.limits();
        self.disk.break_after(self.random.below(80));
        let done = self.log.compact(self.now, limits);
        self.disk.break_after(usize::MAX);
        self.check();
        match done {
            Ok(Some(stats)) => self.compacted(stats.first_dirty_offset),
            Ok(None) => {}
            Err(_) if self.random.one_in(3) => {}
            Err(_) if self.random.one_in(2) => self.restart(false),
            Err(_) => self.cut_power(),
        }
    }

    fn restart(&mut self, clean: bool) {
        if clean {
            self.log.close().unwrap();
            self.recovery_point = self.log.recovery_point();
        } else if self.keeps_producers && self.random.one_in(2) {
            self.remove_snapshots();
        }
        let before = self.log.producers();
        self.reopen(clean);
        let after = self.log.producers();
        for producer_id in PRODUCERS {
            let state = |producers: &milena_log::Producers| {
                let producer = producers.get(producer_id)?;
                Some((producer.last_sequence(), producer.transaction_start, producer.epoch))
            };
            assert_eq!(state(&after), state(&before), "producer {producer_id}");
        }
        self.check();
    }

    /// Without snapshots, only the compacted log has the producer state.
    fn remove_snapshots(&self) {
        let disk = &self.disk.inner;
        for entry in disk.list(Path::new(DIR)).unwrap_or_default() {
            if entry.name.ends_with(".snapshot") {
                disk.remove(&Path::new(DIR).join(entry.name)).unwrap();
            }
        }
    }

    fn cut_power(&mut self) {
        let synced = self.log.recovery_point();
        let random = &mut self.random;
        self.disk = FragileDisk::new(self.disk.inner.after_power_cut(|outcomes| random.below(outcomes)));
        self.reopen(false);
        let end = self.log.view().log_end_offset;
        assert!(end >= synced, "{end} is before what was synced, {synced}");
        self.end = end.max(self.start);
        // Assigned offsets stay assigned, but their records end where the first is missing.
        let lost = self.log.recovery().damage.iter().filter(|damage| damage.is_loss());
        let end = lost.map(|damage| damage.from_offset).min().unwrap_or(end);
        assert!(end >= synced, "{end} is before what was synced, {synced}");
        self.written.retain(|offset, _| *offset < end);
        for transaction in &mut self.transactions {
            transaction.marker = transaction.marker.filter(|(offset, _)| *offset < end);
            // One that is wholly lost was never begun; nor was one that is wholly deleted.
            let deleted = transaction.first_offset < self.start && self.written.is_empty();
            if transaction.first_offset >= end || (deleted && transaction.marker.is_none()) {
                transaction.marker = Some((transaction.first_offset, false));
            }
        }
        self.last_sent.clear();
        self.keeps_producers = false;
        let producers = self.log.producers();
        let next = |id| {
            producers
                .get(id)
                .and_then(|producer| producer.last_sequence())
                .map_or(0, |last| last + 1)
        };
        self.next_sequences = PRODUCERS.into_iter().map(|id| (id, next(id))).collect();
        self.check();
    }

    fn delete_records(&mut self) {
        // Rarely, because it hides much of the effect of compaction.
        if !self.random.one_in(6) {
            return;
        }
        let room = self.log.view().last_stable_offset - self.start;
        if room < 0 {
            // After a restart, the deleted range is unknown until the next sync.
            return;
        }
        let offset = self.start + self.random.below(room as usize + 1) as i64;
        self.start = self.log.delete_records(offset).unwrap();
        self.keeps_producers = false;
        self.written.retain(|written, _| *written >= offset);
        self.check();
    }

    fn reopen(&mut self, clean: bool) {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let opening = Opening {
            clean,
            recovery_point: self.recovery_point,
            log_start_offset: self.start,
            known: None,
            accept_loss: false,
        };
        self.log = open(&disk, &self.config, opening);
        self.log.set_first_dirty_offset(self.first_dirty);
    }
}

fn run(durability: Durability) {
    for seed in 0..SEEDS {
        let outcome = std::panic::catch_unwind(|| {
            let mut world = World::new(seed, durability);
            for _ in 0..STEPS {
                world.step();
            }
        });
        assert!(outcome.is_ok(), "seed {seed} with {durability:?}");
    }
}

#[test]
fn a_compacted_log_that_trusts_the_system_agrees_with_the_model() {
    run(Durability::Os);
}

#[test]
fn a_compacted_log_that_syncs_agrees_with_the_model() {
    run(Durability::Fsync);
}
