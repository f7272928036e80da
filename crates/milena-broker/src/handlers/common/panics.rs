//! Serving one request, with a panic contained: it becomes the error response of the API and affects no other request.

#[cfg(test)]
#[path = "panic_tests.rs"]
mod tests;

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    task::{Context, Poll},
};

use milena_wire::{errors::ErrorCode, message::Request};

use super::{FileResponse, Outcome, RequestContext, outcome::encode};
use crate::net::{InboundRequest, OutboundResponse};

type Panic = Box<dyn Any + Send>;

/// Decodes a request, runs its handler and encodes the response.
///
/// After a panic, now or later, the client gets `UNKNOWN_SERVER_ERROR`; the connection is closed if the API has no place
/// for an error.
pub(crate) fn serve<R, T>(
    cx: &RequestContext<'_>,
    handler: impl FnOnce(&RequestContext<'_>, R) -> Outcome<T>,
) -> Outcome<OutboundResponse>
where
    R: Request,
    R::Response: Default,
    T: Into<FileResponse<R::Response>> + From<R::Response> + Send + 'static,
{
    let _work = cx.request.work();
    let outcome = catch_unwind(AssertUnwindSafe(|| match cx.request.body::<R>() {
        // A response without rows is what Kafka has for a request that names nothing.
        Ok(body) if !cx.has_right_to_api() => {
            let refused = body.error_response(cx.request.version, ErrorCode::ClusterAuthorizationFailed);
            Outcome::Ready(refused.unwrap_or_default().into())
        }
        Ok(body) => handler(cx, body),
        Err(error) => Outcome::Close(error.to_string()),
    }));
    contain::<R, T>(cx.request, outcome)
}

/// Encodes an outcome, now or when it is there, and contains panics on the way.
fn contain<R, T>(request: &InboundRequest, outcome: Result<Outcome<T>, Panic>) -> Outcome<OutboundResponse>
where
    R: Request,
    T: Into<FileResponse<R::Response>> + Send + 'static,
{
    match outcome {
        Ok(Outcome::Ready(response)) => match catch_unwind(AssertUnwindSafe(|| encode(request, response))) {
            Ok(Some(outgoing)) => Outcome::Ready(outgoing),
            Ok(None) => Outcome::Close(format!("the response to {} cannot be encoded", request.key)),
            Err(panic) => panicked::<R>(request, &*panic),
        },
        Ok(Outcome::Later(response)) => {
            let request = request.clone();
            Outcome::Later(Box::pin(async move {
                let encoded = CatchPanic(pin!(async { encode(&request, response.await?) }), &request).await;
                encoded.unwrap_or_else(|panic| error_response::<R>(&request, &*panic))
            }))
        }
        Ok(Outcome::First(begin)) => {
            let request = request.clone();
            Outcome::First(Box::pin(async move {
                let outcome = CatchPanic(pin!(begin), &request).await;
                contain::<R, T>(&request, outcome)
            }))
        }
        Ok(Outcome::NoResponse) => Outcome::NoResponse,
        Ok(Outcome::Close(reason)) => Outcome::Close(reason),
        Err(panic) => panicked::<R>(request, &*panic),
    }
}

/// A future whose panic becomes an error, and whose time is charged to the request.
struct CatchPanic<'a, F>(Pin<&'a mut F>, &'a InboundRequest);

impl<F: Future> Future for CatchPanic<'_, F> {
    type Output = Result<F::Output, Panic>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let _work = self.1.work();
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

fn panicked<R: Request>(request: &InboundRequest, panic: &(dyn Any + Send)) -> Outcome<OutboundResponse> {
    match error_response::<R>(request, panic) {
        Some(outgoing) => Outcome::Ready(outgoing),
        None => Outcome::Close(format!("{} panicked", request.key)),
    }
}

/// Logs a panic and returns the error response; `None` if the API has no place for an error.
fn error_response<R: Request>(request: &InboundRequest, panic: &(dyn Any + Send)) -> Option<OutboundResponse> {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let panic = text.unwrap_or("without a text");
    tracing::error!(
        event = "request_panicked",
        api = %request.key,
        version = request.version,
        panic,
        "request handler panicked; this is a bug of the broker"
    );
    refuse::<R>(request, ErrorCode::UnknownServerError)
}

/// The error response of a request; `None` if it cannot be decoded, or its API has no place for an error.
pub(crate) fn refuse<R: Request>(request: &InboundRequest, error: ErrorCode) -> Option<OutboundResponse> {
    // Decoding may be what has panicked before.
    let respond = || {
        let body = request.body::<R>().ok()?;
        encode(request, body.error_response(request.version, error)?)
    };
    catch_unwind(AssertUnwindSafe(respond)).ok().flatten()
}
