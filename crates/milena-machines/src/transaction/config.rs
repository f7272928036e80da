//! What can be set about transactions.

/// Defaults are Kafka's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionConfig {
    /// The longest timeout that a producer may ask for (`transaction.max.timeout.ms`).
    pub max_timeout_ms: i32,
    /// How long an idle transactional id is remembered (`transactional.id.expiration.ms`).
    pub id_expiration_ms: i64,
    /// How often to look for transactions that took too long.
    pub abort_timed_out_interval_ms: i64,
    /// How often to look for ids that nobody uses.
    pub remove_expired_interval_ms: i64,
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
            partition_verification: true,
        }
    }
}
