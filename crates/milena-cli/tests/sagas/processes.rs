//! Services and relays, which are killed and replaced.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use crate::{
    databases::Databases,
    random::Random,
    service::{ROLE, SERVICES},
};

/// Instances of each service.
const INSTANCES: usize = 2;

/// A process that ends with this value.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The processes of all services.
pub struct Processes<'a> {
    databases: &'a Databases,
    address: String,
    logs: PathBuf,
    random: Random,
    services: Vec<(&'static str, Killed)>,
    relays: Vec<(&'static str, Killed)>,
    pub services_killed: usize,
    pub relays_killed: usize,
}

impl<'a> Processes<'a> {
    pub fn start(databases: &'a Databases, address: &str, logs: &Path, seed: u64) -> Self {
        let mut processes = Self {
            databases,
            address: address.to_owned(),
            logs: logs.to_owned(),
            random: Random(seed),
            services: vec![],
            relays: vec![],
            services_killed: 0,
            relays_killed: 0,
        };
        processes.start_missing();
        processes
    }

    /// Kills and replaces processes until `stop`.
    pub fn work(mut self, stop: &AtomicBool) -> Self {
        while !stop.load(Relaxed) {
            pause(self.random.millis(200..1_500), stop);
            if self.random.number(0..4) == 0 {
                let place = self.random.number(0..self.relays.len());
                drop(self.relays.swap_remove(place));
                self.relays_killed += 1;
            } else {
                let place = self.random.number(0..self.services.len());
                drop(self.services.swap_remove(place));
                self.services_killed += 1;
            }
            // Some are away for longer than a step may take.
            if self.random.number(0..8) == 0 {
                pause(self.random.millis(0..6_000), stop);
            }
            self.start_missing();
        }
        self
    }

    /// Replaces processes that have ended.
    pub fn start_missing(&mut self) {
        self.services
            .retain_mut(|(_, process)| matches!(process.0.try_wait(), Ok(None)));
        self.relays
            .retain_mut(|(_, process)| matches!(process.0.try_wait(), Ok(None)));
        for service in SERVICES {
            while self.services.iter().filter(|(name, _)| *name == service).count() < INSTANCES {
                let process = self.start_service(service);
                self.services.push((service, process));
            }
            if !self.relays.iter().any(|(name, _)| *name == service) {
                let process = self.start_relay(service);
                self.relays.push((service, process));
            }
        }
    }

    fn start_service(&self, service: &str) -> Killed {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([ROLE, service, &self.databases.url(service), &self.address])
            .stdin(Stdio::piped())
            .stderr(self.log(service));
        Killed(command.spawn().unwrap())
    }

    fn start_relay(&self, service: &str) -> Killed {
        let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
        command
            .args([
                "outbox",
                "relay",
                "-d",
                &self.databases.url(service),
                "-b",
                &self.address,
            ])
            .args(["--lease", "3s", "--keep-published", "forever"])
            .stdout(Stdio::null())
            .stderr(self.log("relays"));
        Killed(command.spawn().unwrap())
    }

    fn log(&self, name: &str) -> File {
        File::options()
            .create(true)
            .append(true)
            .open(self.logs.join(name))
            .unwrap()
    }
}

/// Waits, unless it is told to stop.
pub fn pause(time: Duration, stop: &AtomicBool) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.load(Relaxed) {
        thread::sleep(Duration::from_millis(20));
    }
}
