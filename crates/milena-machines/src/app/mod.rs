//! The decisions of an application that reads records: which to hand to a handler when, what follows when that fails,
//! and up to where a partition is done.
//!
//! [`Work`] is the machine that a driver runs. The others are its parts, each small enough to be proved alone:
//! [`tracker`] knows what is done, [`offset_map`] writes that into a commit, [`lanes`] keeps order and bounds, [`retry`]
//! decides about failures, [`fence`] keeps keys in order meanwhile, [`starts`] finds what kills whole processes, and the rest
//! hold work back.

pub mod breaker;
pub mod bulkhead;
mod config;
mod event;
pub mod fence;
pub mod flood;
mod hash;
pub mod lanes;
mod names;
pub mod offset_map;
pub mod pauses;
pub mod rate;
pub mod retry;
pub mod starts;
pub mod tier;
pub mod tracker;
mod work;

pub use breaker::BreakerState;
pub use config::{
    BatchConfig, BreakerAttempts, BreakerConfig, CommitConfig, ConfigError, Delivery, Exhausted, FloodConfig,
    HandlerConfig, Limits, NullKey, Order, RateConfig, ReplayBound, RetryOrdering, RetryPolicy, WhenFull, WhenOpen,
    WhenStalled, WorkConfig, tier_suffix,
};
pub use event::{
    Accepted, Action, Arrival, Assignment, CommitOffset, CommitResult, Committed, DeadWhy, Dispatched, Failure,
    Outcome, Publish, PublishResult, RetryInfo, Role, StallWhy, StopWhy,
};
pub use fence::HeldRecord;
pub use names::{BreakerId, BulkheadId, HandlerId, Keyed, PartitionId, RecordId, SourceId};
pub use offset_map::MapError;
pub use pauses::{PauseReason, PauseSet};
pub use starts::Starts;
pub use work::{MapVerdict, PartitionStatus, SharedBreakers, Stage, Totals, Work, WorkStatus};
