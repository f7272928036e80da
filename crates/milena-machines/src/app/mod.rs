//! The application machine: decides which record is handled when, what follows a failure, and what is committed.
//!
//! [`Scheduler`] is the machine that a driver runs. It routes between parts that know nothing of each other, each small
//! enough to be proved alone:
//!
//! | part | what it decides |
//! |---|---|
//! | `queues` | order: which record of a key or partition may be next, and which partition's turn it is |
//! | [`gates`] | limits: concurrency, bulkheads, circuit breakers, rates, pauses |
//! | [`progress`] | which offsets are done ([`tracker`]), the map of them in a commit ([`commit_map`]), when to commit |
//! | [`retry`], [`retry_topic`] | what follows a failure, and when a record of a retry topic is due |
//! | [`key_holds`] | the order of a key while one of its records is retried |
//! | [`crash_guard`] | records that kill their process |
//! | [`dlq_limit`] | partitions that produce too many dead letters |
//! | [`transaction`] | the phase of exactly-once delivery |
//!
//! `docs/internals/app.md` follows a record through all of them.

mod config;
pub mod crash_guard;
pub mod dlq_limit;
mod event;
pub mod gates;
mod hash;
mod ids;
pub mod key_holds;
pub mod progress;
mod queues;
pub mod retry;
pub mod retry_topic;
mod scheduler;
pub mod transaction;

pub use config::{
    BatchConfig, BreakerAttempts, BreakerConfig, CommitConfig, ConfigError, Delivery, DlqLimitConfig, Exhausted,
    HandlerConfig, Limits, NullKey, Order, RateConfig, ReplayBound, RetryOrdering, RetryPolicy, SchedulerConfig,
    WhenFull, WhenOpen, WhenStalled, retry_topic_suffix,
};
pub use crash_guard::CrashCounters;
pub use event::{
    Acceptance, Action, Arrival, Assignment, CommitOffset, CommitResult, CommittedOffset, DeadLetterReason, Dispatch,
    Failure, Outcome, Publish, PublishResult, RetryInfo, Role, StallReason, StopReason,
};
pub use gates::{
    SharedBreakers,
    breaker::BreakerState,
    pauses::{PauseReason, PauseSet},
};
pub use ids::{BreakerId, BulkheadId, HandlerId, Keyed, PartitionId, RecordId, SourceId};
pub use key_holds::HeldRecord;
pub use progress::{MapRestore, commit_map, commit_map::MapError, tracker};
pub use scheduler::{PartitionStatus, Scheduler, SchedulerStatus, Stage, Totals};
pub use transaction::TransactionPhase;
