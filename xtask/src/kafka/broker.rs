//! One broker: its folder, and the process that runs on it.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::libraries::{Jars, LogLevel, java};

const START_TIMEOUT: Duration = Duration::from_secs(90);
const STOP_TIMEOUT: Duration = Duration::from_secs(40);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const OUTPUT_TAIL_LINES: usize = 40;
const HEAP_VARIABLE: &str = "KAFKA_HEAP";
const HEAP_DEFAULT: &str = "1g";

pub(super) struct Broker {
    number: u16,
    dir: PathBuf,
}

/// A broker process that we started and that may not serve yet.
pub(super) struct Starting {
    broker: Broker,
    addresses: Vec<SocketAddr>,
    process: Child,
}

impl Broker {
    pub(super) fn new(number: u16, dir: PathBuf) -> Self {
        Self { number, dir }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn properties_path(&self) -> PathBuf {
        self.dir.join("server.properties")
    }

    pub(super) fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn output_path(&self) -> PathBuf {
        self.dir.join("output")
    }

    fn pid_path(&self) -> PathBuf {
        self.dir.join("pid")
    }

    pub(super) fn is_formatted(&self) -> bool {
        self.data_dir().join("meta.properties").exists()
    }

    /// The address for clients in this broker's configuration.
    pub(super) fn address(&self) -> Result<SocketAddr> {
        let first = self.addresses()?.first().copied();
        let path = self.properties_path();
        first.with_context(|| format!("{} has no listener for clients; wipe the cluster", path.display()))
    }

    /// The addresses of all listeners for clients; the plain one is the first.
    fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let path = self.properties_path();
        let properties = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let listeners = properties
            .lines()
            .find_map(|line| line.strip_prefix("advertised.listeners="));
        let addresses = listeners.unwrap_or_default().split(',').map(|listener| {
            let address = listener.split_once("://").map(|(_, address)| address);
            address
                .and_then(|address| address.parse().ok())
                .with_context(|| format!("{} has the listener {listener}; wipe the cluster", path.display()))
        });
        addresses.collect()
    }

    /// Refuses while this broker runs or its port is in use.
    pub(super) fn check_can_start(&self) -> Result<()> {
        if let Some(pid) = self.running_pid()? {
            bail!(
                "broker {} runs already, as process {pid}; `cargo xtask kafka down` stops it",
                self.number
            );
        }
        for address in self.addresses()? {
            if TcpStream::connect(address).is_ok() {
                bail!("{address} is taken by another process; choose another --port or stop that process");
            }
        }
        Ok(())
    }

    pub(super) fn start(self) -> Result<Starting> {
        self.check_can_start()?;
        let addresses = self.addresses()?;
        let heap = std::env::var(HEAP_VARIABLE).unwrap_or_else(|_| HEAP_DEFAULT.to_owned());
        let output = File::options().create(true).append(true).open(self.output_path())?;
        let process = java(Jars::Kafka, LogLevel::Info)?
            .args([format!("-Xms{heap}"), format!("-Xmx{heap}")])
            .args([
                "-XX:+UseG1GC",
                "-XX:MaxGCPauseMillis=20",
                "-Djava.awt.headless=true",
                "kafka.Kafka",
            ])
            .arg(self.properties_path())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // A group of its own, so that Ctrl-C in the terminal of a test does not reach the broker.
            .process_group(0)
            .spawn()?;
        fs::write(self.pid_path(), process.id().to_string())?;
        Ok(Starting {
            broker: self,
            addresses,
            process,
        })
    }

    /// Kills the process like a crash; returns whether there was one.
    pub(super) fn kill(&self) -> Result<bool> {
        let Some(pid) = self.running_pid()? else {
            return Ok(false);
        };
        signal("KILL", pid)?;
        self.wait_until_gone()?;
        Ok(true)
    }

    /// Sends SIGTERM to the process, if there is one; `wait_until_gone` makes sure that it ends.
    pub(super) fn ask_to_stop(&self) -> Result<bool> {
        let Some(pid) = self.running_pid()? else {
            return Ok(false);
        };
        signal("TERM", pid)?;
        Ok(true)
    }

    /// Waits until a stopped or killed process has ended and freed its port, which happens a moment later.
    ///
    /// Brokers that stop together can miss the controllers they wait for, so they are killed after a timeout.
    pub(super) fn wait_until_gone(&self) -> Result<()> {
        let deadline = Instant::now() + STOP_TIMEOUT;
        let address = self.address()?;
        loop {
            let impatient = Instant::now() > deadline;
            match self.running_pid()? {
                Some(pid) if impatient => signal("KILL", pid)?,
                Some(_) => {}
                None if impatient || TcpStream::connect(address).is_err() => return Ok(()),
                None => {}
            }
            sleep(POLL_INTERVAL);
        }
    }

    /// The process of this broker, if it is alive. The number in the file may belong to another process by now,
    /// so the command line must name our configuration.
    fn running_pid(&self) -> Result<Option<u32>> {
        let Ok(text) = fs::read_to_string(self.pid_path()) else {
            return Ok(None);
        };
        let pid: u32 = text
            .trim()
            .parse()
            .with_context(|| format!("{} holds no number", self.pid_path().display()))?;
        let ps = Command::new("ps")
            .args(["-ww", "-o", "args=", "-p", &pid.to_string()])
            .output()
            .context("cannot run `ps`; on Debian or Ubuntu: apt-get install procps")?;
        let command_line = String::from_utf8_lossy(&ps.stdout);
        let ours = command_line.contains(&*self.properties_path().to_string_lossy());
        Ok(ours.then_some(pid))
    }

    fn output_tail(&self) -> String {
        let output = fs::read(self.output_path()).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        let lines: Vec<&str> = output.lines().collect();
        lines[lines.len().saturating_sub(OUTPUT_TAIL_LINES)..].join("\n")
    }
}

impl Starting {
    /// KRaft brokers open their client ports last, so open ports mean a broker that serves.
    pub(super) fn wait_until_serving(mut self) -> Result<SocketAddr> {
        let deadline = Instant::now() + START_TIMEOUT;
        while !self.addresses.iter().all(|address| TcpStream::connect(address).is_ok()) {
            let number = self.broker.number;
            if let Some(status) = self.process.try_wait()? {
                bail!(
                    "broker {number} died ({status}); its last output:\n{}",
                    self.broker.output_tail()
                );
            }
            if Instant::now() > deadline {
                let seconds = START_TIMEOUT.as_secs();
                bail!(
                    "broker {number} does not serve after {seconds} s; its last output:\n{}",
                    self.broker.output_tail()
                );
            }
            sleep(POLL_INTERVAL);
        }
        self.broker.address()
    }
}

fn signal(name: &str, pid: u32) -> Result<()> {
    // The process may end between the check and the signal; the wait for its end notices that.
    Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .stderr(Stdio::null())
        .status()
        .context("cannot run `kill`; on Debian or Ubuntu: apt-get install procps")?;
    Ok(())
}
