//! A request in flight: from the call until its callback has run.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use bytestring::ByteString;
use milena_wire::{
    api::ApiKey,
    frame::{self, Frame},
    message::{Request, VersionRange},
};

use super::{
    CallError, Endpoint, Throttled,
    error::{RequestProblem, ResponseProblem},
};

/// Options for sending a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SendOptions {
    /// Limit for the wait in the queue, and again for the response; `None` is `request.timeout.ms`.
    pub(crate) timeout_ms: Option<i64>,
    /// Acceptable versions. Our own table and the broker's limit them further.
    pub(crate) versions: VersionRange,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            timeout_ms: None,
            versions: VersionRange::new(0, i16::MAX),
        }
    }
}

impl SendOptions {
    pub(crate) fn timeout_ms(timeout_ms: i64) -> Self {
        Self {
            timeout_ms: Some(timeout_ms),
            ..Self::default()
        }
    }

    pub(crate) fn version_min(mut self, version: i16) -> Self {
        self.versions.min = version;
        self
    }

    pub(crate) fn version_max(mut self, version: i16) -> Self {
        self.versions.max = version;
        self
    }
}

/// A decoded response.
#[derive(Debug)]
pub(crate) struct ApiResponse<T> {
    pub(crate) body: T,
    /// The version of the request and of its response.
    pub(crate) version: i16,
    /// From writing the request to the socket until the whole response was read.
    pub(crate) latency_us: u64,
}

/// A request of any API. Its callback runs exactly once, in every case.
pub(super) trait Call: Send {
    fn api(&self) -> ApiKey;

    fn versions(&self) -> VersionRange;

    /// Whether the broker sends a response.
    fn expects_response(&self) -> bool {
        true
    }

    /// Runs the callback of a request without a response, after it was queued for writing.
    fn sent(self: Box<Self>) {}

    /// Encodes the frame. This works once.
    fn encode(&mut self, version: i16, correlation_id: i32, client_id: &ByteString) -> Result<Frame, CallError>;

    /// Decodes the response and runs the callback. Returns the throttle time, or the problem with the response.
    fn complete(self: Box<Self>, frame: Bytes, latency_us: u64, address: &Endpoint) -> Result<i64, ResponseProblem>;

    fn fail(self: Box<Self>, error: CallError);
}

/// A request that `build` creates when its version is known.
pub(super) fn call<R, B, F>(options: SendOptions, build: B, done: F) -> Box<dyn Call>
where
    R: Request + 'static,
    R::Response: Throttled,
    B: FnOnce(i16) -> R + Send + 'static,
    F: FnOnce(Result<ApiResponse<R::Response>, CallError>) + Send + 'static,
{
    Box::new(TypedCall {
        versions: options.versions,
        version: 0,
        build: Some(build),
        done: Some(done),
        request: std::marker::PhantomData::<fn() -> R>,
    })
}

/// A request without a response: Produce with `acks=0`. `done` runs when it is queued for writing.
pub(super) fn one_way<R: Request + Send + 'static>(
    options: SendOptions,
    request: R,
    done: impl FnOnce(Result<(), CallError>) + Send + 'static,
) -> Box<dyn Call> {
    Box::new(OneWayCall {
        versions: options.versions,
        request,
        done: Some(done),
    })
}

struct OneWayCall<R: Request, F: FnOnce(Result<(), CallError>)> {
    versions: VersionRange,
    request: R,
    done: Option<F>,
}

impl<R: Request, F: FnOnce(Result<(), CallError>)> OneWayCall<R, F> {
    fn finish(&mut self, result: Result<(), CallError>) {
        let Some(done) = self.done.take() else { return };
        if catch_unwind(AssertUnwindSafe(|| done(result))).is_err() {
            tracing::error!(event = "callback_panicked", api = %R::KEY, "the callback of a one-way request panicked");
        }
    }
}

impl<R: Request + Send, F: FnOnce(Result<(), CallError>) + Send> Call for OneWayCall<R, F> {
    fn api(&self) -> ApiKey {
        R::KEY
    }

    fn versions(&self) -> VersionRange {
        self.versions
    }

    fn expects_response(&self) -> bool {
        false
    }

    fn sent(mut self: Box<Self>) {
        self.finish(Ok(()));
    }

    fn encode(&mut self, version: i16, correlation_id: i32, client_id: &ByteString) -> Result<Frame, CallError> {
        frame::encode_request(&self.request, version, correlation_id, Some(client_id)).map_err(|error| {
            let (api, problem) = (R::KEY, error.into());
            CallError::EncodeFailed { api, problem }
        })
    }

    fn complete(mut self: Box<Self>, _: Bytes, _: u64, address: &Endpoint) -> Result<i64, ResponseProblem> {
        let problem = ResponseProblem::NotExpected;
        self.finish(Err(malformed::<R>(address, &problem)));
        Err(problem)
    }

    fn fail(mut self: Box<Self>, error: CallError) {
        self.finish(Err(error));
    }
}

impl<R: Request, F: FnOnce(Result<(), CallError>)> Drop for OneWayCall<R, F> {
    fn drop(&mut self) {
        self.finish(Err(CallError::Closed));
    }
}

struct TypedCall<R, B, F>
where
    R: Request,
    F: FnOnce(Result<ApiResponse<R::Response>, CallError>),
{
    versions: VersionRange,
    version: i16,
    build: Option<B>,
    done: Option<F>,
    request: std::marker::PhantomData<fn() -> R>,
}

impl<R, B, F> TypedCall<R, B, F>
where
    R: Request,
    F: FnOnce(Result<ApiResponse<R::Response>, CallError>),
{
    /// Runs the callback. A panic inside it must not end the connection, nor the other requests in flight.
    fn finish(&mut self, result: Result<ApiResponse<R::Response>, CallError>) {
        let Some(done) = self.done.take() else { return };
        if catch_unwind(AssertUnwindSafe(|| done(result))).is_err() {
            tracing::error!(event = "callback_panicked", api = %R::KEY, "the callback of a response panicked");
        }
    }
}

impl<R, B, F> Call for TypedCall<R, B, F>
where
    R: Request,
    R::Response: Throttled,
    B: FnOnce(i16) -> R + Send,
    F: FnOnce(Result<ApiResponse<R::Response>, CallError>) + Send,
{
    fn api(&self) -> ApiKey {
        R::KEY
    }

    fn versions(&self) -> VersionRange {
        self.versions
    }

    fn encode(&mut self, version: i16, correlation_id: i32, client_id: &ByteString) -> Result<Frame, CallError> {
        let failed = |problem| CallError::EncodeFailed { api: R::KEY, problem };
        let build = self.build.take().ok_or_else(|| failed(RequestProblem::AlreadySent))?;
        self.version = version;
        let request = catch_unwind(AssertUnwindSafe(|| build(version)));
        let request = request.map_err(|_| failed(RequestProblem::BuilderPanicked))?;
        frame::encode_request(&request, version, correlation_id, Some(client_id)).map_err(|error| failed(error.into()))
    }

    fn complete(
        mut self: Box<Self>,
        frame: Bytes,
        latency_us: u64,
        address: &Endpoint,
    ) -> Result<i64, ResponseProblem> {
        match frame::decode_response::<R::Response>(&frame, self.version) {
            Ok((_, body)) => {
                let quiet_ms = body.quiet_ms(self.version);
                // The callback is to hold the only reference to the buffer.
                drop(frame);
                self.finish(Ok(ApiResponse {
                    body,
                    version: self.version,
                    latency_us,
                }));
                Ok(quiet_ms)
            }
            Err(error) => {
                let problem = ResponseProblem::Decode(error);
                self.finish(Err(malformed::<R>(address, &problem)));
                Err(problem)
            }
        }
    }

    fn fail(mut self: Box<Self>, error: CallError) {
        self.finish(Err(error));
    }
}

impl<R, B, F> Drop for TypedCall<R, B, F>
where
    R: Request,
    F: FnOnce(Result<ApiResponse<R::Response>, CallError>),
{
    /// Runs the callback even if the task of the connection is gone.
    fn drop(&mut self) {
        self.finish(Err(CallError::Closed));
    }
}

fn malformed<R: Request>(address: &Endpoint, problem: &ResponseProblem) -> CallError {
    CallError::MalformedResponse {
        address: address.clone(),
        api: R::KEY,
        problem: problem.clone(),
    }
}
