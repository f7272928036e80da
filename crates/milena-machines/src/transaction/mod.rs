//! The transaction coordinator: who may write under a transactional id, and which transactions are open.
//!
//! One coordinator looks after the transactional ids of one partition of `__transaction_state`.

/// A producer as it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerEpoch {
    pub producer_id: i64,
    pub epoch: i16,
}
