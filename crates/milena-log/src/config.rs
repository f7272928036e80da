//! The settings of a topic that concern its log.

use milena_wire::{compression::Compression, records::TimestampType};

/// Settings of one log; each is Kafka's topic config of the same name, and the defaults are Kafka's.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    pub segment_bytes: u32,
    pub segment_ms: i64,
    /// By how much at most `segment_ms` is shortened, by another amount for each segment.
    pub segment_jitter_ms: i64,
    /// The file size that an offset index may reach; a time index may hold as many entries.
    pub segment_index_bytes: u32,
    pub index_interval_bytes: u32,
    /// -1 for no limit.
    pub retention_ms: i64,
    /// -1 for no limit.
    pub retention_bytes: i64,
    pub delete: bool,
    pub compact: bool,
    /// Share of the log that must be dirty before it is compacted.
    pub min_cleanable_dirty_ratio: f64,
    /// Records younger than this are not compacted.
    pub min_compaction_lag_ms: i64,
    /// Records older than this are compacted, however few are new.
    pub max_compaction_lag_ms: i64,
    /// Time that a tombstone is kept after its first compaction, so that consumers can read it.
    pub delete_retention_ms: i64,
    pub max_message_bytes: u32,
    pub timestamp_type: TimestampType,
    pub timestamp_before_max_ms: i64,
    pub timestamp_after_max_ms: i64,
    /// Codec and level for all batches; `None` keeps the producer's.
    pub compression: Option<Compression>,
    pub durability: Durability,
    /// Records that may be unsynced. The driver of the log enforces this limit and the next.
    pub flush_messages: i64,
    /// Time that records may be unsynced.
    pub flush_ms: i64,
    /// Idempotent producers that the log remembers (`milena.max.producers.per.partition` of the broker).
    pub producers_max: usize,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 3_600_000,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            retention_ms: 7 * 24 * 3_600_000,
            retention_bytes: -1,
            delete: true,
            compact: false,
            min_cleanable_dirty_ratio: 0.5,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            delete_retention_ms: 24 * 3_600_000,
            max_message_bytes: 1_048_588,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            compression: None,
            durability: Durability::Os,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            producers_max: usize::MAX,
        }
    }
}

impl LogConfig {
    /// The age at which a segment is closed. The active segment is never compacted, so the limit of the
    /// compaction lag also limits the age of segments.
    pub(crate) fn segment_ms_max(&self) -> i64 {
        match self.compact {
            true => self.segment_ms.min(self.max_compaction_lag_ms),
            false => self.segment_ms,
        }
    }
}

/// The guarantee behind an acknowledgement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: records live in memory and end with the process.
    Memory,
    /// Records survive the death of the process. A power cut may take those of the last flush window.
    #[default]
    Os,
    /// Records survive a power cut, and no reader has seen any that does not.
    Fsync,
}
