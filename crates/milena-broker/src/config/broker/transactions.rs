//! Settings of transactions.

use milena_machines::transaction::TransactionConfig;

use super::{
    super::{BrokerOverrides, ConfigError},
    LimitsConfig,
};

/// The settings of the keys `transaction.*` and `transactional.*`.
pub(super) fn resolve(raw: &BrokerOverrides) -> Result<TransactionConfig, ConfigError> {
    let id_expiration_ms: i32 = raw.get("transactional.id.expiration.ms")?;
    let abort_timed_out_interval_ms: i32 = raw.get("transaction.abort.timed.out.transaction.cleanup.interval.ms")?;
    let remove_expired_interval_ms: i32 = raw.get("transaction.remove.expired.transaction.cleanup.interval.ms")?;
    Ok(TransactionConfig {
        max_timeout_ms: raw.get("transaction.max.timeout.ms")?,
        id_expiration_ms: id_expiration_ms.into(),
        abort_timed_out_interval_ms: abort_timed_out_interval_ms.into(),
        remove_expired_interval_ms: remove_expired_interval_ms.into(),
        name_bytes_max: LimitsConfig::resolve(raw)?.name_bytes,
        partition_verification: raw.get("transaction.partition.verification.enable")?,
    })
}
