//! Writers and relays, which are killed and replaced.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use crate::{random::Random, writer};

const WRITERS: usize = 3;
const RELAYS: usize = 2;

/// The number of faults.
#[derive(Debug, Default, Clone, Copy)]
pub struct FaultCounts {
    pub writers_killed: usize,
    pub relays_killed: usize,
    pub relays_stopped: usize,
    /// Relays that ended by themselves, because the database or the broker was away when they started.
    pub relays_ended: usize,
}

/// A process that ends with this value.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub struct Processes {
    url: String,
    address: String,
    logs: PathBuf,
    random: Random,
    writers: Vec<Killed>,
    relays: Vec<Killed>,
    pub counts: FaultCounts,
}

impl Processes {
    pub fn new(url: &str, address: &str, logs: &Path, seed: u64) -> Self {
        Self {
            url: url.to_owned(),
            address: address.to_owned(),
            logs: logs.to_owned(),
            random: Random(seed),
            writers: vec![],
            relays: vec![],
            counts: FaultCounts::default(),
        }
    }

    /// Kills and replaces processes until `stop`. Then no writer runs, and all relays do.
    pub fn work(mut self, stop: &AtomicBool) -> Self {
        while self.writers.len() < WRITERS {
            let writer = self.start_writer();
            self.writers.push(writer);
        }
        self.start_missing_relays();
        while !stop.load(Relaxed) {
            pause(self.random.millis(300..2_000), stop);
            match self.random.number(0..4) {
                0 | 1 => {
                    let place = self.random.number(0..WRITERS);
                    self.writers[place] = self.start_writer();
                    self.counts.writers_killed += 1;
                }
                2 => {
                    let place = self.random.number(0..self.relays.len());
                    drop(self.relays.swap_remove(place));
                    self.counts.relays_killed += 1;
                }
                _ => {
                    let place = self.random.number(0..self.relays.len());
                    let pid = self.relays[place].0.id().to_string();
                    let _ = Command::new("kill").args(["-TERM", &pid]).status();
                    self.counts.relays_stopped += 1;
                    // It finishes its events, or is killed while it does.
                    pause(self.random.millis(0..1_000), stop);
                    drop(self.relays.swap_remove(place));
                }
            }
            self.start_missing_relays();
        }
        self.writers.clear();
        self
    }

    /// Replaces relays that have ended.
    pub fn start_missing_relays(&mut self) {
        let before = self.relays.len();
        self.relays.retain_mut(|relay| matches!(relay.0.try_wait(), Ok(None)));
        self.counts.relays_ended += before - self.relays.len();
        while self.relays.len() < RELAYS {
            let relay = self.start_relay();
            self.relays.push(relay);
        }
    }

    fn start_writer(&mut self) -> Killed {
        let seed = self.random.number(0..usize::MAX).to_string();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([writer::ROLE, &self.url, &seed]).stdin(Stdio::piped());
        Killed(command.spawn().unwrap())
    }

    fn start_relay(&self) -> Killed {
        let log = File::options().create(true).append(true).open(self.logs.join("relays"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
        command
            .args(["outbox", "relay", "-d", &self.url, "-b", &self.address])
            .args(["--lease", "3s", "--keep-published", "forever"])
            .stdout(Stdio::null())
            .stderr(log.unwrap());
        Killed(command.spawn().unwrap())
    }
}

/// Waits, unless it is told to stop.
pub fn pause(time: Duration, stop: &AtomicBool) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.load(Relaxed) {
        thread::sleep(Duration::from_millis(20));
    }
}
