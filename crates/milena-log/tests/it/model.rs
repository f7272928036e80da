//! A log against a plain list, through random appends, reads, deletions, retention, restarts and crashes.

use std::{collections::BTreeMap, sync::Arc};

use milena_log::{
    Durability, Log, LogConfig, Opening,
    disk::{Disk, MemoryDisk},
};

use crate::{
    batches::{FRESH, Plain, batch, open, read_all, sequenced},
    random::Random,
};

const SEEDS: u64 = 400;
const STEPS: usize = 120;

struct World {
    random: Random,
    config: LogConfig,
    disk: MemoryDisk,
    log: Log,
    records: BTreeMap<i64, Plain>,
    start: i64,
    end: i64,
    /// State that a driver would have stored for the next start.
    recovery_point: i64,
    next_sequence: i32,
    last_sent: Option<(bytes::Bytes, i64)>,
    now: i64,
    records_deleted: bool,
}

impl World {
    fn new(seed: u64, durability: Durability) -> Self {
        let mut random = Random::new(seed);
        let config = LogConfig {
            segment_bytes: 1_300 + random.below(3_000) as u32,
            index_interval_bytes: random.below(400) as u32,
            retention_bytes: -1,
            timestamp_after_max_ms: i64::MAX,
            durability,
            ..LogConfig::default()
        };
        let disk = MemoryDisk::crashable();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let log = open(&shared, &config, FRESH);
        Self {
            random,
            config,
            disk,
            log,
            records: BTreeMap::new(),
            start: 0,
            end: 0,
            recovery_point: 0,
            next_sequence: 0,
            last_sent: None,
            now: 1_000,
            records_deleted: false,
        }
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..=7 => self.append(),
            8 => self.send_again(),
            9..=11 => self.read(),
            12 => self.look_up_times(),
            13 => self.delete_records(),
            14 => self.apply_retention(),
            15 => self.sync(),
            16 => self.restart_cleanly(),
            17 => self.restart_killed(),
            18 => self.cut_power(),
            _ => self.now += self.random.below(500) as i64,
        }
        let view = self.log.view();
        assert_eq!((view.log_start_offset, view.log_end_offset), (self.start, self.end));
    }

    fn append(&mut self) {
        let count = 1 + self.random.below(5);
        let records: Vec<Plain> = (0..count)
            .map(|_| Plain {
                timestamp: self.now + self.random.below(50) as i64,
                value: vec![self.random.next() as u8; self.random.below(200)],
            })
            .collect();
        let idempotent = self.random.below(2) == 0;
        let bytes = match idempotent {
            true => sequenced(&records, 7, self.next_sequence),
            false => batch(&records),
        };
        let appended = self.log.append(&bytes, 0, self.now).unwrap();
        assert_eq!((appended.base_offset, appended.duplicate), (self.end, false));
        if idempotent {
            self.next_sequence += count as i32;
            self.last_sent = Some((bytes, appended.base_offset));
        }
        for record in records {
            self.records.insert(self.end, record);
            self.end += 1;
        }
    }

    fn send_again(&mut self) {
        if let Some((bytes, base_offset)) = &self.last_sent {
            let appended = self.log.append(bytes, 0, self.now).unwrap();
            assert_eq!((appended.base_offset, appended.duplicate), (*base_offset, true));
        }
    }

    fn visible(&self, from: i64) -> Vec<(i64, Plain)> {
        let end = self.log.view().high_watermark;
        self.records
            .range(from..end.max(from))
            .map(|(offset, record)| (*offset, record.clone()))
            .collect()
    }

    fn read(&mut self) {
        let from = self.start + self.random.below((self.end - self.start + 1) as usize) as i64;
        let len_max = self.random.below(2_000);
        assert_eq!(
            read_all(&self.log.view(), from, len_max),
            self.visible(from),
            "from {from}, {len_max} bytes"
        );
        let view = self.log.view();
        for outside in [self.start - 1, self.end + 1] {
            assert!(view.read(outside, 100, milena_log::Isolation::ReadUncommitted).is_err());
        }
    }

    fn look_up_times(&mut self) {
        let timestamp = self.now + 60 - self.random.below(1_000) as i64;
        let expected = self
            .records
            .iter()
            .find(|(_, record)| record.timestamp >= timestamp)
            .map(|(offset, _)| *offset);
        let found = self.log.view().offset_for_time(timestamp).unwrap();
        assert_eq!(found.map(|found| found.offset), expected, "time {timestamp}");

        let latest = self.records.values().map(|record| record.timestamp).max();
        let expected = latest.and_then(|latest| self.records.iter().find(|(_, record)| record.timestamp == latest));
        let found = self.log.view().latest_record().unwrap();
        // A record that was deleted may still lie in a segment that was not.
        if self.start == 0 {
            assert_eq!(found.map(|found| found.offset), expected.map(|(offset, _)| *offset));
        }
    }

    fn delete_records(&mut self) {
        let high_watermark = self.log.view().high_watermark;
        let offset = self.start + self.random.below((self.end - self.start + 2) as usize) as i64;
        let deleted = self.log.delete_records(offset);
        if offset > high_watermark {
            assert!(deleted.is_err());
        } else {
            assert_eq!(deleted.unwrap(), offset);
            self.start_moved(offset);
            self.records_deleted = true;
        }
    }

    fn apply_retention(&mut self) {
        let limit = self.random.below(6_000) as i64;
        self.log.set_config(LogConfig {
            retention_bytes: limit,
            retention_ms: -1,
            ..self.config.clone()
        });
        let before = self.log.view().size();
        self.log.apply_retention(self.now).unwrap();
        let view = self.log.view();
        // Segments before the log start offset are removed regardless of the limit.
        if !self.records_deleted {
            assert!(
                view.size() >= before.min(limit as u64),
                "more was removed than the limit allows"
            );
        }
        assert!(view.log_start_offset <= view.high_watermark);
        self.start_moved(view.log_start_offset);
        self.log.set_config(self.config.clone());
    }

    fn start_moved(&mut self, start: i64) {
        self.start = start;
        self.records.retain(|offset, _| *offset >= start);
    }

    fn sync(&mut self) {
        self.recovery_point = self.log.sync().unwrap();
        assert_eq!(self.recovery_point, self.end);
    }

    fn restart_cleanly(&mut self) {
        self.log.close().unwrap();
        self.recovery_point = self.log.recovery_point();
        self.reopen(true);
    }

    /// The process dies; its writes remain.
    fn restart_killed(&mut self) {
        self.reopen(false);
    }

    fn cut_power(&mut self) {
        let seen = self.log.view().high_watermark;
        let synced = self.log.recovery_point();
        self.disk = self.disk.after_power_cut(|outcomes| self.random.below(outcomes));
        self.last_sent = None;
        self.reopen_with(false);
        let end = self.log.view().log_end_offset;
        assert!(end >= synced, "{end} is before what was synced, {synced}");
        if self.config.durability == Durability::Fsync {
            assert!(end >= seen, "{end} is before what readers saw, {seen}");
        }
        assert!(end <= self.end);
        self.end = end.max(self.start);
        // Assigned offsets stay assigned, but their records end where the first is missing.
        let lost = self.log.recovery().damage.iter().filter(|damage| damage.is_loss());
        let whole = lost.map(|damage| damage.from_offset).min().unwrap_or(end);
        assert!(whole >= synced, "{whole} is before what was synced, {synced}");
        self.records.retain(|offset, _| *offset < whole);
        self.next_sequence = self
            .log
            .producers()
            .get(7)
            .and_then(|p| p.last_sequence())
            .map_or(0, |last| last + 1);
        assert_eq!(read_all(&self.log.view(), self.start, 10_000), self.visible(self.start));
    }

    fn reopen(&mut self, clean: bool) {
        let producers = self.log.producers();
        let high_watermark = self.log.view().high_watermark;
        self.reopen_with(clean);
        assert_eq!(
            self.log
                .producers()
                .get(7)
                .and_then(|producer| producer.last_sequence()),
            producers.get(7).and_then(|producer| producer.last_sequence())
        );
        assert!(self.log.view().high_watermark >= high_watermark.min(self.recovery_point));
        // A snapshot keeps the last batch of a producer only.
        if self.last_sent.as_ref().is_some_and(|(_, offset)| *offset < self.start) {
            self.last_sent = None;
        }
    }

    fn reopen_with(&mut self, clean: bool) {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let opening = Opening {
            clean,
            recovery_point: self.recovery_point,
            log_start_offset: self.start,
            known: None,
            accept_loss: false,
        };
        self.log = open(&disk, &self.config, opening);
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
fn a_log_that_trusts_the_system_agrees_with_the_model() {
    run(Durability::Os);
}

#[test]
fn a_log_that_syncs_agrees_with_the_model() {
    run(Durability::Fsync);
}
