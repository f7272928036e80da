//! The processes that copy, and what is done to them.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::{
    copier::{AT_WORK, GAVE_UP, WORD},
    dice::Dice,
    topics::PROTOCOLS,
};

/// Of each group.
const PLACES: usize = 3;
/// How long one may be paused.
const PAUSE_MS_MAX: usize = 10_000;
const TICK: Duration = Duration::from_millis(50);
/// How long one may take that was asked to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// What was done.
#[derive(Debug, Default)]
pub struct Blows {
    pub started: usize,
    pub killed: usize,
    pub stopped: usize,
    pub paused: usize,
    pub replaced: usize,
    /// Why some gave up by themselves, and how many.
    pub gave_up: BTreeMap<String, usize>,
}

/// A place in a group: one process at a time has its `transactional.id`, unless one that is thought to be dead wakes up.
struct Place {
    protocol: &'static str,
    name: String,
    is_static: bool,
    /// How long its transactions may take.
    timeout_ms: usize,
    member: Option<Member>,
    back_at: Instant,
}

struct Member {
    child: Child,
    log: PathBuf,
    state: State,
    is_static: bool,
    /// Its transaction may take too long, or another may have its place.
    may_be_fenced: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Working,
    Leaving,
    PausedUntil(Instant),
}

pub struct Crew {
    address: String,
    dir: PathBuf,
    dice: Dice,
    places: Vec<Place>,
    /// They were paused and replaced. When they wake up they must do no harm.
    zombies: Vec<Member>,
    blows: Blows,
}

impl Crew {
    pub fn new(address: &str, dir: PathBuf, seed: u64) -> Self {
        let mut places = vec![];
        for protocol in PROTOCOLS {
            places.extend((0..PLACES).map(|number| Place {
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
            dice: Dice(seed),
            places,
            zombies: vec![],
            blows: Blows::default(),
        }
    }

    /// Strikes until `calm`, then only keeps all at work, until `end`; then lets all end.
    pub fn work(mut self, calm: &AtomicBool, end: &AtomicBool) -> Result<Blows, String> {
        let mut next_blow = Instant::now();
        while !end.load(Relaxed) {
            self.keep_up()?;
            if calm.load(Relaxed) {
                self.wake_all();
            } else if Instant::now() >= next_blow {
                self.strike();
                next_blow = Instant::now() + self.dice.millis(300..4_000);
            }
            std::thread::sleep(TICK);
        }
        self.finish()
    }

    fn strike(&mut self) {
        let index = self.dice.number(0..self.places.len());
        let blow = self.dice.number(0..10);
        // Most are short: what is paused keeps others from seeing what was committed after it began.
        let nap_ms_max = if self.dice.number(0..4) == 0 {
            PAUSE_MS_MAX
        } else {
            2_000
        };
        let (gap, nap) = (self.dice.millis(0..3_000), self.dice.millis(200..nap_ms_max));
        let place = &mut self.places[index];
        let Some(member) = place.member.as_mut().filter(|member| member.state == State::Working) else {
            return;
        };
        place.back_at = Instant::now() + gap;
        match blow {
            0..5 => {
                self.blows.killed += 1;
                member.kill();
                place.member = None;
            }
            5..8 => {
                self.blows.stopped += 1;
                drop(member.child.stdin.take());
                member.state = State::Leaving;
            }
            _ => {
                self.blows.paused += 1;
                member.signal("STOP");
                member.state = State::PausedUntil(Instant::now() + nap);
                // Who is only about to begin would take the place back when it wakes up.
                if blow == 9 && member.said().contains(AT_WORK) {
                    self.blows.replaced += 1;
                    member.may_be_fenced = true;
                    self.zombies.extend(place.member.take());
                }
            }
        }
    }

    /// Sees who has ended, wakes who has slept, starts who is due.
    fn keep_up(&mut self) -> Result<(), String> {
        let now = Instant::now();
        for place in &mut self.places {
            if let Some(member) = &mut place.member {
                member.wake(now);
                if member.has_ended(&mut self.blows)? {
                    place.member = None;
                    place.back_at = now + self.dice.millis(100..1_500);
                }
            } else if now >= place.back_at {
                self.blows.started += 1;
                let window_ms = [5, 20, 100, 300][self.dice.number(0..4)];
                let log = format!("{}-{}-{}.log", place.protocol, place.name, self.blows.started);
                place.member = Some(place.start(&self.address, window_ms, self.dir.join(log)));
            }
        }
        let mut left = vec![];
        for mut zombie in self.zombies.drain(..) {
            zombie.wake(now);
            // One that has nothing to do does not learn that it is not wanted.
            if !zombie.has_ended(&mut self.blows)? {
                left.push(zombie);
            }
        }
        self.zombies = left;
        Ok(())
    }

    fn wake_all(&mut self) {
        let members = self.places.iter_mut().filter_map(|place| place.member.as_mut());
        for member in members.chain(&mut self.zombies) {
            if let State::PausedUntil(until) = member.state {
                member.wake(until);
            }
        }
    }

    fn finish(mut self) -> Result<Blows, String> {
        self.wake_all();
        self.zombies.clear();
        let deadline = Instant::now() + PATIENCE;
        for place in &mut self.places {
            if let Some(member) = &mut place.member {
                drop(member.child.stdin.take());
                member.state = State::Leaving;
            }
        }
        for place in &mut self.places {
            let Some(member) = &mut place.member else { continue };
            while !member.has_ended(&mut self.blows)? {
                if Instant::now() > deadline {
                    return Err(format!("a copier does not end; it said:\n{}", member.said()));
                }
                std::thread::sleep(TICK);
            }
        }
        Ok(self.blows)
    }
}

impl Place {
    fn start(&self, address: &str, window_ms: u32, log: PathBuf) -> Member {
        let kind = if self.is_static { "static" } else { "dynamic" };
        let child = Command::new(std::env::current_exe().unwrap())
            .args([WORD, address, self.protocol, &self.name, kind])
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
        // It may have ended in this moment.
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

    /// Whether it has ended, which must have been for a reason.
    fn has_ended(&mut self, blows: &mut Blows) -> Result<bool, String> {
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
                *blows.gave_up.entry(why.to_owned()).or_default() += 1;
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
