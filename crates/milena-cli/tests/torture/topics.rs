//! The topics of a round, and what must stand in them.
//!
//! The record `n` of a partition of the input has the value `n`. A copier writes it to the same partition of its output,
//! and once more to a topic where its key decides on the partition.

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
/// Of each partition of the input.
pub const KEYS: usize = 5;
/// There is a group for each protocol, and both copy everything.
pub const PROTOCOLS: [&str; 2] = ["classic", "consumer"];

pub fn group(protocol: &str) -> String {
    format!("copiers-{protocol}")
}

/// Where copies stand as in the input.
pub fn output(protocol: &str) -> String {
    format!("output-{protocol}")
}

/// Where keys decide.
pub fn by_key(protocol: &str) -> String {
    format!("by-key-{protocol}")
}

pub fn key(partition: i32, number: usize) -> String {
    format!("{partition}/{}", number % KEYS)
}

/// How far everybody is.
#[derive(Debug, Default)]
pub struct Progress {
    /// Records that were given to the writer.
    pub written: AtomicUsize,
    /// Copies that are committed, for each protocol.
    pub copied: [AtomicUsize; PROTOCOLS.len()],
}

impl Progress {
    /// Returns when copies of both groups were seen.
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
