//! Several members of one group in one process, for examples about assignments.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use milena::prelude::*;
use milena_test::TestBroker;
use tokio::{sync::oneshot, task::JoinHandle};

/// A broker with 20 heartbeats per second, so that the example need not wait.
pub(crate) fn broker() -> TestBroker {
    TestBroker::builder()
        .set("group.consumer.heartbeat.interval.ms", 50)
        .set("group.consumer.min.heartbeat.interval.ms", 50)
        .start()
}

/// Current assignments, and the rebalance events since the last query.
#[derive(Debug, Default)]
pub(crate) struct Assignments {
    pub(crate) owned: BTreeMap<String, BTreeSet<TopicPartition>>,
    /// Number of partitions revoked from members that kept running.
    pub(crate) stopped: usize,
    /// Number of rebalance callbacks.
    pub(crate) changes: usize,
    leaving: BTreeSet<String>,
}

type Shared = Arc<Mutex<Assignments>>;

fn lock(assignments: &Shared) -> MutexGuard<'_, Assignments> {
    assignments.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records the rebalance callbacks of a member.
struct AssignmentRecorder {
    name: String,
    assignments: Shared,
}

impl RebalanceListener for AssignmentRecorder {
    async fn assigned(&mut self, _: &mut RebalanceConsumer, new: &[TopicPartition]) -> Result<(), ListenerError> {
        let mut assignments = lock(&self.assignments);
        assignments.changes += 1;
        assignments
            .owned
            .entry(self.name.clone())
            .or_default()
            .extend(new.iter().cloned());
        Ok(())
    }

    async fn revoked(&mut self, _: &mut RebalanceConsumer, old: &[TopicPartition]) -> Result<(), ListenerError> {
        let mut assignments = lock(&self.assignments);
        if !assignments.leaving.contains(&self.name) {
            assignments.stopped += old.len();
            assignments.changes += 1;
        }
        let owned = assignments.owned.entry(self.name.clone()).or_default();
        owned.retain(|partition| !old.contains(partition));
        Ok(())
    }
}

/// The group: members by name, each in its own task.
pub(crate) struct Fleet {
    bootstrap: String,
    topics: Vec<String>,
    /// Settings of all members, under Kafka's names.
    settings: Vec<(&'static str, String)>,
    pub(crate) assignments: Shared,
    members: BTreeMap<String, (oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Fleet {
    pub(crate) fn new(broker: &TestBroker, topics: &[&str], settings: &[(&'static str, &str)]) -> Self {
        let settings = settings.iter().map(|(key, value)| (*key, (*value).to_owned()));
        Self {
            bootstrap: broker.bootstrap_servers(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            settings: settings.collect(),
            assignments: Shared::default(),
            members: BTreeMap::new(),
        }
    }

    /// Starts a member. Its name is its client id; `own` are its own settings.
    pub(crate) fn start(&mut self, name: &str, own: &[(&str, &str)]) -> Result<(), Box<dyn Error>> {
        let mut config = ConsumerConfig::builder(&self.bootstrap)
            .group_id("fleet")
            .set("client.id", name)
            .set("enable.auto.commit", false);
        for (key, value) in &self.settings {
            config = config.set(*key, value);
        }
        for (key, value) in own {
            config = config.set(*key, value);
        }
        lock(&self.assignments).leaving.remove(name);
        let mut consumer = Consumer::new(config)?;
        let (name, assignments) = (name.to_owned(), Arc::clone(&self.assignments));
        let recorder = AssignmentRecorder {
            name: name.clone(),
            assignments,
        };
        consumer.subscribe_with(self.topics.clone(), recorder)?;
        let (stop, mut stopped) = oneshot::channel();
        let running = tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = &mut stopped => break,
                    // There is nothing to read; the example is about the group.
                    _ = consumer.poll(Duration::from_secs(1)) => {}
                }
            }
            let _ = consumer.close().await;
        });
        self.members.insert(name, (stop, running));
        Ok(())
    }

    /// Closes a member gracefully.
    pub(crate) async fn stop(&mut self, name: &str) -> Result<(), Box<dyn Error>> {
        lock(&self.assignments).leaving.insert(name.to_owned());
        if let Some((stop, running)) = self.members.remove(name) {
            let _ = stop.send(());
            running.await?;
        }
        lock(&self.assignments).owned.remove(name);
        Ok(())
    }

    /// Waits until the partitions are spread evenly over the members.
    pub(crate) async fn settled(&self, partitions: usize, members: usize) {
        let shares = partitions / members..=partitions.div_ceil(members);
        loop {
            {
                let assignments = lock(&self.assignments);
                let sizes: Vec<usize> = assignments.owned.values().map(BTreeSet::len).collect();
                let is_even = sizes.iter().all(|size| shares.contains(size));
                if sizes.len() == members && is_even && sizes.iter().sum::<usize>() == partitions {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Takes the counters: revoked partitions and callbacks.
    pub(crate) fn take_counts(&self) -> (usize, usize) {
        let mut assignments = lock(&self.assignments);
        (
            std::mem::take(&mut assignments.stopped),
            std::mem::take(&mut assignments.changes),
        )
    }

    pub(crate) async fn stop_all(mut self) -> Result<(), Box<dyn Error>> {
        for name in self.members.keys().cloned().collect::<Vec<_>>() {
            self.stop(&name).await?;
        }
        Ok(())
    }
}
