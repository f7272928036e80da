//! Configuration of transactions.

/// The defaults are Kafka's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionConfig {
    /// The longest timeout that a producer may request (`transaction.max.timeout.ms`).
    pub max_timeout_ms: i32,
    /// The time until an idle transactional id is removed (`transactional.id.expiration.ms`).
    pub id_expiration_ms: i64,
    /// The interval between sweeps for transactions over their timeout.
    pub abort_timed_out_interval_ms: i64,
    /// The interval between sweeps for expired ids.
    pub remove_expired_interval_ms: i64,
    /// The longest transactional id (`milena.max.name.bytes`).
    pub name_bytes_max: usize,
    /// Whether a write must belong to an open transaction (`transaction.partition.verification.enable`).
    pub partition_verification: bool,
}

impl Default for TransactionConfig {
    fn default() -> Self {
        const MINUTE_MS: i64 = 60_000;
        Self {
            max_timeout_ms: 15 * 60_000,
            id_expiration_ms: 7 * 24 * 60 * MINUTE_MS,
            abort_timed_out_interval_ms: 10_000,
            remove_expired_interval_ms: 60 * MINUTE_MS,
            name_bytes_max: usize::MAX,
            partition_verification: true,
        }
    }
}
