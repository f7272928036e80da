//! One machine for each partition of an internal topic: what the drivers of groups and of transactions share.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use milena_wire::errors::ErrorCode;

use super::internal_topics::{InternalTopic, partition_of};
use crate::{node::Node, partition::Partition};

/// All partitions of an internal topic. They are there when the topic is, which is when somebody first needs it.
#[derive(Debug)]
pub(super) struct Shards<State> {
    topic: &'static InternalTopic,
    all: OnceLock<Vec<Arc<Shard<State>>>>,
}

/// One partition, and what its machine's driver knows.
#[derive(Debug)]
pub(super) struct Shard<State> {
    pub(super) partition: Arc<Partition>,
    state: Mutex<State>,
}

/// What holds a machine.
pub(super) trait HoldsMachine: Default {
    /// The machine goes; the log is read back when somebody asks again.
    fn drop_machine(&mut self);
}

impl<State: HoldsMachine> Shards<State> {
    pub(super) fn new(topic: &'static InternalTopic) -> Self {
        let all = OnceLock::new();
        Self { topic, all }
    }

    /// All shards, and with them the topic if it is not there yet.
    pub(super) fn all(&self, node: &Node) -> Result<&[Arc<Shard<State>>], ErrorCode> {
        if let Some(shards) = self.all.get() {
            return Ok(shards);
        }
        let topic = self.topic.ensure(node).map_err(|refusal| {
            tracing::error!(topic = self.topic.name, %refusal, "an internal topic cannot be created");
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

    /// As [`Self::all`], but none if there is no topic yet.
    pub(super) fn existing(&self, node: &Node) -> Result<&[Arc<Shard<State>>], ErrorCode> {
        let exists = node.topics().by_name(self.topic.name).is_some();
        if exists { self.all(node) } else { Ok(&[]) }
    }

    /// Those that somebody has needed since the broker started.
    pub(super) fn started(&self) -> &[Arc<Shard<State>>] {
        self.all.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// Those that the log has something for.
    pub(super) fn with_records(&self, node: &Node) -> impl Iterator<Item = &Arc<Shard<State>>> {
        let shards = self.existing(node).unwrap_or_default().iter();
        shards.filter(|shard| shard.partition.log.view().log_end_offset > 0)
    }

    /// The one that looks after a group or a transactional id.
    pub(super) fn of(&self, node: &Node, id: &str) -> Result<&Arc<Shard<State>>, ErrorCode> {
        let shards = self.all(node)?;
        let shard = shards.get(partition_of(id, shards.len()));
        shard.ok_or(ErrorCode::CoordinatorNotAvailable)
    }
}

impl<State: HoldsMachine> Shard<State> {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            // Somebody panicked in the middle of a change. What the log says is whole.
            self.state.clear_poison();
            let mut state = poisoned.into_inner();
            state.drop_machine();
            state
        })
    }
}
