//! The processes of one group.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{
    ledger::Ledger,
    stage::{Stage, until},
    worker::{self, WORD},
};

pub struct Crew {
    address: String,
    topic: String,
    protocol: &'static str,
    pub group: String,
    pub ledger: Ledger,
    workers: BTreeMap<&'static str, Worker>,
}

struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Crew {
    pub fn new(stage: &Stage, topic: &str, protocol: &'static str, dir: &Path) -> Self {
        Self {
            address: stage.address().to_owned(),
            topic: topic.to_owned(),
            protocol,
            group: worker::group(topic, protocol),
            ledger: Ledger {
                path: dir.join(protocol),
            },
            workers: BTreeMap::new(),
        }
    }

    pub fn start(&mut self, name: &'static str, task: &str) {
        let child = Command::new(std::env::current_exe().unwrap())
            .args([WORD, &self.address, self.protocol, &self.topic, name, task])
            .arg(&self.ledger.path)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        self.workers.insert(name, Worker(child));
    }

    /// Waits until a process has handled so many records more.
    pub async fn works(&self, name: &str, records: usize) {
        let before = self.ledger.count(name);
        let what = format!("{} of {} handles {records} records", name, self.group);
        until(&what, async || self.ledger.count(name) >= before + records).await;
    }

    /// Asks a process to end, which it must do in peace.
    pub async fn stop(&mut self, name: &str) {
        let mut worker = self.workers.remove(name).unwrap();
        let pid = worker.0.id().to_string();
        let told = Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap();
        assert!(told.success());
        let mut status = None;
        until(&format!("{name} of {} ends", self.group), async || {
            status = worker.0.try_wait().unwrap();
            status.is_some()
        })
        .await;
        assert!(status.unwrap().success(), "{name} of {}: {status:?}", self.group);
    }

    pub async fn stop_all(&mut self) {
        let names: Vec<&str> = self.workers.keys().copied().collect();
        for name in names {
            self.stop(name).await;
        }
    }

    /// Whether a process has ended without being asked to.
    pub fn has_died(&mut self, name: &str) -> bool {
        let worker = self.workers.get_mut(name).unwrap();
        worker.0.try_wait().unwrap().is_some()
    }

    /// As a crash would.
    pub fn kill(&mut self, name: &str) {
        drop(self.workers.remove(name));
    }
}
