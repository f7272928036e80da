//! A request that was received, and its response.

use std::{ops::Deref, sync::Arc, time::Duration};

use bytes::Bytes;
use milena_log::FileSlice;
use milena_wire::{
    encode::EncodeError,
    frame::{self, RequestFrame, RequestFrameError},
    message::Response,
};

use super::OutboundResponse;
use crate::throttle::{RequestCost, Throttle};

/// The frame of a request, and the throttle that decides about the throttle time of its response.
#[derive(Debug, Clone)]
pub(crate) struct InboundRequest {
    pub(crate) frame: RequestFrame,
    throttle: Option<Arc<dyn Throttle>>,
}

impl InboundRequest {
    pub(crate) fn parse(frame: Bytes, throttle: Option<Arc<dyn Throttle>>) -> Result<Self, RequestFrameError> {
        let frame = RequestFrame::parse(frame)?;
        Ok(Self { frame, throttle })
    }

    /// A request before the log-in, which no throttle applies to.
    pub(super) fn unthrottled(frame: RequestFrame) -> Self {
        let throttle = None;
        Self { frame, throttle }
    }

    /// Encodes the response. All responses are encoded here, so all can have a throttle time.
    pub(crate) fn response<R: Response>(
        &self,
        mut message: R,
        files: Vec<FileSlice>,
    ) -> Result<OutboundResponse, EncodeError> {
        let throttle_time = match &self.throttle {
            None => Duration::ZERO,
            Some(throttle) => self.throttle_time(&**throttle, message.size(self.version)?),
        };
        if !throttle_time.is_zero() {
            message.set_throttle_time_ms(whole_ms(throttle_time));
        }
        let mut errors = vec![];
        message.for_each_error(&mut |code| errors.push(code));
        let frame = frame::encode_response(&message, self.version, self.correlation_id)?;
        Ok(OutboundResponse {
            key: self.key,
            frame,
            files,
            throttle_time,
            errors,
        })
    }

    /// The throttle time after a request whose client expects no response.
    pub(crate) fn throttle_time_without_response(&self) -> Duration {
        let throttle = self.throttle.as_deref();
        throttle.map_or(Duration::ZERO, |throttle| self.throttle_time(throttle, 0))
    }

    fn throttle_time(&self, throttle: &dyn Throttle, response_bytes: usize) -> Duration {
        throttle.throttle_time(&RequestCost {
            api: self.key,
            client_id: self.client_id.as_deref(),
            request_bytes: self.size(),
            response_bytes,
        })
    }
}

impl Deref for InboundRequest {
    type Target = RequestFrame;

    fn deref(&self) -> &RequestFrame {
        &self.frame
    }
}

/// Rounds up: a client that sends again too early would only wait for the broker.
fn whole_ms(duration: Duration) -> i32 {
    i32::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}
