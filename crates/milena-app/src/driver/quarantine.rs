//! Log lines of the crash guard.

use milena_machines::app::PartitionId;

use super::State;

impl State {
    /// Logs that a partition isolates its records.
    pub(super) fn log_isolating(&self, id: PartitionId, offset: i64, owners: u32) {
        let Some(partition) = self.scheduler.partition(id) else {
            return;
        };
        tracing::warn!(event = "partition_isolated", %partition, offset, owners,
            "{partition}@{offset}: {owners} consumer processes crashed here; records are handled one at a time");
    }

    /// Logs that a record is quarantined.
    pub(super) fn log_quarantined(&self, id: PartitionId, offset: i64, owners: u32) {
        let Some(partition) = self.scheduler.partition(id) else {
            return;
        };
        tracing::error!(event = "quarantined", %partition, offset, owners,
            "{partition}@{offset} quarantined: crashed {owners} consumer processes");
    }
}
