//! Several members of one group in one process, for examples that look at who has which partitions.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use milena::prelude::*;
use milena_test::TestBroker;
use tokio::{sync::oneshot, task::JoinHandle};

/// A broker whose members hear of each other twenty times a second, so that nobody has to wait for the example.
pub(crate) fn broker() -> TestBroker {
    TestBroker::builder()
        .set("group.consumer.heartbeat.interval.ms", 50)
        .set("group.consumer.min.heartbeat.interval.ms", 50)
        .start()
}

/// Who has what, and what has happened since somebody last asked.
#[derive(Debug, Default)]
pub(crate) struct Board {
    pub(crate) owned: BTreeMap<String, BTreeSet<TopicPartition>>,
    /// So many times a partition was taken from a member that went on running.
    pub(crate) stopped: usize,
    /// So many times members were told of a change.
    pub(crate) changes: usize,
    leaving: BTreeSet<String>,
}

type Shared = Arc<Mutex<Board>>;

fn lock(board: &Shared) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes on the board what a member hears.
struct Clerk {
    name: String,
    board: Shared,
}

impl RebalanceListener for Clerk {
    async fn assigned(&mut self, _: &mut RebalanceConsumer, new: &[TopicPartition]) -> Result<(), ListenerError> {
        let mut board = lock(&self.board);
        board.changes += 1;
        board
            .owned
            .entry(self.name.clone())
            .or_default()
            .extend(new.iter().cloned());
        Ok(())
    }

    async fn revoked(&mut self, _: &mut RebalanceConsumer, old: &[TopicPartition]) -> Result<(), ListenerError> {
        let mut board = lock(&self.board);
        if !board.leaving.contains(&self.name) {
            board.stopped += old.len();
            board.changes += 1;
        }
        let owned = board.owned.entry(self.name.clone()).or_default();
        owned.retain(|partition| !old.contains(partition));
        Ok(())
    }
}

/// The group: members by name, each in a task of its own.
pub(crate) struct Fleet {
    bootstrap: String,
    topics: Vec<String>,
    /// Settings of all members, under Kafka's names.
    settings: Vec<(&'static str, String)>,
    pub(crate) board: Shared,
    members: BTreeMap<String, (oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Fleet {
    pub(crate) fn new(broker: &TestBroker, topics: &[&str], settings: &[(&'static str, &str)]) -> Self {
        let settings = settings.iter().map(|(key, value)| (*key, (*value).to_owned()));
        Self {
            bootstrap: broker.bootstrap_servers(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            settings: settings.collect(),
            board: Shared::default(),
            members: BTreeMap::new(),
        }
    }

    /// Starts a member. Its name is its client id; settings are its own.
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
        lock(&self.board).leaving.remove(name);
        let mut consumer = Consumer::new(config)?;
        let (name, board) = (name.to_owned(), Arc::clone(&self.board));
        let clerk = Clerk {
            name: name.clone(),
            board,
        };
        consumer.subscribe_with(self.topics.clone(), clerk)?;
        let (stop, mut stopped) = oneshot::channel();
        let running = tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = &mut stopped => break,
                    // There is nothing to read; it is about the group.
                    _ = consumer.poll(Duration::from_secs(1)) => {}
                }
            }
            let _ = consumer.close().await;
        });
        self.members.insert(name, (stop, running));
        Ok(())
    }

    /// Ends a member in peace.
    pub(crate) async fn stop(&mut self, name: &str) -> Result<(), Box<dyn Error>> {
        lock(&self.board).leaving.insert(name.to_owned());
        if let Some((stop, running)) = self.members.remove(name) {
            let _ = stop.send(());
            running.await?;
        }
        lock(&self.board).owned.remove(name);
        Ok(())
    }

    /// Waits until so many partitions are spread over so many members as evenly as they can be.
    pub(crate) async fn settled(&self, partitions: usize, members: usize) {
        let shares = partitions / members..=partitions.div_ceil(members);
        loop {
            {
                let board = lock(&self.board);
                let sizes: Vec<usize> = board.owned.values().map(BTreeSet::len).collect();
                let is_even = sizes.iter().all(|size| shares.contains(size));
                if sizes.len() == members && is_even && sizes.iter().sum::<usize>() == partitions {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// What was counted since the last call: partitions that stopped, and changes.
    pub(crate) fn take_counts(&self) -> (usize, usize) {
        let mut board = lock(&self.board);
        (std::mem::take(&mut board.stopped), std::mem::take(&mut board.changes))
    }

    pub(crate) async fn stop_all(mut self) -> Result<(), Box<dyn Error>> {
        for name in self.members.keys().cloned().collect::<Vec<_>>() {
            self.stop(&name).await?;
        }
        Ok(())
    }
}
