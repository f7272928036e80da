//! The brokers under comparison: started on a fresh directory, and removed afterwards.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, ensure};
use tempfile::{NamedTempFile, TempDir};

use crate::raw;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    Milena,
    Kafka,
}

/// The port of the plain listener, where it is fixed.
const PORT: u16 = 19592;
/// The distance of the other listeners, as `cargo xtask kafka up --secured` has it.
const SSL_DISTANCE: u16 = 300;
const SASL_DISTANCE: u16 = 100;

/// The listeners with TLS and with SCRAM.
pub struct Secured {
    pub tls_address: String,
    pub sasl_address: String,
    pub ca: PathBuf,
    /// The certificates of our broker.
    _dir: Option<TempDir>,
}

impl Secured {
    fn new(ca: PathBuf, dir: Option<TempDir>) -> Self {
        let address = |distance| format!("127.0.0.1:{}", PORT + distance);
        Self {
            tls_address: address(SSL_DISTANCE),
            sasl_address: address(SASL_DISTANCE),
            ca,
            _dir: dir,
        }
    }
}

pub struct Running {
    pub address: String,
    /// When the process was started. Kafka's directory is formatted before.
    pub began: Instant,
    pub pid: u32,
    peer: Peer,
    settings: Vec<String>,
    /// Output of strace with the number of syncs, if they are counted.
    syncs: Option<NamedTempFile>,
    child: Option<Child>,
    dir: TempDir,
}

impl Running {
    pub fn start(peer: Peer) -> Result<Self> {
        Self::start_with(peer, &[])
    }

    /// Starts a broker with settings, each `KEY=VALUE`.
    pub fn start_with(peer: Peer, settings: &[&str]) -> Result<Self> {
        Self::start_counting(peer, settings, None)
    }

    /// Starts our broker under strace, with a filter that slows down syncs only.
    pub fn start_counting_syncs(settings: &[&str]) -> Result<Self> {
        Self::start_counting(Peer::Milena, settings, Some(NamedTempFile::new()?))
    }

    /// Starts a broker that also has listeners with TLS and with SCRAM.
    pub fn start_secured(peer: Peer) -> Result<(Self, Secured)> {
        match peer {
            Peer::Milena => {
                let dir = tempfile::tempdir()?;
                make_certificates(dir.path())?;
                let keystore = format!("ssl.keystore.location={}", dir.path().join("server.pem").display());
                let listeners = format!(
                    "listeners=PLAINTEXT://127.0.0.1:{PORT},SSL://127.0.0.1:{},SASL_PLAINTEXT://127.0.0.1:{}",
                    PORT + SSL_DISTANCE,
                    PORT + SASL_DISTANCE
                );
                let running =
                    Self::start_with(peer, &[&listeners, &keystore, "sasl.enabled.mechanisms=SCRAM-SHA-256"])?;
                let secured = Secured::new(dir.path().join("ca.pem"), Some(dir));
                Ok((running, secured))
            }
            Peer::Kafka => {
                let running = Self::start_with(peer, &["--secured"])?;
                let ca = running.dir.path().join("tls/ca.pem");
                Ok((running, Secured::new(ca, None)))
            }
        }
    }

    fn start_counting(peer: Peer, settings: &[&str], syncs: Option<NamedTempFile>) -> Result<Self> {
        let mut running = Self {
            address: String::new(),
            began: Instant::now(),
            pid: 0,
            peer,
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            syncs,
            child: None,
            dir: tempfile::tempdir()?,
        };
        match peer {
            Peer::Milena => running.start_milena()?,
            Peer::Kafka => running.start_kafka()?,
        }
        raw::wait_for_answer(&running.address)?;
        Ok(running)
    }

    /// Ends the process as a person would.
    pub fn stop(&mut self) -> Result<()> {
        match &mut self.child {
            Some(child) => {
                kill("TERM", self.pid)?;
                ensure!(child.wait()?.success(), "the broker did not end well");
            }
            None => drop(xtask(&["kafka", "down", "--dir", &self.dir_text()])?),
        }
        Ok(())
    }

    /// Stops a broker whose syncs were counted; returns their number.
    pub fn stop_and_count_syncs(mut self) -> Result<usize> {
        self.stop()?;
        let file = self.syncs.take().context("syncs were not counted")?;
        let mut total = None;
        // The tracer writes a little later than the broker ends.
        wait_until("strace has counted", || {
            let table = fs::read_to_string(file.path())?;
            let line = table.lines().rfind(|line| line.ends_with("total"));
            total = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            Ok(total.is_some())
        })?;
        total.context("strace has counted nothing")
    }

    /// Ends the process as a crash would.
    pub fn kill(&mut self) -> Result<()> {
        match &mut self.child {
            Some(child) => {
                child.kill()?;
                child.wait()?;
            }
            None => drop(xtask(&["kafka", "kill", "1", "--dir", &self.dir_text()])?),
        }
        Ok(())
    }

    /// Starts it again on the same directory; returns the milliseconds until it responds.
    pub fn start_again(&mut self) -> Result<f64> {
        match self.peer {
            Peer::Milena => self.start_milena()?,
            Peer::Kafka => {
                xtask(&["kafka", "start", "1", "--dir", &self.dir_text()])?;
                self.look_at_kafka()?;
            }
        }
        raw::wait_for_answer(&self.address)?;
        Ok(self.since_start_ms())
    }

    pub fn since_start_ms(&self) -> f64 {
        self.began.elapsed().as_secs_f64() * 1e3
    }

    /// The folder with the partitions.
    pub fn data_dir(&self) -> PathBuf {
        match self.peer {
            Peer::Milena => self.dir.path().to_owned(),
            Peer::Kafka => self.dir.path().join("broker-1/data"),
        }
    }

    /// User and system time of the process so far.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        // The name of the program stands in parentheses and may hold spaces.
        let after = stat.rsplit(')').next().unwrap_or_default();
        let ticks: f64 = after
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|t| t.parse::<f64>().ok())
            .sum();
        Ok(ticks / 100.0)
    }

    pub fn resident_megabytes(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .context("no VmRSS")?;
        let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kilobytes * 1024.0 / 1e6)
    }

    /// Bytes that the process has written so far, to sockets and files: the difference between two reads, for a
    /// broker that only serves fetches, went over the wire. Kafka and our broker send records with `sendfile`,
    /// which counts here.
    pub fn bytes_written(&self) -> Result<f64> {
        let io = fs::read_to_string(format!("/proc/{}/io", self.pid))?;
        let line = io.lines().find_map(|line| line.strip_prefix("wchar:"));
        Ok(line.context("no wchar")?.trim().parse()?)
    }

    /// The size of all segments of a topic.
    pub fn stored_bytes(&self, topic: &str) -> Result<f64> {
        let mut bytes = 0;
        for folder in fs::read_dir(self.data_dir())? {
            let folder = folder?;
            let name = folder.file_name().to_string_lossy().into_owned();
            if name.rsplit_once('-').is_none_or(|(name, _)| name != topic) {
                continue;
            }
            for file in fs::read_dir(folder.path())? {
                let file = file?;
                if file.path().extension().is_some_and(|extension| extension == "log") {
                    bytes += file.metadata()?.len();
                }
            }
        }
        Ok(bytes as f64)
    }

    fn start_milena(&mut self) -> Result<()> {
        let binary = target_dir().join("release/milena");
        ensure!(binary.exists(), "build the broker first: cargo build --release");
        self.began = Instant::now();
        let mut command = match &self.syncs {
            None => Command::new(binary),
            Some(file) => counting(file.path(), &binary),
        };
        let mut child = command
            .args(["broker", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(self.dir.path())
            .args(self.settings.iter().flat_map(|setting| ["-X", setting]))
            .env("RUST_LOG", "warn")
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let address = line
            .trim()
            .strip_prefix("BOOTSTRAP=")
            .context("the broker does not say where it serves")?;
        self.address = address.to_owned();
        self.pid = child.id();
        self.child = Some(child);
        Ok(())
    }

    fn start_kafka(&mut self) -> Result<()> {
        let dir = self.dir_text();
        let port = PORT.to_string();
        let mut words = vec!["kafka", "up", "--port", &port, "--dir", &dir];
        for setting in &self.settings {
            match setting.starts_with("--") {
                true => words.push(setting),
                false => words.extend(["--set", setting]),
            }
        }
        self.address = xtask(&words)?.trim().to_owned();
        self.look_at_kafka()
    }

    /// The file with the process id is written at the start of the process, so its time is the start time.
    fn look_at_kafka(&mut self) -> Result<()> {
        let path = self.dir.path().join("broker-1/pid");
        let age = SystemTime::now().duration_since(fs::metadata(&path)?.modified()?)?;
        self.began = Instant::now().checked_sub(age).context("the clock was set")?;
        self.pid = fs::read_to_string(&path)?.trim().parse()?;
        Ok(())
    }

    fn dir_text(&self) -> String {
        self.dir.path().to_string_lossy().into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        match (self.peer, &mut self.child) {
            (Peer::Kafka, _) => {
                let _ = xtask(&["kafka", "wipe", "--dir", &self.dir_text()]);
            }
            (Peer::Milena, Some(child)) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            (Peer::Milena, None) => {}
        }
    }
}

/// Makes a CA and a certificate of the server, as `cargo xtask kafka up --secured` does for Kafka.
fn make_certificates(dir: &Path) -> Result<()> {
    let openssl = |words: &str| {
        let output = Command::new("openssl")
            .args(words.split(' '))
            .current_dir(dir)
            .output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        anyhow::Ok(())
    };
    const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -sha256";
    openssl(&format!("req -x509 {KEY} -keyout ca.key -out ca.pem -subj /CN=CA"))?;
    openssl(&format!(
        "req {KEY} -keyout server.key -out server.csr -subj /CN=server"
    ))?;
    fs::write(
        dir.join("extensions"),
        "basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost,IP:127.0.0.1\n",
    )?;
    openssl(
        "x509 -req -sha256 -CA ca.pem -CAkey ca.key -CAcreateserial -in server.csr -out server.crt -extfile extensions",
    )?;
    let parts = ["server.key", "server.crt", "ca.pem"].map(|part| fs::read_to_string(dir.join(part)));
    let parts: std::io::Result<Vec<String>> = parts.into_iter().collect();
    Ok(fs::write(dir.join("server.pem"), parts?.concat())?)
}

/// Looks until something is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so()? {
        ensure!(Instant::now() < deadline, "not within two minutes: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// A program under strace that stays our child: the tracer is the detached process.
fn counting(output: &Path, binary: &Path) -> Command {
    let mut command = Command::new("strace");
    let calls = "trace=fsync,fdatasync,sync_file_range,msync";
    command.args(["-D", "-f", "--seccomp-bpf", "-c", "-U", "calls,name", "-e", calls, "-o"]);
    command.arg(output).arg(binary);
    command
}

/// Sends a signal to a process.
pub fn kill(signal: &str, pid: u32) -> Result<()> {
    let status = Command::new("kill").args(["-s", signal, &pid.to_string()]).status()?;
    ensure!(status.success(), "cannot send {signal} to {pid}");
    Ok(())
}

/// Runs `cargo xtask`, built once: another build must not delay the measurement.
pub fn xtask(words: &[&str]) -> Result<String> {
    static BUILT: OnceLock<bool> = OnceLock::new();
    let build = || {
        let mut cargo = Command::new("cargo");
        cargo
            .args(["build", "--quiet", "--package", "xtask"])
            .current_dir(root());
        cargo.status().is_ok_and(|status| status.success())
    };
    ensure!(*BUILT.get_or_init(build), "cannot build xtask");
    let output = Command::new(target_dir().join("debug/xtask"))
        .args(words)
        .current_dir(root())
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
