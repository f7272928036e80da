//! What a sender is started with.

use bytestring::ByteString;

#[derive(Debug, Clone)]
pub struct SenderConfig {
    /// `acks`: -1 for all, 1, or 0.
    pub acks: i16,
    /// `enable.idempotence`: batches carry numbers, and none is written twice. Always so with a transaction.
    pub idempotent: bool,
    /// `max.in.flight.requests.per.connection`: requests to one node that wait for their answers. Brokers remember the
    /// last five batches of a producer: idempotent senders must not have more under way.
    pub max_in_flight: usize,
    /// `retries`: how often a batch is sent again.
    pub retries: u32,
    /// `delivery.timeout.ms`, counted from [`super::NewBatch::created_ms`].
    pub delivery_timeout_ms: i64,
    /// `request.timeout.ms`
    pub request_timeout_ms: i64,
    /// `retry.backoff.ms`
    pub retry_backoff_ms: i64,
    /// `retry.backoff.max.ms`
    pub retry_backoff_max_ms: i64,
    /// `max.request.size`: a request has at most so many bytes of batches, unless a single one is larger.
    pub max_request_bytes: usize,
    pub transaction: Option<TransactionConfig>,
}

#[derive(Debug, Clone)]
pub struct TransactionConfig {
    /// `transactional.id`
    pub transactional_id: ByteString,
    /// `transaction.timeout.ms`: after so long the coordinator aborts.
    pub timeout_ms: i32,
}
