//! The copier processes, and the faults injected into them.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::{
    copier::{AT_WORK, GAVE_UP, ROLE},
    random::Random,
    topics::PROTOCOLS,
};

/// Processes per group.
const SLOTS: usize = 3;
/// The longest pause of a process.
const PAUSE_MS_MAX: usize = 10_000;
const TICK: Duration = Duration::from_millis(50);
/// The time limit for a process that was told to stop.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Counts of the injected faults.
#[derive(Debug, Default)]
pub struct FaultCounts {
    pub started: usize,
    pub killed: usize,
    pub stopped: usize,
    pub paused: usize,
    pub replaced: usize,
    /// Reasons for which processes exited by themselves, with counts.
    pub gave_up: BTreeMap<String, usize>,
}

/// A slot of a group: one process at a time owns its `transactional.id`, unless one that was taken for dead resumes.
struct Slot {
    protocol: &'static str,
    name: String,
    is_static: bool,
    /// The transaction timeout.
    timeout_ms: usize,
    member: Option<Member>,
    back_at: Instant,
}

struct Member {
    child: Child,
    log: PathBuf,
    state: State,
    is_static: bool,
    /// Its transaction may time out, or another process may own its `transactional.id`.
    may_be_fenced: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Working,
    Leaving,
    PausedUntil(Instant),
}

pub struct Copiers {
    address: String,
    dir: PathBuf,
    random: Random,
    slots: Vec<Slot>,
    /// Paused processes that were replaced. They must do no harm when they resume.
    zombies: Vec<Member>,
    counts: FaultCounts,
}

impl Copiers {
    pub fn new(address: &str, dir: PathBuf, seed: u64) -> Self {
        let mut slots = vec![];
        for protocol in PROTOCOLS {
            slots.extend((0..SLOTS).map(|number| Slot {
                protocol,
                name: number.to_string(),
                is_static: number == 0,
                timeout_ms: if number == 1 {
                    PAUSE_MS_MAX / 2
                } else {
                    4 * PAUSE_MS_MAX
                },
                member: None,
                back_at: Instant::now(),
            }));
        }
        Self {
            address: address.to_owned(),
            dir,
            random: Random(seed),
            slots,
            zombies: vec![],
            counts: FaultCounts::default(),
        }
    }

    /// Injects faults until `calm`, then only restarts processes until `end`, then stops all of them.
    pub fn work(mut self, calm: &AtomicBool, end: &AtomicBool) -> Result<FaultCounts, String> {
        let mut next_blow = Instant::now();
        while !end.load(Relaxed) {
            self.supervise()?;
            if calm.load(Relaxed) {
                self.resume_all();
            } else if Instant::now() >= next_blow {
                self.inject_fault();
                next_blow = Instant::now() + self.random.millis(300..4_000);
            }
            std::thread::sleep(TICK);
        }
        self.finish()
    }

    fn inject_fault(&mut self) {
        let index = self.random.number(0..self.slots.len());
        let blow = self.random.number(0..10);
        // Most pauses are short: an open transaction of a paused process hides later commits from the checker.
        let nap_ms_max = if self.random.number(0..4) == 0 {
            PAUSE_MS_MAX
        } else {
            2_000
        };
        let (gap, nap) = (self.random.millis(0..3_000), self.random.millis(200..nap_ms_max));
        let slot = &mut self.slots[index];
        let Some(member) = slot.member.as_mut().filter(|member| member.state == State::Working) else {
            return;
        };
        slot.back_at = Instant::now() + gap;
        match blow {
            0..5 => {
                self.counts.killed += 1;
                member.kill();
                slot.member = None;
            }
            5..8 => {
                self.counts.stopped += 1;
                drop(member.child.stdin.take());
                member.state = State::Leaving;
            }
            _ => {
                self.counts.paused += 1;
                member.signal("STOP");
                member.state = State::PausedUntil(Instant::now() + nap);
                // A process that has not begun yet would take the slot back when it resumes.
                if blow == 9 && member.said().contains(AT_WORK) {
                    self.counts.replaced += 1;
                    member.may_be_fenced = true;
                    self.zombies.extend(slot.member.take());
                }
            }
        }
    }

    /// Collects exited processes, resumes paused ones, starts those that are due.
    fn supervise(&mut self) -> Result<(), String> {
        let now = Instant::now();
        for slot in &mut self.slots {
            if let Some(member) = &mut slot.member {
                member.wake(now);
                if member.has_ended(&mut self.counts)? {
                    slot.member = None;
                    slot.back_at = now + self.random.millis(100..1_500);
                }
            } else if now >= slot.back_at {
                self.counts.started += 1;
                let window_ms = [5, 20, 100, 300][self.random.number(0..4)];
                let log = format!("{}-{}-{}.log", slot.protocol, slot.name, self.counts.started);
                slot.member = Some(slot.start(&self.address, window_ms, self.dir.join(log)));
            }
        }
        let mut left = vec![];
        for mut zombie in self.zombies.drain(..) {
            zombie.wake(now);
            // An idle process never learns that it was fenced.
            if !zombie.has_ended(&mut self.counts)? {
                left.push(zombie);
            }
        }
        self.zombies = left;
        Ok(())
    }

    fn resume_all(&mut self) {
        let members = self.slots.iter_mut().filter_map(|slot| slot.member.as_mut());
        for member in members.chain(&mut self.zombies) {
            if let State::PausedUntil(until) = member.state {
                member.wake(until);
            }
        }
    }

    fn finish(mut self) -> Result<FaultCounts, String> {
        self.resume_all();
        self.zombies.clear();
        let deadline = Instant::now() + TIMEOUT;
        for slot in &mut self.slots {
            if let Some(member) = &mut slot.member {
                drop(member.child.stdin.take());
                member.state = State::Leaving;
            }
        }
        for slot in &mut self.slots {
            let Some(member) = &mut slot.member else { continue };
            while !member.has_ended(&mut self.counts)? {
                if Instant::now() > deadline {
                    return Err(format!("a copier does not end; it said:\n{}", member.said()));
                }
                std::thread::sleep(TICK);
            }
        }
        Ok(self.counts)
    }
}

impl Slot {
    fn start(&self, address: &str, window_ms: u32, log: PathBuf) -> Member {
        let kind = if self.is_static { "static" } else { "dynamic" };
        let child = Command::new(std::env::current_exe().unwrap())
            .args([ROLE, address, self.protocol, &self.name, kind])
            .args([self.timeout_ms.to_string(), window_ms.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Member {
            child,
            log,
            state: State::Working,
            is_static: self.is_static,
            may_be_fenced: self.timeout_ms < PAUSE_MS_MAX,
        }
    }
}

impl Member {
    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        // It may have exited just now.
        let _ = Command::new("kill")
            .args(["-s", name, &pid])
            .stderr(Stdio::null())
            .status();
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn wake(&mut self, now: Instant) {
        if matches!(self.state, State::PausedUntil(until) if until <= now) {
            self.signal("CONT");
            self.state = State::Working;
        }
    }

    /// Whether the process has exited; an unexpected exit fails the test.
    fn has_ended(&mut self, counts: &mut FaultCounts) -> Result<bool, String> {
        let Some(status) = self.child.try_wait().unwrap() else {
            return Ok(false);
        };
        let said = self.said();
        let why = said.lines().last().unwrap_or_default();
        let is_excused = self.is_static && why.contains("group.instance.id")
            || self.may_be_fenced && why.contains("taken over the transactional.id");
        match status.code() {
            Some(0) if self.state == State::Leaving => Ok(true),
            Some(code) if code == i32::from(GAVE_UP) && is_excused => {
                *counts.gave_up.entry(why.to_owned()).or_default() += 1;
                Ok(true)
            }
            _ => Err(format!(
                "{}: a copier ended by itself, {status}; it said:\n{why}",
                self.log.display()
            )),
        }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}
