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
    copier::{GAVE_UP, WORD},
    dice::Dice,
    topics::PROTOCOLS,
};

/// Of each group.
const PLACES: usize = 3;
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
    member: Option<Member>,
    back_at: Instant,
}

struct Member {
    child: Child,
    log: PathBuf,
    state: State,
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
        let mut next_blow = Instant::now() + Duration::from_secs(2);
        while !end.load(Relaxed) {
            self.keep_up()?;
            if calm.load(Relaxed) {
                self.wake_all()?;
            } else if Instant::now() >= next_blow {
                self.strike();
                next_blow = Instant::now() + self.dice.millis(100..1_500);
            }
            std::thread::sleep(TICK);
        }
        self.finish()
    }

    fn strike(&mut self) {
        let index = self.dice.number(0..self.places.len());
        let blow = self.dice.number(0..10);
        let (gap, nap) = (self.dice.millis(0..3_000), self.dice.millis(500..9_000));
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
            5..7 => {
                self.blows.stopped += 1;
                drop(member.child.stdin.take());
                member.state = State::Leaving;
            }
            _ => {
                self.blows.paused += 1;
                member.signal("STOP");
                member.state = State::PausedUntil(Instant::now() + nap);
                if blow == 9 {
                    self.blows.replaced += 1;
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
            let since = match zombie.state {
                State::PausedUntil(until) => until,
                State::Working | State::Leaving => now,
            };
            zombie.wake(now);
            // One that has nothing to do does not learn that it is not wanted.
            let is_over = zombie.has_ended(&mut self.blows)?;
            if !is_over && now < since + PATIENCE {
                left.push(zombie);
            }
        }
        self.zombies = left;
        Ok(())
    }

    fn wake_all(&mut self) -> Result<(), String> {
        let members = self.places.iter_mut().filter_map(|place| place.member.as_mut());
        for member in members.chain(&mut self.zombies) {
            if let State::PausedUntil(until) = member.state {
                member.wake(until);
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Blows, String> {
        self.wake_all()?;
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
            .args([WORD, address, self.protocol, &self.name, &window_ms.to_string(), kind])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Member {
            child,
            log,
            state: State::Working,
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
        match status.code() {
            Some(0) if self.state == State::Leaving => Ok(true),
            Some(code) if code == i32::from(GAVE_UP) => {
                *blows.gave_up.entry(self.said().trim().to_owned()).or_default() += 1;
                Ok(true)
            }
            _ => Err(format!("a copier ended by itself, {status}; it said:\n{}", self.said())),
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
