//! Shards: one machine for each partition of an internal topic, for groups and for transactions.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use milena_wire::errors::ErrorCode;

use super::internal_topics::{InternalTopic, partition_of};
use crate::{node::Node, partition::Partition};

/// All shards of an internal topic, which exist from its first use on.
#[derive(Debug)]
pub(super) struct Shards<State> {
    topic: &'static InternalTopic,
    all: OnceLock<Vec<Arc<Shard<State>>>>,
}

/// One partition with the state of its driver.
#[derive(Debug)]
pub(super) struct Shard<State> {
    pub(super) partition: Arc<Partition>,
    state: Mutex<State>,
}

/// The state of a shard, which has a machine while it is loaded.
pub(super) trait MachineState: Default {
    /// Drops the machine; the next request loads it from the log.
    fn drop_machine(&mut self);
}

impl<State: MachineState> Shards<State> {
    pub(super) fn new(topic: &'static InternalTopic) -> Self {
        let all = OnceLock::new();
        Self { topic, all }
    }

    /// Returns all shards, and creates the topic if it does not exist.
    pub(super) fn all(&self, node: &Node) -> Result<&[Arc<Shard<State>>], ErrorCode> {
        if let Some(shards) = self.all.get() {
            return Ok(shards);
        }
        let topic = self.topic.ensure(node).map_err(|refusal| {
            tracing::error!(
                event = "internal_topic_not_created",
                topic = self.topic.name,
                %refusal,
                "internal topic cannot be created"
            );
            ErrorCode::CoordinatorNotAvailable
        })?;
        let shard = |partition: &Arc<Partition>| {
            Arc::new(Shard {
                partition: Arc::clone(partition),
                state: Mutex::default(),
            })
        };
        Ok(self.all.get_or_init(|| topic.partitions.iter().map(shard).collect()))
    }

    /// Like [`Self::all`], but empty if the topic does not exist.
    pub(super) fn existing(&self, node: &Node) -> Result<&[Arc<Shard<State>>], ErrorCode> {
        let exists = node.topics().by_name(self.topic.name).is_some();
        if exists { self.all(node) } else { Ok(&[]) }
    }

    /// Returns all shards if they have been used since the broker started.
    pub(super) fn started(&self) -> &[Arc<Shard<State>>] {
        self.all.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the shards whose log is not empty.
    pub(super) fn with_records(&self, node: &Node) -> impl Iterator<Item = &Arc<Shard<State>>> {
        let shards = self.existing(node).unwrap_or_default().iter();
        shards.filter(|shard| shard.partition.log.view().log_end_offset > 0)
    }

    /// Returns the shard of a group or a transactional id.
    pub(super) fn of(&self, node: &Node, id: &str) -> Result<&Arc<Shard<State>>, ErrorCode> {
        let shards = self.all(node)?;
        let shard = shards.get(partition_of(id, shards.len()));
        shard.ok_or(ErrorCode::CoordinatorNotAvailable)
    }
}

impl<State: MachineState> Shard<State> {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            // A thread panicked in the middle of a change. The log is consistent, so the machine is loaded from it again.
            self.state.clear_poison();
            let mut state = poisoned.into_inner();
            state.drop_machine();
            state
        })
    }
}
