//! Runtime for Kafka consumer applications.
//!
//! An [`App`] has handlers, which are plain async functions, and policies, which are data. It joins a consumer group,
//! calls handlers in the declared order, retries failures, writes dead letters, and commits the offsets of handled
//! records. A crash loses no record.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod app;
pub mod background;
mod clock;
mod dead_letters;
mod driver;
mod error;
pub mod failure;
pub mod file;
pub mod handler;
pub mod json;
mod metrics;
pub mod offset_store;
pub mod outside;
pub mod policy;
mod pool;
pub mod projection;
pub mod replay;
pub mod request_reply;
mod route;
mod routing;
mod running;
pub mod saga;
mod serve;
mod settings;
pub mod status;
#[cfg(test)]
mod testing;
mod throttle;
mod times;
mod topics;
mod view;
mod worker;

pub use app::{App, NoHandler, RunError, UnknownTopic, shutdown_signal};
pub use clock::Clock;
pub use error::{AppError, SettingErrors, StartError};
pub use file::AppFile;
pub use metrics::HandlerCounts;
pub use replay::{Replay, ReplayFrom, ReplayReport, ReplayTo, ReplayUnfinished, UnfinishedPartition, UnfinishedReason};
pub use route::Delivery;
pub use running::Running;
pub use times::ConsumerTimes;
pub use topics::{TopicNameError, topics_of_handler};

/// The names that most applications need, for `use milena_app::prelude::*`.
pub mod prelude {
    #[doc(no_inline)]
    pub use crate::{
        App, Running,
        app::shutdown_signal,
        handler::{Batch, Cx, Done, Event, Fault, Headers, Key, OutRecord, Raw, State, Value},
        policy::{
            Breaker, DeadLetters, DlqLimit, Exhausted, Order, Policy, Rate, Retry, WhenFull, WhenOpen, WhenStalled,
        },
        request_reply::{OutReply, Replies, Requester, RequesterConfig},
    };
}
