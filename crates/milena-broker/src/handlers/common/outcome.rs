//! The outcome of a request: a response now, a response later, or none.

use std::{future::Future, pin::Pin, time::Duration};

use milena_log::FileSlice;
use milena_wire::message::Response;

use crate::net::{InboundRequest, OutboundResponse};

/// The outcome of a request. Handlers return it with a response, [`serve`](super::serve) with an encoded one.
pub(crate) enum Outcome<T> {
    Ready(T),
    /// A response that something must happen for first. Requests behind it on the connection begin meanwhile, but their
    /// responses wait for this one. `None` closes the connection.
    Later(BoxFuture<Option<T>>),
    /// Work that must be done before the request, and all requests behind it on the connection, can begin.
    First(BoxFuture<Self>),
    /// The client expects no response.
    NoResponse,
    /// The connection is closed, for this reason.
    Close(String),
}

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<T> Outcome<T> {
    pub(crate) fn later(response: impl Future<Output = T> + Send + 'static) -> Self {
        Self::Later(Box::pin(async { Some(response.await) }))
    }
}

/// A response with record data that is sent from files: one slice for each placeholder in the message, in their order.
pub(crate) struct FileResponse<R> {
    pub(crate) message: R,
    pub(crate) files: Vec<FileSlice>,
    pub(crate) throttle: HandlerThrottle,
}

/// The part of a throttle time that a handler has decided on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HandlerThrottle {
    /// A throttle time, besides the one for the time of the request; mostly none.
    Besides(Duration),
    /// The throttle time: all quotas were charged.
    All(Duration),
}

impl<R> FileResponse<R> {
    /// A response without files, with a throttle time that its handler has decided on.
    pub(crate) fn throttled(message: R, throttle_time: Duration) -> Self {
        Self {
            throttle: HandlerThrottle::Besides(throttle_time),
            ..Self::from(message)
        }
    }
}

impl<R> From<R> for FileResponse<R> {
    fn from(message: R) -> Self {
        Self {
            message,
            files: vec![],
            throttle: HandlerThrottle::Besides(Duration::ZERO),
        }
    }
}

/// Encodes a response; `None` if the version of the request lacks a field that is set in it.
pub(super) fn encode<R: Response>(
    request: &InboundRequest,
    response: impl Into<FileResponse<R>>,
) -> Option<OutboundResponse> {
    match request.response(response.into()) {
        Ok(outgoing) => Some(outgoing),
        Err(error) => {
            tracing::error!(event = "response_not_encoded", api = %request.key, %error, "response cannot be encoded");
            None
        }
    }
}
