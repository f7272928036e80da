//! The settings of a topic that concern its log.

use milena_wire::records::TimestampType;

/// Settings of one log; each is Kafka's topic config of the same name, and the defaults are Kafka's.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    pub segment_bytes: u32,
    pub segment_ms: i64,
    /// The file size that an offset index may reach; a time index may hold as many entries.
    pub segment_index_bytes: u32,
    pub index_interval_bytes: u32,
    /// -1 for no limit.
    pub retention_ms: i64,
    /// -1 for no limit.
    pub retention_bytes: i64,
    pub delete: bool,
    pub compact: bool,
    pub max_message_bytes: u32,
    pub timestamp_type: TimestampType,
    pub timestamp_before_max_ms: i64,
    pub timestamp_after_max_ms: i64,
    pub durability: Durability,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 3_600_000,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            retention_ms: 7 * 24 * 3_600_000,
            retention_bytes: -1,
            delete: true,
            compact: false,
            max_message_bytes: 1_048_588,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            durability: Durability::Os,
        }
    }
}

/// What an acknowledgement promises.
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
