//! Decisions of a seed before the run.

use milena_machines::{
    Random,
    app::{
        BatchConfig, BreakerConfig, BreakerId, BulkheadId, CommitConfig, Delivery, Exhausted, HandlerConfig, Limits,
        NullKey, Order, RateConfig, ReplayBound, RetryOrdering, RetryPolicy, SchedulerConfig, WhenFull, WhenOpen,
        WhenStalled,
    },
};

use super::{Apps, Event, Fault};
use crate::{Mutation, simulation::START_MS};

#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) mutation: Option<Mutation>,
    pub(super) config: SchedulerConfig,
    pub(super) instances: usize,
    pub(super) partitions: usize,
    /// The limit of concurrent records of an instance.
    pub(super) in_flight_max: usize,
    /// The number of records that crash the process of their handler.
    pub(super) killers: u32,
    /// Whether offsets are stored with the effects of handlers, in a database.
    pub(super) stores: bool,
    /// Whether handlers emit records.
    pub(super) emits: bool,
    /// The longest time of a handler, now and then.
    pub(super) slow_ms: u64,
    pub(super) produce_ms: i64,
    pub(super) faults_ms: i64,
    pub(super) end_ms: i64,
}

impl Plan {
    pub(super) fn new(random: &mut Random, mutation: Option<Mutation>) -> Self {
        let delivery = match random.below(8) {
            0 => Delivery::AtMostOnce,
            1 | 2 => Delivery::ExactlyOnce,
            _ => Delivery::AtLeastOnce,
        };
        let mut config = config(random, delivery);
        let stores = stores(random, mutation, &config);
        if stores {
            config.handlers[0].batch = None;
        }
        let produce_ms = 6_000 + random.below(6_000) as i64;
        let faults_ms = produce_ms + random.below(6_000) as i64;
        let is_counting = delivery == Delivery::AtLeastOnce && config.crash_limit.is_some();
        let killers = if is_counting && random.below(3) == 0 {
            1 + random.below(3) as u32
        } else {
            0
        };
        Self {
            mutation,
            config,
            instances: 1 + random.below(3) as usize,
            partitions: 1 + random.below(4) as usize,
            killers,
            in_flight_max: 1 + random.below(12) as usize,
            stores,
            emits: delivery == Delivery::ExactlyOnce || (random.below(3) == 0 && !stores),
            slow_ms: if random.below(4) == 0 { 9_000 } else { 400 },
            produce_ms,
            faults_ms,
            // Each of them crashes several processes, and it takes a while until the next begin.
            end_ms: faults_ms + 120_000 + i64::from(killers) * 60_000,
        }
    }

    pub(super) fn handler(&self) -> &HandlerConfig {
        &self.config.handlers[0]
    }

    pub(super) fn tiers(&self) -> &[i64] {
        &self.handler().retry.delays_ms
    }

    /// All topics have as many partitions as the main one; after it come the retry topics, or the held-keys topic.
    pub(super) fn logs(&self) -> usize {
        let topics = if self.holds_keys() { 1 } else { self.tiers().len() };
        self.partitions * (1 + topics)
    }

    /// Whether keys stay in order through retries.
    pub(super) fn holds_keys(&self) -> bool {
        self.handler().retry.ordering == RetryOrdering::HoldKey
    }

    /// The held-keys partition of a main one.
    pub(super) fn held_of(&self, partition: usize) -> Option<usize> {
        (self.holds_keys() && partition < self.partitions).then_some(self.partitions + partition)
    }

    /// At most once: the limit of records that are committed and not done.
    pub(super) fn ahead_max(&self) -> usize {
        let concurrency = self.handler().concurrency;
        concurrency.unwrap_or(self.config.commit.ahead_records) as usize
    }
}

/// Whether a run has a database. It does not change the other decisions of a seed.
fn stores(random: &Random, mutation: Option<Mutation>, config: &SchedulerConfig) -> bool {
    let holds_keys = config.handlers[0].retry.ordering == RetryOrdering::HoldKey;
    let can_be = config.delivery == Delivery::AtLeastOnce && !holds_keys;
    let mut aside = Random::new(random.clone().next_u64());
    can_be
        && match mutation {
            None => aside.below(3) == 0,
            Some(mutation) => matches!(mutation, Mutation::OffsetBeforeEffect | Mutation::ZombiesCommit),
        }
}

fn config(random: &mut Random, delivery: Delivery) -> SchedulerConfig {
    let once = delivery == Delivery::AtMostOnce;
    let tiers = if once { 0 } else { random.below(3) };
    let strict = random.below(4) == 0 || delivery == Delivery::ExactlyOnce;
    let breakers = vec![BreakerConfig {
        window: 8,
        calls_min: 2 + random.below(4) as u32,
        open_ms: 300 + random.below(2_000) as i64,
        open_ms_max: 5_000,
        probes: 1 + random.below(3) as u32,
        when_open: [WhenOpen::Pause, WhenOpen::Pause, WhenOpen::DeadLetter][random.below(3) as usize],
        ..BreakerConfig::default()
    }];
    let batch = (random.below(4) == 0).then_some(BatchConfig { size: 4, linger_ms: 30 });
    // Without limits, runs of records are handed out whole.
    let is_plain = random.below(3) == 0;
    let order = [Order::Key, Order::Key, Order::Key, Order::Partition, Order::Unordered][random.below(5) as usize];
    let holds_keys = order == Order::Key && tiers > 0 && random.below(2) == 0;
    let has_bulkhead = random.below(4) == 0 && !is_plain;
    let handler = HandlerConfig {
        order,
        null_key: [NullKey::Unordered, NullKey::Serial][random.below(2) as usize],
        limits: limits(random),
        concurrency: (random.below(3) == 0 && !is_plain).then(|| 1 + random.below(6) as u32),
        bulkhead: has_bulkhead.then_some(BulkheadId(0)),
        when_full: if has_bulkhead && random.below(2) == 0 {
            WhenFull::DeadLetter
        } else {
            WhenFull::Wait
        },
        rate: (random.below(6) == 0 && !is_plain).then_some(RateConfig {
            per_second: 20,
            burst: 3,
        }),
        breakers: if random.below(2) == 0 && !is_plain {
            vec![BreakerId(0)]
        } else {
            vec![]
        },
        batch,
        retry: retry(random, once, tiers, holds_keys),
        ..HandlerConfig::default()
    };
    SchedulerConfig {
        delivery,
        handlers: vec![handler],
        breakers,
        bulkheads: vec![1 + random.below(4) as u32],
        limits: limits(random),
        commit: CommitConfig {
            interval_ms: 100 + random.below(1_500) as i64,
            every_records: (random.below(4) == 0).then(|| 1 + random.below(5)),
            metadata_chars: if random.below(3) == 0 {
                24 + random.below(10) as usize
            } else {
                4_096
            },
            replay_bound: if strict {
                ReplayBound::Strict
            } else {
                ReplayBound::BestEffort
            },
            ..CommitConfig::default()
        },
        drain_ms: 500 + random.below(4_000) as i64,
        final_commit_ms: 2_000,
        stall_ms: 3_000,
        when_stalled: [WhenStalled::Report, WhenStalled::Retry, WhenStalled::Stop][random.below(3) as usize],
        crash_limit: [None, Some(2), Some(3), Some(3), Some(4)][random.below(5) as usize],
        ..SchedulerConfig::default()
    }
}

fn retry(random: &mut Random, once: bool, tiers: u64, holds_keys: bool) -> RetryPolicy {
    RetryPolicy {
        attempts: if once { 1 } else { 1 + random.below(4) as u32 },
        first_ms: 50 + random.below(200) as i64,
        max_ms: 1_000,
        delays_ms: (0..tiers).map(|tier| 400 * (1 + tier as i64)).collect(),
        delayed_attempts: 1 + random.below(2) as u32,
        ordering: if holds_keys {
            RetryOrdering::HoldKey
        } else {
            RetryOrdering::Overtake
        },
        held_keys_max: [1, 2, 10_000][random.below(3) as usize],
        exhausted: Exhausted::DeadLetter,
        ..RetryPolicy::default()
    }
}

fn limits(random: &mut Random) -> Limits {
    if random.below(2) == 0 {
        return Limits::default();
    }
    let records_high = 4 + random.below(20);
    Limits {
        records_high,
        records_low: records_high / 2,
        ..Limits::default()
    }
}

impl Apps {
    /// Plans the events that happen in any case.
    pub(super) fn schedule(&mut self) {
        let world = &mut self.world;
        let (produce_ms, faults_ms, instances) = (world.plan.produce_ms, world.plan.faults_ms, world.plan.instances);
        for instance in 0..instances {
            let start_ms = if instance == 0 {
                0
            } else {
                world.random.below(6_000) as i64
            };
            world.queue.at(START_MS + start_ms, Event::Start(instance));
        }
        for _ in 0..10 + world.random.below(20) {
            let at_ms = world.random.below(produce_ms as u64) as i64;
            world.queue.at(START_MS + at_ms, Event::Produce);
        }
        for _ in 0..world.random.below(12) {
            let at_ms = world.random.below(faults_ms as u64) as i64;
            let instance = world.random.below(instances as u64) as usize;
            let lasts_ms = 200 + world.random.below(5_000) as i64;
            let [fault, then] = match world.random.below(7) {
                0 | 1 => [Some(Fault::Crash(instance)), None],
                2 => [Some(Fault::Stop(instance)), None],
                3 => [Some(Fault::Expel(instance)), None],
                4 => [true, false].map(|fails| Some(Fault::Dependency { fails })),
                5 => [true, false].map(|fails| Some(Fault::Publishing { fails })),
                _ => [true, false].map(|fails| Some(Fault::Commits { fails })),
            };
            for (fault, at_ms) in [(fault, at_ms), (then, at_ms + lasts_ms)] {
                if let Some(fault) = fault {
                    world.queue.at(START_MS + at_ms.min(faults_ms), Event::Fault(fault));
                }
            }
        }
        world.queue.at(START_MS + faults_ms, Event::FaultsStop);
    }
}
