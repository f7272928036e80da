//! Records that end whole processes: what is said about them.

use milena_machines::app::PartitionId;

use super::State;

impl State {
    /// Processes ended where a partition begins.
    pub(super) fn tell_careful(&self, id: PartitionId, offset: i64, owners: u32) {
        let Some(partition) = self.work.partition(id) else {
            return;
        };
        tracing::warn!(event = "partition_careful", %partition, offset, owners,
            "{partition}@{offset}: {owners} consumer processes crashed here; records are handled one at a time");
    }

    /// A record is handled no more.
    pub(super) fn tell_quarantined(&self, id: PartitionId, offset: i64, owners: u32) {
        let Some(partition) = self.work.partition(id) else {
            return;
        };
        tracing::error!(event = "quarantined", %partition, offset, owners,
            "{partition}@{offset} quarantined: crashed {owners} consumer processes");
    }
}
