//! The brokers that are compared: started on a fresh directory, and gone afterwards.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::raw;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Milena,
    Kafka,
}

pub struct Running {
    pub address: String,
    /// From the start of the process to the first answered request; for Kafka with the formatting of its directory,
    /// as whoever starts one on a fresh directory needs it.
    pub start_ms: f64,
    pid: u32,
    peer: Peer,
    child: Option<Child>,
    dir: TempDir,
}

impl Running {
    pub fn start(peer: Peer) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let began = Instant::now();
        let (address, pid, child) = match peer {
            Peer::Milena => start_milena(dir.path())?,
            Peer::Kafka => start_kafka(dir.path())?,
        };
        raw::wait_for_answer(&address)?;
        let start_ms = began.elapsed().as_secs_f64() * 1e3;
        Ok(Self {
            address,
            start_ms,
            pid,
            peer,
            child,
            dir,
        })
    }

    /// User and system time of the process so far.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        // The name of the program stands in parentheses and may hold spaces.
        let after = stat.rsplit(')').next().unwrap_or_default();
        let ticks: f64 = after.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<f64>().ok()).sum();
        Ok(ticks / 100.0)
    }

    pub fn resident_megabytes(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kilobytes / 1024.0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        match (self.peer, &mut self.child) {
            (Peer::Kafka, _) => {
                let _ = xtask(&["kafka", "wipe", "--dir", &self.dir.path().to_string_lossy()]);
            }
            (Peer::Milena, Some(child)) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            (Peer::Milena, None) => {}
        }
    }
}

fn start_milena(dir: &Path) -> Result<(String, u32, Option<Child>)> {
    let binary = root().join("target/release/milena");
    ensure!(binary.exists(), "build the broker first: cargo build --release");
    let mut child = Command::new(binary)
        .args(["broker", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(dir)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
    let address = line.trim().strip_prefix("BOOTSTRAP=").context("the broker does not say where it serves")?;
    Ok((address.to_owned(), child.id(), Some(child)))
}

fn start_kafka(dir: &Path) -> Result<(String, u32, Option<Child>)> {
    let dir_text = dir.to_string_lossy();
    let address = xtask(&["kafka", "up", "--port", "19592", "--dir", &dir_text])?.trim().to_owned();
    let pid = fs::read_to_string(dir.join("broker-1/pid"))?.trim().parse()?;
    Ok((address, pid, None))
}

fn xtask(words: &[&str]) -> Result<String> {
    let output = Command::new("cargo")
        .args(["run", "--quiet", "--package", "xtask", "--"])
        .args(words)
        .current_dir(root())
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
