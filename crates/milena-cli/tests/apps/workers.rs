//! The processes of one group.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{
    environment::{Environment, until},
    handled_log::HandledLog,
    worker::{self, ROLE},
};

pub struct Workers {
    address: String,
    topic: String,
    protocol: &'static str,
    pub group: String,
    pub handled_log: HandledLog,
    workers: BTreeMap<&'static str, Worker>,
}

struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Workers {
    pub fn new(env: &Environment, topic: &str, protocol: &'static str, dir: &Path) -> Self {
        Self {
            address: env.address().to_owned(),
            topic: topic.to_owned(),
            protocol,
            group: worker::group(topic, protocol),
            handled_log: HandledLog {
                path: dir.join(protocol),
            },
            workers: BTreeMap::new(),
        }
    }

    pub fn start(&mut self, name: &'static str, task: &str) {
        let child = Command::new(std::env::current_exe().unwrap())
            .args([ROLE, &self.address, self.protocol, &self.topic, name, task])
            .arg(&self.handled_log.path)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        self.workers.insert(name, Worker(child));
    }

    /// Waits until a process has handled this many more records.
    pub async fn works(&self, name: &str, records: usize) {
        let before = self.handled_log.count(name);
        let what = format!("{} of {} handles {records} records", name, self.group);
        until(&what, async || self.handled_log.count(name) >= before + records).await;
    }

    /// Sends SIGTERM to a process, which must exit cleanly.
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

    /// Whether a process has exited unexpectedly.
    pub fn has_died(&mut self, name: &str) -> bool {
        let worker = self.workers.get_mut(name).unwrap();
        worker.0.try_wait().unwrap().is_some()
    }

    /// Sends SIGKILL to a process.
    pub fn kill(&mut self, name: &str) {
        drop(self.workers.remove(name));
    }
}
