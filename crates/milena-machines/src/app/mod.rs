//! The decisions of an application that reads records: which to hand to a handler when, what follows when that fails,
//! and up to where a partition is done.
//!
//! [`Scheduler`] is the machine that a driver runs. The others are its parts, each small enough to be proved alone:
//! [`tracker`] knows what is done, [`commit_map`] writes that into a commit, [`queues`] keeps order and bounds, [`retry`]
//! decides about failures, [`key_holds`] keeps keys in order meanwhile, [`crash_guard`] finds what kills whole processes, and the rest
//! hold work back.

pub mod breaker;
pub mod bulkhead;
pub mod commit_map;
mod config;
pub mod crash_guard;
pub mod dlq_limit;
mod event;
mod hash;
mod ids;
pub mod key_holds;
pub mod pauses;
mod queues;
pub mod rate;
pub mod retry;
pub mod retry_topic;
mod scheduler;
pub mod tracker;

pub use breaker::BreakerState;
pub use commit_map::MapError;
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
pub use ids::{BreakerId, BulkheadId, HandlerId, Keyed, PartitionId, RecordId, SourceId};
pub use key_holds::HeldRecord;
pub use pauses::{PauseReason, PauseSet};
pub use scheduler::{MapRestore, PartitionStatus, Scheduler, SchedulerStatus, SharedBreakers, Stage, Totals};
