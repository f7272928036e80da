//! Configuration of a sender.

use bytestring::ByteString;

#[derive(Debug, Clone)]
pub struct SenderConfig {
    /// `acks`: -1 for all, 1, or 0.
    pub acks: i16,
    /// `enable.idempotence`: batches have sequence numbers, and none is written twice. Always on with transactions.
    pub idempotent: bool,
    /// `max.in.flight.requests.per.connection`: requests in flight to one node. Brokers remember the last five batches
    /// of a producer: idempotent senders must not have more in flight.
    pub max_in_flight: usize,
    /// `retries`: the number of retries of a batch.
    pub retries: u32,
    /// `delivery.timeout.ms`, counted from [`super::NewBatch::created_ms`].
    pub delivery_timeout_ms: i64,
    /// `request.timeout.ms`
    pub request_timeout_ms: i64,
    /// `retry.backoff.ms`
    pub retry_backoff_ms: i64,
    /// `retry.backoff.max.ms`
    pub retry_backoff_max_ms: i64,
    /// `max.request.size`: the limit of the bytes of batches in a request, unless a single one is larger.
    pub max_request_bytes: usize,
    pub transaction: Option<TransactionConfig>,
}

#[derive(Debug, Clone)]
pub struct TransactionConfig {
    /// `transactional.id`
    pub transactional_id: ByteString,
    /// `transaction.timeout.ms`: the time until the coordinator aborts.
    pub timeout_ms: i32,
}
