//! Test beds: brokers, and Kafka's clients.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use milena_client::{
    config::{ConsumerConfig, ConsumerConfigBuilder},
    consumer::{Consumer, TopicPartition},
};

use tokio::sync::{Mutex, MutexGuard};

use crate::{
    cluster::{Cluster, SETTINGS},
    peer::Peer,
    running::{self, Running},
};

pub struct Bed {
    pub address: String,
    pub peer: Peer,
    pub cluster: Option<Cluster>,
    _ours: Option<(Running, tempfile::TempDir)>,
}

static ONE: OnceLock<Bed> = OnceLock::new();
static THREE: OnceLock<Bed> = OnceLock::new();
static OURS: OnceLock<Bed> = OnceLock::new();
static TOPICS: AtomicUsize = AtomicUsize::new(0);

/// An Apache Kafka with one broker, shared by all tests.
pub fn kafka() -> &'static Bed {
    ONE.get_or_init(|| of_cluster(Cluster::start(1)))
}

/// An Apache Kafka with three brokers, for tests that break it: exclusive while the guard is held.
pub async fn three_brokers() -> (&'static Bed, MutexGuard<'static, ()>) {
    static TURN: Mutex<()> = Mutex::const_new(());
    let guard = TURN.lock().await;
    (THREE.get_or_init(|| of_cluster(Cluster::start(3))), guard)
}

/// Milena's broker in this process.
pub fn ours() -> &'static Bed {
    OURS.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        // Its runtime cannot be started inside a test's runtime.
        let running = thread::spawn(move || running::start(&path, &SETTINGS)).join().unwrap();
        Bed {
            address: running.address.clone(),
            peer: Peer::start(&running.address),
            cluster: None,
            _ours: Some((running, dir)),
        }
    })
}

fn of_cluster(cluster: Cluster) -> Bed {
    Bed {
        address: cluster.address.clone(),
        peer: Peer::start(&cluster.address),
        cluster: Some(cluster),
        _ours: None,
    }
}

impl Bed {
    /// Creates a topic with a unique name.
    pub async fn topic(&self, name: &str, partitions: usize, configs: &str) -> String {
        let name = format!("{name}-{}", TOPICS.fetch_add(1, Ordering::Relaxed));
        self.peer.call(&format!("topic {name} {partitions} {configs}")).await;
        name
    }

    /// Settings that most tests share.
    pub fn config(&self) -> ConsumerConfigBuilder {
        ConsumerConfig::builder(&self.address)
            .set("auto.offset.reset", "earliest")
            .set("metadata.max.age.ms", 1000)
    }

    /// A consumer with these partitions assigned, and additional settings.
    pub fn reader(&self, partitions: &[TopicPartition], settings: &[(&str, &str)]) -> Consumer {
        let config = settings
            .iter()
            .fold(self.config(), |config, (key, value)| config.set(*key, *value));
        let mut consumer = Consumer::new(config).unwrap();
        consumer.assign(partitions.iter().cloned()).unwrap();
        consumer
    }

    /// Makes Kafka's producer write the records `from`, `from + 1`, …
    pub async fn send(&self, topic: &str, partition: i32, codec: &str, from: usize, count: usize) {
        let command = format!("send {topic}-{partition} {codec} {from} {count}");
        self.peer.call(&command).await;
    }
}
