//! The topics of a round and their expected contents.
//!
//! Record `n` of an input partition has the value `n`. A copier writes it to the same partition of its output, and to a
//! second topic that is partitioned by key.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use milena_client::{
    admin::{Admin, NewTopic},
    config::AdminConfig,
};

pub const INPUT: &str = "input";
pub const PARTITIONS: i32 = 4;
/// Keys per partition of the input.
pub const KEYS: usize = 5;
/// One group per protocol; each copies everything.
pub const PROTOCOLS: [&str; 2] = ["classic", "consumer"];

pub fn group(protocol: &str) -> String {
    format!("copiers-{protocol}")
}

/// The output with the partitions of the input.
pub fn output(protocol: &str) -> String {
    format!("output-{protocol}")
}

/// The output that is partitioned by key.
pub fn by_key(protocol: &str) -> String {
    format!("by-key-{protocol}")
}

pub fn key(partition: i32, number: usize) -> String {
    format!("{partition}/{}", number % KEYS)
}

/// Progress of the round.
#[derive(Debug, Default)]
pub struct Progress {
    /// Records handed to the writer.
    pub written: AtomicUsize,
    /// Committed copies per protocol.
    pub copied: [AtomicUsize; PROTOCOLS.len()],
}

impl Progress {
    /// Waits until copies of both groups were seen.
    pub async fn all_copy(&self) {
        while self.copied.iter().any(|copied| copied.load(Relaxed) == 0) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub fn line(&self) -> String {
        let copied = PROTOCOLS.iter().zip(&self.copied);
        let copied: Vec<String> = copied
            .map(|(protocol, count)| format!("{protocol} {}", count.load(Relaxed)))
            .collect();
        format!("{} written; copied: {}", self.written.load(Relaxed), copied.join(", "))
    }
}

pub async fn create(address: &str) {
    let admin = Admin::new(AdminConfig::builder(address)).unwrap();
    let mut names = vec![INPUT.to_owned()];
    for protocol in PROTOCOLS {
        names.extend([output(protocol), by_key(protocol)]);
    }
    let topics = names.into_iter().map(|name| NewTopic::new(name).partitions(PARTITIONS));
    for (name, created) in admin.create_topics(topics).await {
        created.unwrap_or_else(|error| panic!("cannot create {name}: {error}"));
    }
}
