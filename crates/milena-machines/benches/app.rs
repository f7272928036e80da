//! The cost of the scheduler for each record.
//!
//! `cargo bench -p milena-machines --bench app`

use divan::{Bencher, black_box, counter::ItemsCount};
use milena_machines::{
    Random, TopicPartition,
    app::{
        Acceptance, Arrival, Assignment, BatchConfig, HandlerConfig, HandlerId, Keyed, Limits, Order, Outcome,
        PartitionId, Role, Scheduler, SchedulerConfig, SourceId,
        commit_map::{self, Room},
        tracker::Tracker,
    },
};

fn main() {
    divan::main();
}

const ROOM: Room = Room {
    chars: 4_096,
    wide: true,
};

/// The offsets in random order.
fn shuffled(count: i64) -> Vec<i64> {
    let mut random = Random::new(1);
    let mut offsets: Vec<i64> = (0..count).collect();
    for at in (1..offsets.len()).rev() {
        offsets.swap(at, random.below(at as u64 + 1) as usize);
    }
    offsets
}

fn delivered(count: i64) -> Tracker {
    let mut tracker = Tracker::new(1, 0, vec![]);
    for offset in 0..count {
        tracker.deliver(offset, None, 100);
    }
    tracker
}

/// Completions in random order, each with a read of the frontier.
#[divan::bench(args = [1_000, 100_000, 1_000_000])]
fn complete(bencher: Bencher<'_, '_>, count: i64) {
    let order = shuffled(count);
    bencher
        .counter(ItemsCount::new(count as u64))
        .with_inputs(|| delivered(count))
        .bench_local_refs(|tracker| {
            for offset in &order {
                tracker.complete(1, *offset, 100);
                black_box(tracker.frontier());
            }
        });
}

#[divan::bench(args = [1_000, 1_000_000])]
fn deliver(bencher: Bencher<'_, '_>, count: i64) {
    bencher
        .counter(ItemsCount::new(count as u64))
        .bench_local(|| delivered(count));
}

/// A million offsets above the commit, with this percentage unfinished.
#[divan::bench(args = [1, 10, 50])]
fn encode(bencher: Bencher<'_, '_>, holes_percent: u64) {
    let mut random = Random::new(2);
    let mut tracker = delivered(1_000_000);
    for offset in 1..1_000_000 {
        if random.below(100) >= holes_percent {
            tracker.complete(1, offset, 100);
        }
    }
    bencher.bench_local(|| commit_map::encode(&tracker, ROOM));
}

#[divan::bench]
fn decode(bencher: Bencher<'_, '_>) {
    let mut random = Random::new(3);
    let mut tracker = delivered(60_000);
    for offset in 1..60_000 {
        if random.below(2) == 0 {
            tracker.complete(1, offset, 100);
        }
    }
    let text = commit_map::encode(&tracker, ROOM).text;
    bencher.bench_local(|| commit_map::decode(&text, 0));
}

struct Record {
    key: [u8; 8],
}

impl Keyed for Record {
    fn key(&self) -> Option<&[u8]> {
        Some(&self.key)
    }
}

const PARTITIONS: i32 = 8;
const RECORDS: u64 = 65_536;

fn work<T: Keyed>(order: Order, batch: Option<BatchConfig>) -> (Scheduler<T>, Vec<PartitionId>) {
    let limits = Limits {
        records_high: 1 << 30,
        bytes_high: 1 << 40,
        ..Limits::default()
    };
    let handler = HandlerConfig {
        order,
        limits,
        batch,
        ..HandlerConfig::default()
    };
    let config = SchedulerConfig {
        handlers: vec![handler],
        limits,
        ..SchedulerConfig::default()
    };
    let mut work = Scheduler::new(config, 1).expect("the configuration is sound");
    let assign = |partition| Assignment {
        partition: TopicPartition::new("orders", partition),
        source: SourceId(0),
        handler: HandlerId(0),
        role: Role::Main,
        position: 0,
        committed: None,
        leader_epoch: None,
    };
    let ids = (0..PARTITIONS)
        .map(|partition| work.handle_assigned(0, assign(partition)))
        .collect();
    (work, ids)
}

/// Keys of a run, eight bytes each.
struct Keys(&'static [[u8; 8]]);

impl Keyed for Keys {
    fn key(&self) -> Option<&[u8]> {
        self.key_at(0)
    }

    fn records(&self) -> u32 {
        self.0.len() as u32
    }

    fn key_at(&self, place: u32) -> Option<&[u8]> {
        self.0.get(place as usize).map(<[u8; 8]>::as_slice)
    }

    fn split(&mut self, count: u32) -> Option<Self> {
        let (first, rest) = self.0.split_at(count as usize);
        self.0 = first;
        Some(Self(rest))
    }
}

/// The whole path of runs to a handler of batches: each partition has one of 500 records in a poll.
#[divan::bench(args = [Order::Key, Order::Partition, Order::Unordered])]
fn whole_way_of_runs(bencher: Bencher<'_, '_>, order: Order) {
    let (mut work, ids) = work::<Keys>(order, Some(BatchConfig::default()));
    let keys: Vec<[u8; 8]> = (0_u64..500).map(u64::to_be_bytes).collect();
    let keys: &'static [[u8; 8]] = Vec::leak(keys);
    let (mut offset, mut now_ms) = (0, 0);
    let mut out = vec![];
    let records = 16 * ids.len() * keys.len();
    bencher.counter(ItemsCount::new(records as u64)).bench_local(|| {
        for _ in 0..16 {
            now_ms += 1;
            for id in &ids {
                let arrival = Arrival {
                    offset,
                    leader_epoch: Some(1),
                    bytes: 50_000,
                    retry: None,
                    payload: Keys(keys),
                };
                assert_ne!(work.accept(now_ms, *id, arrival), Acceptance::Stale);
            }
            offset += keys.len() as i64;
            while work.poll_dispatch(now_ms, 500, &mut out).is_some() {
                for dispatched in &out {
                    work.handle_finished(now_ms, dispatched.record, Outcome::Done);
                }
            }
            while work.poll_action().is_some() {}
        }
        assert_eq!(work.status().records, 0);
    });
}

/// The whole path of a record: it arrives in polls of 512, is handed out in batches of 64, and is done. 1,000 keys, of which
/// some are far more frequent than others.
#[divan::bench(args = [Order::Key, Order::Partition, Order::Unordered])]
fn whole_way(bencher: Bencher<'_, '_>, order: Order) {
    let (mut work, ids) = work(order, None);
    let mut random = Random::new(4);
    let keys: Vec<[u8; 8]> = (0..RECORDS)
        .map(|_| {
            let spread = 1 + random.below(1_000);
            (random.below(1_000) / spread).to_be_bytes()
        })
        .collect();
    let mut next = vec![0; ids.len()];
    let mut now_ms = 0;
    let mut out = Vec::with_capacity(64);
    bencher.counter(ItemsCount::new(RECORDS)).bench_local(|| {
        for poll in keys.chunks(512) {
            now_ms += 1;
            for (at, key) in poll.iter().enumerate() {
                let (id, offset) = (ids[at % ids.len()], &mut next[at % ids.len()]);
                let arrival = Arrival {
                    offset: *offset,
                    leader_epoch: Some(1),
                    bytes: 100,
                    retry: None,
                    payload: Record { key: *key },
                };
                *offset += 1;
                assert_ne!(work.accept(now_ms, id, arrival), Acceptance::Stale);
            }
            while work.poll_dispatch(now_ms, 64, &mut out).is_some() {
                for dispatched in &out {
                    work.handle_finished(now_ms, dispatched.record, Outcome::Done);
                }
            }
            while work.poll_action().is_some() {}
        }
        assert_eq!(work.status().records, 0);
    });
}
