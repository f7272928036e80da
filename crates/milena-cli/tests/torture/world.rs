//! The brokers of a round.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use clap::ValueEnum;

use crate::{
    cluster::{Cluster, SETTINGS},
    process::Process,
};

/// Whose brokers they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Milena,
    Kafka,
}

/// Who is gone is missed soon.
const QUICK: &[(&str, &str)] = &[
    ("group.min.session.timeout.ms", "1000"),
    ("group.consumer.min.session.timeout.ms", "4000"),
    ("group.consumer.session.timeout.ms", "4000"),
    ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "1000"),
];
/// What is acknowledged survives the end of any broker.
const SAFE: &[(&str, &str)] = &[("min.insync.replicas", "2")];

pub enum World {
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

impl World {
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

    /// How many brokers there are, numbered from 1.
    pub fn brokers(&self) -> u16 {
        match self {
            Self::Kafka { brokers, .. } => *brokers,
            Self::Milena { .. } => 1,
        }
    }

    /// Kills a broker as a crash would, and starts it again after a while.
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
