//! Parts that several handlers share.

mod authorize;
pub(super) mod config_resources;
mod context;
mod errors;
mod outcome;
mod panics;
mod transactions;

pub(super) use authorize::NOT_REQUESTED;
pub(crate) use context::RequestContext;
pub(super) use context::{GroupResult, TransactionResult};
pub(super) use errors::{NameCounts, code_and_message, error_of, storage_error};
pub(crate) use outcome::{BoxFuture, FileResponse, HandlerThrottle, Outcome};
pub(super) use panics::{refuse, serve};
pub(super) use transactions::was_added;
