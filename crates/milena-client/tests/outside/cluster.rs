//! A real Apache Kafka, shared by the tests of this binary.

use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    process::{Command, Stdio},
    sync::atomic::{AtomicU16, Ordering::Relaxed},
};

use std::os::unix::process::CommandExt;

use crate::programs::{run, xtask};

/// Settings of every broker, Kafka's and ours.
pub const SETTINGS: [(&str, &str); 6] = [
    // A deleted topic is not created again.
    ("auto.create.topics.enable", "false"),
    // The records of these tests are years old.
    ("log.retention.ms", "-1"),
    // Short intervals for the consumer protocol, but long enough for a busy machine.
    ("group.consumer.min.session.timeout.ms", "10000"),
    ("group.consumer.session.timeout.ms", "10000"),
    ("group.consumer.min.heartbeat.interval.ms", "300"),
    ("group.consumer.heartbeat.interval.ms", "300"),
];

/// Distances of all ports of a broker, which are those of its listeners and of its controller, from the plain one.
const DISTANCES: [u16; 6] = [0, 100, 200, 300, 400, 500];

/// A listener of a secured cluster, by its distance from the plain port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    SaslPlaintext = 100,
    Ssl = 300,
    SaslSsl = 400,
    MutualTls = 500,
}

pub struct Cluster {
    dir: PathBuf,
    port: u16,
    pub address: String,
    /// Its standard input ends with this process; then it stops the brokers.
    _sweeper: std::process::Child,
}

impl Cluster {
    pub fn start(brokers: u16) -> Self {
        Self::start_with(brokers, &[])
    }

    /// With additional settings, which take precedence.
    pub fn start_with(brokers: u16, settings: &[(&str, &str)]) -> Self {
        Self::start_as(brokers, &[], settings)
    }

    /// One broker that listens with TLS and SASL too; `cargo xtask kafka up --help` lists the users.
    pub fn start_secured(settings: &[(&str, &str)]) -> Self {
        Self::start_as(1, &["--secured"], settings)
    }

    fn start_as(brokers: u16, options: &[&str], settings: &[(&str, &str)]) -> Self {
        let port = free_ports(brokers);
        let dir = std::env::temp_dir().join(format!("milena-client-outside-{port}-{}", std::process::id()));
        let sweeper = sweep_after_us(&dir);
        let mut command = xtask();
        command.args([
            "kafka",
            "up",
            "--brokers",
            &brokers.to_string(),
            "--port",
            &port.to_string(),
        ]);
        command.args(options).arg("--dir").arg(&dir).env("KAFKA_HEAP", "384m");
        // Short session timeouts for brokers. ACLs are enabled, with everything allowed by default.
        let more = [
            (
                "authorizer.class.name",
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            ),
            ("super.users", "User:ANONYMOUS"),
            ("broker.session.timeout.ms", "6000"),
            ("broker.heartbeat.interval.ms", "500"),
        ];
        for (key, value) in SETTINGS.into_iter().chain(more).chain(settings.iter().copied()) {
            command.args(["--set", &format!("{key}={value}")]);
        }
        let address = run(&mut command, "").trim().to_owned();
        Self {
            dir,
            port,
            address,
            _sweeper: sweeper,
        }
    }

    /// The address of a secured listener of the first broker.
    pub fn secured(&self, listener: Listener) -> String {
        format!("127.0.0.1:{}", self.port + listener as u16)
    }

    /// A file of the certificates, such as `ca.pem`.
    pub fn certificate(&self, name: &str) -> String {
        self.dir.join("tls").join(name).display().to_string()
    }

    /// Kills the broker like a crash.
    pub fn kill(&self, broker: u16) {
        self.control("kill", broker);
    }

    /// Returns when the broker serves requests.
    pub fn start_again(&self, broker: u16) {
        self.control("start", broker);
    }

    pub fn process_of(&self, broker: u16) -> String {
        let path = self.dir.join(format!("broker-{broker}/pid"));
        fs::read_to_string(path).unwrap().trim().to_owned()
    }

    fn control(&self, word: &str, broker: u16) {
        let mut command = xtask();
        command
            .args(["kafka", word, &broker.to_string(), "--dir"])
            .arg(&self.dir);
        run(command.env("KAFKA_HEAP", "384m"), "");
    }
}

/// The first of the free ports for clients and controllers. Each process searches in a different range.
fn free_ports(brokers: u16) -> u16 {
    static LOOKS: AtomicU16 = AtomicU16::new(0);
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let process = u16::try_from(std::process::id() % 1_000).unwrap();
    let from = process + LOOKS.fetch_add(100, Relaxed);
    let mut candidates = (0..100).map(|step| 10_000 + (from + step) % 1_000 * 10);
    let of_all = |port: &u16| (*port..port + brokers).all(|port| DISTANCES.iter().all(|above| is_free(port + above)));
    candidates.find(of_all).expect("no port is free for Apache Kafka")
}

fn sweep_after_us(dir: &PathBuf) -> std::process::Child {
    let wipe = xtask();
    let mut command = Command::new("sh");
    command
        .args(["-c", "read nothing; exec \"$@\"", "sweeper"])
        .arg(wipe.get_program())
        .args(wipe.get_args())
        .args(["kafka", "wipe", "--dir"])
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C ends this process, but not the one that cleans up.
        .process_group(0);
    command.spawn().unwrap()
}
