//! A breaker that several schedulers share.

use milena_machines::{
    Random,
    app::{
        BreakerConfig, BreakerId, BreakerState, Failure, HandlerConfig, Outcome, RecordId, SchedulerConfig,
        SharedBreakers,
    },
};

use super::rig::{Rig, config, handler};

const PROBES: u32 = 3;
const RECORDS: i64 = 60;
const DOWN: Outcome = Outcome::Failed(Failure::Dependency(BreakerId(0)));

/// Several schedulers, driven by a seed.
struct World {
    random: Random,
    now: i64,
    rigs: Vec<Rig>,
    shared: SharedBreakers,
    /// Schedulers that must act and have not yet.
    told: Vec<bool>,
    /// Calls in flight, with their schedulers.
    calls: Vec<(usize, RecordId)>,
    /// Calls that began since the breaker is half open.
    probes: Vec<(usize, RecordId)>,
    done: i64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let machines = 2 + random.below(2) as usize;
        let breaker = BreakerConfig {
            window: 6,
            calls_min: 4,
            open_ms: 1_000,
            open_ms_max: 4_000,
            probes: PROBES,
            ..BreakerConfig::default()
        };
        let handler = |concurrency| {
            let mut handler = handler();
            // Records are never given up.
            handler.retry.attempts = u32::MAX;
            HandlerConfig {
                breakers: vec![BreakerId(0)],
                concurrency: Some(concurrency),
                ..handler
            }
        };
        let rigs = (0..machines).map(|_| {
            Rig::new(SchedulerConfig {
                breakers: vec![breaker],
                // Polling alone changes nothing.
                stall_ms: 1 << 40,
                ..config(handler(1 + random.below(8) as u32))
            })
        });
        let mut world = Self {
            rigs: rigs.collect(),
            now: 1_000_000,
            shared: SharedBreakers::new([breaker]),
            told: vec![false; machines],
            calls: vec![],
            probes: vec![],
            done: 0,
            random,
        };
        for machine in 0..machines {
            world.act(machine, |rig| {
                let partition = rig.assign(0);
                for offset in 0..RECORDS {
                    rig.read(partition, offset, KEYS[offset as usize % KEYS.len()]);
                }
            });
        }
        world
    }

    fn state(&self) -> BreakerState {
        self.shared.breaker(BreakerId(0)).unwrap().state()
    }

    /// Lets one scheduler act and hand out records, as drivers do.
    fn act(&mut self, machine: usize, tell: impl FnOnce(&mut Rig)) {
        let before = self.state();
        let rig = &mut self.rigs[machine];
        rig.now = self.now;
        rig.work.enter(self.now, &self.shared);
        tell(rig);
        let handed_out = rig.dispatch();
        rig.said();
        if rig.work.leave(&mut self.shared) {
            self.told.fill(true);
        }
        self.told[machine] = false;
        let begun = handed_out.iter().map(|dispatched| (machine, dispatched.record));
        self.calls.extend(begun.clone());
        match (before, self.state()) {
            (BreakerState::HalfOpen, BreakerState::HalfOpen) => self.probes.extend(begun),
            (_, BreakerState::HalfOpen) => self.probes = begun.collect(),
            (BreakerState::Open, BreakerState::Open) => assert_eq!(handed_out, [], "called while it was open"),
            _ => {}
        }
        assert!(
            self.probes.len() <= PROBES as usize,
            "{} probes at once",
            self.probes.len()
        );
    }

    fn finish(&mut self, is_down: bool) {
        let place = self.random.below(self.calls.len() as u64) as usize;
        let (machine, record) = self.calls.swap_remove(place);
        self.probes.retain(|probe| *probe != (machine, record));
        let outcome = match self.random.below(10) {
            0 => Outcome::Failed(Failure::Retry),
            1 => Outcome::RetryAfter { ms: 50 },
            _ if is_down => DOWN,
            _ => Outcome::Done,
        };
        self.done += i64::from(outcome == Outcome::Done);
        self.act(machine, |rig| rig.finish(record, outcome));
    }

    fn pass(&mut self, ms: i64) {
        self.now += ms;
        let now = self.now;
        for machine in 0..self.rigs.len() {
            if self.rigs[machine].work.poll_timeout().is_some_and(|at| at <= now) {
                self.act(machine, |rig| rig.work.handle_timeout(now));
            }
        }
    }

    fn hear(&mut self) {
        for machine in 0..self.rigs.len() {
            if self.told[machine] {
                self.act(machine, |_| {});
            }
        }
    }
}

const KEYS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

#[test]
fn machines_that_share_a_breaker_never_probe_more_than_it_allows_and_all_go_on() {
    let mut opened = 0;
    for seed in 0..300 {
        let mut world = World::new(seed);
        for _ in 0..300 {
            let is_down = world.now / 7_000 % 2 == 0;
            match world.random.below(4) {
                0 | 1 if !world.calls.is_empty() => world.finish(is_down),
                2 => world.hear(),
                _ => {
                    let ms = 1 + world.random.below(300) as i64;
                    world.pass(ms);
                }
            }
        }
        opened += world.shared.breaker(BreakerId(0)).unwrap().opened();
        // The dependency has recovered: schedulers act only when they must, or when a timeout is due.
        for _ in 0..10_000 {
            world.hear();
            if world.calls.is_empty() {
                world.pass(100);
            } else {
                world.finish(false);
            }
        }
        let all = RECORDS * world.rigs.len() as i64;
        assert_eq!(world.done, all, "seed {seed}: {:?}", world.state());
    }
    assert!(opened > 1_000, "it opened {opened} times only");
}

#[test]
fn what_one_machine_learns_holds_for_the_other() {
    let mut world = World::new(1);
    let first: Vec<_> = world
        .calls
        .iter()
        .copied()
        .filter(|(machine, _)| *machine == 0)
        .collect();
    while world.state() == BreakerState::Closed {
        let Some(place) = world.calls.iter().position(|(machine, _)| *machine == 0) else {
            panic!("{first:?} did not open it");
        };
        let (_, record) = world.calls.swap_remove(place);
        world.act(0, |rig| rig.finish(record, DOWN));
    }
    assert!(world.told[1]);
    // One that began before is no attempt, and does not count.
    let place = world.calls.iter().position(|(machine, _)| *machine == 1).unwrap();
    let (_, record) = world.calls.swap_remove(place);
    world.act(1, |rig| rig.finish(record, DOWN));
    let breaker = world.rigs[1].work.breaker(BreakerId(0)).unwrap();
    assert_eq!((breaker.state(), breaker.opened()), (BreakerState::Open, 1));
}
