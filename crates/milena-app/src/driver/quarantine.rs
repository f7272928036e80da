//! Records that end whole processes: what is said about them.

use milena_machines::app::PartitionId;

use super::State;

impl State {
    /// Processes ended where a partition begins.
    pub(super) fn tell_careful(&self, id: PartitionId, offset: i64, owners: u32) {
        let Some(partition) = self.work.partition(id) else {
            return;
        };
        tracing::warn!(%partition, offset, owners,
            "processes ended here without a word; the partition is careful: one record is handled at a time");
    }

    /// A record is handled no more.
    pub(super) fn tell_quarantined(&self, id: PartitionId, offset: i64, owners: u32) {
        let Some(partition) = self.work.partition(id) else {
            return;
        };
        tracing::error!(%partition, offset, owners,
            "a record is not handled again: processes ended here without a word, the last one while it had this one alone");
    }
}
