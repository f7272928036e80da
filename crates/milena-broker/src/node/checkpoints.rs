//! Checkpoints: where reading and recovery of each log begin.

use std::sync::PoisonError;

use milena_log::{Durability, StorageError, checkpoint::PartitionName};

use super::Node;
use crate::data_dir::Checkpoints;

impl Node {
    /// Writes the checkpoints of all logs, which survive a power cut when this returns.
    pub(crate) fn write_checkpoints(&self) -> Result<(), StorageError> {
        // Held from reading to writing, so that older checkpoints never replace newer ones.
        let _writing = self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
        let mut checkpoints = Checkpoints::default();
        for topic in self.topics().iter() {
            for partition in &topic.partitions {
                let view = partition.log.view();
                if partition.log.offline_reason().is_some() {
                    self.keep_checkpoints(&mut checkpoints, (topic.name.to_string(), partition.index));
                    continue;
                }
                if view.log_end_offset == 0 || partition.durability() == Durability::Memory {
                    continue;
                }
                let name = (topic.name.to_string(), partition.index);
                if partition.log.config().compact {
                    checkpoints
                        .first_dirty
                        .insert(name.clone(), partition.log.first_dirty_offset());
                }
                checkpoints
                    .recovery_points
                    .insert(name.clone(), partition.log.recovery_point());
                checkpoints.log_starts.insert(name, view.log_start_offset);
            }
        }
        self.data_dir.write_checkpoints(&checkpoints)
    }

    /// Keeps the checkpoints of an offline partition as they were.
    fn keep_checkpoints(&self, checkpoints: &mut Checkpoints, name: PartitionName) {
        let (recovery_point, log_start, first_dirty) = self.data_dir.checkpoints_of(&name);
        let kept = [
            (&mut checkpoints.recovery_points, recovery_point),
            (&mut checkpoints.log_starts, log_start),
            (&mut checkpoints.first_dirty, first_dirty),
        ];
        for (offsets, offset) in kept {
            offsets.extend(offset.map(|offset| (name.clone(), offset)));
        }
    }

    /// Drops the checkpoints of topics that were deleted just before a crash, and of folders that were set aside. A new
    /// topic of the same name would otherwise begin where the old one did, and lose its records in the next crash.
    pub(super) fn drop_old_checkpoints(&self) -> Result<(), StorageError> {
        let is_old = {
            let topics = self.topics();
            let is_present = |topic: &str, index| {
                let partition = topics.by_name(topic).and_then(|topic| topic.partition(index));
                partition.is_some_and(|partition| {
                    partition.log.offline_reason().is_some() || partition.log.view().log_end_offset > 0
                })
            };
            self.data_dir
                .checkpointed()
                .any(|(topic, index)| !is_present(topic, *index))
        };
        if is_old { self.write_checkpoints() } else { Ok(()) }
    }
}
