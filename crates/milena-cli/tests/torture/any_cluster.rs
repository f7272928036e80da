//! The brokers of a round.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use clap::ValueEnum;

use crate::{
    cluster::{Cluster, SETTINGS},
    process::Process,
};

/// The kind of broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Milena,
    Kafka,
}

/// Group settings with short timeouts, so that dead members are noticed soon.
const QUICK: &[(&str, &str)] = &[
    ("group.min.session.timeout.ms", "1000"),
    ("group.consumer.min.session.timeout.ms", "4000"),
    ("group.consumer.session.timeout.ms", "4000"),
    ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "1000"),
];
/// Settings with which acknowledged records survive the loss of any broker.
const SAFE: &[(&str, &str)] = &[("min.insync.replicas", "2")];

pub enum AnyCluster {
    Kafka {
        cluster: Cluster,
        brokers: u16,
    },
    Milena {
        process: Mutex<Option<Process>>,
        dir: tempfile::TempDir,
        address: String,
    },
}

impl AnyCluster {
    pub fn start(kind: Kind, brokers: u16) -> Self {
        match kind {
            Kind::Kafka => {
                let safe = if brokers > 2 { SAFE } else { &[] };
                let settings = [QUICK, safe].concat();
                Self::Kafka {
                    cluster: Cluster::start_with(brokers, &settings),
                    brokers,
                }
            }
            Kind::Milena => {
                let dir = tempfile::tempdir().unwrap();
                let process = start_ours("127.0.0.1:0", &dir);
                Self::Milena {
                    address: process.address.clone(),
                    process: Mutex::new(Some(process)),
                    dir,
                }
            }
        }
    }

    pub fn address(&self) -> &str {
        match self {
            Self::Kafka { cluster, .. } => &cluster.address,
            Self::Milena { address, .. } => address,
        }
    }

    /// The number of brokers; their ids start at 1.
    pub fn brokers(&self) -> u16 {
        match self {
            Self::Kafka { brokers, .. } => *brokers,
            Self::Milena { .. } => 1,
        }
    }

    /// Kills a broker with SIGKILL and restarts it after a delay.
    pub fn crash(&self, broker: u16, gap: Duration) {
        match self {
            Self::Kafka { cluster, .. } => {
                cluster.kill(broker);
                std::thread::sleep(gap);
                cluster.start_again(broker);
            }
            Self::Milena { process, dir, address } => {
                let killed = process.lock().unwrap().take();
                drop(killed);
                std::thread::sleep(gap);
                *process.lock().unwrap() = Some(start_ours(address, dir));
            }
        }
    }
}

fn start_ours(address: &str, dir: &tempfile::TempDir) -> Process {
    let settings: BTreeMap<&str, &str> = SETTINGS.iter().chain(QUICK).copied().collect();
    let settings = settings.iter().map(|(key, value)| format!("{key}={value}"));
    let arguments: Vec<String> = settings.flat_map(|setting| ["-X".to_owned(), setting]).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Process::start_at(address, dir.path(), &arguments)
}
