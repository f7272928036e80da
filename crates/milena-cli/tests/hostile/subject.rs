//! The broker under attack: a process, its memory and its log.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::{client::Client, tls_client::TestCa};

/// Texts in the log that mean a bug of the broker.
const BUGS: [&str; 3] = ["panicked at", "request_panicked", "invariant_violated"];

/// The user that the attackers know.
pub const USER: &str = "evil";
pub const PASSWORD: &str = "evil-secret";

pub struct Subject {
    child: Child,
    pub addresses: Addresses,
    dir: TempDir,
}

/// The listeners.
#[derive(Clone, Copy)]
pub struct Addresses {
    pub plain: SocketAddr,
    pub sasl: SocketAddr,
    pub tls: SocketAddr,
}

impl Addresses {
    /// Free ports. They are free still when the broker binds them, unless the machine has no others.
    fn choose() -> Self {
        let sockets = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [plain, sasl, tls] = sockets.map(|socket| socket.local_addr().unwrap());
        Self { plain, sasl, tls }
    }

    fn settings(&self, keystore: &Path) -> Vec<String> {
        let Self { plain, sasl, tls } = self;
        let module = "org.apache.kafka.common.security.plain.PlainLoginModule";
        vec![
            format!("listeners=PLAINTEXT://{plain},SASL_PLAINTEXT://{sasl},SSL://{tls}"),
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512".to_owned(),
            format!(
                "listener.name.sasl_plaintext.plain.sasl.jaas.config={module} required user_{USER}=\"{PASSWORD}\";"
            ),
            format!("ssl.keystore.location={}", keystore.display()),
        ]
    }
}

impl Subject {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = File::create(dir.path().join("log")).unwrap();
        // The directory of the CA goes away with it.
        let ca = TestCa::new();
        fs::copy(ca.write("server.pem", "server"), dir.path().join("server.pem")).unwrap();
        let addresses = Addresses::choose();
        let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
        command.args(["broker", "--data-dir"]).arg(dir.path().join("data"));
        for setting in addresses.settings(&dir.path().join("server.pem")) {
            command.args(["-X", &setting]);
        }
        command.stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let log = || fs::read_to_string(dir.path().join("log")).unwrap();
        assert!(line.starts_with("BOOTSTRAP="), "{line:?}: {}", log());
        Self { child, addresses, dir }
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.addresses.plain.to_string())
    }

    /// Fails if the broker has ended or has logged a bug.
    pub fn check(&self) -> Result<(), String> {
        let state = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        if state.is_empty() || state.contains("State:\tZ") {
            return Err(format!("the broker has ended\n{}", self.log_end()));
        }
        let log = self.log();
        match log.lines().find(|line| BUGS.iter().any(|bug| line.contains(bug))) {
            Some(line) => Err(format!("a bug of the broker: {line}\n{}", self.log_end())),
            None => Ok(()),
        }
    }

    /// The most memory that the process has taken so far.
    pub fn memory_mib_max(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().split(' ').next().unwrap().parse::<u64>().unwrap() / 1024
    }

    pub fn log_bytes(&self) -> u64 {
        fs::metadata(self.dir.path().join("log")).unwrap().len()
    }

    /// Ends the broker with SIGTERM.
    pub fn end(mut self) -> Result<(), String> {
        let pid = self.child.id().to_string();
        let signalled = Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap();
        assert!(signalled.success());
        let status = self.child.wait().unwrap();
        if !status.success() {
            return Err(format!("the broker ended with {status}\n{}", self.log_end()));
        }
        let log = self.log();
        match log.lines().find(|line| BUGS.iter().any(|bug| line.contains(bug))) {
            Some(line) => Err(format!("a bug of the broker: {line}")),
            None => Ok(()),
        }
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.path().join("log")).unwrap()).into_owned()
    }

    fn log_end(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
