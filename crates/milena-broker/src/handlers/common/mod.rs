//! Parts that several handlers share.

mod authorized_operations;
pub(super) mod config_resources;
mod context;
mod errors;
mod outcome;
mod panics;
mod transactions;

pub(super) use authorized_operations::{NOT_REQUESTED, OF_CLUSTER, OF_GROUP, OF_TOPIC, if_requested};
pub(crate) use context::RequestContext;
pub(super) use context::{GroupResult, TransactionResult};
pub(super) use errors::{NameCounts, code_and_message, error_of, storage_error};
pub(crate) use outcome::{BoxFuture, FileResponse, HandlerThrottle, Outcome};
pub(super) use panics::serve;
pub(super) use transactions::was_added;
