//! The brokers of a round.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use crate::{
    Kind,
    cluster::{Cluster, SETTINGS},
    dice::Dice,
    process::Process,
};

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

    /// Kills one broker after the other, each as a crash would, and starts it again. Gives how many.
    pub fn strike(&self, seed: u64, stop: &AtomicBool) -> usize {
        let mut dice = Dice(seed);
        let mut kills = 0;
        loop {
            let (pause, gap) = match self {
                Self::Kafka { .. } => (dice.millis(2_000..8_000), dice.millis(0..4_000)),
                Self::Milena { .. } => (dice.millis(500..5_000), dice.millis(0..1_500)),
            };
            crate::round::pause(pause, stop);
            if stop.load(Relaxed) {
                return kills;
            }
            kills += 1;
            match self {
                Self::Kafka { cluster, brokers } => {
                    let broker = u16::try_from(dice.number(0..usize::from(*brokers))).unwrap() + 1;
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
}

fn start_ours(address: &str, dir: &tempfile::TempDir) -> Process {
    let settings: BTreeMap<&str, &str> = SETTINGS.iter().chain(QUICK).copied().collect();
    let settings = settings.iter().map(|(key, value)| format!("{key}={value}"));
    let arguments: Vec<String> = settings.flat_map(|setting| ["-X".to_owned(), setting]).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Process::start_at(address, dir.path(), &arguments)
}
