//! A real Apache Kafka, for all tests of this binary that need one.

use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    process::{Command, Stdio},
    sync::atomic::{AtomicU16, Ordering::Relaxed},
};

use std::os::unix::process::CommandExt;

use crate::programs::{run, xtask};

/// Settings of every broker, Kafka's or ours.
pub const SETTINGS: [(&str, &str); 6] = [
    // A topic that was deleted does not come back by itself.
    ("auto.create.topics.enable", "false"),
    // The records of these tests are years old.
    ("log.retention.ms", "-1"),
    // Members of the new protocol hear of changes soon. Those that die are missed after a time that is short, but not
    // for a busy machine.
    ("group.consumer.min.session.timeout.ms", "10000"),
    ("group.consumer.session.timeout.ms", "10000"),
    ("group.consumer.min.heartbeat.interval.ms", "300"),
    ("group.consumer.heartbeat.interval.ms", "300"),
];

/// How far the ports of controllers are from those for clients.
const CONTROLLERS_ABOVE: u16 = 200;

pub struct Cluster {
    dir: PathBuf,
    pub address: String,
    /// Its standard input ends with this process, however that ends; then it takes the brokers away.
    _sweeper: std::process::Child,
}

impl Cluster {
    pub fn start(brokers: u16) -> Self {
        Self::start_with(brokers, &[])
    }

    /// With settings that win over the others.
    pub fn start_with(brokers: u16, settings: &[(&str, &str)]) -> Self {
        let port = free_ports(brokers);
        let dir = std::env::temp_dir().join(format!("milena-client-outside-{port}-{}", std::process::id()));
        let sweeper = sweep_after_us(&dir);
        let (brokers, port) = (brokers.to_string(), port.to_string());
        let mut command = xtask();
        command.args(["kafka", "up", "--brokers", &brokers, "--port", &port, "--dir"]);
        command.arg(&dir).env("KAFKA_HEAP", "384m");
        // A broker that died is missed soon. Everybody may do everything, and yet there are ACLs.
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
            address,
            _sweeper: sweeper,
        }
    }

    /// As a crash would.
    pub fn kill(&self, broker: u16) {
        self.control("kill", broker);
    }

    /// Returns when it serves.
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

/// The first of as many ports as brokers need, for clients and for controllers. Whoever else looks, in this process or in
/// another, looks elsewhere.
fn free_ports(brokers: u16) -> u16 {
    static LOOKS: AtomicU16 = AtomicU16::new(0);
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let process = u16::try_from(std::process::id() % 1_000).unwrap();
    let from = process + LOOKS.fetch_add(100, Relaxed);
    let mut candidates = (0..100).map(|step| 10_000 + (from + step) % 1_000 * 10);
    let of_all = |port: &u16| (*port..port + brokers).all(|port| is_free(port) && is_free(port + CONTROLLERS_ABOVE));
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
        // Ctrl-C ends this process, and not the one that cleans up after it.
        .process_group(0);
    command.spawn().unwrap()
}
